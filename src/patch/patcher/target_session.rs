/*!
The start and end of every operation: locking the target, and replacing it by a new file.

Replacing has a fixed order: the intent is written to the journal, the new file is made beside the target and checked, it is
renamed, and the intent is closed. A process killed anywhere leaves the old file or the new one, whole. The next command on that
target settles the rest under its lock.
*/

use std::fs;
use std::path::Path;

use super::{PatchError, Patcher};
use crate::attributes::{Attributes, FileStat, Fingerprint};
use crate::container::FileBytes;
use crate::inspect::{Inspection, TargetState, inspect};
use crate::install::Target;
use crate::journal::{Action, Application, Intent, Journal};
use crate::lock::Lock;
use crate::swap::{self, remove, step};
use ctxbridge_common::digest;
use ctxbridge_common::parallel::join;

/// Sources from which a target's hash may come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HashSource {
    /// The hash is computed.
    Recomputed,
    /// The recorded hash, as long as the file shows no sign of a change: good enough to inspect, not to write.
    Journal,
}

/// A locked and inspected target.
pub(super) struct TargetSession {
    /// The target as it is under the lock: the client may have been upgraded during the wait.
    pub target: Target,
    pub journal: Journal,
    pub source: FileBytes,
    pub stat: FileStat,
    known: Option<Application>,
    pub inspection: Inspection,
    _lock: Lock,
}

impl Patcher<'_> {
    /// Locks the target, finishes or undoes the work of a killed command, and inspects the target.
    pub(super) fn lock_target(&self, target: &Target, trust: HashSource) -> Result<TargetSession, PatchError> {
        self.lock_target_with(target, trust, |_, _| ()).map(|(turn, ())| turn)
    }

    /// Like [`Self::lock_target`], but also runs `meanwhile` with the target and its bytes while they are hashed, which uses one
    /// processor.
    pub(super) fn lock_target_with<T>(
        &self,
        target: &Target,
        trust: HashSource,
        meanwhile: impl FnOnce(&Target, &FileBytes) -> T,
    ) -> Result<(TargetSession, T), PatchError> {
        (self.progress)("reading the client");
        let lock = Lock::acquire(&self.data_dir, &target.path, self.notice)?;
        let mut journal = Journal::open(&self.data_dir, self.notice)?;
        self.recover_interrupted(target, &mut journal)?;
        // Of one open file: an updater that replaces it in between shows in `unchanged`.
        let file = fs::File::open(&target.path).map_err(step("read", &target.path))?;
        let stat = FileStat::of(&file).map_err(step("look at", &target.path))?;
        let fingerprint = stat.fingerprint();
        let source = FileBytes::of(file).map_err(step("read", &target.path))?;
        let target = Target::at(&target.path)?;
        let known = journal.application(&target.path)?;
        let remembered = match trust {
            HashSource::Journal => journal.known_hash(&target.path, &fingerprint)?,
            HashSource::Recomputed => None,
        };
        let (sha256, meanwhile) = match remembered {
            Some(sha256) => (sha256, meanwhile(&target, &source)),
            None => {
                let (sha256, meanwhile) = join(|| source.sha256(), || meanwhile(&target, &source));
                let sha256 = sha256.map_err(step("read", &target.path))?;
                journal.remember_hash(&target.path, &fingerprint, &sha256)?;
                (sha256, meanwhile)
            }
        };
        let inspection = inspect(&target, &source, sha256, known.as_ref())?;
        Ok((TargetSession { target, journal, source, stat, known, inspection, _lock: lock }, meanwhile))
    }

    /// Finishes or undoes the work of killed commands.
    fn recover_interrupted(&self, target: &Target, journal: &mut Journal) -> Result<(), PatchError> {
        for open in journal.open_intents(&target.path)? {
            let current = digest::of_file(&target.path).map_err(step("read", &target.path))?;
            remove(&open.intent.temporary)?;
            if current == open.intent.to_sha256 {
                journal.complete_intent(open.id, &open.intent, fingerprint(&target.path))?;
                (self.notice)(&format!(
                    "{}: an interrupted {} had come through",
                    target.path.display(),
                    name(open.intent.action)
                ));
            } else {
                journal.abandon_intent(open.id)?;
                (self.notice)(&format!("{}: an interrupted {} was undone", target.path.display(), name(open.intent.action)));
            }
        }
        Ok(())
    }

    /// Records the intent, lets `make` create the new file, and replaces the target by it. Fields that depend on the new file are
    /// added to the intent by `make` and amended in the journal. Until then, an interrupted operation counts as undone, which is
    /// right.
    pub(super) fn replace_target(
        &self,
        turn: &mut TargetSession,
        mut intent: Intent,
        make: impl FnOnce(&mut Intent, &mut Journal, i64) -> Result<(), PatchError>,
    ) -> Result<(), PatchError> {
        let Target { path, kind, package, .. } = &turn.target;
        // Some systems replace no file that is mapped.
        turn.source = FileBytes::from(Vec::new());
        // Of a process that was killed, had our number, and whose journal is lost.
        remove(&intent.temporary)?;
        let id = turn.journal.begin_intent(path, &kind.to_string(), package.as_deref(), &intent)?;
        let made = make(&mut intent, &mut turn.journal, id).and_then(|()| {
            unchanged(path, &turn.stat)?;
            Ok(swap::replace(path, &intent.temporary)?)
        });
        match made {
            Ok(()) => {
                // It is done all the same, and the next command finds it done.
                if let Err(error) = turn.journal.complete_intent(id, &intent, fingerprint(path)) {
                    (self.notice)(&format!("this could not be written down, which the next command will do: {error}"));
                }
                Ok(())
            }
            Err(error) => {
                remove(&intent.temporary).ok();
                turn.journal.abandon_intent(id).ok();
                Err(error)
            }
        }
    }
}

impl TargetSession {
    /// Attributes of the unpatched file; for one that was patched, those recorded when that was done.
    pub fn original_attributes(&self, original_sha256: &str) -> Option<Attributes> {
        match self.inspection.state {
            TargetState::Unpatched | TargetState::Upgraded => Some(self.stat.attributes()),
            TargetState::Patched | TargetState::Modified | TargetState::Foreign => {
                self.known.as_ref().filter(|known| known.original_sha256 == original_sha256)?.original
            }
        }
    }

    /// The hash of the original of a target that was changed after it was patched; `None` if it is not known.
    pub fn original_of_changed(&self) -> Option<String> {
        let is_modified = self.inspection.state == TargetState::Modified;
        let version = self.target.version.as_ref().map(ToString::to_string);
        // The journal comes first: whoever changed the file may have changed the marker. But it may speak of another release. A file
        // with our marker is the one that we wrote, also if it is so damaged that no version can be read.
        let is_this = |known: &&Application| known.version == version || (is_modified && version.is_none());
        match self.known.as_ref().filter(is_this) {
            Some(known) => Some(known.original_sha256.clone()),
            None => self.inspection.original_sha256.clone().filter(|_| is_modified),
        }
    }
}

fn name(action: Action) -> &'static str {
    match action {
        Action::Apply => "apply",
        Action::Revert => "revert",
    }
}

/// Fingerprint of the present file, if the system has one.
fn fingerprint(path: &Path) -> Option<Fingerprint> {
    FileStat::at(path).ok().map(|stat| stat.fingerprint())
}

/// Checks that the target is still the file that was read: an updater may have replaced it meanwhile.
fn unchanged(path: &Path, before: &FileStat) -> Result<(), PatchError> {
    let now = FileStat::at(path).map_err(step("look at", path))?;
    if now.is_unwritten_since(before) { Ok(()) } else { Err(PatchError::Raced { path: path.to_owned() }) }
}
