//! `ctxbridge forget`

mod choose;
mod tell;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::json;

use super::archives;
use super::config::load;
use super::output::{GOOD, Output, count, styled};
use super::{CommandOutcome, UsageError};
use crate::hook::remove_traces;
use ctxbridge_archive::forget::{ClientFiles, ForgetPlan, Tombstones, forget, is_unfinished, remove_from_history};
use ctxbridge_archive::learn::LearningPatterns;
use ctxbridge_archive::open::Location;
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_archive::transcript_paths::client_folder;
use ctxbridge_archive::{learn, snapshot};
use ctxbridge_common::paths;
use ctxbridge_config::{Config, StoreKind};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge forget ctx:1a2b3c4d                 a turn
  ctxbridge forget 0b9e5a11                     a session, and what it will say
  ctxbridge forget --project ~/clients/acme     all sessions of a folder
  ctxbridge forget --before 2026-01-01          sessions that ended before
  ctxbridge forget --match 'ACME-[0-9]{8}'      turns that have a match anywhere

It goes from the archive, the search index, learnings, snapshots, cold storage, logs, bundles and the team server, and is never archived \
again: hashes of it stay, and no text. Claude Code's own transcripts keep it unless you say --transcripts.

Exits 1 if there is nothing to forget.")]
pub(super) struct ForgetArgs {
    /// Session ids or prefixes, and handles of turns
    #[arg(value_name = "SESSION|HANDLE")]
    targets: Vec<String>,
    /// Sessions of this folder or below
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
    /// Sessions that ended before this time: a day, or words such as `last month`
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    /// Only turns with a match of this regular expression, in these sessions or in all
    #[arg(long = "match", value_name = "REGEX")]
    pattern: Option<String>,
    /// Forget it in other sessions that say the same, too
    #[arg(long)]
    everywhere: bool,
    /// Remove it from Claude Code's own transcripts and prompt history, too
    #[arg(long)]
    transcripts: bool,
    /// Show what would be forgotten, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl ForgetArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        if self.targets.is_empty() && self.project.is_none() && self.before.is_none() && self.pattern.is_none() {
            return Err(UsageError("say what to forget: a session, a handle, --project, --before or --match".to_owned()).into());
        }
        let names_sessions = self.project.is_some() || self.before.is_some();
        if names_sessions && !self.targets.is_empty() {
            return Err(UsageError("name sessions, or choose them with --project and --before; not both".to_owned()).into());
        }
        if self.pattern.is_some() && self.targets.iter().any(|target| target.starts_with("ctx:")) {
            return Err(
                UsageError("--match chooses turns of sessions; a handle names one, which goes as a whole".to_owned()).into()
            );
        }
        let config = load(output);
        let location = archives::location(&config)?;
        if !location.is_begun() {
            output.note("the archive is empty, so there is nothing to forget");
            return Ok(CommandOutcome::No);
        }
        // What waits elsewhere would come back.
        super::merge_back::merge_back(&location, None, output);
        let plan = self.plan(&location, output)?;
        output.clear_progress();
        let Some(plan) = plan.filter(|plan| !plan.is_empty()) else {
            if is_unfinished(location.data()) {
                finish_forgetting(&location, output)?;
            }
            output.note("nothing in the archive fits, so there is nothing to forget");
            return Ok(CommandOutcome::No);
        };
        tell::plan(&plan, &location, self, output)?;
        if self.dry_run {
            return Ok(CommandOutcome::Yes);
        }
        if !self.yes && !is_confirmed()? {
            output.note("nothing was forgotten");
            return Ok(CommandOutcome::No);
        }
        self.forget(&config, &location, &plan, output)
    }

    fn forget(
        &self,
        config: &Config,
        location: &Location,
        plan: &ForgetPlan,
        output: &mut Output,
    ) -> anyhow::Result<CommandOutcome> {
        let data = location.data();
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let files = ClientFiles::of(&mut *location.open_for_reading(LockPolicy::Background)?.store, plan)?;
        let mut left = Vec::new();
        // While the archive here still knows what was sent.
        if let Err(error) = super::server::forget(config, location, plan, output) {
            left.push(format!("the team server still has it: {error:#}. Once it can be reached: {}", tell::revoke(plan)));
        }
        let known = plan.bury(data)?;
        let traces = remove_traces(data, paths::home_dir().as_deref(), plan);
        left.extend(traces.left);
        let removed = if self.transcripts { remove_from_client(&files, &known, plan, &mut left) } else { Vec::new() };
        // At last, for nobody else knows what there is to be removed elsewhere.
        let done = forget(location, plan, now_ms, &mut |step| output.progress(step))
            .context("not all of it was forgotten; try again")?;
        left.extend(done.left.iter().map(|(path, why)| format!("{}: {why}", path.display())));
        output.progress("looking for learnings in what is left");
        if let Err(error) = look_again(location, plan) {
            output.note(&format!(
                "what is left was not looked through for learnings: {error:#}; `ctxbridge archive optimize` does"
            ));
        }
        output.clear_progress();
        for what in &left {
            output.note(&format!("not forgotten: {what}"));
        }
        if output.json {
            output.value(&json!({
                "is_done": left.is_empty(), "left": left, "bundles": traces.bundles, "transcripts": removed, "removed": done.removed,
            }))?;
        } else {
            for path in traces.bundles.iter().chain(&removed).chain(&done.removed) {
                output.prose(2, format!("changed or removed: {}", path.display()))?;
            }
            let turns: usize = plan.parts.values().map(|part| part.turns.len()).sum();
            let lines: u64 = plan.parts.values().map(|part| part.lines).sum();
            let (turns, lines) = (count(turns as u64, "turn"), count(lines, "line"));
            output.prose(2, format!("{}: {turns}, {lines}", styled(GOOD, "forgotten")))?;
        }
        anyhow::ensure!(left.is_empty(), "not all of it was forgotten; what is said above is left");
        Ok(CommandOutcome::Yes)
    }
}

/// Overwrites what is left of something that was forgotten, when that was interrupted.
pub(super) fn finish_forgetting(location: &Location, output: &Output) -> anyhow::Result<()> {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let done = forget(location, &ForgetPlan::default(), now_ms, &mut |step| output.progress(step))?;
    for (path, why) in &done.left {
        output.note(&format!("{} still has pieces of what was forgotten: {why}", path.display()));
    }
    Ok(())
}

/// Removes what goes from the client's own files, and returns those that were changed or removed.
fn remove_from_client(files: &[ClientFiles], known: &Tombstones, plan: &ForgetPlan, left: &mut Vec<String>) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    for file in files {
        match file.remove(known) {
            Ok(paths) => removed.extend(paths),
            Err(error) => left.push(format!("a transcript of Claude Code: {error}")),
        }
    }
    match client_folder().map(|client| remove_from_history(&client, plan)) {
        Some(Ok(path)) => removed.extend(path),
        Some(Err(error)) => left.push(format!("Claude Code's history of prompts: {error}")),
        None => {}
    }
    removed
}

/// Learnings and snapshots of a session go with it; what is left of it may have some.
fn look_again(location: &Location, plan: &ForgetPlan) -> anyhow::Result<()> {
    let (patterns, problem) = LearningPatterns::of_user();
    let mut store = location.open_for_writing(LockPolicy::Background)?.store;
    if store.kind() == StoreKind::Jsonl {
        // All of it was copied.
        snapshot::take_all_snapshots(&mut *store, None, &mut |_| {})?;
        learn::learn_from_all(&mut *store, &patterns, None, &mut |_| {})?;
    } else {
        for (id, _) in plan.parts.iter().filter(|(_, part)| !part.is_whole) {
            if let Some(session) = store.session(id)? {
                snapshot::take_snapshots(&mut *store, &session, None)?;
                learn::learn_from_session(&mut *store, &session, &patterns, None)?;
            }
        }
    }
    store.checkpoint()?;
    problem.map_or(Ok(()), |problem| Err(anyhow::anyhow!("{problem}")))
}

/// Asks on the terminal. Where nobody can be asked, the user has to have said so before.
fn is_confirmed() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(UsageError("nobody can be asked here: add --yes to forget it, or --dry-run to look".to_owned()).into());
    }
    eprint!("Forget this? It cannot be undone. [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
