//! Recording prompts and work in the project's bundles.

use jiff::Timestamp;

use super::context::HookContext;
use super::recall_history::LastPrompt;
use super::{Event, recall};
use crate::bundle::{self, BundleAction, BundleLine, Bundles, Project, RefreshScope};
use ctxbridge_archive::quote::head;
use ctxbridge_redact::Redactor;

/// Maximum number of characters of a text scanned for secrets: several times what is kept of it.
const MAX_SCANNED_CHARS: usize = 4_000;

/// Writes a line into the project's bundles, if bundles are enabled and there is a project. A failure is only logged: the archive
/// has the data as well.
pub(super) fn record_op(context: &HookContext, event: Event, op: impl FnOnce(&Project) -> Option<BundleAction>) {
    let Some(session) = context.input.session.as_deref().filter(|_| context.config.bundle.enabled) else { return };
    let Some(project) = context.project() else { return };
    let Some(op) = op(&project) else { return };
    // Before it is cut to what is kept: half a secret is not known as one. Of more than that nothing is kept.
    let short = |text: &str| project.shorten(head(text, MAX_SCANNED_CHARS), context.home.as_deref());
    let (redactor, _) = Redactor::of(&context.config.redact);
    let op = op.map(&mut |text| redactor.redact(&short(text)).text.into_owned()).trimmed();
    let at = Timestamp::from_millisecond(context.now_ms).unwrap_or_default();
    let bundles = Bundles::of(&project);
    let is_new = matches!(bundles.exist(), Ok(false));
    let asked = LastPrompt::of(&context.data, session);
    if matches!(op, BundleAction::Prompt(_)) {
        asked.put(&BundleLine { at: Some(at), action: op.clone() });
    }
    match bundle::record(&bundles, session, op, at, &|| asked.get()) {
        // Files that appear in a repository are no surprise to anybody.
        Ok(true) if is_new => context.log().queue_notice(
            "ctxbridge: what is asked and done in this project is noted down in .ctxbridge/bundles, to be committed with it. \
             `enabled = false` below `[bundle]` in .ctxbridge/config.toml switches that off.",
        ),
        Ok(_) => {}
        Err(error) => {
            // Where that cannot be written either, there is nobody to remember.
            context.log().note(event, Some(session), &error.to_string(), context.now_ms).ok();
        }
    }
}

/// Records a prompt. Texts that the client sends or handles itself are not prompts.
pub(super) fn record_prompt(context: &HookContext) {
    let prompt = context.input.typed_prompt().map(str::trim);
    if let Some(prompt) = prompt {
        record_op(context, Event::UserPromptSubmit, |_| Some(BundleAction::Prompt(prompt.to_owned())));
    }
}

/// Indexes bundles that came with a clone or a pull, at the start of a session.
pub(super) fn refresh_bundle_index(context: &HookContext) {
    if context.config.recall.prompts
        && let Some(bundles) = context.project().as_ref().and_then(recall::bundles)
    {
        recall::refreshed_index(context, &bundles, RefreshScope::All);
    }
}
