/*!
Tombstones: hashes of what was forgotten, so that it is not archived again. There is no text in them.

The file `forgotten` in the data folder has a first line that says what it is, then 16 bytes for each tombstone, sorted. A line of a
transcript is known by its uuid, which it has in every fork of its session as well; one without, by its bytes, or by the line that it
says is the newest. A session that still has the line, since the user wanted it gone from another one only, has an exemption.
*/

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::store::StoreError;
use ctxbridge_common::files::{self, FileStamp};
use ctxbridge_common::{digest, paths};
use ctxbridge_transcript::{Link, Record};

/// First line of the file.
const HEAD: &[u8] = b"ctxbridge: hashes of what was forgotten, version 1\n";

const LOCK_FILE: &str = "forgotten.lock";
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A hash of what was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tombstone([u8; 16]);

impl Tombstone {
    /// For a whole session, with all that it will say.
    pub fn of_session(session: &str) -> Self {
        Self::of(&["session", session])
    }

    /// For the line that a line without a uuid is about: the client's bookkeeping repeats prompts and titles.
    pub fn of_leaf(line: &[u8]) -> Option<Self> {
        let record = Record::parse(line).ok().filter(|record| record.uuid().is_none())?;
        Some(Self::of(&["line", leaf_of(&record)?]))
    }

    /// For the line of a session's transcripts, in every session that has it.
    pub fn of_line(session: &str, line: &[u8]) -> Self {
        match Record::parse(line).ok().as_ref().and_then(Record::uuid) {
            Some(uuid) => Self::of(&["line", uuid]),
            None => Self::of(&["bytes", session, &digest::hex(&digest::sha256(line))]),
        }
    }

    /// For a session that keeps a line which is forgotten elsewhere; `None` for lines that no other session has.
    pub fn exemption(session: &str, line: &[u8]) -> Option<Self> {
        let record = Record::parse(line).ok()?;
        Some(Self::of(&["exempt", session, record.uuid().or_else(|| leaf_of(&record))?]))
    }

    /// For a file beside a transcript, by its path in the session's own folder.
    pub fn of_file(session: &str, path: &str) -> Self {
        Self::of(&["file", session, path])
    }

    fn of(parts: &[&str]) -> Self {
        let hash = digest::sha256(parts.join("\0").as_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(&hash[..16]);
        Self(key)
    }
}

/// The newest line of the conversation that a line is about.
fn leaf_of<'r>(record: &'r Record<'_>) -> Option<&'r str> {
    match record.leaf() {
        Some((Link::To(leaf), _)) => Some(leaf),
        _ => record.summarized(),
    }
}

/// The tombstones of a data folder.
#[derive(Clone, Debug, Default)]
pub struct Tombstones(Arc<[Tombstone]>);

impl Tombstones {
    /// Name of the file in the data folder.
    pub const FILE: &str = "forgotten";

    /// Reads the tombstones; there are none without a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged: what was forgotten could come back.
    pub fn read(data: &Path) -> Result<Self, StoreError> {
        let path = data.join(Self::FILE);
        let bytes = match files::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(cause) => return Err(StoreError::File { path, cause }),
        };
        let keys = bytes.strip_prefix(HEAD).map(<[u8]>::as_chunks::<16>);
        match keys {
            Some((keys, [])) if keys.is_sorted() => Ok(Self(keys.iter().copied().map(Tombstone).collect())),
            _ => {
                let cause =
                    "it is damaged; put a copy of it back, or remove it, and use `ctxbridge forget` again for what has to go";
                Err(StoreError::File { path, cause: io::Error::new(io::ErrorKind::InvalidData, cause) })
            }
        }
    }

    /// Adds tombstones to those of a data folder after some were removed, and returns all of them. They are on the disk then.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn change(data: &Path, old: &BTreeSet<Tombstone>, new: &BTreeSet<Tombstone>) -> Result<Self, StoreError> {
        let path = data.join(Self::FILE);
        let failed = |cause| StoreError::File { path: path.clone(), cause };
        paths::create_private_dir(data).map_err(failed)?;
        let lock = files::open_lock(data.join(LOCK_FILE)).map_err(failed)?;
        // Where there are no locks, two at once are unlikely.
        let _alone = files::lock_within(&lock, File::try_lock, LOCK_TIMEOUT);
        let known = Self::read(data)?;
        let keys: BTreeSet<Tombstone> = known.0.iter().filter(|key| !old.contains(key)).chain(new).copied().collect();
        let mut bytes = HEAD.to_vec();
        bytes.extend(keys.iter().flat_map(|key| key.0));
        files::replace(&path, &bytes).map_err(failed)?;
        files::sync(&path).map_err(failed)?;
        Ok(Self(keys.into_iter().collect()))
    }

    /// Writes the file anew as it is, so that whoever has read a transcript meanwhile reads it again ([`TombstoneWatch`]).
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub(super) fn touch(data: &Path) -> Result<(), StoreError> {
        Self::change(data, &BTreeSet::new(), &BTreeSet::new()).map(drop)
    }

    /// `true` if nothing was forgotten.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `true` if a session was forgotten as a whole.
    pub fn has_session(&self, session: &str) -> bool {
        self.has(Tombstone::of_session(session))
    }

    /// `true` if a file beside a session's transcript was forgotten.
    pub fn has_file(&self, session: &str, path: &str) -> bool {
        self.has(Tombstone::of_file(session, path))
    }

    /// `true` if a line of a session's transcript was forgotten.
    pub fn has_line(&self, session: &str, line: &[u8]) -> bool {
        !self.is_empty()
            && (self.has(Tombstone::of_line(session, line)) || Tombstone::of_leaf(line).is_some_and(|leaf| self.has(leaf)))
            && !Tombstone::exemption(session, line).is_some_and(|exemption| self.has(exemption))
    }

    fn has(&self, key: Tombstone) -> bool {
        self.0.binary_search(&key).is_ok()
    }
}

/// Watches the tombstones between reading a transcript and writing what was read: its bytes may have been forgotten meanwhile, and have
/// the same length.
#[derive(Debug, Default)]
pub(crate) struct TombstoneWatch {
    seen: Option<FileStamp>,
    is_stale: bool,
}

impl TombstoneWatch {
    /// Notes that a transcript is about to be read.
    pub fn begin(&mut self, data: &Path) {
        let now = files::stamp(&data.join(Tombstones::FILE));
        // Another one may have been read, and not be written yet.
        self.is_stale |= self.seen.as_ref().is_some_and(|seen| *seen != now);
        self.seen = Some(now);
    }

    /// `true` if what was read has to be read again.
    pub fn has_changed(&self, data: &Path) -> bool {
        self.is_stale || self.seen.as_ref().is_some_and(|seen| *seen != files::stamp(&data.join(Tombstones::FILE)))
    }

    /// Forgets what was read: it will be read again.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_known_in_every_session_but_one_that_keeps_it() {
        let data = tempfile::tempdir().expect("a folder");
        let line = br#"{"uuid":"u","sessionId":"a","message":{}}"#;
        let fork = br#"{"uuid":"u","sessionId":"b","message":{}}"#;
        let title = br#"{"type":"summary","summary":"x"}"#;
        let none = Tombstones::read(data.path()).expect("no file is no error");
        assert!(none.is_empty() && !none.has_line("a", line));
        let change = |old: &[Tombstone], new: &[Tombstone]| {
            Tombstones::change(data.path(), &old.iter().copied().collect(), &new.iter().copied().collect()).expect("written")
        };
        change(&[], &[Tombstone::of_line("a", line), Tombstone::of_line("a", title)]);
        let exemption = Tombstone::exemption("c", line).expect("it has a uuid");
        let all = change(&[], &[exemption]);
        assert!(all.has_line("a", line) && all.has_line("b", fork) && !all.has_line("c", line));
        assert!(all.has_line("a", title) && !all.has_line("b", title));
        let last = br#"{"type":"last-prompt","lastPrompt":"x","leafUuid":"u"}"#;
        assert!(all.has_line("a", last) && all.has_line("b", last) && !all.has_line("c", last));
        assert!(Tombstone::exemption("c", title).is_none());
        assert!(!all.has_session("a") && !all.has_file("a", "tool-results/x.txt"));
        assert!(change(&[exemption], &[]).has_line("c", line));
        let all = change(&[], &[exemption]);
        let bytes = std::fs::read(data.path().join(Tombstones::FILE)).expect("there");
        assert_eq!(Tombstones::read(data.path()).expect("sound").0, all.0);
        std::fs::write(data.path().join(Tombstones::FILE), &bytes[..bytes.len() - 1]).expect("writable");
        let error = Tombstones::read(data.path()).expect_err("damaged").to_string();
        assert!(error.contains("damaged"), "{error}");
    }
}
