//! `ctxbridge prune preview`

use std::path::PathBuf;

use serde_json::json;

use super::{read, settings};
use crate::cli::Answer;
use crate::cli::output::{Output, count};
use ctxbridge_archive::quote;
use ctxbridge_prune::simulate::conversation::Message;
use ctxbridge_prune::simulate::plot::grouped;
use ctxbridge_prune::{self as prune, Boundaries, CHARS_PER_TOKEN, Cut, SWITCH_VAR, Size};

/// Characters of a text that are shown.
const BEGINS: usize = 60;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge prune preview session.jsonl            the newest request
  ctxbridge prune preview session.jsonl --at 40    the fortieth

The settings are those of config.toml and the environment: CLAUDE_TEXT_PRUNE_KEEP, _TAIL_TOKENS, _STEP, _SCOPE and so on.")]
pub(super) struct PreviewArgs {
    /// A session's JSON lines
    transcript: PathBuf,
    /// Which request of the session; the first is 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
}

/// A text that would be cut.
struct Row<'a> {
    cut: Cut,
    line: usize,
    kind: &'static str,
    text: &'a str,
}

impl Row<'_> {
    fn handle(&self) -> Option<String> {
        self.cut.handle.as_ref().map(ToString::to_string)
    }
}

impl PreviewArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let Some(conversation) = read(&self.transcript, output)? else { return Ok(Answer::No) };
        let requests = conversation.calls.len();
        let request = self.at.map_or(requests, |at| usize::try_from(at).unwrap_or(usize::MAX));
        if request > requests {
            output.note(&format!("there is no request {request}; the session has {}", grouped(requests as u64)));
            return Ok(Answer::No);
        }
        let settings = settings(output);
        if !settings.enabled {
            output.note(&format!("nothing is cut while {SWITCH_VAR} is off"));
        }
        let sent = conversation.sent(request - 1);
        let mut boundaries = Boundaries::new(&settings);
        let mut size = Size::default();
        for message in sent {
            boundaries.push(&message.value);
            size += Size::of(&message.value);
        }
        let boundary = boundaries.now();
        let mut rows = Vec::new();
        let old = sent.iter().enumerate().take(boundary.tools.max(boundary.text));
        for (index, message) in old.filter(|(index, _)| !boundaries.is_kept(*index)) {
            for cut in prune::cuts(index, &message.value, boundary, &settings) {
                let (kind, text) = place(message, &cut);
                rows.push(Row { line: message.line, kind, text, cut });
            }
        }
        if output.json {
            return self.as_json(&rows, request, requests, size, output);
        }
        if rows.is_empty() {
            output.line(format!("request {} of {}: nothing would be cut", grouped(request as u64), grouped(requests as u64)))?;
            return Ok(Answer::Yes);
        }
        table(&rows, output)?;
        let saved = saved(&rows);
        output.line("")?;
        output.line(format!(
            "request {} of {}: {} would be cut, {} characters: about {} of {} tokens",
            grouped(request as u64),
            grouped(requests as u64),
            count(rows.len() as u64, "text"),
            grouped(saved),
            grouped(tokens(saved)),
            grouped(size.tokens()),
        ))?;
        Ok(Answer::Yes)
    }

    fn as_json(
        &self,
        rows: &[Row<'_>],
        request: usize,
        requests: usize,
        size: Size,
        output: &mut Output,
    ) -> anyhow::Result<Answer> {
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
        Ok(Answer::Yes)
    }
}

fn table(rows: &[Row<'_>], output: &mut Output) -> anyhow::Result<()> {
    let handle = |row: &Row<'_>| row.handle().unwrap_or_else(|| "-".to_owned());
    let widest = rows.iter().map(|row| handle(row).len()).max().unwrap_or(0).max("handle".len());
    output.line(format!("{:>7}  {:widest$}  {:11}  {:>9}  {:>6}  begins", "line", "handle", "kind", "before", "after"))?;
    for row in rows {
        output.line(format!(
            "{:>7}  {:widest$}  {:11}  {:>9}  {:>6}  {}",
            row.line,
            handle(row),
            row.kind,
            grouped(row.cut.original_chars),
            grouped(row.cut.original_chars - row.cut.saved_chars()),
            begins(row.text),
        ))?;
    }
    Ok(())
}

/// The kind of what a cut shortens, and its text.
fn place<'a>(message: &'a Message, cut: &Cut) -> (&'static str, &'a str) {
    let kind = match message.value["message"]["content"][cut.block_index]["type"].as_str() {
        Some("tool_use") => "input",
        Some("tool_result") => "tool result",
        _ => "text",
    };
    (kind, prune::text_at(&message.value, cut.block_index, cut.part).unwrap_or_default())
}

/// The first characters, on one line and with nothing that a terminal would obey.
fn begins(text: &str) -> String {
    // What is quoted may be megabytes; white space makes it shorter.
    let start: String = text.chars().take(4 * BEGINS).collect();
    quote::cut(&quote::line(&start), BEGINS)
}

fn saved(rows: &[Row<'_>]) -> u64 {
    rows.iter().map(|row| row.cut.saved_chars()).sum()
}

fn tokens(chars: u64) -> u64 {
    (chars as f64 / CHARS_PER_TOKEN) as u64
}
