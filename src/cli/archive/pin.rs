//! `ctxbridge pin`

use serde_json::json;

use crate::cli::archives;
use crate::cli::output::{DIM, Output, styled};
use crate::cli::output::{stamp, time};
use crate::cli::{CommandOutcome, UsageError};
use ctxbridge_archive::store::{SegmentReader, StoredTurn};
use ctxbridge_archive::{handle, quote, turn_text};
use ctxbridge_archive::{handle::turn_digits, recall};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge pin ctx:1a2b3c4d
  ctxbridge pin ctx:1a2b3c4d --remove
  ctxbridge pin                        list pinned turns

Pinned turns are never pruned and are restored first after a compaction. Claude Code is also asked to keep them in its summary.

#keep in a prompt pins its turn. A patched client does not prune that turn either; it looks only at the prompt. Exits 1 if a \
handle matches no turn, or no turn is pinned.")]
pub(in crate::cli) struct PinArgs {
    /// Handles of turns; without any, list the pinned turns
    #[arg(value_name = "HANDLE")]
    handles: Vec<String>,
    /// Unpin the turns, even if a prompt says #keep
    #[arg(long, requires = "handles")]
    remove: bool,
    /// Maximum number to list
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "handles", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

impl PinArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut store = archives::open(output)?;
        if self.handles.is_empty() {
            let kept = store.pinned(self.limit as usize)?;
            if kept.is_empty() && !output.json {
                output.note("no pinned turns; `ctxbridge pin HANDLE` pins one, and so does #keep in a prompt");
            }
            return tell(&mut *store, &kept, output);
        }
        output.reports();
        // All of them or none: who mistypes one handle should not have to find out which were taken.
        let mut turns = Vec::new();
        for handle in &self.handles {
            let no_handle = || UsageError(format!("{handle} is no handle; one looks like ctx:1a2b3c4d"));
            let digits = turn_digits(handle).ok_or_else(no_handle)?;
            let Some((turn, is_ambiguous)) = recall::find_turn(&mut *store, &digits)? else {
                output.note(&format!("no turn has the handle ctx:{digits}; `ctxbridge show SESSION` lists them"));
                return Ok(CommandOutcome::No);
            };
            anyhow::ensure!(
                !is_ambiguous,
                "several turns have the handle ctx:{digits}; give more digits, which are those of the uuid of its first line"
            );
            turns.push(turn);
        }
        let now_ms = jiff::Timestamp::now().as_millisecond();
        for turn in &mut turns {
            store.set_pinned(&turn.turn.id, !self.remove, now_ms)?;
            turn.is_pinned = !self.remove;
        }
        tell(&mut *store, &turns, output)
    }
}

fn tell(store: &mut dyn SegmentReader, turns: &[StoredTurn], output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let mut listed = Vec::new();
    for turn in turns {
        let handle = handle::turn_handle(&turn.turn.id);
        // Where it is may be out of reach; that it is pinned is still true.
        let summary = turn_text::summary_or_reason(store, turn)?;
        if output.json {
            listed.push(json!({
                "handle": handle, "session": turn.session, "turn": turn.turn.index, "timestamp": stamp(turn.turn.started_ms),
                "is_pinned": turn.is_pinned, "summary": summary,
            }));
        } else {
            let word = if turn.is_pinned { "pinned" } else { "unpinned" };
            let when = time(Some(turn.turn.started_ms).filter(|ms| *ms > 0));
            output.row(format!("{handle}  {word}  {}  {}", styled(DIM, when), quote::line(&summary)))?;
        }
    }
    if output.json {
        output.value(&json!({ "turns": listed }))?;
    }
    Ok(if turns.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
}
