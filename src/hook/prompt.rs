//! Hook for a prompt: archives new turns, checks the window and recalls related turns. The user waits for it.

use std::time::Duration;

use super::context::{HookContext, HookError};
use super::{Event, HookReply, background, bundle_recorder, recall};
use crate::autopilot::{self, ContextUsage, Observation, Phase, WindowReading};
use ctxbridge_archive::ingest::IngestReport;
use ctxbridge_archive::store::Store;
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_prune::window::{DEFAULT_WINDOW_TOKENS, is_shown_by_requests, window_needed};
use ctxbridge_transcript::Interpreter;

/// Time to wait for another process that holds the same session's state.
const STATE_LOCK_TIMEOUT: Duration = Duration::from_millis(100);

pub(super) fn run(context: &HookContext) -> Result<HookReply, HookError> {
    let mut reply = HookReply::default();
    let mut recalled = None;
    let archived = context.open(LockPolicy::Interactive).and_then(|mut store| {
        let archived = context.archive(&mut *store, false);
        recalled = recalled_with(context, Some(&mut *store));
        archived
    });
    // Without an archive there are bundles.
    if archived.is_err() && recalled.is_none() {
        recalled = recalled_with(context, None);
    }
    bundle_recorder::remember_prompt(context);
    if let Some(observation) = observe_window(context, archived.as_ref().ok().and_then(Option::as_ref), true)
        && autopilot::should_report(&context.config.autopilot, &observation)
    {
        let report = autopilot::report(&observation);
        reply.tell(&report);
        // The model has something to do with it when it begins to get tight; to repeat it costs tokens each time.
        if observation.has_changed() {
            reply.context = Some(report);
        }
    }
    if let Some(recalled) = recalled {
        reply.context = Some(reply.context.map_or_else(|| recalled.clone(), |report| format!("{report}\n\n{recalled}")));
    }
    match archived {
        Ok(_) => Ok(reply),
        Err(error) => {
            if let Some(told) = context.handle_failure(Event::UserPromptSubmit, &error) {
                reply.tell(&told);
            }
            Ok(reply)
        }
    }
}

fn recalled_with(context: &HookContext, store: Option<&mut dyn Store>) -> Option<String> {
    let prompt = context.input.typed_prompt().filter(|_| context.config.recall.prompts)?;
    recall::context_for_text(context, store, recall::WindowContent::Session, prompt)
}

/// Records how full the window is; `None` if that is unknown or disabled.
pub(super) fn observe_window(context: &HookContext, pass: Option<&IngestReport>, is_prompt: bool) -> Option<Observation> {
    let config = &context.config.autopilot;
    let session = context.input.session.as_deref().filter(|_| config.enabled)?;
    let interpreter = pass.map(|pass| &pass.interpreter);
    let usage = match interpreter {
        Some(interpreter) => ContextUsage::Tokens(interpreter.context_tokens()),
        None => autopilot::usage_at_end(&context.transcript().ok()??),
    };
    if usage == ContextUsage::Unknown {
        return None;
    }
    let seen = interpreter.map(Interpreter::session_metadata);
    let (told, model) = (seen.and_then(|seen| seen.window), seen.and_then(|seen| seen.model.as_deref()));
    let states = autopilot::WindowStateStore::in_dir(&context.data);
    let known = states.model_windows();
    let change = |state: &mut autopilot::WindowState| {
        state.window = told.or(state.window);
        state.base_tokens = seen.and_then(|seen| seen.base_tokens).or(state.base_tokens);
        let tokens = match usage {
            ContextUsage::Tokens(tokens) => tokens,
            ContextUsage::Compacted(said) => state.tokens_after_compaction(said),
            ContextUsage::Unknown => 0,
        };
        if is_prompt {
            state.clear_block_if_answered(tokens);
        }
        let turns = interpreter.map(|interpreter| interpreter.turns().into());
        let turns = turns.unwrap_or_else(|| state.history.last().map_or(0, |point| point.turns));
        let window = autopilot::window_of(config, state.window, model, &known, tokens);
        let window = context.compact_window_tokens.map_or(window, |smaller| window.min(smaller));
        let observation = state.observe(WindowReading { tokens, window, turns, at_ms: context.now_ms }, config);
        let is_tight = is_prompt && observation.has_changed() && observation.phase == Phase::Optimize;
        let optimizes = is_tight && context.config.archive.auto_optimize;
        if optimizes {
            state.record_optimize_run();
        }
        (observation, optimizes)
    };
    let (observation, optimizes) = states.update(session, STATE_LOCK_TIMEOUT, change).ok()?;
    // A context above the smaller window shows the larger one.
    if let Some(model) = model {
        let context = seen.and_then(|seen| seen.context_tokens).filter(|_| is_shown_by_requests(model)).unwrap_or(0);
        let is_new = context > known.of(model).unwrap_or(DEFAULT_WINDOW_TOKENS);
        if let Some(window) = told.or_else(|| is_new.then(|| window_needed(context))) {
            // The next prompt tries again.
            states.learn_window(model, window, STATE_LOCK_TIMEOUT).ok();
        }
    }
    if optimizes {
        background::start(&context.program, &["archive", "optimize", "--background"]).ok();
    }
    Some(observation)
}
