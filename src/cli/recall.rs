//! `ctxbridge recall`

use std::io::{IsTerminal, Write};

use serde_json::json;

use super::Answer;
use super::archive::{open, printable, show_handle, turn_digits};
use super::output::Output;
use crate::archive::blocks::{self, Original};
use crate::archive::place::client_folder;
use crate::prune::{Handle, NoHandle};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge recall ctx:1a2b3c4d       a turn, as the context says that is restored after a compaction
  ctxbridge recall ctx:1a2b3c4d.0     a text, as the rest of one says that was pruned from a request

A text comes out as it was, to the byte; on a terminal, without control characters.")]
pub(super) struct RecallArgs {
    /// The handle of a turn, or of a text in a message
    #[arg(value_parser = parse)]
    handle: What,
}

#[derive(Clone, Debug)]
enum What {
    Turn(String),
    Text(Handle),
}

fn parse(text: &str) -> Result<What, String> {
    if text.contains('.') {
        return text.parse().map(What::Text).map_err(|error: NoHandle| error.to_string());
    }
    turn_digits(text)
        .map(|_| What::Turn(text.to_owned()))
        .ok_or_else(|| "not the handle of a turn, such as ctx:1a2b3c4d".to_owned())
}

impl RecallArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let handle = match &self.handle {
            What::Turn(handle) => return show_handle(handle, output),
            What::Text(handle) => handle,
        };
        let Some(original) = find(handle, output)? else {
            output.note(&format!("no transcript and no archived session has a message with the handle {handle}"));
            return Ok(Answer::No);
        };
        if original.is_ambiguous {
            output.note(&format!("several messages have the handle {handle}; this is the newest"));
        }
        show(handle, &original, output)
    }
}

/// Near ones first: the transcripts of this project, then the archive, which knows the rest, then what is not archived.
fn find(handle: &Handle, output: &Output) -> anyhow::Result<Option<Original>> {
    let folder = std::env::current_dir().unwrap_or_default();
    let (own, others) = client_folder().map(|client| blocks::transcripts(&client, &folder)).unwrap_or_default();
    if let Some(original) = blocks::in_transcripts(handle, &own) {
        return Ok(Some(original));
    }
    let mut store = open(output)?;
    Ok(blocks::in_archive(handle, &mut store)?.or_else(|| blocks::in_transcripts(handle, &others)))
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
