//! `ctxbridge prune preview`

use std::path::PathBuf;

use serde_json::json;

use super::{read, settings};
use crate::cli::CommandOutcome;
use crate::cli::output::{Output, count};
use ctxbridge_archive::quote;
use ctxbridge_prune::simulate::conversation::ReplayMessage;
use ctxbridge_prune::simulate::plot::group_thousands;
use ctxbridge_prune::{self as prune, BoundaryTracker, CHARS_PER_TOKEN, ConversationSize, SWITCH_VAR, TextCut};

/// Maximum number of characters shown of a text.
const BEGINS: usize = 60;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge prune preview session.jsonl            the newest request
  ctxbridge prune preview session.jsonl --at 40    request 40

Uses the settings of config.toml and the environment: CLAUDE_TEXT_PRUNE_KEEP, _TAIL_TOKENS, _STEP, _SCOPE and so on.")]
pub(super) struct PreviewArgs {
    /// Transcript (.jsonl) of a session
    transcript: PathBuf,
    /// Number of the request; the first is 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
}

/// Text that would be cut.
struct CutRow<'a> {
    cut: TextCut,
    line: usize,
    kind: &'static str,
    text: &'a str,
}

impl CutRow<'_> {
    fn handle(&self) -> Option<String> {
        self.cut.handle.as_ref().map(ToString::to_string)
    }
}

impl PreviewArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let Some(conversation) = read(&self.transcript, output)? else { return Ok(CommandOutcome::No) };
        let requests = conversation.calls.len();
        let request = self.at.map_or(requests, |at| usize::try_from(at).unwrap_or(usize::MAX));
        if request > requests {
            output.note(&format!("there is no request {request}; the session has {}", group_thousands(requests as u64)));
            return Ok(CommandOutcome::No);
        }
        let settings = settings(output);
        if !settings.enabled {
            output.note(&format!("nothing is cut while {SWITCH_VAR} is off"));
        }
        let sent = conversation.messages_of_call(request - 1);
        let mut boundaries = BoundaryTracker::new(&settings);
        let mut size = ConversationSize::default();
        for message in sent {
            boundaries.push(&message.value);
            size += ConversationSize::of(&message.value);
        }
        let boundary = boundaries.now();
        let mut rows = Vec::new();
        let old = sent.iter().enumerate().take(boundary.tools.max(boundary.text));
        for (index, message) in old.filter(|(index, _)| !boundaries.is_in_pinned_turn(*index)) {
            for cut in prune::cuts(index, &message.value, boundary, &settings) {
                let (kind, text) = place(message, &cut);
                rows.push(CutRow { line: message.line, kind, text, cut });
            }
        }
        if output.json {
            return self.as_json(&rows, request, requests, size, output);
        }
        if rows.is_empty() {
            output.line(format!(
                "request {} of {}: nothing would be cut",
                group_thousands(request as u64),
                group_thousands(requests as u64)
            ))?;
            return Ok(CommandOutcome::Yes);
        }
        table(&rows, output)?;
        let saved = saved(&rows);
        output.line("")?;
        output.line(format!(
            "request {} of {}: {} would be cut, {} characters: about {} of {} tokens",
            group_thousands(request as u64),
            group_thousands(requests as u64),
            count(rows.len() as u64, "text"),
            group_thousands(saved),
            group_thousands(tokens(saved)),
            group_thousands(size.tokens()),
        ))?;
        Ok(CommandOutcome::Yes)
    }

    fn as_json(
        &self,
        rows: &[CutRow<'_>],
        request: usize,
        requests: usize,
        size: ConversationSize,
        output: &mut Output,
    ) -> anyhow::Result<CommandOutcome> {
        let cuts = rows.iter().map(|row| {
            json!({
                "handle": row.handle(), "kind": row.kind, "line": row.line, "block": row.cut.block_index, "part": row.cut.part,
                "chars_before": row.cut.original_chars, "chars_after": row.cut.original_chars - row.cut.saved_chars(),
                "begins": begins(row.text),
            })
        });
        output.value(&json!({
            "transcript": self.transcript.to_string_lossy(), "request": request, "requests": requests,
            "tokens_before": size.tokens(), "tokens_saved": tokens(saved(rows)), "chars_saved": saved(rows),
            "cuts": cuts.collect::<Vec<_>>(),
        }))?;
        Ok(CommandOutcome::Yes)
    }
}

fn table(rows: &[CutRow<'_>], output: &mut Output) -> anyhow::Result<()> {
    let handle = |row: &CutRow<'_>| row.handle().unwrap_or_else(|| "-".to_owned());
    let widest = rows.iter().map(|row| handle(row).len()).max().unwrap_or(0).max("handle".len());
    output.line(format!("{:>7}  {:widest$}  {:11}  {:>9}  {:>6}  begins", "line", "handle", "kind", "before", "after"))?;
    for row in rows {
        output.line(format!(
            "{:>7}  {:widest$}  {:11}  {:>9}  {:>6}  {}",
            row.line,
            handle(row),
            row.kind,
            group_thousands(row.cut.original_chars),
            group_thousands(row.cut.original_chars - row.cut.saved_chars()),
            begins(row.text),
        ))?;
    }
    Ok(())
}

/// Returns the kind and the text of the block that a cut shortens.
fn place<'a>(message: &'a ReplayMessage, cut: &TextCut) -> (&'static str, &'a str) {
    let kind = match message.value["message"]["content"][cut.block_index]["type"].as_str() {
        Some("tool_use") => "input",
        Some("tool_result") => "tool result",
        _ => "text",
    };
    (kind, prune::text_at(&message.value, cut.block_index, cut.part).unwrap_or_default())
}

/// Returns the first characters on one line, without control characters.
fn begins(text: &str) -> String {
    // What is quoted may be megabytes; white space makes it shorter.
    let start: String = text.chars().take(4 * BEGINS).collect();
    quote::cut(&quote::line(&start), BEGINS)
}

fn saved(rows: &[CutRow<'_>]) -> u64 {
    rows.iter().map(|row| row.cut.saved_chars()).sum()
}

fn tokens(chars: u64) -> u64 {
    (chars as f64 / CHARS_PER_TOKEN) as u64
}
