//! An answer is complete, a sub-agent is done, a session is over: what is new is archived.

use super::scene::{self, HookError, Scene};
use super::{Owed, Reply, SAFETY, background};
use ctxbridge_archive::store::Transcript;

pub(super) fn answer(scene: &Scene) -> Result<Reply, HookError> {
    let mut store = scene.open(SAFETY)?;
    scene.archive(&mut *store, true)?;
    Ok(Reply::default())
}

/// Some sub-agents of the client's own (for summaries, say) name a file that does not exist.
pub(super) fn agent(scene: &Scene) -> Result<Reply, HookError> {
    let mut store = scene.open(SAFETY)?;
    let agent = scene.input.agent_transcript.as_deref().map_or(Ok(None), |path| scene.own(path))?;
    if let Some(path) = agent {
        scene::pass(&mut *store, &Transcript::at(&path), &path)?;
    }
    scene.archive(&mut *store, false)?;
    Ok(Reply::default())
}

pub(super) fn session(scene: &Scene) -> Result<Reply, HookError> {
    let end = scene.input.session.as_ref().map(|session| Owed::End {
        session: session.clone(),
        reason: scene.input.reason.clone().unwrap_or_else(|| "other".to_owned()),
        at_ms: scene.now_ms,
    });
    let mut store = scene.open_for(end.as_slice())?;
    let archived = scene.archive(&mut *store, true).map(drop);
    if let Some(end) = &end {
        scene.pay(&mut *store, end)?;
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
    archived.map(|()| Reply::default())
}

/// What is new is sent to the team's server by another process: whether it answers is nothing that a hook waits for, or asks.
#[cfg(feature = "team")]
fn send(scene: &Scene) {
    let config = &scene.config;
    if config.has_server() && config.postgres.auto_sync && !ctxbridge_team::sync::Rest::in_dir(&scene.data).is_on(scene.now_ms) {
        background::start(&scene.program, &["archive", "sync", "--background"]).ok();
    }
}
