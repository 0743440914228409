//! Hooks for the end of an answer, of a sub-agent and of a session: archive new turns.

use super::context::{self, HookContext, HookError};
use super::{HookReply, PendingWrite, WRITE_LOCK_POLICY, background};
use ctxbridge_archive::store::Transcript;

pub(super) fn answer(scene: &HookContext) -> Result<HookReply, HookError> {
    let mut store = scene.open(WRITE_LOCK_POLICY)?;
    scene.archive(&mut *store, true)?;
    Ok(HookReply::default())
}

/// Archives a sub-agent. Some of the client's own (for summaries, say) name a file that does not exist.
pub(super) fn agent(scene: &HookContext) -> Result<HookReply, HookError> {
    let mut store = scene.open(WRITE_LOCK_POLICY)?;
    let agent = scene.input.agent_transcript.as_deref().map_or(Ok(None), |path| scene.client_transcript(path))?;
    if let Some(path) = agent {
        context::ingest_transcript(&mut *store, &Transcript::at(&path), &path)?;
    }
    scene.archive(&mut *store, false)?;
    Ok(HookReply::default())
}

pub(super) fn session(scene: &HookContext) -> Result<HookReply, HookError> {
    let end = scene.input.session.as_ref().map(|session| PendingWrite::End {
        session: session.clone(),
        reason: scene.input.reason.clone().unwrap_or_else(|| "other".to_owned()),
        at_ms: scene.now_ms,
    });
    let mut store = scene.open_or_spool(end.as_slice())?;
    let archived = scene.archive(&mut *store, true).map(drop);
    if let Some(end) = &end {
        scene.write_or_spool(&mut *store, end)?;
    }
    if scene.config.archive.auto_optimize {
        let path = scene.transcript()?.map(|path| path.to_string_lossy().into_owned());
        let mut arguments = vec!["archive", "optimize", "--background"];
        arguments.extend(path.as_deref());
        // The next session's end does it as well.
        background::start(&scene.program, &arguments).ok();
    }
    #[cfg(feature = "team")]
    send(scene);
    archived.map(|()| HookReply::default())
}

/// Starts a process that sends new turns to the team server. The hook does not wait for the server.
#[cfg(feature = "team")]
fn send(scene: &HookContext) {
    let config = &scene.config;
    if config.has_server()
        && config.postgres.auto_sync
        && !ctxbridge_team::sync::Backoff::in_dir(&scene.data).is_active(scene.now_ms)
    {
        background::start(&scene.program, &["archive", "sync", "--background"]).ok();
    }
}
