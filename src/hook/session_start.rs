//! Hook for the start of a session: after a compaction or a clear, restores the best of the earlier turns.

use std::path::Path;

use super::context::{HookContext, HookError};
use super::recall::WindowContent;
use super::recall_history::AlreadyRecalled;
use super::{HookReply, bundle_recorder, patch_keep, project_watch, recall};
use crate::hook::mod_state::ModState;
use ctxbridge_archive::preserved::turns_in_window;
use ctxbridge_archive::project_memory::project_memory;
use ctxbridge_archive::search::RelatedTurn;
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_archive::store::{Session, Store, StoreReader, TurnSelection};
use ctxbridge_archive::{restore, turn_text};
use ctxbridge_common::paths;
use ctxbridge_transcript::SearchableText;

/// Maximum age of a cleared session from which another one continues: the client does both at once.
const CLEARED_WITHIN_MS: i64 = 10 * 60 * 1_000;

/// Maximum characters about the project for a new session.
const MAX_MEMORY_CHARS: usize = 600;

/// Maximum number of turns of other sessions.
const MAX_TURNS_ELSEWHERE: usize = 5;

/// Text for the model after a compaction that the mod answered: what was said is still there, or has a handle.
const FOLDED_HINT: &str = "Earlier steps of this conversation were folded; lines that begin with `[earlier context folded: ` stand for \
    them. They are kept word for word: the tool `recall` of the MCP server ctxbridge takes a handle such as \
    ctx:1a2b3c4d..5e6f7a8b, and so does `ctxbridge recall HANDLE` in a shell.";

/// `true` if the mod answered this compaction.
fn is_answered(context: &HookContext) -> bool {
    let session = context.input.session.as_deref();
    session.is_some_and(|session| ModState::in_dir(&context.data).has_just_answered(session, context.now_ms))
}

pub(super) fn run(context: &HookContext) -> Result<HookReply, HookError> {
    match context.input.source.as_deref() {
        Some("compact") if is_answered(context) => {
            Ok(HookReply { context: Some(FOLDED_HINT.to_owned()), ..HookReply::default() })
        }
        Some("compact") => restored(context, "before a compaction", |store, session| Ok(store.session(session)?)),
        // The client goes on with a new session in the same folder; what was cleared is the one before.
        Some("clear") => restored(context, "before it was cleared", |store, session| {
            let Some(folder) = context.input.transcript.as_deref().and_then(Path::parent) else { return Ok(None) };
            // As the archive names it; the new session has no file yet.
            let folder = paths::real(folder).unwrap_or_else(|_| folder.to_owned());
            Ok(store.session_cleared(&folder.join("").to_string_lossy(), session, context.now_ms - CLEARED_WITHIN_MS)?)
        }),
        _ => {
            bundle_recorder::refresh_bundle_index(context);
            project_watch::start(context);
            AlreadyRecalled::forget_old(&context.data);
            let mut reply = patch_keep::start_and_tell(context).map(HookReply::notice).unwrap_or_default();
            match memory_of_project(context) {
                Ok(memory) => reply.context = memory,
                // A lost patch is told whatever the archive is like.
                Err(error) => {
                    if let Some(told) = context.handle_failure(super::Event::SessionStart, &error) {
                        reply.tell(&told);
                    }
                }
            }
            Ok(reply)
        }
    }
}

/// Text for a new session about its project, if the user wants that.
fn memory_of_project(context: &HookContext) -> Result<Option<String>, HookError> {
    let is_new = context.input.source.as_deref() == Some("startup");
    if !is_new || !context.config.recall.start || context.is_without_recall() || !context.location().is_begun() {
        return Ok(None);
    }
    let mut store = context.open(LockPolicy::Interactive)?;
    let project = recall::project_scope(context, None);
    let own = context.input.session.as_deref().unwrap_or_default();
    let told = project_memory(&mut *store, &project, own, MAX_MEMORY_CHARS)?;
    Ok(Some(told).filter(|told| !told.is_empty()))
}

/// Finds turns of other sessions in the project that are related to the newest turn of this one.
fn turns_of_other_sessions(context: &HookContext, store: &mut dyn StoreReader, session: &Session) -> Option<Vec<RelatedTurn>> {
    let newest = store.turns(session.key, TurnSelection::Newest(1)).ok()?.pop()?;
    let SearchableText { prompt, answer, .. } = turn_text::fields(store, &newest).ok()?;
    session.folder.as_ref()?;
    let project = recall::project_scope(context, Some(session));
    let text = format!("{prompt}\n{answer}");
    recall::related_turns(context, store, &project, Some(session), WindowContent::Session, &text, MAX_TURNS_ELSEWHERE)
}

fn restored(
    context: &HookContext,
    why: &str,
    find: impl Fn(&mut dyn Store, &str) -> Result<Option<Session>, HookError>,
) -> Result<HookReply, HookError> {
    let mut store = context.open(LockPolicy::Interactive)?;
    // What cannot be archived now is no reason not to restore what was.
    let archived = context.archive(&mut *store, false).map(drop);
    let mut reply = HookReply::default();
    let session = context.input.session.as_deref().ok_or(HookError::Missing("session_id"))?;
    if let Some(session) = find(&mut *store, session)? {
        let budget = context.config.archive.restore_budget;
        // Without an index, or with one that cannot be read in time, what is of this session is enough.
        let related =
            if budget > 0 { turns_of_other_sessions(context, &mut *store, &session).unwrap_or_default() } else { Vec::new() };
        let is_compacted = context.input.source.as_deref() == Some("compact");
        let transcript = context.input.transcript.as_deref().filter(|_| is_compacted);
        let in_window = transcript.map(|path| turns_in_window(path, context.now_ms)).unwrap_or_default();
        let restored = restore::restore(&mut *store, &session, why, budget, context.now_ms, &related, &in_window)?;
        if !restored.text.is_empty() {
            let related = related.iter().filter(|related| restored.turns.contains(&related.turn.turn.id));
            // That it was used is worth knowing, but less than that it is used.
            recall::mark_as_recalled(context, restored.turns.iter().copied(), related);
            if let Err(error) = store.touch(&restored.entries, context.now_ms) {
                context.log().report_failure(
                    super::Event::SessionStart,
                    Some(&session.session),
                    &error.to_string(),
                    context.now_ms,
                );
            }
            reply.context = Some(restored.text);
        }
    }
    drop(store);
    if let Err(error) = archived
        && let Some(told) = context.handle_failure(super::Event::SessionStart, &error)
    {
        reply.tell(&told);
    }
    Ok(reply)
}
