//! Folder that the hooks fill in a project: created when they are installed, and removed with them if it is empty.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use super::subprocess;
use crate::bundle::{BUNDLES_FOLDER, Bundles, GIT_FILES, PROJECT_DATA_FOLDER, Project};

/// Time limit for a git command.
const GIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sample name of a bundle.
const SOME_BUNDLE: &str = "MON_00_0.jsonl";

/// State of a project's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prepared {
    /// The folder.
    pub folder: PathBuf,
    /// `true` if something was missing in it.
    pub is_new: bool,
    /// `true` if git ignores bundles here; `None` if git cannot tell.
    pub ignored: Option<bool>,
    /// Reason why it cannot be used.
    pub problem: Option<String>,
}

/// Creates the folder for bundles.
pub fn prepare(project: &Project) -> Prepared {
    let folder = project.root.join(PROJECT_DATA_FOLDER);
    match Bundles::of(project).prepare() {
        Ok(is_new) => Prepared { folder, is_new, ignored: is_ignored(&project.root), problem: None },
        Err(error) => Prepared { folder, is_new: false, ignored: None, problem: Some(error.to_string()) },
    }
}

/// Removes the folder if it contains only what [`prepare`] created, and nothing of it is committed. Returns `true` if it was
/// removed.
pub fn tidy(project: &Project) -> bool {
    let folder = project.root.join(PROJECT_DATA_FOLDER);
    // A link leads to somebody else's.
    let is_bare = Bundles::of(project).exist().is_ok_and(|exist| exist) && has_nothing_else(&folder);
    if !is_bare || is_tracked(&project.root) == Some(true) {
        return false;
    }
    if fs::remove_dir(folder.join(BUNDLES_FOLDER)).is_err() {
        return false;
    }
    for (name, _) in GIT_FILES {
        fs::remove_file(folder.join(name)).ok();
    }
    fs::remove_dir(&folder).is_ok()
}

fn has_nothing_else(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.into_iter().all(|entry| {
        let Ok(entry) = entry else { return false };
        let (name, path) = (entry.file_name(), entry.path());
        if name == BUNDLES_FOLDER {
            return fs::read_dir(path).is_ok_and(|mut bundles| bundles.next().is_none());
        }
        // What a user made of it is theirs.
        GIT_FILES.iter().any(|(own, text)| name == *own && fs::read(&path).is_ok_and(|bytes| bytes == text.as_bytes()))
    })
}

/// `true` if git would ignore bundles.
fn is_ignored(root: &Path) -> Option<bool> {
    let bundle = [PROJECT_DATA_FOLDER, BUNDLES_FOLDER, SOME_BUNDLE].join("/");
    match git(root, &["check-ignore", "--quiet", "--", &bundle])? {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}

/// `true` if something in the folder is in git's index.
fn is_tracked(root: &Path) -> Option<bool> {
    match git(root, &["ls-files", "--error-unmatch", "--", PROJECT_DATA_FOLDER])? {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}

/// Runs git and returns its exit code; `None` if it cannot be run.
fn git(root: &Path, args: &[&str]) -> Option<i32> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(args);
    subprocess::run(&mut command, b"", GIT_TIMEOUT).ok()?.code
}
