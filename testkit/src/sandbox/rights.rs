//! Rights: modes, owners, and commands of somebody whom they apply to.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::Sandbox;

/// The user and group that nobody is.
pub const NOBODY: u32 = 65534;

impl Sandbox {
    /// A command as a user whom permissions apply to: ourselves, or nobody when we are root, who is given these folders with all in
    /// them.
    pub fn unprivileged(&self, arguments: &[&str], folders: &[&Path]) -> Command {
        if !is_root() {
            return self.command(arguments);
        }
        // The folder of the build may be one that nobody can enter.
        let program = self.path("ctxbridge");
        if !program.exists() {
            fs::copy(super::program(), &program).unwrap();
            set_mode(&program, 0o755);
        }
        for folder in folders {
            fs::create_dir_all(folder).unwrap();
            give_away_all(folder);
        }
        let mut command = self.command_of(&program, arguments);
        command.uid(NOBODY).gid(NOBODY);
        command
    }
}

/// `true` where permissions do not apply to us.
pub fn is_root() -> bool {
    // Whoever makes a file owns it.
    tempfile::tempfile().unwrap().metadata().unwrap().uid() == 0
}

/// Sets the mode of a file or folder.
pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Sets the mode of all files and folders in a folder, and of itself.
pub fn set_modes(path: &Path, folders: u32, files: u32) {
    for entry in fs::read_dir(path).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { set_modes(&path, folders, files) } else { set_mode(&path, files) }
    }
    set_mode(path, folders);
}

/// Makes a file or folder nobody's, when we may; else it stays ours, and we are whom permissions apply to.
pub fn give_away(path: &Path) {
    if is_root() {
        lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

fn give_away_all(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away_all(&entry.unwrap().path()));
    }
}
