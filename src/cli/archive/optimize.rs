//! `ctxbridge archive optimize`

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::entries;
use super::tiers::{self, Tiers};
use crate::cli::Answer;
use crate::cli::config::load;
use crate::cli::finding;
use crate::cli::output::{BAD, GOOD, Output, count, styled};
use crate::hook;
use ctxbridge_archive::cycle::{Outcome, Reason, Settings};
use ctxbridge_archive::heal::{self, Tidied};
use ctxbridge_archive::import::{Imported, import_to};
use ctxbridge_archive::learn::{self, Learned, Patterns};
use ctxbridge_archive::open::Location;
use ctxbridge_archive::reader::Comparison;
use ctxbridge_archive::search::CaughtUp;
use ctxbridge_archive::snapshot;
use ctxbridge_archive::store::sqlite::{Patience, SqliteStore};
use ctxbridge_archive::tier;
use ctxbridge_common::paths;
use ctxbridge_config::StoreKind;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive optimize --dry-run    what it would do
  ctxbridge archive optimize

The end of a session does it in the background. Pruned turns leave the hot archive: they are not ranked for a restore any more, but
stay in the archive, and are hot again once they are recalled. Sessions that are not used are compressed anew after
archive.warm_after_days, and moved to archive.cold_folder, if there is one, after archive.cold_after_days; they come back as they are,
and what is used again is brought back.")]
pub(super) struct OptimizeArgs {
    /// Transcripts to compare with the archive, every byte
    paths: Vec<PathBuf>,
    /// Say what would be done and change nothing; compares no transcripts
    #[arg(long, conflicts_with = "background")]
    dry_run: bool,
    /// Leave the terminal and step back, as hooks start it
    #[arg(long, hide = true)]
    background: bool,
}

/// How long a hook's child looks for learnings; the next one goes on.
const LEARNING_IN_BACKGROUND: Duration = Duration::from_secs(60);

/// How long it takes back what was archived in JSON Lines.
const MERGING_IN_BACKGROUND: Duration = Duration::from_secs(5 * 60);

/// How long it moves what is not used.
const MOVING_IN_BACKGROUND: Duration = Duration::from_secs(60);

/// Entries that a hook's child makes vectors of (archive.md, "Self-learning"): it runs often, and beside the user's work.
const EMBEDDED_IN_BACKGROUND: usize = 20;

impl OptimizeArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        if self.background {
            hook::settle();
        }
        let config = load(output).archive;
        let settings = Settings::from(&config);
        let data = paths::data_dir()?;
        let location = Location::of(&data, &config);
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let (mut is_lines, mut merged) = (location.kind() == StoreKind::Jsonl, None);
        let (compared, mut tidied) = if self.dry_run {
            output.progress("looking for damage");
            let tidied = match is_lines {
                true => heal::preview_lines(location.folder(), &settings, now_ms)?,
                false => heal::preview(&data, &settings, now_ms)?,
            };
            (Imported::default(), tidied)
        } else {
            let deadline = self.background.then(|| Instant::now() + MERGING_IN_BACKGROUND);
            merged = super::merge_back(&location, deadline, output);
            output.progress("comparing with the transcripts");
            let compared = import_to(&location, &self.paths, Comparison::Whole, &ctxbridge_claude_flow::settle_after, &|_| {})?;
            is_lines |= compared.instead.is_some();
            output.progress("looking for damage");
            let tidied = match is_lines {
                true => heal::tidy_lines(location.folder(), &settings, now_ms)?,
                false => heal::tidy(&data, &settings, now_ms)?,
            };
            (compared, tidied)
        };
        let indexed = match &tidied.outcome {
            // The index is made by who searches.
            Some(_) if is_lines => CaughtUp::default(),
            Some(_) if self.dry_run => finding::behind(&data)?,
            Some(_) => finding::catch_up(&data, if self.background { EMBEDDED_IN_BACKGROUND } else { usize::MAX }, output)?,
            None => CaughtUp::default(),
        };
        let learned = if self.dry_run || tidied.outcome.is_none() { None } else { self.learn(&location, output)? };
        // Last of all: what was just looked at need not be read from elsewhere.
        let tiers = match &tidied.outcome {
            // Tiers are of a database.
            Some(_) if !is_lines => Some(self.tiers(&data, &tier::Settings::from(&config), now_ms, output)?),
            _ => None,
        };
        output.clear_progress();
        tidied.damaged = tidied.damaged.or_else(|| compared.aside.clone());
        if let Some(aside) = tidied.damaged.as_ref().filter(|_| self.background) {
            hook::refill(&data, &std::env::current_exe()?, aside);
        }
        if let Some(instead) = &compared.instead {
            output.note(instead);
        }
        for finding in &tidied.findings {
            output.note(&format!("{} {finding}", styled(BAD, "damaged:")));
        }
        for (path, error) in &compared.failed {
            output.note(&format!("{}: {error}", path.display()));
        }
        if output.json {
            let mut value = self.as_json(&compared, &tidied, &settings);
            if let Some(learned) = &learned {
                value["learned"] = learned.learnings.into();
                value["fixes"] = learned.fixes.into();
            }
            value["merged"] = merged.as_ref().map(|merged| {
                json!({ "sessions": merged.sessions, "turns": merged.turns, "bytes": merged.bytes, "folder": merged.aside })
            }).into();
            value["indexed"] = indexed.entries.into();
            value["embedded"] = indexed.embedded.into();
            value["not_embedded"] = indexed.not_embedded.into();
            value["tiers"] = tiers.as_ref().map(tiers::as_json).into();
            output.value(&value)?;
        } else {
            self.tell(&tidied, (!is_lines).then_some(&indexed), learned.as_ref(), tiers.as_ref(), &settings, output)?;
        }
        let has_failed = tiers.as_ref().is_some_and(|tiers| !tiers.moves.failed.is_empty());
        let is_whole = tidied.damaged.is_none() && tidied.findings.is_empty();
        Ok(if is_whole && !has_failed { Answer::Yes } else { Answer::No })
    }

    /// What is new in the archive is looked through for what was learned.
    fn learn(&self, location: &Location, output: &Output) -> anyhow::Result<Option<Learned>> {
        let (patterns, problem) = Patterns::of_user();
        if let Some(problem) = problem {
            output.note(&format!("note: {problem}; the patterns of ctxbridge alone are used"));
        }
        // Whatever is to be said of it was said.
        let mut store = location.to_write(Patience::Patient)?.store;
        let deadline = self.background.then(|| Instant::now() + LEARNING_IN_BACKGROUND);
        // What hooks could not write is new as well.
        hook::Spool::in_dir(location.data()).take(&mut *store)?;
        snapshot::all(&mut *store, deadline, &mut |done| output.progress(&format!("looking for compactions: {done} sessions")))?;
        Ok(Some(learn::all(&mut *store, &patterns, deadline, &mut |done| {
            output.progress(&format!("learning: {done} sessions"))
        })?))
    }

    /// What nobody uses is moved, and what was used again comes back.
    fn tiers(&self, data: &Path, settings: &tier::Settings, now_ms: i64, output: &Output) -> anyhow::Result<Tiers> {
        if self.dry_run {
            let _presence = heal::presence(data, Patience::Patient)?;
            let moves = match SqliteStore::open_read_only(data)? {
                Some(mut store) => tier::preview(&mut store, settings, now_ms)?,
                None => tier::Moves::default(),
            };
            return Ok(Tiers { moves, ..Tiers::default() });
        }
        let (mut store, _) = heal::open(data, Patience::Patient)?;
        let deadline = self.background.then(|| Instant::now() + MOVING_IN_BACKGROUND);
        let moves = tier::run(&mut store, data, settings, deadline, now_ms, &mut |doing| output.progress(doing))?;
        output.clear_progress();
        // All others wait for that, so it is only done while somebody looks on.
        let shrunk = if self.background { None } else { tiers::shrink(&mut store, output)? };
        Ok(Tiers { moves, shrunk })
    }

    fn tell(
        &self,
        tidied: &Tidied,
        indexed: Option<&CaughtUp>,
        learned: Option<&Learned>,
        tiers: Option<&Tiers>,
        settings: &Settings,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        if let Some(outcome) = &tidied.outcome {
            tell_cycle(outcome, settings, self.dry_run, output)?;
            if let Some(indexed) = indexed {
                tell_index(indexed, self.dry_run, output)?;
            }
            if let Some(learned) = learned.filter(|learned| learned.bytes > 0) {
                let fixes = count(learned.fixes as u64, "call");
                output.line(format!(
                    "{} new; {fixes} found that failed and passed after a change",
                    count(learned.learnings as u64, "learning")
                ))?;
            }
        }
        if let Some(tiers) = tiers {
            tiers::tell(tiers, self.dry_run, output)?;
        }
        match &tidied.damaged {
            None if tidied.outcome.is_none() => {
                output.line("there is no archive yet; `ctxbridge archive import` begins one")?;
            }
            // Each was said.
            None if !tidied.findings.is_empty() => {
                output.line(styled(BAD, "done; what is damaged was said above, all else is whole"))?
            }
            None if self.dry_run => output.line("a dry run: nothing was changed; no damage found")?,
            None => output.line(styled(GOOD, "done: no damage found"))?,
            Some(path) if self.dry_run => {
                let damaged = styled(BAD, "damaged:");
                output.line(format!("{damaged} {}; without --dry-run, it is moved aside and a new one begun", path.display()))?;
            }
            Some(aside) => output.line(heal::told(aside))?,
        }
        Ok(())
    }

    fn as_json(&self, compared: &Imported, tidied: &Tidied, settings: &Settings) -> serde_json::Value {
        let cycle = tidied.outcome.as_ref();
        let number = |of: fn(&Outcome) -> u64| cycle.map(of);
        json!({
            "dry_run": self.dry_run, "transcripts": compared.transcripts, "rewritten": compared.rewritten,
            "damaged": tidied.damaged,
            "elapsed_hours": cycle.map(|cycle| cycle.plan.elapsed_hours()),
            "decayed": number(|cycle| cycle.decayed),
            "pruned_by_confidence": number(|cycle| cycle.pruned_by_confidence),
            "pruned_by_age": number(|cycle| cycle.pruned_by_age),
            "retention_days": number(|cycle| cycle.plan.retention.days.into()),
            "retention_days_set": settings.retention_days,
            "retention_reason": cycle.map(|cycle| match cycle.plan.retention.reason {
                Reason::AsSet => "as_set",
                Reason::Size => "size",
                Reason::Use => "use",
            }),
            "hot": number(|cycle| cycle.hot), "pruned": number(|cycle| cycle.pruned),
        })
    }
}

fn tell_index(indexed: &CaughtUp, is_dry: bool, output: &mut Output) -> anyhow::Result<()> {
    let were = if is_dry { "would be" } else { "were" };
    let mut line = format!("{} {were} taken into the search index", entries(indexed.entries as u64));
    if indexed.has_model {
        let got = if is_dry { "would get" } else { "got" };
        line += &format!(", {} {got} vectors", entries(indexed.embedded as u64));
        if indexed.not_embedded > 0 {
            line += &format!(", {} have none yet", indexed.not_embedded);
        }
    }
    if let Some(trouble) = &indexed.trouble {
        line += &format!("; none got vectors: {trouble}");
    }
    Ok(output.line(line)?)
}

fn tell_cycle(cycle: &Outcome, settings: &Settings, is_dry: bool, output: &mut Output) -> anyhow::Result<()> {
    let (lost, were, are) = if is_dry { ("would lose", "would be", "would be") } else { ("lost", "were", "are") };
    if cycle.plan.elapsed_ms > 0 {
        let (hours, loss) = (cycle.plan.elapsed_hours(), cycle.plan.loss);
        let decayed = entries(cycle.decayed);
        output.line(format!("{hours:.1} hours since the last cycle: {decayed} {lost} confidence, {loss:.3} at most"))?;
    } else {
        output.line("no time has passed since the last cycle, or this is the first: no confidence is lost")?;
    }
    let days = cycle.plan.retention.days;
    let why = match cycle.plan.retention.reason {
        Reason::AsSet => "as set".to_owned(),
        Reason::Size => {
            let target = settings.target_bytes.unwrap_or_default() >> 20;
            format!("{} are set, but the archive is larger than {target} MB", settings.retention_days)
        }
        Reason::Use => format!("{} are set, but much of what is hot was restored", settings.retention_days),
    };
    output.line(format!("kept hot for {}: {why}", count(days, "day")))?;
    let (low, old) = (cycle.pruned_by_confidence, cycle.pruned_by_age);
    let were = if low + old == 1 && !is_dry { "was" } else { were };
    output.line(format!("{} {were} pruned: {low} by confidence, {old} by age", entries(low + old)))?;
    output.line(format!("{} {are} hot, {} pruned", entries(cycle.hot), cycle.pruned))?;
    Ok(())
}
