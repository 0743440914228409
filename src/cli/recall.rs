//! `ctxbridge recall`

use std::io::{IsTerminal, Write};

use serde_json::json;

use super::archive::{note_owner, show_found, show_handle};
use super::archives::open;
use super::output::Output;
use super::{CommandOutcome, UsageError, search_shared, server};
use ctxbridge_archive::handle_lookup::{self, OriginalText};
use ctxbridge_archive::message_range::{OriginalMessage, RangeError};
use ctxbridge_archive::quote::printable;
use ctxbridge_archive::search::SearchRequest;
use ctxbridge_archive::store::StoredSummary;
use ctxbridge_archive::{
    handle::{Reference, turn_digits},
    recall,
};
use ctxbridge_prune::{Handle, RangeHandle};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge recall ctx:1a2b3c4d             a turn, by a handle in restored context
  ctxbridge recall ctx:1a2b3c4d..5e6f7a8b   messages that were folded in a request
  ctxbridge recall ctx:1a2b3c4d.0           one text of them, such as a tool's result
  ctxbridge recall ctx:summary.12           the summary of a compaction
  ctxbridge recall ctx:team.12              a summary on the team server
  ctxbridge recall the lock timeout         the most relevant turns, with handles

Text is printed byte for byte; on a terminal, without control characters.")]
pub(super) struct RecallArgs {
    /// Handle of a turn, messages, text or summary, or words to search for
    #[arg(required = true, value_name = "HANDLE|QUERY")]
    what: Vec<String>,
}

/// Maximum number of turns shown for a query.
const MAX_QUERY_TURNS: usize = 5;

#[derive(Clone, Debug)]
enum RecallTarget {
    Handle(Reference),
    Query(String),
}

/// Parses the arguments: one word that looks like a handle is one; anything else is a query.
fn parse(words: &[String]) -> anyhow::Result<RecallTarget> {
    let [word] = words else { return Ok(RecallTarget::Query(words.join(" "))) };
    match word.parse::<Reference>() {
        // `facade` is a word.
        Ok(Reference::Turn(digits)) if digits.len() < 8 && !word.starts_with("ctx:") => Ok(RecallTarget::Query(word.clone())),
        Ok(reference) => Ok(RecallTarget::Handle(reference)),
        Err(error) if word.starts_with("ctx:") => Err(UsageError(format!("{word}: {error}")).into()),
        Err(_) => Ok(RecallTarget::Query(word.clone())),
    }
}

impl RecallArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let reference = match parse(&self.what)? {
            RecallTarget::Handle(reference) => reference,
            RecallTarget::Query(query) => return look_for(&query, output),
        };
        let handle = match &reference {
            Reference::Turn(digits) => {
                // "deadbeef" may be a word.
                let is_known = !open(output)?.turns_by_id(&turn_digits(digits).unwrap_or_default())?.is_empty();
                if let [word] = &self.what[..]
                    && !is_known
                    && !word.starts_with("ctx:")
                {
                    output.note(&format!("no turn has handle {word}; searching for it as text"));
                    return look_for(word, output);
                }
                let answer = show_handle(digits, output)?;
                if answer == CommandOutcome::Yes {
                    record_recall(digits, output);
                }
                return Ok(answer);
            }
            Reference::Summary(entry) => {
                let found = open(output)?.summary_of(*entry)?;
                return show_summary(&reference, found, output);
            }
            Reference::TeamSummary(entry) => {
                let found = server::server_for_reading(output).map_or(Ok(None), |mut server| server.summary_of(*entry))?;
                return show_summary(&reference, found, output);
            }
            Reference::Messages(range) => return show_messages(range, output),
            Reference::Text(handle) => handle,
        };
        let folder = std::env::current_dir().unwrap_or_default();
        let original = recall::find_text(handle, &folder, || -> anyhow::Result<_> {
            let mut store = open(output)?;
            Ok(handle_lookup::find_in_archive(handle, &mut *store)?)
        })?;
        let Some(original) = original else {
            output.note(&format!("no transcript and no archived session has a message with the handle {handle}"));
            return Ok(CommandOutcome::No);
        };
        if original.is_ambiguous {
            output.note(&format!("several messages have the handle {handle}; this is the newest"));
        }
        show(handle, &original, output)
    }
}

fn look_for(query: &str, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let folder = std::env::current_dir().ok().map(|folder| folder.to_string_lossy().into_owned());
    let request = SearchRequest { limit: MAX_QUERY_TURNS, folder, ..SearchRequest::new(query) };
    let found = search_shared::search(request.clone(), None, false, output)?;
    show_found(&request, &found, output)
}

/// Records that a turn was recalled, which raises its rank. A failure is only noted: the turn was shown already.
fn record_recall(handle: &str, output: &Output) {
    let note = || {
        let mut store = open(output)?;
        let found = store.turns_by_id(&turn_digits(handle).unwrap_or_default())?;
        let entry = found.first().map(|turn| turn.entry);
        anyhow::Ok(store.touch(entry.as_slice(), jiff::Timestamp::now().as_millisecond())?)
    };
    if let Err(error) = note() {
        output.note(&format!("could not record the recall: {error}"));
    }
}

fn show_summary(
    handle: &Reference,
    found: Option<(String, StoredSummary)>,
    output: &mut Output,
) -> anyhow::Result<CommandOutcome> {
    let Some((session, summary)) = found else {
        output.note(&format!("the archive has no summary {handle}"));
        return Ok(CommandOutcome::No);
    };
    if output.json {
        let owner = &summary.owner;
        output.value(&json!({ "handle": handle.to_string(), "session": session, "owner": owner, "text": summary.text }))?;
    } else {
        note_owner(summary.owner.as_deref(), output);
        output.line(printable(&summary.text))?;
    }
    Ok(CommandOutcome::Yes)
}

fn show(handle: &Handle, original: &OriginalText, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    if output.json {
        output.value(&json!({
            "handle": handle.to_string(),
            "session": original.session,
            "transcript": original.path,
            "uuid": original.uuid,
            "is_ambiguous": original.is_ambiguous,
            "text": original.text,
        }))?;
    } else {
        show_exact(&original.text, output)?;
    }
    Ok(CommandOutcome::Yes)
}

/// Prints a text byte for byte; on a terminal, without control characters.
fn show_exact(text: &str, output: &mut Output) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() {
        output.line(printable(text))?;
    } else {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()?;
    }
    Ok(())
}

fn show_messages(range: &RangeHandle, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let folder = std::env::current_dir().unwrap_or_default();
    let found = recall::find_messages(range, &folder, |search| -> anyhow::Result<()> {
        let mut store = open(output)?;
        Ok(search.search_archive(&mut *store)?)
    })?;
    let original = match found {
        Ok(original) => original,
        Err(error) => {
            let next = match error {
                RangeError::Unknown { .. } => "; `ctxbridge archive import` archives what the client has",
                _ => "",
            };
            output.note(&format!("{error}{next}"));
            return Ok(CommandOutcome::No);
        }
    };
    if output.json {
        let message = |message: &OriginalMessage| {
            let OriginalMessage { uuid, role, time, tools, content } = message;
            json!({ "uuid": uuid, "role": role, "time": time, "tools": tools, "content": content })
        };
        output.value(&json!({
            "handle": range.to_string(),
            "session": original.session,
            "transcript": original.path,
            "messages": original.messages.iter().map(message).collect::<Vec<_>>(),
        }))?;
    } else {
        show_exact(&original.text(), output)?;
    }
    Ok(CommandOutcome::Yes)
}
