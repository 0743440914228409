//! Keeping the client patched: a process in the background patches an upgrade, and the next session's start says so.

use super::background;
use super::context::HookContext;
use ctxbridge_patch::keep;
use ctxbridge_patch::notice::{LostPatch, lost_patch};

/// Starts to patch what `claude` runs next, if it is an upgrade that has lost its patch and the user wants it kept.
pub(super) fn start(context: &HookContext) {
    if context.config.patch.keep
        && let Some(lost) = lost_patch(&context.data, context.path_variable.as_deref())
    {
        start_for(context, &lost);
    }
}

/// The same, and returns a line for the user: what came of the last time, or that the client has lost its patch and nobody will
/// bring it back.
pub(super) fn start_and_tell(context: &HookContext) -> Option<String> {
    match lost_patch(&context.data, context.path_variable.as_deref()) {
        Some(lost) if !context.config.patch.keep || lost.upgraded_patches.is_none() => Some(lost.text),
        lost => {
            // Before the next try begins, which holds the lock that this takes.
            let news = keep::take_news(&context.data).map(|news| format!("ctxbridge: {news}"));
            if let Some(lost) = lost {
                start_for(context, &lost);
            }
            news
        }
    }
}

fn start_for(context: &HookContext, lost: &LostPatch) {
    if keep::is_due(&context.data, lost) {
        // Where it cannot be started, the next hook does.
        background::start(&context.program, &["patch", "keep", "--background"]).ok();
    }
}
