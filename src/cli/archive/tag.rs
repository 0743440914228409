//! `ctxbridge archive tag`

use serde_json::json;

use super::{stamp, time};
use crate::cli::output::{DIM, Output, styled};
use crate::cli::{Answer, Usage};
use ctxbridge_archive::recall::{self, turn_digits};
use ctxbridge_archive::store::{Store, StoredTurn};
use ctxbridge_archive::{context, quote, words};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive tag ctx:1a2b3c4d
  ctxbridge archive tag ctx:1a2b3c4d --remove
  ctxbridge archive tag                        which turns are kept

A turn that is kept is never pruned, comes back first after a compaction, and the client is told to keep it when it makes a summary.
#keep in a prompt does the same for its turn, and a patched client does not prune it either: that one goes by the prompt alone. Exit code 1 when a handle leads to no turn, or none is kept.")]
pub(super) struct TagArgs {
    /// Handles of turns; without any, those that are kept are listed
    #[arg(value_name = "HANDLE")]
    handles: Vec<String>,
    /// Keep them no longer, also where a prompt says #keep
    #[arg(long, requires = "handles")]
    remove: bool,
    /// List at most so many
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "handles", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

impl TagArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let mut store = super::open(output)?;
        if self.handles.is_empty() {
            let kept = store.kept(self.limit as usize)?;
            if kept.is_empty() && !output.json {
                output.note("no turn is kept; `ctxbridge archive tag HANDLE` keeps one, and so does #keep in a prompt");
            }
            return tell(&mut *store, &kept, output);
        }
        // All of them or none: who mistypes one handle should not have to find out which were taken.
        let mut turns = Vec::new();
        for handle in &self.handles {
            let no_handle = || Usage(format!("{handle} is no handle; one looks like ctx:1a2b3c4d"));
            let digits = turn_digits(handle).ok_or_else(no_handle)?;
            let Some((turn, is_ambiguous)) = recall::turn(&mut *store, &digits)? else {
                output.note(&format!("no turn has the handle ctx:{digits}; `ctxbridge archive show SESSION` lists them"));
                return Ok(Answer::No);
            };
            anyhow::ensure!(
                !is_ambiguous,
                "several turns have the handle ctx:{digits}; give more digits, which are those of the uuid of its first line"
            );
            turns.push(turn);
        }
        let now_ms = jiff::Timestamp::now().as_millisecond();
        for turn in &mut turns {
            store.keep(&turn.turn.id, !self.remove, now_ms)?;
            turn.is_kept = !self.remove;
        }
        tell(&mut *store, &turns, output)
    }
}

fn tell(store: &mut dyn Store, turns: &[StoredTurn], output: &mut Output) -> anyhow::Result<Answer> {
    let mut listed = Vec::new();
    for turn in turns {
        let handle = context::handle(&turn.turn.id);
        // Where it is may be out of reach; that it is kept is still true.
        let summary = words::summary_or_cold(store, turn)?;
        if output.json {
            listed.push(json!({
                "handle": handle, "session": turn.session, "turn": turn.turn.index, "timestamp": stamp(turn.turn.started_ms),
                "is_kept": turn.is_kept, "summary": summary,
            }));
        } else {
            let word = if turn.is_kept { "kept" } else { "kept no longer" };
            let when = time(Some(turn.turn.started_ms).filter(|ms| *ms > 0));
            output.line(format!("{handle}  {word}  {}  {}", styled(DIM, when), quote::line(&summary)))?;
        }
    }
    if output.json {
        output.value(&json!({ "turns": listed }))?;
    }
    Ok(if turns.is_empty() { Answer::No } else { Answer::Yes })
}
