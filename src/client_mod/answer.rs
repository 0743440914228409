//! The answer to a compaction.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::autopilot::WindowStateStore;
use crate::hook::mod_state::{AnsweredCompaction, ModState};
use crate::hook::{HookContext, HookError};
use ctxbridge_archive::preserved::since_last_compaction;
use ctxbridge_archive::transcript_paths;
use ctxbridge_common::files;
use ctxbridge_prune::compaction::{self, AnswerRow, Declined, Row};
use ctxbridge_prune::simulate::ReplayConversation;
use ctxbridge_prune::window::reserve_tokens;
use ctxbridge_prune::{PruneSettings, SWITCH_VAR};

/// Input of the module, beside what hooks get.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct CompactionRequest {
    /// The sub-agent whose conversation it is.
    pub agent_id: Option<String>,
    /// The messages.
    pub messages: Vec<Row>,
}

/// Reasons why the client is to compact by itself.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The user switched it off.
    #[error("pruning is switched off ({0})")]
    SwitchedOff(&'static str),
    /// There is no transcript, or not where the client has them.
    #[error("no transcript of this session was found in the client's folder")]
    NoTranscript,
    /// It is too much to archive while the client waits.
    #[error("the session is not archived yet; that goes on in the background")]
    NotArchived,
    /// It cannot be archived.
    #[error(transparent)]
    Archive(#[from] HookError),
    /// The transcript cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The transcript.
        path: PathBuf,
        /// The error from the system.
        cause: std::io::Error,
    },
    /// The policy declines.
    #[error(transparent)]
    Declined(#[from] Declined),
}

/// Returns the transcript of a session, which the module does not name.
pub fn transcript_of(context: &HookContext) -> Option<PathBuf> {
    transcript_paths::transcript_of(context.client.as_deref()?, context.input.session.as_deref()?)
}

/// Answers a compaction: archives what is new, then folds. Notes the outcome for whoever asks.
///
/// # Errors
/// If the client is to compact by itself.
pub fn answer(context: &HookContext, request: &CompactionRequest) -> Result<Vec<AnswerRow>, AnswerError> {
    let found = answer_unnoted(context, request);
    let (rows, reason) = match &found {
        Ok(rows) => (Some(rows.len()), None),
        Err(error) => (None, Some(error.to_string())),
    };
    ModState::in_dir(&context.data).note_answer(&AnsweredCompaction {
        at_ms: context.now_ms,
        session: context.input.session.clone().unwrap_or_default(),
        cause: context.input.trigger.clone(),
        messages_before: request.messages.len(),
        messages_after: rows,
        reason,
    });
    found
}

fn answer_unnoted(context: &HookContext, request: &CompactionRequest) -> Result<Vec<AnswerRow>, AnswerError> {
    let settings = settings(context);
    if !settings.enabled {
        return Err(AnswerError::SwitchedOff(SWITCH_VAR));
    }
    let main = context.transcript()?.ok_or(AnswerError::NoTranscript)?;
    let path = match &request.agent_id {
        Some(agent) => transcript_paths::agent_transcripts(&main, std::slice::from_ref(agent))
            .into_iter()
            .find(|path| is_of_agent(path, agent))
            .ok_or(AnswerError::NoTranscript)?,
        None => main.clone(),
    };
    let mut store = context.open_or_spool(&[])?;
    if context.archive(&mut *store, request.agent_id.is_some())?.is_none() {
        return Err(AnswerError::NotArchived);
    }
    drop(store);
    let bytes = files::read(&path).map_err(|cause| AnswerError::Read { path, cause })?;
    let recent = since_last_compaction(&bytes);
    let conversation = match request.agent_id {
        Some(_) => ReplayConversation::read_agent(recent),
        None => ReplayConversation::read(recent).0,
    };
    let settings = PruneSettings { reserve_tokens: reserve_tokens(conversation.version.as_deref()), ..settings };
    Ok(compaction::answer(&request.messages, &conversation, &settings)?)
}

fn is_of_agent(path: &Path, agent: &str) -> bool {
    path.file_stem().is_some_and(|stem| stem.to_string_lossy().strip_prefix("agent-") == Some(agent))
}

/// The settings of the client that asks: it hands its environment down.
fn settings(context: &HookContext) -> PruneSettings {
    let known = WindowStateStore::in_dir(&context.data).model_windows();
    let settings = PruneSettings { model_windows: known, ..context.config.prune.clone() };
    settings.with_env(|name| std::env::var(name).ok())
}
