//! The folder that the hooks fill in a project: made ready when they are wired, gone with them when there is nothing in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use super::subprocess;
use crate::bundle::{BUNDLES, Bundles, FOLDER, FOR_GIT, Project};

/// How long git may think about a question.
const LIMIT: Duration = Duration::from_secs(5);

/// What a bundle may be called: any will do.
const SOME_BUNDLE: &str = "MON_00_0.jsonl";

/// A project whose folder was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prepared {
    /// The folder.
    pub folder: PathBuf,
    /// Whether something was missing in it.
    pub is_new: bool,
    /// Whether the project's own rules keep bundles out of git; nothing when git cannot say.
    pub ignored: Option<bool>,
    /// Why it cannot be used.
    pub problem: Option<String>,
}

/// Makes the folder for bundles ready.
pub fn prepare(project: &Project) -> Prepared {
    let folder = project.root.join(FOLDER);
    match Bundles::of(project).prepare() {
        Ok(is_new) => Prepared { folder, is_new, ignored: is_ignored(&project.root), problem: None },
        Err(error) => Prepared { folder, is_new: false, ignored: None, problem: Some(error.to_string()) },
    }
}

/// Removes the folder when there is nothing in it but what [`prepare`] put there, and nothing of it is committed; true when it is gone.
pub fn tidy(project: &Project) -> bool {
    let folder = project.root.join(FOLDER);
    // A link leads to somebody else's.
    let is_bare = Bundles::of(project).exist().is_ok_and(|exist| exist) && has_nothing_else(&folder);
    if !is_bare || is_tracked(&project.root) == Some(true) {
        return false;
    }
    if fs::remove_dir(folder.join(BUNDLES)).is_err() {
        return false;
    }
    for (name, _) in FOR_GIT {
        fs::remove_file(folder.join(name)).ok();
    }
    fs::remove_dir(&folder).is_ok()
}

fn has_nothing_else(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.into_iter().all(|entry| {
        let Ok(entry) = entry else { return false };
        let (name, path) = (entry.file_name(), entry.path());
        if name == BUNDLES {
            return fs::read_dir(path).is_ok_and(|mut bundles| bundles.next().is_none());
        }
        // What a user made of it is theirs.
        FOR_GIT.iter().any(|(own, text)| name == *own && fs::read(&path).is_ok_and(|bytes| bytes == text.as_bytes()))
    })
}

/// Whether bundles would be ignored.
fn is_ignored(root: &Path) -> Option<bool> {
    let bundle = [FOLDER, BUNDLES, SOME_BUNDLE].join("/");
    match git(root, &["check-ignore", "--quiet", "--", &bundle])? {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}

/// Whether something of the folder is in git's index.
fn is_tracked(root: &Path) -> Option<bool> {
    match git(root, &["ls-files", "--error-unmatch", "--", FOLDER])? {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}

/// The exit code of git; nothing where it cannot be run.
fn git(root: &Path, args: &[&str]) -> Option<i32> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(args);
    subprocess::run(&mut command, b"", LIMIT).ok()?.code
}
