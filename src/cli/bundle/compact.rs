//! `ctxbridge bundle compact`

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::bundles;
use crate::bundle::compact;
use crate::cli::CommandOutcome;
use crate::cli::output::{DIM, GOOD, Output, count, size, styled};
use ctxbridge_archive::quote::printable;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge bundle compact --older-than 90

Keeps one line for each prompt with what was done; the individual times and their order are dropped.

Run it on the main branch and commit the result as one change. Branches that fold the same files merge cleanly, but a branch with \
the old files brings them back. Exits 1 if there is nothing to fold.")]
pub(super) struct CompactArgs {
    /// Only bundles not written for this many days
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    older_than: u32,
    /// Show what would be done without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl CompactArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        let before = Timestamp::now().saturating_sub(SignedDuration::from_hours(24 * i64::from(self.older_than)))?;
        let done = compact(&bundles()?, before, self.dry_run)?;
        if output.json {
            output.value(&json!({
                "files": done.files, "size_bytes": done.bytes, "months": done.months, "left": done.left, "dry_run": self.dry_run,
            }))?;
        } else {
            for (file, reason) in &done.left {
                output.note(&format!("note: {} stays as it is: {reason}", printable(file)));
            }
            if done.files == 0 {
                output.prose(2, "nothing to fold")?;
            } else {
                let done_or_not = if self.dry_run { "would be folded:" } else { "folded:" };
                let bundles = count(done.files as u64, "bundle");
                output.prose(2, format!("{} {bundles}, {}", styled(GOOD, done_or_not), size(done.bytes.cast_signed())))?;
                for (month, bytes) in &done.months {
                    output.prose(2, styled(DIM, format!("  {month}, {}", size(bytes.cast_signed()))))?;
                }
            }
        }
        Ok(if done.files == 0 { CommandOutcome::No } else { CommandOutcome::Yes })
    }
}
