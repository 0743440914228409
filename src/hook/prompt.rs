//! The user sent a prompt: what is new is archived, and the window is looked at. The user waits for this.

use std::time::Duration;

use super::scene::{HookError, Scene};
use super::{Event, Reply, background, note, recall};
use crate::autopilot::{self, Observation, Phase, Seen, Usage};
use ctxbridge_archive::ingest::Pass;
use ctxbridge_archive::store::Store;
use ctxbridge_archive::store::sqlite::Patience;

/// How long to wait for another process that is at the same session's state.
const STATE_PATIENCE: Duration = Duration::from_millis(100);

pub(super) fn run(scene: &Scene) -> Result<Reply, HookError> {
    let mut reply = Reply::default();
    let mut recalled = None;
    let archived = scene.open(Patience::Hurried).and_then(|mut store| {
        let archived = scene.archive(&mut *store, false);
        recalled = recalled_with(scene, Some(&mut *store));
        archived
    });
    // Without an archive there are bundles.
    if archived.is_err() && recalled.is_none() {
        recalled = recalled_with(scene, None);
    }
    note::prompt(scene);
    if let Some(observation) = look(scene, archived.as_ref().ok().and_then(Option::as_ref), true)
        && autopilot::should_say(&scene.config.autopilot, &observation)
    {
        let report = autopilot::report(&observation);
        reply.tell(&report);
        // The model has something to do with it when it begins to get tight; to repeat it costs tokens each time.
        if observation.changed() {
            reply.context = Some(report);
        }
    }
    if let Some(recalled) = recalled {
        reply.context = Some(reply.context.map_or_else(|| recalled.clone(), |report| format!("{report}\n\n{recalled}")));
    }
    match archived {
        Ok(_) => Ok(reply),
        Err(error) => {
            if let Some(told) = scene.failed(Event::UserPromptSubmit, &error) {
                reply.tell(&told);
            }
            Ok(reply)
        }
    }
}

fn recalled_with(scene: &Scene, store: Option<&mut dyn Store>) -> Option<String> {
    let prompt = scene.input.prompt.as_deref().filter(|_| scene.config.recall.prompts)?;
    recall::for_text(scene, store, recall::Window::Session, prompt)
}

/// Takes note of how full the window is; nothing when that cannot be known or is not wanted.
pub(super) fn look(scene: &Scene, pass: Option<&Pass>, is_prompt: bool) -> Option<Observation> {
    let config = &scene.config.autopilot;
    let session = scene.input.session.as_deref().filter(|_| config.enabled)?;
    let (tokens, turns, window) = match pass {
        Some(pass) => {
            let interpreter = &pass.interpreter;
            (interpreter.context_tokens(), Some(interpreter.turns().into()), interpreter.seen().window)
        }
        None => match autopilot::usage_at_end(&scene.transcript().ok()??) {
            Usage::Tokens(tokens) => (tokens, None, None),
            Usage::Compacted | Usage::Unknown => return None,
        },
    };
    let states = autopilot::Store::in_dir(&scene.data);
    let change = |state: &mut autopilot::State| {
        state.window = window.or(state.window);
        if is_prompt {
            state.prompt_seen(tokens);
        }
        let turns = turns.unwrap_or_else(|| state.history.last().map_or(0, |point| point.turns));
        let window = config.window_or(state.window);
        let window = scene.compacts_at.map_or(window, |smaller| window.min(smaller));
        let observation = state.observe(Seen { tokens, window, turns, at_ms: scene.now_ms }, config);
        let is_tight = is_prompt && observation.changed() && observation.phase == Phase::Optimise;
        let optimises = is_tight && scene.config.archive.auto_optimize;
        if optimises {
            state.optimised();
        }
        (observation, optimises)
    };
    let (observation, optimises) = states.update(session, STATE_PATIENCE, change).ok()?;
    if optimises {
        background::start(&scene.program, &["archive", "optimize", "--background"]).ok();
    }
    Some(observation)
}
