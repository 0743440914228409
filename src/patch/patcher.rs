/*!
`apply`, `verify` and `revert`: the operations on one target, and what they have in common.

Each takes the lock of its target, finishes or undoes what a killed command left (`settle`), looks at the target, and
only then does its work. Anything that fails leaves the target as it was.
*/

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::backup::{BackupError, Backups};
use super::catalogue::{Catalogue, CatalogueError, Patch};
use super::container::{Container, ContainerError, Kind};
use super::inspect::{Inspection, State, inspect};
use super::install::{Target, TargetError};
use super::journal::{Action, Application, Intent, Journal, JournalError, seconds_now};
use super::lock::{Lock, LockError};
use super::plan::{Change, Plan, PlanError, plan};
use super::smoke::{self, SmokeError};
use super::swap::{self, Attributes, Ownership, SwapError, remove, step, temporary_name};
use super::syntax::with_deep_stack;
use crate::digest;

/// An operation that could not be done. The target is as it was.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The catalogue has no such patch.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// The target holds no module that can be read.
    #[error("{}: {cause}", path.display())]
    Container {
        /// The target.
        path: PathBuf,
        /// Why.
        cause: ContainerError,
    },
    /// The target cannot be patched.
    #[error("{}: {cause}{}", path.display(), next_step(.cause))]
    Plan {
        /// The target.
        path: PathBuf,
        /// Why.
        cause: Box<PlanError>,
    },
    /// The target was changed by somebody else.
    #[error("{} was patched by another tool: {reason}. Undo that with the other tool or reinstall the client, then try again", path.display())]
    Foreign {
        /// The target.
        path: PathBuf,
        /// How that is known.
        reason: String,
    },
    /// The target carries our patch, and changes that are not ours.
    #[error("{} was changed after it was patched, so neither patching nor reverting it would be safe; reinstall the client to get its original back", path.display())]
    Modified {
        /// The target.
        path: PathBuf,
    },
    /// The target changed while it was worked on.
    #[error("{} was changed by somebody else in the meantime; nothing was written, try again", path.display())]
    Raced {
        /// The target.
        path: PathBuf,
    },
    /// The smoke run failed.
    #[error(transparent)]
    Smoke(#[from] SmokeError),
    /// There is no backup that can be used.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The client is not there any more.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Another command is at work.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The journal says no.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The system says no.
    #[error(transparent)]
    Swap(#[from] SwapError),
}

/// What `apply` did.
#[derive(Debug, Clone, Serialize)]
pub struct Applied {
    /// The patched file.
    pub target: PathBuf,
    /// The client's version.
    pub version: Option<String>,
    /// Whether anything had to be done.
    pub state: AppliedState,
    /// The patches it now has.
    pub patches: Vec<String>,
    /// The hash of the unpatched file.
    pub original_sha256: String,
    /// The hash of the file now.
    pub patched_sha256: String,
    /// Where the original is kept.
    pub backup: PathBuf,
    /// By how much it is longer than the original, in bytes.
    pub grew_by_bytes: i64,
    /// The smoke run.
    pub smoke: Smoke,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

/// Whether `apply` had anything to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AppliedState {
    /// It was patched.
    Patched,
    /// It had these patches already.
    AlreadyPatched,
}

/// A smoke run, made or not.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Smoke {
    /// Whether the patched client was run.
    pub ran: bool,
    /// What it printed, or why it was not run.
    pub output: String,
}

/// What `revert` did.
#[derive(Debug, Clone, Serialize)]
pub struct Reverted {
    /// The file.
    pub target: PathBuf,
    /// Whether anything had to be done.
    pub state: RevertedState,
    /// The hash of the file now.
    pub restored_sha256: String,
}

/// Whether `revert` had anything to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RevertedState {
    /// The original is back.
    Reverted,
    /// It was not patched.
    NotPatched,
}

/// What `apply` would do.
#[derive(Debug)]
pub struct DryRun {
    /// The unpatched client.
    pub container: Container,
    /// What would change.
    pub changes: Vec<Change>,
}

/// Does the operations.
pub struct Patcher<'n> {
    data_dir: PathBuf,
    catalogue: Catalogue,
    backups: Backups,
    notice: &'n dyn Fn(&str),
    progress: &'n dyn Fn(&str),
}

/// A target whose turn it is.
struct Turn {
    /// As it is under the lock: while it was waited for, the client may have been upgraded.
    target: Target,
    journal: Journal,
    bytes: Vec<u8>,
    metadata: fs::Metadata,
    known: Option<Application>,
    inspection: Inspection,
    _lock: Lock,
}

impl<'n> Patcher<'n> {
    /// Works with the backups and the journal in `data_dir`; tells `notice` what a person should know meanwhile.
    pub fn new(data_dir: &Path, catalogue: Catalogue, notice: &'n dyn Fn(&str)) -> Self {
        Self { backups: Backups::in_dir(data_dir), data_dir: data_dir.to_owned(), catalogue, notice, progress: &|_| {} }
    }

    /// Tells `progress` which step begins.
    pub fn with_progress(self, progress: &'n dyn Fn(&str)) -> Self {
        Self { progress, ..self }
    }

    /// The patches it knows.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Patches a target with the named patches, or the default ones.
    ///
    /// # Errors
    /// When it cannot be done; the target is as it was.
    pub fn apply(&self, target: &Target, patches: &[String], smoke: bool) -> Result<Applied, PatchError> {
        let begun = Instant::now();
        let selected = self.catalogue.select(patches)?;
        let ids: Vec<String> = selected.iter().map(|patch| patch.id.clone()).collect();
        let mut turn = self.turn(target)?;
        let target = &turn.target.clone();
        let version = target.version.as_ref().map(ToString::to_string);
        if turn.inspection.state == State::Patched && turn.inspection.patches == ids && self.is_current(&turn, &selected) {
            let original_sha256 = turn.inspection.original_sha256.clone().unwrap_or_default();
            let backup = self.backups.path(&original_sha256);
            let original_length = fs::metadata(&backup).map_or(turn.bytes.len(), |metadata| metadata.len() as usize);
            return Ok(Applied {
                target: target.path.clone(),
                version,
                state: AppliedState::AlreadyPatched,
                patches: ids,
                backup,
                original_sha256,
                patched_sha256: turn.inspection.current_sha256.clone(),
                grew_by_bytes: turn.bytes.len() as i64 - original_length as i64,
                smoke: Smoke { ran: false, output: "already patched".to_owned() },
                elapsed_ms: begun.elapsed().as_millis() as u64,
            });
        }
        let (original_sha256, original) = self.original(&mut turn)?;
        let original_length = original.len();
        let container = self.container(target, original)?;
        let Plan { bytes, .. } = self.plan(&container, target, &selected, &original_sha256)?;
        drop(container);
        if turn.inspection.state != State::Patched {
            self.backups.keep(&target.path, &original_sha256, version.clone(), &turn.journal)?;
        }
        let patched_sha256 = digest::of_bytes(&bytes);
        let intent = Intent {
            action: Action::Apply,
            temporary: temporary_name(&target.path),
            from_sha256: turn.inspection.current_sha256.clone(),
            to_sha256: patched_sha256.clone(),
            original_sha256: original_sha256.clone(),
            patches: ids.clone(),
            version: version.clone(),
            original: turn.original_attributes(&original_sha256),
        };
        let attributes = Attributes::of(&turn.metadata);
        let mut ran = Smoke { ran: false, output: "--no-smoke".to_owned() };
        self.exchange(&mut turn, &intent, |temporary| {
            swap::write(temporary, &bytes, Ownership::Like(&attributes))?;
            if smoke {
                (self.progress)("running the patched client");
                let output = smoke::run(temporary, &target.path, target.version.as_ref())?;
                ran = Smoke { ran: true, output };
            }
            Ok(())
        })?;
        // Old backups are collected when there is something to do anyway; that it fails must not undo what was done.
        if let Err(error) = self.backups.collect(&turn.journal, seconds_now()) {
            (self.notice)(&format!("an old backup could not be removed: {error}"));
        }
        Ok(Applied {
            target: target.path.clone(),
            version,
            state: AppliedState::Patched,
            patches: ids,
            backup: self.backups.path(&original_sha256),
            original_sha256,
            patched_sha256,
            grew_by_bytes: bytes.len() as i64 - original_length as i64,
            smoke: ran,
            elapsed_ms: begun.elapsed().as_millis() as u64,
        })
    }

    /// What `apply` would change.
    ///
    /// # Errors
    /// When it could not be done.
    pub fn dry_run(&self, target: &Target, patches: &[String]) -> Result<DryRun, PatchError> {
        let selected = self.catalogue.select(patches)?;
        let mut turn = self.turn(target)?;
        let target = &turn.target.clone();
        let (original_sha256, original) = self.original(&mut turn)?;
        let container = self.container(target, original)?;
        let Plan { changes, .. } = self.plan(&container, target, &selected, &original_sha256)?;
        Ok(DryRun { container, changes })
    }

    /// Looks at a target.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn verify(&self, target: &Target) -> Result<Inspection, PatchError> {
        match self.turn(target) {
            // Who may not write where the journal is still may look: what was written carries all that it takes.
            Err(error @ (PatchError::Lock(LockError::Io(_)) | PatchError::Journal(_))) => {
                (self.notice)(&format!("looking at the file alone: {error}"));
                let bytes = fs::read(&target.path).map_err(step("read", &target.path))?;
                Ok(inspect(target, &bytes, None))
            }
            turn => Ok(turn?.inspection),
        }
    }

    /// Puts the original back.
    ///
    /// # Errors
    /// When the target is not what we wrote, or there is no backup that can be used.
    pub fn revert(&self, target: &Target) -> Result<Reverted, PatchError> {
        let mut turn = self.turn(target)?;
        let target = &turn.target.clone();
        let original_sha256 = match (turn.inspection.state, &turn.inspection.original_sha256) {
            (State::Modified, _) => return Err(PatchError::Modified { path: target.path.clone() }),
            (State::Foreign, _) => {
                let reason = turn.inspection.reason.unwrap_or_default();
                return Err(PatchError::Foreign { path: target.path.clone(), reason });
            }
            (State::Patched, Some(original)) => original.clone(),
            _ => {
                return Ok(Reverted {
                    target: target.path.clone(),
                    state: RevertedState::NotPatched,
                    restored_sha256: turn.inspection.current_sha256,
                });
            }
        };
        let intent = Intent {
            action: Action::Revert,
            temporary: temporary_name(&target.path),
            from_sha256: turn.inspection.current_sha256.clone(),
            to_sha256: original_sha256.clone(),
            original_sha256: original_sha256.clone(),
            patches: Vec::new(),
            version: target.version.as_ref().map(ToString::to_string),
            original: turn.original_attributes(&original_sha256),
        };
        let current = Attributes::of(&turn.metadata);
        let needed = turn.journal.is_needed_elsewhere(&target.path, &original_sha256)?;
        self.exchange(&mut turn, &intent, |temporary| {
            let original = intent.original.as_ref();
            Ok(self.backups.bring_back(&original_sha256, temporary, original, &current, needed)?)
        })?;
        Ok(Reverted { target: target.path.clone(), state: RevertedState::Reverted, restored_sha256: original_sha256 })
    }

    /// Waits for the target's turn, settles what a killed command left, and looks at the target.
    fn turn(&self, target: &Target) -> Result<Turn, PatchError> {
        (self.progress)("reading the client");
        let lock = Lock::acquire(&self.data_dir, &target.path, self.notice)?;
        let mut journal = Journal::open(&self.data_dir, self.notice)?;
        self.settle(target, &mut journal)?;
        // Of one open file: an updater that replaces it in between shows in `unchanged`.
        let mut file = fs::File::open(&target.path).map_err(step("read", &target.path))?;
        let metadata = file.metadata().map_err(step("look at", &target.path))?;
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        file.read_to_end(&mut bytes).map_err(step("read", &target.path))?;
        let target = Target::at(&target.path)?;
        if target.kind != Kind::Script {
            return Err(PatchError::Container { path: target.path, cause: ContainerError::Unsupported(target.kind) });
        }
        let known = journal.application(&target.path)?;
        let inspection = inspect(&target, &bytes, known.as_ref());
        Ok(Turn { target, journal, bytes, metadata, known, inspection, _lock: lock })
    }

    /// Finishes or undoes what commands began and did not live to end.
    fn settle(&self, target: &Target, journal: &mut Journal) -> Result<(), PatchError> {
        for open in journal.open_intents(&target.path)? {
            let current = digest::of_file(&target.path).map_err(step("read", &target.path))?;
            remove(&open.intent.temporary)?;
            if current == open.intent.to_sha256 {
                journal.done(open.id, &open.intent)?;
                (self.notice)(&format!(
                    "{}: an interrupted {} had come through",
                    target.path.display(),
                    name(open.intent.action)
                ));
            } else {
                journal.undone(open.id)?;
                (self.notice)(&format!("{}: an interrupted {} was undone", target.path.display(), name(open.intent.action)));
            }
        }
        Ok(())
    }

    /// Writes down the intent, lets `make` make the new file, and puts that in the target's place.
    fn exchange(
        &self,
        turn: &mut Turn,
        intent: &Intent,
        make: impl FnOnce(&Path) -> Result<(), PatchError>,
    ) -> Result<(), PatchError> {
        let Target { path, kind, package, .. } = &turn.target;
        // Of a process that was killed, had our number, and whose journal is lost.
        remove(&intent.temporary)?;
        let id = turn.journal.begin(path, &kind.to_string(), package.as_deref(), intent)?;
        let made = make(&intent.temporary).and_then(|()| {
            unchanged(path, &turn.metadata)?;
            Ok(swap::replace(path, &intent.temporary)?)
        });
        match made {
            Ok(()) => {
                // It is done all the same, and the next command finds it done.
                if let Err(error) = turn.journal.done(id, intent) {
                    (self.notice)(&format!("this could not be written down, which the next command will do: {error}"));
                }
                Ok(())
            }
            Err(error) => {
                remove(&intent.temporary).ok();
                turn.journal.undone(id).ok();
                Err(error)
            }
        }
    }

    /// The unpatched client: the target itself, or its backup when it is patched.
    fn original(&self, turn: &mut Turn) -> Result<(String, Vec<u8>), PatchError> {
        let path = turn.target.path.clone();
        match turn.inspection.state {
            State::Foreign => Err(PatchError::Foreign { path, reason: turn.inspection.reason.clone().unwrap_or_default() }),
            State::Modified => Err(PatchError::Modified { path }),
            State::Unpatched | State::Upgraded => Ok((turn.inspection.current_sha256.clone(), std::mem::take(&mut turn.bytes))),
            State::Patched => {
                let sha256 = turn.inspection.original_sha256.clone().unwrap_or_default();
                let bytes = self.backups.read(&sha256)?;
                Ok((sha256, bytes))
            }
        }
    }

    fn container(&self, target: &Target, bytes: Vec<u8>) -> Result<Container, PatchError> {
        let name = target.file_name();
        Container::open(&name, bytes).map_err(|cause| PatchError::Container { path: target.path.clone(), cause })
    }

    fn plan(&self, container: &Container, target: &Target, patches: &[&Patch], sha256: &str) -> Result<Plan, PatchError> {
        (self.progress)("finding the sites and checking the result");
        let plan = with_deep_stack(|| plan(container, patches, target.version.as_ref(), sha256));
        plan.map_err(|cause| PatchError::Plan { path: target.path.clone(), cause: Box::new(cause) })
    }

    /// Whether a patched file carries these very patches, as this version would write them; anything older is replaced.
    fn is_current(&self, turn: &Turn, patches: &[&Patch]) -> bool {
        let text = std::str::from_utf8(&turn.bytes).unwrap_or_default();
        super::marker::find(text).iter().all(|found| {
            let Some(marker) = found.marker.as_ref().filter(|marker| marker.version == env!("CARGO_PKG_VERSION")) else {
                return false;
            };
            let Some(patch) = patches.iter().find(|patch| patch.id == marker.patch) else { return false };
            let runtime = patch.runtime.as_ref().map_or("", |runtime| runtime.source.as_str());
            let behind = &text[found.comment.hi as usize..];
            marker.runtime.1 as usize == runtime.len() && behind.starts_with(runtime)
        })
    }
}

impl Turn {
    /// What belongs to the unpatched file: of a patched one, what was noted when it was patched.
    fn original_attributes(&self, original_sha256: &str) -> Option<Attributes> {
        match self.inspection.state {
            State::Patched => self.known.as_ref().filter(|known| known.original_sha256 == original_sha256)?.original,
            _ => Some(Attributes::of(&self.metadata)),
        }
    }
}

fn name(action: Action) -> &'static str {
    match action {
        Action::Apply => "apply",
        Action::Revert => "revert",
    }
}

/// What a user can do about it.
fn next_step(cause: &PlanError) -> &'static str {
    match cause {
        PlanError::Locate(_) => "; is this the client's cli.js? If so, reinstall the client",
        PlanError::NotApplicable { .. } => {
            "; no signature is known for this release: use one that the patch is for, or upgrade ctxbridge"
        }
        PlanError::Drift { .. } => "; upgrade ctxbridge, or report this release if there is nothing newer",
        PlanError::NameTaken { .. } => "; reinstall the client to get its original back",
        PlanError::Splice(_) => "; apply them one at a time, and please report this",
        PlanError::Check(_) => "",
    }
}

/// Whether the target is still the file that was read: an updater may have replaced it while we worked.
fn unchanged(path: &Path, before: &fs::Metadata) -> Result<(), PatchError> {
    let now = fs::metadata(path).map_err(step("look at", path))?;
    #[cfg(unix)]
    let same_file = std::os::unix::fs::MetadataExt::ino(&now) == std::os::unix::fs::MetadataExt::ino(before);
    #[cfg(not(unix))]
    let same_file = true;
    let same = same_file && now.len() == before.len() && now.modified().ok() == before.modified().ok();
    if same { Ok(()) } else { Err(PatchError::Raced { path: path.to_owned() }) }
}
