//! Removal of what hooks noted of sessions that were forgotten: queued writes, events, recalls, bundles.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{EventLog, PendingWrite, Spool, recall_history};
use crate::autopilot::WindowStateStore;
use crate::bundle::{self, Bundles, Project};
use ctxbridge_archive::forget::ForgetPlan;
use ctxbridge_archive::store::Transcript;
use ctxbridge_common::files;

/// Result of removing what hooks noted.
#[derive(Debug, Default)]
pub struct RemovedTraces {
    /// Files of bundles in projects that were changed or removed.
    pub bundles: Vec<PathBuf>,
    /// Notes that could not be removed, with the reason.
    pub left: Vec<String>,
}

/// Removes what hooks noted of sessions, or of the turns of them that go.
pub fn remove_traces(data: &Path, home: Option<&Path>, plan: &ForgetPlan) -> RemovedTraces {
    let mut removed = RemovedTraces::default();
    let mut note = |what: &str, done: io::Result<()>| {
        if let Err(error) = done {
            removed.left.push(format!("{what}: {error}"));
        }
    };
    note("the queue of writes", Spool::in_dir(data).retain(|pending| !is_of(pending, plan)));
    // It is made anew from the bundles.
    let cache = data.join(bundle::CACHE_FOLDER);
    note("the index of bundles", files::gone(fs::remove_dir_all(&cache)));
    for (session, part) in &plan.parts {
        note("the event log", EventLog::in_dir(data).forget(session));
        note("the history of recalls", recall_history::forget(data, session));
        if part.is_whole {
            note("the state of the window", WindowStateStore::in_dir(data).forget(session));
        }
    }
    for (session, part) in &plan.parts {
        let Some(project) = part.session.folder.as_ref().and_then(|folder| Project::around(Path::new(folder), home)) else {
            continue;
        };
        let bundles = Bundles::of(&project);
        match bundle::forget(&bundles, session, plan) {
            Ok(changed) => removed.bundles.extend(changed),
            Err(error) => removed.left.push(error.to_string()),
        }
    }
    removed
}

/// `true` if a queued write is about something that goes.
fn is_of(pending: &PendingWrite, plan: &ForgetPlan) -> bool {
    let is_whole = |session: &str| plan.parts.get(session).is_some_and(|part| part.is_whole);
    match pending {
        PendingWrite::Transcript { path } => is_whole(&Transcript::at(path).session),
        PendingWrite::Summary { session, text, .. } => plan.covers(session, text),
        PendingWrite::Compaction { session, .. } | PendingWrite::End { session, .. } => is_whole(session),
    }
}
