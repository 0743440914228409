//! `ctxbridge diff`

use clap::builder::styling::{AnsiColor, Style};
use serde_json::{Value, json};

use super::export::read;
use crate::cli::CommandOutcome;
use crate::cli::archives;
use crate::cli::output::{BOLD, DIM, Output, count, styled};
use crate::export::conversation::{ExportedConversation, ExportedTurn};
use crate::export::diff::{Counts, TurnChange, diff};
use crate::export::visible;
use ctxbridge_archive::quote;

const MINUS: Style = AnsiColor::Red.on_default();
const PLUS: Style = AnsiColor::Green.on_default();
const PLACE: Style = AnsiColor::Cyan.on_default();

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge diff 0b9e 5f21             a session and its fork
  ctxbridge diff 0b9e@1 0b9e@2         between two compactions
  ctxbridge diff 0b9e@yesterday 0b9e --stat

Times, ids and token counts are not compared. Exits 0 if both are equal, 1 if they differ, 3 if one does not exist.")]
pub(in crate::cli) struct DiffArgs {
    /// Session id or prefix; add @N for its state before compaction N, or @TIME for its state at that time
    a: String,
    /// Session to compare it with, in the same form
    b: String,
    /// Print only the numbers of equal, changed, added and removed turns
    #[arg(long)]
    stat: bool,
}

impl DiffArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut store = archives::open_to_read(output)?;
        let a = read(&mut *store, &self.a, false, false)?;
        let b = read(&mut *store, &self.b, false, false)?;
        let changes = diff(&a, &b);
        let counts = Counts::of(&changes);
        if output.json {
            let turns: Vec<_> = if self.stat { Vec::new() } else { changes.iter().map(as_json).collect() };
            output.value(&json!({
                "a": side(&a), "b": side(&b), "is_equal": counts.is_equal(), "same": counts.same, "changed": counts.changed,
                "only_a": counts.only_a, "only_b": counts.only_b, "turns": turns,
            }))?;
        } else {
            if !self.stat {
                let heads = [("---", MINUS, &a), ("+++", PLUS, &b)];
                for (sign, style, of) in heads {
                    output.line(styled(style, format!("{sign} {}", name(of))))?;
                }
                show(&changes, output)?;
            }
            output.line(format!(
                "{} the same, {} changed, {} only in A, {} only in B",
                count(counts.same as u64, "turn"),
                counts.changed,
                counts.only_a,
                counts.only_b
            ))?;
        }
        Ok(if counts.is_equal() { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}

fn name(conversation: &ExportedConversation) -> String {
    let state = conversation.state.as_ref().map(|state| format!(" {state}")).unwrap_or_default();
    format!("{}{state}, {}", quote::line(&conversation.session), count(conversation.turns.len() as u64, "turn"))
}

fn show(changes: &[TurnChange<'_>], output: &mut Output) -> anyhow::Result<()> {
    for some in changes.chunk_by(|a, b| matches!((a, b), (TurnChange::Same(..), TurnChange::Same(..)))) {
        match some {
            [TurnChange::Same(first, _), rest @ ..] => {
                let last = rest.last().map_or(*first, |change| match change {
                    TurnChange::Same(turn, _)
                    | TurnChange::Changed(turn, ..)
                    | TurnChange::OnlyA(turn)
                    | TurnChange::OnlyB(turn) => turn,
                });
                let range = if rest.is_empty() {
                    format!("turn {}", first.index)
                } else {
                    format!("turns {}–{}", first.index, last.index)
                };
                output.line(styled(DIM, format!("  {range}: the same")))?;
            }
            [TurnChange::Changed(a, b, text)] => {
                output.row(format!("{} {}", styled(BOLD, format!("~ turn {} → {}", a.index, b.index)), title(b)))?;
                for line in visible::text(text).lines() {
                    let style = match line.as_bytes().first() {
                        Some(b'-') => MINUS,
                        Some(b'+') => PLUS,
                        Some(b'@') => PLACE,
                        _ => Style::new(),
                    };
                    output.line(format!("    {}", styled(style, line)))?;
                }
            }
            [TurnChange::OnlyA(turn)] => {
                output.row(format!("{} {}", styled(MINUS, format!("- turn {}", turn.index)), title(turn)))?
            }
            [TurnChange::OnlyB(turn)] => {
                output.row(format!("{} {}", styled(PLUS, format!("+ turn {}", turn.index)), title(turn)))?
            }
            _ => {}
        }
    }
    Ok(())
}

fn title(turn: &ExportedTurn) -> String {
    format!("{} {}", styled(DIM, &turn.handle), turn.title())
}

fn side(conversation: &ExportedConversation) -> Value {
    json!({ "session": conversation.session, "state": conversation.state, "turns": conversation.turns.len() })
}

fn as_json(change: &TurnChange<'_>) -> Value {
    let turn = |turn: &ExportedTurn| json!({ "turn": turn.index, "handle": turn.handle, "title": turn.title() });
    match change {
        TurnChange::Same(a, b) => json!({ "state": "same", "a": turn(a), "b": turn(b) }),
        TurnChange::Changed(a, b, text) => json!({ "state": "changed", "a": turn(a), "b": turn(b), "diff": text }),
        TurnChange::OnlyA(a) => json!({ "state": "only_a", "a": turn(a) }),
        TurnChange::OnlyB(b) => json!({ "state": "only_b", "b": turn(b) }),
    }
}
