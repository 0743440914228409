//! Hooks for the end of an answer, of a sub-agent and of a session: archive new turns.

use super::context::{self, HookContext, HookError};
use super::{HookReply, PendingWrite, WRITE_LOCK_POLICY, background, patch_keep};
use ctxbridge_archive::side_files::SideFileEffort;
use ctxbridge_archive::store::Transcript;

pub(super) fn answer(context: &HookContext) -> Result<HookReply, HookError> {
    let mut store = context.open(WRITE_LOCK_POLICY)?;
    context.archive(&mut *store, true)?;
    Ok(HookReply::default())
}

/// Archives a sub-agent. Some of the client's own (for summaries, say) name a file that does not exist.
pub(super) fn agent(context: &HookContext) -> Result<HookReply, HookError> {
    let mut store = context.open(WRITE_LOCK_POLICY)?;
    let agent = context.input.agent_transcript.as_deref().map_or(Ok(None), |path| context.client_transcript(path))?;
    // What its turn points to is beside the session's transcript.
    let archived = context.archive(&mut *store, false).map(drop);
    if let Some(path) = agent {
        context::ingest_transcript(&mut *store, &Transcript::at(&path), &path, SideFileEffort::Hook)?;
    }
    archived?;
    Ok(HookReply::default())
}

pub(super) fn session(context: &HookContext) -> Result<HookReply, HookError> {
    let end = context.input.session.as_ref().map(|session| PendingWrite::End {
        session: session.clone(),
        reason: context.input.reason.clone().unwrap_or_else(|| "other".to_owned()),
        at_ms: context.now_ms,
    });
    let mut store = context.open_or_spool(end.as_slice())?;
    let archived = context.archive(&mut *store, true).map(drop);
    if let Some(end) = &end {
        context.write_or_spool(&mut *store, end)?;
    }
    if context.config.archive.auto_optimize {
        let path = context.transcript()?.map(|path| path.to_string_lossy().into_owned());
        let mut arguments = vec!["archive", "optimize", "--background"];
        arguments.extend(path.as_deref());
        // The next session's end does it as well.
        background::start(&context.program, &arguments).ok();
    }
    #[cfg(feature = "team")]
    send(context);
    // Last, since a PATH may lead to a drive that does not answer.
    patch_keep::start(context);
    archived.map(|()| HookReply::default())
}

/// Starts a process that sends new turns to the team server. The hook does not wait for the server.
#[cfg(feature = "team")]
fn send(context: &HookContext) {
    let config = &context.config;
    if config.has_server()
        && config.postgres.auto_sync
        && !ctxbridge_team::sync::Backoff::in_dir(&context.data).is_active(context.now_ms)
    {
        background::start(&context.program, &["archive", "sync", "--background"]).ok();
    }
}
