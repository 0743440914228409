//! Before and after a compaction.

use std::time::{Duration, Instant};

use super::scene::{HookError, Scene};
use super::{Event, Owed, Reply, prompt};
use crate::autopilot::{self, Decision, Observation, State, Trigger, gate};
use ctxbridge_archive::learn::{self, Patterns};
use ctxbridge_archive::store::{Session, Store};
use ctxbridge_archive::{instructions, snapshot};

/// How long to wait for another process that is at the same session's state: what decides about blocking has to be right.
const STATE_PATIENCE: Duration = Duration::from_secs(1);

/// How long a compaction waits for what was learned.
const LEARNING: Duration = Duration::from_millis(1_000);

/// How long it waits for earlier snapshots that are missing; its own is taken in any case.
const SNAPSHOT: Duration = Duration::from_millis(500);

/// Everything is archived for the last time before it goes, the client is told what to keep, or held back.
pub(super) fn before(scene: &Scene) -> Result<Reply, HookError> {
    let announced = |context_tokens, is_blocked| {
        let (at_ms, cause) = (scene.now_ms, scene.input.trigger.clone());
        scene.input.session.clone().map(|session| Owed::Compaction { session, at_ms, cause, context_tokens, is_blocked })
    };
    let mut store = scene.open_for(announced(None, false).as_slice())?;
    let archived = scene.archive(&mut *store, true);
    let observation = prompt::look(scene, archived.as_ref().ok().and_then(Option::as_ref), false);
    // What could not be archived must not stay in the way of a compaction: only what is safe is held back.
    let block = archived.as_ref().ok().and_then(|_| held_back(scene, observation.as_ref()));
    let session = scene.input.session.as_deref().ok_or(HookError::Missing("session_id"))?;
    if let Some(compaction) = announced(observation.map(|seen| seen.tokens), block.is_some()) {
        scene.pay(&mut *store, &compaction)?;
    }
    if block.is_some() {
        return Ok(Reply { block, ..Reply::default() });
    }
    let found = store.session(session)?;
    if let Some(found) = &found {
        learn(scene, &mut *store, found);
    }
    let text = match &found {
        Some(found) => instructions::instructions(&mut *store, found, scene.config.archive.instruction_budget)?,
        None => String::new(),
    };
    if let Some(found) = &found {
        let taken = snapshot::pass(&mut *store, found, Some(Instant::now() + SNAPSHOT)).map(drop);
        note(scene, taken.err());
    }
    drop(store);
    if let Err(error) = archived {
        scene.failed(Event::PreCompact, &error);
    }
    Ok(Reply { instructions: Some(text).filter(|text| !text.is_empty()), ..Reply::default() })
}

/// What was said so far goes out of the window: what was learned in it is looked for now. What there is no time for, the end of the session looks at.
fn learn(scene: &Scene, store: &mut dyn Store, session: &Session) {
    let (patterns, problem) = Patterns::of_user();
    let learned = learn::pass(store, session, &patterns, Some(Instant::now() + LEARNING));
    scene.measured().learnings += learned.as_ref().map_or(0, |learned| learned.learnings as u64);
    note(scene, problem);
    note(scene, learned.err());
}

/// What is not worth telling anybody is in the log.
fn note(scene: &Scene, error: Option<impl std::fmt::Display>) {
    if let Some(error) = error {
        // Where that cannot be written either, there is nobody to remember.
        scene.log().note(Event::PreCompact, scene.input.session.as_deref(), &error.to_string(), scene.now_ms).ok();
    }
}

fn held_back(scene: &Scene, seen: Option<&Observation>) -> Option<String> {
    let trigger = Trigger::named(scene.input.trigger.as_deref()?)?;
    let session = scene.input.session.as_deref()?;
    let decide = |state: &mut State| match gate(&scene.config.hooks, trigger, seen, state) {
        Decision::Block { reason } => {
            state.blocked(scene.now_ms);
            Some(reason)
        }
        Decision::Allow => None,
    };
    // Where it cannot be remembered that this one was blocked, the next one would be as well.
    autopilot::Store::in_dir(&scene.data).update(session, STATE_PATIENCE, decide).ok()?
}

/// What the client made of the conversation is worth keeping: it went on from there.
pub(super) fn after(scene: &Scene) -> Result<Reply, HookError> {
    let (session, text) = (scene.input.session.clone(), scene.input.compact_summary.clone());
    let summary = session.zip(text).map(|(session, text)| Owed::Summary { session, text, at_ms: scene.now_ms });
    let mut store = scene.open_for(summary.as_slice())?;
    let archived = scene.archive(&mut *store, false).map(drop);
    if let Some(summary) = &summary {
        scene.pay(&mut *store, summary)?;
    }
    archived.map(|()| Reply::default())
}
