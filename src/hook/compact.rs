//! Hooks before and after a compaction.

use std::time::{Duration, Instant};

use super::context::{HookContext, HookError};
use super::mod_state::ModState;
use super::{Event, HookReply, PendingWrite, prompt};
use crate::autopilot::{self, GateDecision, Observation, Trigger, WindowState, gate};
use ctxbridge_archive::learn::{self, LearningPatterns};
use ctxbridge_archive::store::{Session, Store};
use ctxbridge_archive::{instructions, snapshot};

/// Time to wait for another process that holds the same session's state: the decision about blocking must be right.
const STATE_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit for extracting learnings before a compaction.
const LEARNING_TIMEOUT: Duration = Duration::from_millis(1_000);

/// Time limit for earlier snapshots that are missing; its own is always taken.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_millis(500);

/// Archives everything before it leaves the window, then gives the client instructions for its summary, or blocks the compaction.
pub(super) fn before(context: &HookContext) -> Result<HookReply, HookError> {
    let announced = |context_tokens, is_blocked| {
        let (at_ms, cause) = (context.now_ms, context.input.trigger.clone());
        context.input.session.clone().map(|session| PendingWrite::Compaction {
            session,
            at_ms,
            cause,
            context_tokens,
            is_blocked,
        })
    };
    let mut store = context.open_or_spool(announced(None, false).as_slice())?;
    let archived = context.archive(&mut *store, true);
    let observation = prompt::observe_window(context, archived.as_ref().ok().and_then(Option::as_ref), false);
    // What could not be archived must not stay in the way of a compaction: only what is safe is held back.
    let block = archived.as_ref().ok().and_then(|_| block_reason(context, observation.as_ref()));
    let session = context.input.session.as_deref().ok_or(HookError::Missing("session_id"))?;
    if let Some(compaction) = announced(observation.map(|seen| seen.tokens), block.is_some()) {
        context.write_or_spool(&mut *store, &compaction)?;
    }
    if block.is_some() {
        return Ok(HookReply { block, ..HookReply::default() });
    }
    // Clients run this hook only where no module answers.
    ModState::in_dir(&context.data).note_own_compaction(session, context.input.trigger.as_deref(), context.now_ms);
    let found = store.session(session)?;
    if let Some(found) = &found {
        learn(context, &mut *store, found);
    }
    let text = match &found {
        Some(found) => instructions::instructions(&mut *store, found, context.config.archive.instruction_budget)?,
        None => String::new(),
    };
    if let Some(found) = &found {
        let taken = snapshot::take_snapshots(&mut *store, found, Some(Instant::now() + SNAPSHOT_TIMEOUT)).map(drop);
        note(context, taken.err());
    }
    drop(store);
    if let Err(error) = archived {
        context.handle_failure(Event::PreCompact, &error);
    }
    Ok(HookReply { instructions: Some(text).filter(|text| !text.is_empty()), ..HookReply::default() })
}

/// Extracts learnings now, since the conversation so far leaves the window. The end of the session handles the rest.
fn learn(context: &HookContext, store: &mut dyn Store, session: &Session) {
    let (patterns, problem) = LearningPatterns::of_user();
    let learned = learn::learn_from_session(store, session, &patterns, Some(Instant::now() + LEARNING_TIMEOUT));
    context.measured().learnings += learned.as_ref().map_or(0, |learned| learned.learnings as u64);
    note(context, problem);
    note(context, learned.err());
}

/// Logs an error that is not worth telling the user.
fn note(context: &HookContext, error: Option<impl std::fmt::Display>) {
    if let Some(error) = error {
        // Where that cannot be written either, there is nobody to remember.
        context.log().note(Event::PreCompact, context.input.session.as_deref(), &error.to_string(), context.now_ms).ok();
    }
}

fn block_reason(context: &HookContext, seen: Option<&Observation>) -> Option<String> {
    let trigger = Trigger::named(context.input.trigger.as_deref()?)?;
    let session = context.input.session.as_deref()?;
    let decide = |state: &mut WindowState| match gate(&context.config.hooks, trigger, seen, state) {
        GateDecision::Block { reason } => {
            state.record_block(context.now_ms);
            Some(reason)
        }
        GateDecision::Allow => None,
    };
    // Where it cannot be remembered that this one was blocked, the next one would be as well.
    autopilot::WindowStateStore::in_dir(&context.data).update(session, STATE_LOCK_TIMEOUT, decide).ok()?
}

/// Stores the client's summary, from which the conversation continues.
pub(super) fn after(context: &HookContext) -> Result<HookReply, HookError> {
    let (session, text) = (context.input.session.clone(), context.input.compact_summary.clone());
    let summary = session.zip(text).map(|(session, text)| PendingWrite::Summary { session, text, at_ms: context.now_ms });
    let mut store = context.open_or_spool(summary.as_slice())?;
    let archived = context.archive(&mut *store, false).map(drop);
    if let Some(summary) = &summary {
        context.write_or_spool(&mut *store, summary)?;
    }
    archived.map(|()| HookReply::default())
}
