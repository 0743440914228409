//! `ctxbridge mod answer` and `mod loaded`, which the plugin runs.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use crate::cli::hook::context;
use crate::cli::object_input::read_object;
use crate::cli::{CommandOutcome, Output};
use crate::client_mod::{CompactionRequest, answer, transcript_of};
use crate::hook::mod_state::{LoadedModule, ModState};
use crate::hook::{Event, HookContext, HookInput, MAX_INPUT_BYTES};
use ctxbridge_common::paths;
use ctxbridge_prune::compaction::AnswerRow;

/// Maximum bytes of an answer: the client reads no more.
const MAX_ANSWER_BYTES: usize = 4_000_000;

/// Time to wait for the messages, which can be many. The plugin gives an answer 8 s, and this leaves enough of them for it.
const MESSAGES_TIMEOUT: Duration = Duration::from_secs(5);

/// Time to wait for the note of a session, for which the plugin gives 2 s.
const NOTE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  echo '{\"session_id\":\"…\",\"trigger\":\"auto\",\"messages\":[]}' | ctxbridge mod answer

Prints {\"messages\": […]}, or {\"declined\": REASON} if the client is to compact by itself. Always exits 0; reasons are logged.")]
pub(super) struct AnswerArgs {}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  echo '{\"session_id\":\"…\"}' | ctxbridge mod loaded")]
pub(super) struct LoadedArgs {}

impl AnswerArgs {
    /// Never fails: the client would have to wait for its own compaction.
    pub fn run(&self, _output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let printed = answered().unwrap_or_else(|reason| json!({ "declined": reason }).to_string());
        // Whoever does not want to read it has gone.
        std::io::stdout().lock().write_all(printed.as_bytes()).ok();
        Ok(CommandOutcome::Yes)
    }
}

impl LoadedArgs {
    pub fn run(&self, _output: &mut Output) -> anyhow::Result<CommandOutcome> {
        if let Ok((context, _)) = called(NOTE_TIMEOUT)
            && context.left_out().is_none()
        {
            let HookInput { session, .. } = context.input;
            let loaded = LoadedModule { at_ms: context.now_ms, session: session.unwrap_or_default() };
            ModState::in_dir(&context.data).note_loaded(&loaded);
        }
        Ok(CommandOutcome::Yes)
    }
}

/// The plugin's input, and the bytes of it. A client that keeps the pipe open is not waited for.
fn called(timeout: Duration) -> Result<(HookContext, Vec<u8>), String> {
    let data = paths::data_dir().map_err(|error| error.to_string())?;
    let bytes = read_object(std::io::stdin(), MAX_INPUT_BYTES, timeout);
    let input = HookInput::parse(&bytes).map_err(|error| format!("the input is not a whole JSON object: {error}"))?;
    Ok((context(data, input), bytes))
}

fn answered() -> Result<String, String> {
    let (mut context, bytes) = called(MESSAGES_TIMEOUT)?;
    if context.left_out().is_some() {
        return Err("sessions of this folder are not archived".to_owned());
    }
    context.input.transcript = transcript_of(&context);
    let declined = |reason: String| {
        let session = context.input.session.as_deref();
        let noted = format!("a compaction is the client's: {reason}");
        context.log().note(Event::PreCompact, session, &noted, context.now_ms).ok();
        reason
    };
    let request: CompactionRequest =
        serde_json::from_slice(&bytes).map_err(|error| declined(format!("the messages have another shape: {error}")))?;
    let work = || answer(&context, &request);
    let rows: Vec<AnswerRow> = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(answered) => answered.map_err(|error| declined(error.to_string()))?,
        Err(_) => return Err(declined("a bug in ctxbridge; please report it".to_owned())),
    };
    let text = json!({ "messages": rows }).to_string();
    if text.len() > MAX_ANSWER_BYTES {
        return Err(declined("what stays is more than the client reads".to_owned()));
    }
    Ok(text)
}
