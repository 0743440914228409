//! Noting down in the project what was asked and done.

use jiff::Timestamp;

use super::scene::Scene;
use super::shown::Asked;
use super::{Event, recall};
use crate::bundle::{self, Bundles, Line, Op, Project, Thoroughness};
use ctxbridge_archive::quote::head;
use ctxbridge_redact::Redactor;
use ctxbridge_transcript::is_typed;

/// Characters of a text that secrets are looked for in: several times what is kept of any.
const LOOKED_AT: usize = 4_000;

/// Writes a line into the project's bundles, if it is wanted and there is a project. What fails is in the log, and nobody is told: the archive has
/// it as well.
pub(super) fn note(scene: &Scene, event: Event, op: impl FnOnce(&Project) -> Option<Op>) {
    let Some(session) = scene.input.session.as_deref().filter(|_| scene.config.bundle.enabled) else { return };
    let Some(project) = scene.project() else { return };
    let Some(op) = op(&project) else { return };
    // Before it is cut to what is kept: half a secret is not known as one. Of more than that nothing is kept.
    let short = |text: &str| project.shorten(head(text, LOOKED_AT), scene.home.as_deref());
    let (redactor, _) = Redactor::of(&scene.config.redact);
    let op = op.map(&mut |text| redactor.redact(&short(text)).text.into_owned()).trimmed();
    let at = Timestamp::from_millisecond(scene.now_ms).unwrap_or_default();
    let bundles = Bundles::of(&project);
    let is_new = matches!(bundles.exist(), Ok(false));
    let asked = Asked::of(&scene.data, session);
    if matches!(op, Op::Prompt(_)) {
        asked.put(&Line { at: Some(at), op: op.clone() });
    }
    match bundle::record(&bundles, session, op, at, &|| asked.get()) {
        // Files that appear in a repository are no surprise to anybody.
        Ok(true) if is_new => scene.log().owe(
            "ctxbridge: what is asked and done in this project is noted down in .ctxbridge/bundles, to be committed with it. \
             `enabled = false` below `[bundle]` in .ctxbridge/config.toml switches that off.",
        ),
        Ok(_) => {}
        Err(error) => {
            // Where that cannot be written either, there is nobody to remember.
            scene.log().note(event, Some(session), &error.to_string(), scene.now_ms).ok();
        }
    }
}

/// A prompt; what the client says itself, and what it handles, is none.
pub(super) fn prompt(scene: &Scene) {
    let prompt = scene.input.prompt.as_deref().map(str::trim).filter(|prompt| is_typed(prompt));
    if let Some(prompt) = prompt {
        note(scene, Event::UserPromptSubmit, |_| Some(Op::Prompt(prompt.to_owned())));
    }
}

/// At the start of a session: what came with a clone or a pull is made ready to be found.
pub(super) fn make_ready(scene: &Scene) {
    if scene.config.recall.prompts
        && let Some(bundles) = scene.project().as_ref().and_then(recall::bundles)
    {
        recall::refreshed(scene, &bundles, Thoroughness::All);
    }
}
