//! `ctxbridge archive optimize`

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{damage, tiers};
use crate::cli::CommandOutcome;
use crate::cli::config::load;
use crate::cli::forget::finish_forgetting;
use crate::cli::output::{BAD, GOOD, Output, count, styled};
use crate::cli::server::federated;
use crate::hook;
use ctxbridge_archive::forget::is_unfinished;
use ctxbridge_archive::learn::LearningPatterns;
use ctxbridge_archive::maintain::{MaintenanceRun, MaintenanceRunReport};
use ctxbridge_archive::maintenance::{MaintenanceReport, Reason, RetentionSettings};
use ctxbridge_archive::merge::MergeReport;
use ctxbridge_archive::open::Location;
use ctxbridge_archive::recovery;
use ctxbridge_archive::search::IndexingReport;
use ctxbridge_archive::tier::TierSettings;
use ctxbridge_common::paths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive optimize --dry-run    show what it would do
  ctxbridge archive optimize
  ctxbridge archive optimize --verify     check every byte that is archived

Runs in the background at the end of each session. Pruned turns are no longer ranked for a restore. They stay in the archive, \
and become hot again once they are recalled.

Unused sessions are recompressed after archive.warm_after_days. After archive.cold_after_days they are moved to \
archive.cold_folder, if it is set. They stay readable byte for byte, and are moved back when they are used again.

Each run verifies the database and a part of what is archived. What is damaged is put back from the transcripts, another copy in the \
archive, a cold file or the team's server; what is nowhere else is listed.

Exits 1 if damage was found, even if it was undone, or a session could not be moved.")]
pub(super) struct OptimizeArgs {
    /// Transcripts to compare with the archive, byte for byte
    paths: Vec<PathBuf>,
    /// Check every byte that is archived, rather than a part in each run
    #[arg(long)]
    verify: bool,
    /// Show what would be done without changing anything; compares no transcripts
    #[arg(long, conflicts_with = "background")]
    dry_run: bool,
    /// Run detached from the terminal at low priority, as hooks start it
    #[arg(long, hide = true)]
    background: bool,
}

/// Time limit for merging JSON Lines into the database in the background.
const BACKGROUND_MERGING: Duration = Duration::from_secs(5 * 60);

impl OptimizeArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        if self.background {
            hook::detach_and_renice();
        }
        let config = load(output).archive;
        let retention = RetentionSettings::from(&config);
        let data = paths::data_dir()?;
        let location = Location::of(&data, &config);
        let (patterns, problem) = LearningPatterns::of_user();
        // Nobody asks it before something is damaged.
        let team = if self.background { None } else { federated(output)? };
        let run = MaintenanceRun {
            location: &location,
            transcripts: &self.paths,
            retention: &retention,
            tiers: &TierSettings::from(&config),
            patterns: &patterns,
            after_pass: &ctxbridge_claude_flow::supersede_imported_after,
            drain: &|store| hook::Spool::in_dir(&data).drain_into(store).map(drop),
            verifies_all: self.verify,
            other_source: &|range, bytes, sha256| damage::from_team(team.as_deref()?, range, bytes, sha256),
            is_background: self.background,
            now_ms: jiff::Timestamp::now().as_millisecond(),
            progress: &|step| output.progress(step),
        };
        let (merged, done) = if self.dry_run {
            (None, run.preview()?)
        } else {
            if is_unfinished(&data) {
                let done = finish_forgetting(&location, output);
                done.unwrap_or_else(|error| output.note(&format!("what was forgotten may be left in free pages: {error:#}")));
            }
            if let Some(problem) = problem {
                output.note(&format!("note: {problem}; the patterns of ctxbridge alone are used"));
            }
            let deadline = self.background.then(|| Instant::now() + BACKGROUND_MERGING);
            let merged = crate::cli::merge_back::merge_back(&location, deadline, output);
            let done = run.run()?;
            super::follow_projects(&location, self.background, output);
            (merged, done)
        };
        output.clear_progress();
        // Another process may have been the one that mended it.
        let moved = done.repairs.iter().find_map(|repair| repair.quarantined.as_deref());
        let damaged = done.cycle.damaged.as_deref().or(done.compared.quarantined.as_deref()).or(moved);
        if let Some(aside) = damaged.filter(|_| self.background) {
            hook::start_reimport(&data, &std::env::current_exe()?, aside);
        }
        if let Some(instead) = &done.compared.fallback_reason {
            output.note(instead);
        }
        for finding in &done.cycle.findings {
            output.note(&format!("{} {finding}", styled(BAD, "damaged:")));
        }
        for (path, error) in done.compared.failed.iter().chain(&done.compared.side_failed) {
            output.note(&format!("{}: {error}", path.display()));
        }
        if output.json {
            let value = self.as_json(&done, damaged, merged.as_ref(), &retention);
            output.value(&value)?;
        } else {
            self.tell(&done, damaged, &retention, output)?;
        }
        let has_damage = damage::is_damaged(&done);
        let has_failed = done.tiers.as_ref().is_some_and(|moves| !moves.failed.is_empty());
        let is_whole = damaged.is_none() && done.cycle.findings.is_empty() && !has_damage;
        Ok(if is_whole && !has_failed { CommandOutcome::Yes } else { CommandOutcome::No })
    }

    fn tell(
        &self,
        done: &MaintenanceRunReport,
        damaged: Option<&Path>,
        retention: &RetentionSettings,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        if output.verbose {
            self.tell_all(done, retention, output)?;
        } else if done.cycle.outcome.is_some() {
            output.prose(2, summary(done, self.dry_run))?;
            if let Some(moves) = &done.tiers {
                tiers::note_failed(moves, output);
            }
            if let Some(trouble) = done.indexed.as_ref().and_then(|indexed| indexed.model_error.as_ref()) {
                output.note(&format!("no vectors were made: {trouble}"));
            }
        }
        damage::tell(done, self.dry_run, self.verify, output)?;
        match damaged {
            None if done.cycle.outcome.is_none() => {
                output.prose(2, "there is no archive yet; `ctxbridge archive import` begins one")?;
            }
            // Each was said.
            None if !done.cycle.findings.is_empty() || damage::is_lost(done) => {
                output.prose(2, styled(BAD, "done; what is damaged was said above, all else is whole"))?
            }
            None if damage::is_damaged(done) => output.prose(2, styled(GOOD, "done: all damage was undone"))?,
            None if self.dry_run => output.prose(2, "a dry run: nothing was changed; no damage found")?,
            None => output.prose(2, styled(GOOD, "done: no damage found"))?,
            Some(path) if self.dry_run => {
                let damaged = styled(BAD, "damaged:");
                output.prose(
                    2,
                    format!("{damaged} {}; without --dry-run, it is mended, or moved aside and a new one begun", path.display()),
                )?;
            }
            Some(aside) => output.prose(2, recovery::quarantine_message(aside))?,
        }
        Ok(())
    }

    fn tell_all(&self, done: &MaintenanceRunReport, retention: &RetentionSettings, output: &mut Output) -> anyhow::Result<()> {
        if let Some(outcome) = &done.cycle.outcome {
            tell_cycle(outcome, retention, self.dry_run, output)?;
        }
        if let Some(indexed) = &done.indexed {
            tell_index(indexed, self.dry_run, output)?;
        }
        if let Some(learned) = done.learned.as_ref().filter(|learned| learned.bytes > 0) {
            let fixes = count(learned.fixes as u64, "call");
            let learnings = count(learned.learnings as u64, "learning");
            output.prose(2, format!("{learnings} new; {fixes} found that failed and passed after a change"))?;
        }
        if let Some(moves) = &done.tiers {
            tiers::tell(moves, done.shrunk.as_ref(), self.dry_run, output)?;
        }
        Ok(())
    }

    fn as_json(
        &self,
        done: &MaintenanceRunReport,
        damaged: Option<&Path>,
        merged: Option<&MergeReport>,
        retention: &RetentionSettings,
    ) -> Value {
        let cycle = done.cycle.outcome.as_ref();
        let indexed = done.indexed.clone().unwrap_or_default();
        let number = |of: fn(&MaintenanceReport) -> u64| cycle.map(of);
        let mut value = json!({
            "dry_run": self.dry_run, "transcripts": done.compared.transcripts, "rewritten": done.compared.rewritten,
            "damaged": damaged,
            "elapsed_hours": cycle.map(|cycle| cycle.plan.elapsed_hours()),
            "decayed": number(|cycle| cycle.decayed),
            "pruned_by_confidence": number(|cycle| cycle.pruned_by_confidence),
            "pruned_by_age": number(|cycle| cycle.pruned_by_age),
            "retention_days": number(|cycle| cycle.plan.retention.days.into()),
            "retention_days_set": retention.retention_days,
            "retention_reason": cycle.map(|cycle| match cycle.plan.retention.reason {
                Reason::AsSet => "as_set",
                Reason::Size => "size",
                Reason::Use => "use",
            }),
            "hot": number(|cycle| cycle.hot), "pruned": number(|cycle| cycle.pruned),
        });
        if let Some(learned) = &done.learned {
            value["learned"] = learned.learnings.into();
            value["fixes"] = learned.fixes.into();
        }
        value["merged"] = merged.map_or(Value::Null, |merged| {
            json!({ "sessions": merged.sessions, "turns": merged.turns, "bytes": merged.bytes, "folder": merged.moved_to })
        });
        value["repairs"] = damage::as_json(done);
        value["indexed"] = indexed.entries.into();
        value["embedded"] = indexed.embedded.into();
        value["not_embedded"] = indexed.not_embedded.into();
        value["tiers"] = done.tiers.as_ref().map(|moves| tiers::as_json(moves, done.shrunk.as_ref())).into();
        value
    }
}

/// Says on one line what changed; `-v` says all of it.
fn summary(done: &MaintenanceRunReport, is_dry: bool) -> String {
    let mut parts = Vec::new();
    let mut add = |number: u64, name: &str, what: &str| {
        if number > 0 {
            parts.push(format!("{} {what}", count(number, name)));
        }
    };
    if let Some(cycle) = &done.cycle.outcome {
        add(cycle.pruned_by_confidence + cycle.pruned_by_age, "entry", "pruned");
    }
    if let Some(indexed) = &done.indexed {
        add(indexed.entries as u64, "entry", "indexed");
        if indexed.embedded > indexed.entries {
            add(indexed.embedded as u64, "entry", "given vectors");
        }
    }
    if let Some(learned) = &done.learned {
        add(learned.learnings as u64, "learning", "found");
    }
    if let Some(moves) = &done.tiers {
        add(moves.back.sessions, "session", "brought back from cold storage");
        add(moves.cold.sessions, "session", "moved to cold storage");
        add(moves.warm.segments, "piece", "of old transcripts compressed anew");
    }
    match (parts.is_empty(), is_dry) {
        (true, _) => "nothing was to be done".to_owned(),
        (false, true) => format!("would change: {}", parts.join(", ")),
        (false, false) => parts.join(", "),
    }
}

fn tell_index(indexed: &IndexingReport, is_dry: bool, output: &mut Output) -> anyhow::Result<()> {
    let were = if is_dry { "would be" } else { "were" };
    let mut line = format!("{} {were} taken into the search index", count(indexed.entries as u64, "entry"));
    if indexed.model_error.is_none() {
        let got = if is_dry { "would get" } else { "got" };
        line += &format!(", {} {got} vectors", count(indexed.embedded as u64, "entry"));
        if indexed.not_embedded > 0 {
            line += &format!(", {} have none yet", indexed.not_embedded);
        }
    }
    if let Some(trouble) = &indexed.model_error {
        line += &format!("; none got vectors: {trouble}");
    }
    Ok(output.prose(2, line)?)
}

fn tell_cycle(cycle: &MaintenanceReport, settings: &RetentionSettings, is_dry: bool, output: &mut Output) -> anyhow::Result<()> {
    let (lost, were, are) = if is_dry { ("would lose", "would be", "would be") } else { ("lost", "were", "are") };
    if cycle.plan.elapsed_ms > 0 {
        let (hours, loss) = (cycle.plan.elapsed_hours(), cycle.plan.loss);
        let decayed = count(cycle.decayed, "entry");
        output.prose(2, format!("{hours:.1} hours since the last cycle: {decayed} {lost} confidence, {loss:.3} at most"))?;
    } else {
        output.prose(2, "no time has passed since the last cycle, or this is the first: no confidence is lost")?;
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
    output.prose(2, format!("kept hot for {}: {why}", count(days, "day")))?;
    let (low, old) = (cycle.pruned_by_confidence, cycle.pruned_by_age);
    let were = if low + old == 1 && !is_dry { "was" } else { were };
    output.prose(2, format!("{} {were} pruned: {low} by confidence, {old} by age", count(low + old, "entry")))?;
    output.prose(2, format!("{} {are} hot, {} pruned", count(cycle.hot, "entry"), cycle.pruned))?;
    Ok(())
}
