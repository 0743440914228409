//! Keeping the client patched: a process in the background patches an upgrade, and the next session's start says so.

use super::background;
use super::context::HookContext;
use ctxbridge_patch::keep;
use ctxbridge_patch::notice::{lost_by_upgrade, lost_patch};

/// Starts to patch what `claude` runs next, if it is an upgrade that has lost its patch and the user wants it kept.
pub(super) fn start(context: &HookContext) {
    if context.config.patch.keep && keep::find_due(&context.data, context.path_variable.as_deref()).is_some() {
        // Where it cannot be started, the next hook does.
        background::start(&context.program, &["patch", "keep", "--background"]).ok();
    }
}

/// The same, and returns a line for the user: what came of the last time, or that the client has lost its patch and nobody will
/// bring it back.
pub(super) fn start_and_tell(context: &HookContext) -> Option<String> {
    let path = context.path_variable.as_deref();
    if context.config.patch.keep && lost_by_upgrade(&context.data, path).is_some() {
        start(context);
        return news(context);
    }
    let lost = lost_patch(&context.data, path).map(|lost| lost.text);
    lost.or_else(|| news(context))
}

fn news(context: &HookContext) -> Option<String> {
    keep::take_news(&context.data).map(|news| format!("ctxbridge: {news}"))
}
