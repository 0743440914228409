//! A session starts: after a compaction or a clear, the best of what was before comes back.

use std::path::Path;

use super::recall::Window;
use super::scene::{HookError, Scene};
use super::shown::Shown;
use super::{Reply, note, recall};
use ctxbridge_archive::search::Related;
use ctxbridge_archive::store::sqlite::Patience;
use ctxbridge_archive::store::{Session, Store, Turns};
use ctxbridge_archive::{context, words};
use ctxbridge_patch::notice;
use ctxbridge_transcript::Fields;

/// How long ago a session may have been cleared for another one to go on from it: the client does both at once.
const RECENTLY_MS: i64 = 10 * 60 * 1_000;

/// Turns of other sessions at most.
const MOST_ELSEWHERE: usize = 5;

pub(super) fn run(scene: &Scene) -> Result<Reply, HookError> {
    match scene.input.source.as_deref() {
        Some("compact") => restored(scene, "before a compaction", |store, session| Ok(store.session(session)?)),
        // The client goes on with a new session in the same folder; what was cleared is the one before.
        Some("clear") => restored(scene, "before it was cleared", |store, session| {
            let Some(folder) = scene.input.transcript.as_deref().and_then(Path::parent) else { return Ok(None) };
            // As the archive names it; the new session has no file yet.
            let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
            Ok(store.session_cleared(&folder.join("").to_string_lossy(), session, scene.now_ms - RECENTLY_MS)?)
        }),
        _ => {
            note::make_ready(scene);
            Shown::forget_old(&scene.data);
            Ok(notice::lost_patch(&scene.data, scene.path_variable.as_deref())
                .map(|lost| Reply::notice(lost.text))
                .unwrap_or_default())
        }
    }
}

/// What other sessions of the project said about the same as the newest turn of this one.
fn elsewhere(scene: &Scene, store: &mut dyn Store, session: &Session) -> Option<Vec<Related>> {
    let newest = store.turns(session.key, Turns::Newest(1)).ok()?.pop()?;
    let Fields { prompt, answer, .. } = words::fields(store, &newest).ok()?;
    session.folder.as_ref()?;
    let folders = recall::folders(scene, Some(session));
    let text = format!("{prompt}\n{answer}");
    recall::about(scene, store, &folders, Some(session), Window::Session, &text, MOST_ELSEWHERE)
}

fn restored(
    scene: &Scene,
    why: &str,
    find: impl Fn(&mut dyn Store, &str) -> Result<Option<Session>, HookError>,
) -> Result<Reply, HookError> {
    let mut store = scene.open(Patience::Hurried)?;
    // What cannot be archived now is no reason not to restore what was.
    let archived = scene.archive(&mut *store, false).map(drop);
    let mut reply = Reply::default();
    let session = scene.input.session.as_deref().ok_or(HookError::Missing("session_id"))?;
    if let Some(session) = find(&mut *store, session)? {
        let budget = scene.config.archive.restore_budget;
        // Without an index, or with one that cannot be read in time, what is of this session is enough.
        let related = if budget > 0 { elsewhere(scene, &mut *store, &session).unwrap_or_default() } else { Vec::new() };
        let restored = context::restore(&mut *store, &session, why, budget, scene.now_ms, &related)?;
        if !restored.text.is_empty() {
            let related = related.iter().filter(|related| restored.turns.contains(&related.turn.turn.id));
            // That it was used is worth knowing, but less than that it is used.
            recall::note_turns(scene, restored.turns.iter().copied(), related);
            if let Err(error) = store.touch(&restored.entries, scene.now_ms) {
                scene.log().failed(super::Event::SessionStart, Some(&session.session), &error.to_string(), scene.now_ms);
            }
            reply.context = Some(restored.text);
        }
    }
    drop(store);
    if let Err(error) = archived
        && let Some(told) = scene.failed(super::Event::SessionStart, &error)
    {
        reply.tell(&told);
    }
    Ok(reply)
}
