//! `ctxbridge learnings patterns`

use serde_json::json;

use super::minute;
use crate::cli::CommandOutcome;
use crate::cli::archives;

use crate::cli::output::{BOLD, DIM, Output, count, stamp, styled};
use ctxbridge_archive::learn::{CoChange, RecurringFailure, co_changes, recurring_failures};
use ctxbridge_archive::quote;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge learnings patterns --project .

A failure counts if the same call failed, a file was changed, and the call then passed. Exits 1 if there are no patterns.")]
pub(super) struct PatternsArgs {
    /// Only sessions of this folder or below (the end of its path is enough; `.` is the current folder)
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
    /// Maximum number of patterns of each kind
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
}

/// Maximum number of fixes and of turns to look at, newest first.
const MAX_ROWS_READ: usize = 20_000;

impl PatternsArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut store = archives::open_to_read(output)?;
        let project = archives::project(self.project.as_deref(), &mut *store, false, output)?;
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let mut failures = recurring_failures(&store.fixes(project.as_ref(), MAX_ROWS_READ)?);
        let mut files = co_changes(&store.changed_files(project.as_ref(), MAX_ROWS_READ)?);
        failures.truncate(limit);
        files.truncate(limit);
        if output.json {
            let failure = |one: &RecurringFailure| {
                json!({
                    "tool": one.tool, "call": one.call, "times": one.times, "sessions": one.sessions, "error": one.error,
                    "last": stamp(one.last_ms), "changed": one.changed.iter().map(|(file, times)| json!({ "file": file, "times": times })).collect::<Vec<_>>(),
                })
            };
            let pair = |pair: &CoChange| json!({ "files": pair.files, "times": pair.times, "of": pair.of });
            output.value(&json!({
                "failures": failures.iter().map(failure).collect::<Vec<_>>(),
                "together": files.iter().map(pair).collect::<Vec<_>>(),
            }))?;
        } else {
            tell(&failures, &files, output)?;
        }
        Ok(if failures.is_empty() && files.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
    }
}

fn tell(failures: &[RecurringFailure], files: &[CoChange], output: &mut Output) -> anyhow::Result<()> {
    if failures.is_empty() && files.is_empty() {
        output.note("nothing is known of this yet; `ctxbridge archive optimize` looks through what is archived");
    }
    for one in failures {
        output.line(format!("{}  {}", styled(BOLD, quote::line(&one.call)), styled(DIM, quote::line(&one.tool))))?;
        let sessions = count(one.sessions as u64, "session");
        output.line(format!(
            "  failed {} times in {sessions}, last {}: {}",
            one.times,
            minute(Some(one.last_ms)),
            quote::line(&one.error)
        ))?;
        let changed: Vec<String> =
            one.changed.iter().take(5).map(|(file, times)| format!("{} ({times})", quote::line(file))).collect();
        output.line(format!("  passed after a change of {}", changed.join(", ")))?;
    }
    for pair in files {
        let [one, other] = &pair.files;
        let share = format!("{} of {} turns that changed one of them", pair.times, pair.of);
        output.line(format!("{}  {}  {}", quote::line(one), quote::line(other), styled(DIM, share)))?;
    }
    Ok(())
}
