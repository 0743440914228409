/*!
`revert`: the original takes the place of the client again.

If another tool changed the client after it was patched, the backup is still the original of it. It is put back only on demand
(`force`), and the changed file gets another name beside it, so that nothing is lost.
*/

use std::fs;
use std::path::{Path, PathBuf};

use super::outcome::{Reverted, RevertedState};
use super::target_session::{HashSource, TargetSession};
use super::{PatchError, Patcher};
use crate::attributes::{Attributes, FileStat};
use crate::container::{FileBytes, PiecewiseFile};
use crate::inspect::TargetState;
use crate::install::Target;
use crate::journal::{Action, Intent};
use crate::swap::{self, Ownership, remove, step, temporary_name};

impl Patcher<'_> {
    /// Restores the original. With `force` also if another tool changed the client since it was patched; the changed file is kept.
    ///
    /// # Errors
    /// If the target is not the file that we wrote and `force` is not set, or there is no backup that can be used.
    pub fn revert(&self, target: &Target, force: bool) -> Result<Reverted, PatchError> {
        let mut turn = self.lock_target(target, HashSource::Recomputed)?;
        let path = turn.target.path.clone();
        let is_changed = matches!(turn.inspection.state, TargetState::Modified | TargetState::Foreign);
        let original = match turn.inspection.state {
            TargetState::Patched => turn.inspection.original_sha256.clone(),
            TargetState::Modified | TargetState::Foreign => match turn.original_of_changed().filter(|_| force) {
                Some(original) => Some(original),
                None => return Err(self.changed(&turn)),
            },
            TargetState::Unpatched | TargetState::Upgraded => None,
        };
        let Some(original_sha256) = original else {
            let restored_sha256 = turn.inspection.current_sha256;
            return Ok(Reverted { target: path, state: RevertedState::NotPatched, restored_sha256, kept: None });
        };
        let intent = Intent {
            action: Action::Revert,
            temporary: temporary_name(&path),
            from_sha256: turn.inspection.current_sha256.clone(),
            to_sha256: original_sha256.clone(),
            original_sha256: original_sha256.clone(),
            patches: Vec::new(),
            version: turn.target.version.as_ref().map(ToString::to_string),
            original: turn.original_attributes(&original_sha256),
        };
        let current = turn.stat.attributes();
        let needed = turn.journal.is_needed_elsewhere(&path, &original_sha256)?;
        let mut kept = None;
        let replaced = self.replace_target(&mut turn, intent, |intent, _, _| {
            let original = intent.original.as_ref();
            self.backups.restore_original(&original_sha256, &intent.temporary, original, &current, needed)?;
            if is_changed {
                kept = Some(keep_beside(&path, &current)?);
            }
            Ok(())
        });
        if let Err(error) = replaced {
            // The target is as it was and needs no second name.
            if let Some(KeptFile { path, is_new: true }) = kept {
                remove(&path).ok();
            }
            return Err(error);
        }
        let kept = kept.map(|kept| kept.path);
        if !needed && let Err(error) = self.backups.part_from(&path, &original_sha256, &turn.journal) {
            (self.notice)(&format!("the backup, which is not needed any more, could not be removed: {error}"));
        }
        Ok(Reverted { target: path, state: RevertedState::Reverted, restored_sha256: original_sha256, kept })
    }

    /// The error for a target that was changed by somebody else. It offers the original only if the backup has the right hash.
    pub(super) fn changed(&self, turn: &TargetSession) -> PatchError {
        let path = turn.target.path.clone();
        let can_force = turn.original_of_changed().is_some_and(|original| self.backups.open(&original).is_ok());
        match turn.inspection.state {
            TargetState::Foreign => {
                PatchError::Foreign { path, reason: turn.inspection.reason.clone().unwrap_or_default(), can_force }
            }
            _ => PatchError::Modified { path, can_force },
        }
    }
}

/// Another name of a changed file.
struct KeptFile {
    path: PathBuf,
    /// `false` if a command that was killed gave it the name.
    is_new: bool,
}

/// Gives a file a second name beside it, which nothing has yet.
fn keep_beside(target: &Path, attributes: &Attributes) -> Result<KeptFile, PatchError> {
    let mut number = 1;
    loop {
        let path = kept_name(target, number);
        match fs::hard_link(target, &path) {
            Ok(()) => {
                // Before the target loses its first name.
                swap::sync_folder(target.parent().unwrap_or(target));
                return Ok(KeptFile { path, is_new: true });
            }
            Err(_) if is_file(&path, attributes) => return Ok(KeptFile { path, is_new: false }),
            // The name is taken, if only by a link to nothing.
            Err(_) if fs::symlink_metadata(&path).is_ok() => number += 1,
            // Not every file system has links, and not everybody may make one.
            Err(_) => {
                let source = fs::File::open(target).and_then(FileBytes::of).map_err(step("read", target))?;
                swap::write(&path, &PiecewiseFile::kept(0..source.len()), &source, Ownership::As(attributes))?;
                return Ok(KeptFile { path, is_new: true });
            }
        }
    }
}

/// `true` if the path is a name of the file with these attributes.
fn is_file(path: &Path, attributes: &Attributes) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
        && FileStat::at(path).is_ok_and(|found| found.attributes().inode == attributes.inode)
}

/// The name for a changed file: `cli.js.changed`, `cli.js.changed2` and so on.
fn kept_name(target: &Path, number: u64) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".changed");
    if number > 1 {
        name.push(number.to_string());
    }
    target.with_file_name(name)
}
