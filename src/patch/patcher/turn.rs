/*!
What every operation begins and ends with: the target's turn, and putting a new file in its place.
*/

use std::fs;
use std::path::Path;

use super::{PatchError, Patcher};
use crate::container::Source;
use crate::inspect::{Inspection, State, inspect};
use crate::install::Target;
use crate::journal::{Action, Application, Intent, Journal};
use crate::lock::Lock;
use crate::swap::{self, Attributes, Fingerprint, remove, step};
use ctxbridge_common::digest;
use ctxbridge_common::parallel::beside;

/// What a target's hash may be taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is computed.
    Nothing,
    /// As long as the file shows no sign of a change, it is what it was: good enough to look, not to write.
    Journal,
}

/// A target whose turn it is.
pub(super) struct Turn {
    /// As it is under the lock: while it was waited for, the client may have been upgraded.
    pub target: Target,
    pub journal: Journal,
    pub source: Source,
    pub metadata: fs::Metadata,
    known: Option<Application>,
    pub inspection: Inspection,
    _lock: Lock,
}

impl Patcher<'_> {
    /// Waits for the target's turn, settles what a killed command left, and looks at the target.
    pub(super) fn turn(&self, target: &Target, trust: Trust) -> Result<Turn, PatchError> {
        self.turn_and(target, trust, |_, _| ()).map(|(turn, ())| turn)
    }

    /// The same; does `meanwhile` with the target and its bytes while they are hashed, which takes one processor.
    pub(super) fn turn_and<T>(
        &self,
        target: &Target,
        trust: Trust,
        meanwhile: impl FnOnce(&Target, &Source) -> T,
    ) -> Result<(Turn, T), PatchError> {
        (self.progress)("reading the client");
        let lock = Lock::acquire(&self.data_dir, &target.path, self.notice)?;
        let mut journal = Journal::open(&self.data_dir, self.notice)?;
        self.settle(target, &mut journal)?;
        // Of one open file: an updater that replaces it in between shows in `unchanged`.
        let file = fs::File::open(&target.path).map_err(step("read", &target.path))?;
        let metadata = file.metadata().map_err(step("look at", &target.path))?;
        let source = Source::of(file).map_err(step("read", &target.path))?;
        let target = Target::at(&target.path)?;
        let known = journal.application(&target.path)?;
        let fingerprint = Fingerprint::of(&metadata);
        let remembered = match trust {
            Trust::Journal => journal.known_hash(&target.path, &fingerprint)?,
            Trust::Nothing => None,
        };
        let (sha256, meanwhile) = match remembered {
            Some(sha256) => (sha256, meanwhile(&target, &source)),
            None => {
                let (sha256, meanwhile) = beside(|| source.sha256(), || meanwhile(&target, &source));
                let sha256 = sha256.map_err(step("read", &target.path))?;
                journal.remember_hash(&target.path, &fingerprint, &sha256)?;
                (sha256, meanwhile)
            }
        };
        let inspection = inspect(&target, &source, sha256, known.as_ref())?;
        Ok((Turn { target, journal, source, metadata, known, inspection, _lock: lock }, meanwhile))
    }

    /// Finishes or undoes what commands began and did not live to end.
    fn settle(&self, target: &Target, journal: &mut Journal) -> Result<(), PatchError> {
        for open in journal.open_intents(&target.path)? {
            let current = digest::of_file(&target.path).map_err(step("read", &target.path))?;
            remove(&open.intent.temporary)?;
            if current == open.intent.to_sha256 {
                journal.done(open.id, &open.intent, fingerprint(&target.path))?;
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

    /// Writes down the intent, lets `make` make the new file, and puts that in the target's place. What only the new file tells,
    /// `make` puts into the intent and has amended: until then, an interrupted one counts as undone, and so it is.
    pub(super) fn exchange(
        &self,
        turn: &mut Turn,
        mut intent: Intent,
        make: impl FnOnce(&mut Intent, &mut Journal, i64) -> Result<(), PatchError>,
    ) -> Result<(), PatchError> {
        let Target { path, kind, package, .. } = &turn.target;
        // Some systems replace no file that is mapped.
        turn.source = Source::from(Vec::new());
        // Of a process that was killed, had our number, and whose journal is lost.
        remove(&intent.temporary)?;
        let id = turn.journal.begin(path, &kind.to_string(), package.as_deref(), &intent)?;
        let made = make(&mut intent, &mut turn.journal, id).and_then(|()| {
            unchanged(path, &turn.metadata)?;
            Ok(swap::replace(path, &intent.temporary)?)
        });
        match made {
            Ok(()) => {
                // It is done all the same, and the next command finds it done.
                if let Err(error) = turn.journal.done(id, &intent, fingerprint(path)) {
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
}

impl Turn {
    /// What belongs to the unpatched file: of a patched one, what was noted when it was patched.
    pub fn original_attributes(&self, original_sha256: &str) -> Option<Attributes> {
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

/// Which file is there now, where the system tells.
fn fingerprint(path: &Path) -> Option<Fingerprint> {
    fs::metadata(path).ok().map(|metadata| Fingerprint::of(&metadata))
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
