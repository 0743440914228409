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

/// Writes what a tool did into the project's bundles, if it has any. A failure is only logged: the archive has the data as well.
pub(super) fn record_work(context: &HookContext, event: Event, op: impl FnOnce(&Project) -> Option<BundleAction>) {
    let Some((session, bundles, line)) = line_of(context, op) else { return };
    let asked = LastPrompt::of(&context.data, session);
    let at = line.at.unwrap_or_default();
    if let Err(error) = bundle::record(&bundles, session, line.action, at, &|| asked.get()) {
        // Where that cannot be written either, there is nobody to remember.
        context.log().note(event, Some(session), &error.to_string(), context.now_ms).ok();
    }
}

/// Remembers a prompt, which is written down with the first work that it leads to. Texts that the client sends or handles itself are
/// not prompts.
pub(super) fn remember_prompt(context: &HookContext) {
    let Some(prompt) = context.input.typed_prompt().map(str::trim) else { return };
    if let Some((session, _, line)) = line_of(context, |_| Some(BundleAction::Prompt(prompt.to_owned()))) {
        LastPrompt::of(&context.data, session).put(&line);
    }
}

/// The session, the project's bundles and the line for an action, without secrets; none where nothing is noted down.
fn line_of(context: &HookContext, op: impl FnOnce(&Project) -> Option<BundleAction>) -> Option<(&str, Bundles, BundleLine)> {
    let session = context.input.session.as_deref().filter(|_| context.config.bundle.enabled)?;
    let project = context.project()?;
    let bundles = Bundles::of(&project);
    if matches!(bundles.exist(), Ok(false)) {
        return None;
    }
    let op = op(&project)?;
    // Before it is cut to what is kept: half a secret is not known as one. Of more than that nothing is kept.
    let short = |text: &str| project.shorten(head(text, MAX_SCANNED_CHARS), context.home.as_deref());
    let (redactor, _) = Redactor::of(&context.config.redact);
    let op = op.map(&mut |text| redactor.redact(&short(text)).text.into_owned()).trimmed();
    let at = Timestamp::from_millisecond(context.now_ms).unwrap_or_default();
    Some((session, bundles, BundleLine { at: Some(at), action: op }))
}

/// Indexes bundles that came with a clone or a pull, at the start of a session.
pub(super) fn refresh_bundle_index(context: &HookContext) {
    if context.config.recall.prompts
        && let Some(bundles) = context.project().as_ref().and_then(recall::bundles)
    {
        recall::refreshed_index(context, &bundles, RefreshScope::All);
    }
}
