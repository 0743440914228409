//! `ctxbridge archive optimize`

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::entries;
use super::tiers::{self, Tiers};
use crate::cli::CommandOutcome;
use crate::cli::config::load;
use crate::cli::output::{BAD, GOOD, Output, count, styled};
use crate::cli::search_shared;
use crate::hook;
use ctxbridge_archive::import::{ImportReport, import_to};
use ctxbridge_archive::learn::{self, LearningPatterns, LearningReport};
use ctxbridge_archive::maintenance::{MaintenanceReport, Reason, RetentionSettings};
use ctxbridge_archive::open::Location;
use ctxbridge_archive::reader::Comparison;
use ctxbridge_archive::recovery::{self, OptimizeReport};
use ctxbridge_archive::search::IndexingReport;
use ctxbridge_archive::snapshot;
use ctxbridge_archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge_archive::tier;
use ctxbridge_common::paths;
use ctxbridge_config::StoreKind;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive optimize --dry-run    show what it would do
  ctxbridge archive optimize

Runs in the background at the end of each session. Pruned turns are no longer ranked for a restore. They stay in the archive, \
and become hot again once they are recalled.

Unused sessions are recompressed after archive.warm_after_days. After archive.cold_after_days they are moved to \
archive.cold_folder, if it is set. They stay readable byte for byte, and are moved back when they are used again.

Exits 1 if damage was found or a session could not be moved.")]
pub(super) struct OptimizeArgs {
    /// Transcripts to compare with the archive, byte for byte
    paths: Vec<PathBuf>,
    /// Show what would be done without changing anything; compares no transcripts
    #[arg(long, conflicts_with = "background")]
    dry_run: bool,
    /// Run detached from the terminal at low priority, as hooks start it
    #[arg(long, hide = true)]
    background: bool,
}

/// Time limit for extracting learnings in the background; the next run resumes.
const LEARNING_IN_BACKGROUND: Duration = Duration::from_secs(60);

/// Time limit for merging JSON Lines into the database in the background.
const MERGING_IN_BACKGROUND: Duration = Duration::from_secs(5 * 60);

/// Time limit for moving unused sessions in the background.
const MOVING_IN_BACKGROUND: Duration = Duration::from_secs(60);

/// Maximum number of entries that get embeddings in the background (archive.md, "Self-learning"): it runs often, during the user's
/// work.
const EMBEDDED_IN_BACKGROUND: usize = 20;

impl OptimizeArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        if self.background {
            hook::detach_and_renice();
        }
        let config = load(output).archive;
        let settings = RetentionSettings::from(&config);
        let data = paths::data_dir()?;
        let location = Location::of(&data, &config);
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let (mut is_lines, mut merged) = (location.kind() == StoreKind::Jsonl, None);
        let (compared, mut tidied) = if self.dry_run {
            output.progress("looking for damage");
            let tidied = match is_lines {
                true => recovery::preview_optimize_jsonl(location.folder(), &settings, now_ms)?,
                false => recovery::preview_optimize(&data, &settings, now_ms)?,
            };
            (ImportReport::default(), tidied)
        } else {
            let deadline = self.background.then(|| Instant::now() + MERGING_IN_BACKGROUND);
            merged = super::merge_back(&location, deadline, output);
            output.progress("comparing with the transcripts");
            let compared =
                import_to(&location, &self.paths, Comparison::Whole, &ctxbridge_claude_flow::supersede_imported_after, &|_| {})?;
            is_lines |= compared.fallback_reason.is_some();
            output.progress("looking for damage");
            let tidied = match is_lines {
                true => recovery::optimize_jsonl(location.folder(), &settings, now_ms)?,
                false => recovery::optimize_archive(&data, &settings, now_ms)?,
            };
            (compared, tidied)
        };
        let indexed = match &tidied.outcome {
            // The index is made by who searches.
            Some(_) if is_lines => IndexingReport::default(),
            Some(_) if self.dry_run => search_shared::index_backlog(&data)?,
            Some(_) => search_shared::catch_up(&data, if self.background { EMBEDDED_IN_BACKGROUND } else { usize::MAX }, output)?,
            None => IndexingReport::default(),
        };
        let learned = if self.dry_run || tidied.outcome.is_none() { None } else { self.learn(&location, output)? };
        // Last of all: what was just looked at need not be read from elsewhere.
        let tiers = match &tidied.outcome {
            // Tiers are of a database.
            Some(_) if !is_lines => Some(self.tiers(&data, &tier::TierSettings::from(&config), now_ms, output)?),
            _ => None,
        };
        output.clear_progress();
        tidied.damaged = tidied.damaged.or_else(|| compared.quarantined.clone());
        if let Some(aside) = tidied.damaged.as_ref().filter(|_| self.background) {
            hook::start_reimport(&data, &std::env::current_exe()?, aside);
        }
        if let Some(instead) = &compared.fallback_reason {
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
                json!({ "sessions": merged.sessions, "turns": merged.turns, "bytes": merged.bytes, "folder": merged.moved_to })
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
        Ok(if is_whole && !has_failed { CommandOutcome::Yes } else { CommandOutcome::No })
    }

    /// Extracts learnings from new turns.
    fn learn(&self, location: &Location, output: &Output) -> anyhow::Result<Option<LearningReport>> {
        let (patterns, problem) = LearningPatterns::of_user();
        if let Some(problem) = problem {
            output.note(&format!("note: {problem}; the patterns of ctxbridge alone are used"));
        }
        // Whatever is to be said of it was said.
        let mut store = location.open_for_writing(LockPolicy::Background)?.store;
        let deadline = self.background.then(|| Instant::now() + LEARNING_IN_BACKGROUND);
        // What hooks could not write is new as well.
        hook::Spool::in_dir(location.data()).drain_into(&mut *store)?;
        snapshot::take_all_snapshots(&mut *store, deadline, &mut |done| {
            output.progress(&format!("looking for compactions: {done} sessions"))
        })?;
        Ok(Some(learn::learn_from_all(&mut *store, &patterns, deadline, &mut |done| {
            output.progress(&format!("learning: {done} sessions"))
        })?))
    }

    /// Moves unused sessions to colder tiers, and sessions that are used again back.
    fn tiers(&self, data: &Path, settings: &tier::TierSettings, now_ms: i64, output: &Output) -> anyhow::Result<Tiers> {
        if self.dry_run {
            let _presence = recovery::lock_in_use(data, LockPolicy::Background)?;
            let moves = match SqliteStore::open_read_only(data)? {
                Some(mut store) => tier::preview(&mut store, settings, now_ms)?,
                None => tier::TierReport::default(),
            };
            return Ok(Tiers { moves, ..Tiers::default() });
        }
        let (mut store, _) = recovery::open_or_recover(data, LockPolicy::Background)?;
        let deadline = self.background.then(|| Instant::now() + MOVING_IN_BACKGROUND);
        let moves = tier::run(&mut store, data, settings, deadline, now_ms, &mut |doing| output.progress(doing))?;
        output.clear_progress();
        // All others wait for that, so it is only done while somebody looks on.
        let shrunk = if self.background { None } else { tiers::shrink(&mut store, output)? };
        Ok(Tiers { moves, shrunk })
    }

    fn tell(
        &self,
        tidied: &OptimizeReport,
        indexed: Option<&IndexingReport>,
        learned: Option<&LearningReport>,
        tiers: Option<&Tiers>,
        settings: &RetentionSettings,
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
            Some(aside) => output.line(recovery::quarantine_message(aside))?,
        }
        Ok(())
    }

    fn as_json(&self, compared: &ImportReport, tidied: &OptimizeReport, settings: &RetentionSettings) -> serde_json::Value {
        let cycle = tidied.outcome.as_ref();
        let number = |of: fn(&MaintenanceReport) -> u64| cycle.map(of);
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

fn tell_index(indexed: &IndexingReport, is_dry: bool, output: &mut Output) -> anyhow::Result<()> {
    let were = if is_dry { "would be" } else { "were" };
    let mut line = format!("{} {were} taken into the search index", entries(indexed.entries as u64));
    if indexed.has_model {
        let got = if is_dry { "would get" } else { "got" };
        line += &format!(", {} {got} vectors", entries(indexed.embedded as u64));
        if indexed.not_embedded > 0 {
            line += &format!(", {} have none yet", indexed.not_embedded);
        }
    }
    if let Some(trouble) = &indexed.model_error {
        line += &format!("; none got vectors: {trouble}");
    }
    Ok(output.line(line)?)
}

fn tell_cycle(cycle: &MaintenanceReport, settings: &RetentionSettings, is_dry: bool, output: &mut Output) -> anyhow::Result<()> {
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
