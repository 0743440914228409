//! Noticing that a project's folder was renamed: a process in the background asks git, and the next hook tells the user.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Log;
use super::background;
use super::context::HookContext;
use ctxbridge_archive::open::Location;
use ctxbridge_archive::project_moves::{ProjectMove, follow_project};
use ctxbridge_archive::store::StoreError;
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_common::{digest, files, paths};

/// Folder of the marks in the data folder: each says when a folder was last looked at.
const MARKS_FOLDER: &str = "projects";

/// Time after which a folder is looked at again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Starts to look at the session's folder in the background, if that was not done lately and hooks may start such work.
pub(super) fn start(context: &HookContext) {
    let Some(folder) = context.project.as_deref().or(context.input.cwd.as_deref()).filter(|folder| folder.is_absolute()) else {
        return;
    };
    let age = fs::metadata(mark(&context.data, folder)).and_then(|mark| mark.modified()).ok().map(|at| at.elapsed());
    let is_fresh = age.is_some_and(|age| age.is_ok_and(|age| age < LOOK_AGAIN_AFTER));
    if !is_fresh && context.config.archive.auto_optimize && context.location().is_begun() {
        // Where it cannot be started, the next session does.
        background::start(&context.program, &["archive", "follow", "--background", &folder.to_string_lossy()]).ok();
    }
}

/// Looks at a folder, and queues a notice if its project was elsewhere before.
///
/// # Errors
/// If the archive cannot be read or written.
pub fn look_at_project(location: &Location, folder: &Path, now_ms: i64) -> Result<Option<ProjectMove>, StoreError> {
    if !location.is_begun() {
        return Ok(None);
    }
    let mut opened = location.open_for_reading(LockPolicy::Background)?;
    let moved = follow_project(&mut *opened.store, folder, now_ms)?;
    if let Some(moved) = &moved {
        queue_move_notice(location.data(), moved);
        // Whoever renames it back has not been there lately.
        fs::remove_file(mark(location.data(), Path::new(&moved.from))).ok();
    }
    let mark = mark(location.data(), folder);
    // It only saves the next look; and where the data folder is gone by now, none is made.
    if location.data().is_dir() {
        mark.parent().map(paths::create_private_dir).transpose().ok();
        files::replace(&mark, b"").ok();
    }
    Ok(moved)
}

/// Queues a notice that a project was elsewhere before. The next hook shows it.
pub fn queue_move_notice(data: &Path, moved: &ProjectMove) {
    Log::in_dir(data).queue_notice(&format!("ctxbridge: {moved}"));
}

fn mark(data: &Path, folder: &Path) -> PathBuf {
    data.join(MARKS_FOLDER).join(&digest::of_bytes(folder.as_os_str().as_encoded_bytes())[..32])
}
