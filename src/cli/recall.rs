//! `ctxbridge recall`

use std::io::{IsTerminal, Write};

use serde_json::json;

use super::archive::{note_owner, open, printable, show_found, show_handle};
use super::output::Output;
use super::{Answer, Usage, finding, server};
use ctxbridge_archive::blocks::{self, Original};
use ctxbridge_archive::recall::{self, Reference, turn_digits};
use ctxbridge_archive::search::Request;
use ctxbridge_archive::store::StoredSummary;
use ctxbridge_prune::Handle;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge recall ctx:1a2b3c4d       a turn, as the context says that is restored after a compaction
  ctxbridge recall ctx:1a2b3c4d.0     a text, as the rest of one says that was pruned from a request
  ctxbridge recall ctx:summary.12     a compaction's summary
  ctxbridge recall ctx:team.12        the same of a colleague's session, on the team's server
  ctxbridge recall the lock timeout   the best turns on that, with handles

A text comes out as it was, to the byte; on a terminal, without control characters.")]
pub(super) struct RecallArgs {
    /// The handle of a turn, of a text in a message, or of a summary; or words to look for
    #[arg(required = true, value_name = "HANDLE|QUERY")]
    what: Vec<String>,
}

/// Turns that a query brings.
const BEST: usize = 5;

#[derive(Clone, Debug)]
enum What {
    Handle(Reference),
    Query(String),
}

/// One word that looks as handles do is meant as one; anything else is looked for.
fn parse(words: &[String]) -> anyhow::Result<What> {
    let [word] = words else { return Ok(What::Query(words.join(" "))) };
    match word.parse::<Reference>() {
        // `facade` is a word.
        Ok(Reference::Turn(digits)) if digits.len() < 8 && !word.starts_with("ctx:") => Ok(What::Query(word.clone())),
        Ok(reference) => Ok(What::Handle(reference)),
        Err(error) if word.starts_with("ctx:") => Err(Usage(format!("{word}: {error}")).into()),
        Err(_) => Ok(What::Query(word.clone())),
    }
}

impl RecallArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let reference = match parse(&self.what)? {
            What::Handle(reference) => reference,
            What::Query(query) => return look_for(&query, output),
        };
        let handle = match &reference {
            Reference::Turn(digits) => {
                // "deadbeef" may be a word.
                let is_known = !open(output)?.turns_by_id(&turn_digits(digits).unwrap_or_default())?.is_empty();
                if let [word] = &self.what[..]
                    && !is_known
                    && !word.starts_with("ctx:")
                {
                    output.note(&format!("no turn has the handle {word}; turns with the word instead"));
                    return look_for(word, output);
                }
                let answer = show_handle(digits, output)?;
                if answer == Answer::Yes {
                    used(digits, output);
                }
                return Ok(answer);
            }
            Reference::Summary(entry) => {
                let found = open(output)?.summary_of(*entry)?;
                return show_summary(&reference, found, output);
            }
            Reference::TeamSummary(entry) => {
                let found = server::on_server(output).map_or(Ok(None), |mut server| server.summary_of(*entry))?;
                return show_summary(&reference, found, output);
            }
            Reference::Text(handle) => handle,
        };
        let folder = std::env::current_dir().unwrap_or_default();
        let original = recall::text(handle, &folder, || -> anyhow::Result<_> {
            let mut store = open(output)?;
            Ok(blocks::in_archive(handle, &mut *store)?)
        })?;
        let Some(original) = original else {
            output.note(&format!("no transcript and no archived session has a message with the handle {handle}"));
            return Ok(Answer::No);
        };
        if original.is_ambiguous {
            output.note(&format!("several messages have the handle {handle}; this is the newest"));
        }
        show(handle, &original, output)
    }
}

fn look_for(query: &str, output: &mut Output) -> anyhow::Result<Answer> {
    let folder = std::env::current_dir().ok().map(|folder| folder.to_string_lossy().into_owned());
    let request = Request { limit: BEST, folder, ..Request::new(query) };
    let found = finding::search(&request, false, output)?;
    show_found(&request, &found, output)
}

/// Takes note that a turn was recalled: it is worth more from now on. That it was shown does not depend on it.
fn used(handle: &str, output: &Output) {
    let note = || {
        let mut store = open(output)?;
        let found = store.turns_by_id(&turn_digits(handle).unwrap_or_default())?;
        let entry = found.first().map(|turn| turn.entry);
        anyhow::Ok(store.touch(entry.as_slice(), jiff::Timestamp::now().as_millisecond())?)
    };
    if let Err(error) = note() {
        output.note(&format!("that it was recalled is not noted: {error}"));
    }
}

fn show_summary(handle: &Reference, found: Option<(String, StoredSummary)>, output: &mut Output) -> anyhow::Result<Answer> {
    let Some((session, summary)) = found else {
        output.note(&format!("the archive has no summary {handle}"));
        return Ok(Answer::No);
    };
    if output.json {
        let owner = &summary.owner;
        output.value(&json!({ "handle": handle.to_string(), "session": session, "owner": owner, "text": summary.text }))?;
    } else {
        note_owner(summary.owner.as_deref(), output);
        output.line(printable(&summary.text))?;
    }
    Ok(Answer::Yes)
}

fn show(handle: &Handle, original: &Original, output: &mut Output) -> anyhow::Result<Answer> {
    if output.json {
        output.value(&json!({
            "handle": handle.to_string(),
            "session": original.session,
            "transcript": original.path,
            "uuid": original.uuid,
            "is_ambiguous": original.is_ambiguous,
            "text": original.text,
        }))?;
    } else if std::io::stdout().is_terminal() {
        output.line(printable(&original.text))?;
    } else {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(original.text.as_bytes())?;
        stdout.flush()?;
    }
    Ok(Answer::Yes)
}
