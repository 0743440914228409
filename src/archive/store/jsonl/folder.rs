//! The folder: its files, which only the user may read, and its lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::store::StoreError;
use crate::store::sqlite::LockPolicy;
use ctxbridge_common::digest;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// The lock file, held by the writer.
const LOCK: &str = "lock";

/// The name of the file.
pub(super) const JOURNAL_FILE: &str = "journal.jsonl";

/// The subfolder with copies of the transcripts, byte for byte.
pub(super) const TRANSCRIPTS: &str = "transcripts";

/// Characters of a session's id that go into a file name.
const SESSION_CHARS: usize = 64;

/// Time that a writer waits for another one, which may be compacting.
const INTERACTIVE_LOCK_TIMEOUT: Duration = Duration::from_millis(250);
const BACKGROUND_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A folder with an archive.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Creates the folder if it is missing.
    pub fn make(path: &Path) -> Result<Self, StoreError> {
        let folder = Self::at(path);
        if !path.exists() && folder.replacement().exists() {
            // It was complete when the other one was moved aside; whoever was to put it in its place was killed.
            fs::rename(folder.replacement(), path).map_err(|cause| explain(path, cause))?;
        }
        paths::create_private_dir(path).map_err(|cause| explain(path, cause))?;
        let transcripts = folder.file(TRANSCRIPTS);
        let failed = |cause| explain(&transcripts, cause);
        match fs::symlink_metadata(&transcripts) {
            Ok(there) if there.is_dir() => Ok(folder),
            // A link could lead anywhere.
            Ok(_) => Err(failed(io::ErrorKind::NotADirectory.into())),
            Err(_) => paths::create_private_dir(&transcripts).map_err(failed).map(|()| folder),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder beside it, in which an archive is written that will replace this one.
    pub fn replacement(&self) -> PathBuf {
        self.path.with_added_extension("next")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file in the folder, without following links.
    pub fn open(&self, name: &str, options: &mut OpenOptions) -> Result<File, StoreError> {
        let path = self.file(name);
        files::open_no_link(&path, options).map_err(|cause| explain(&path, cause))
    }

    /// Like [`open`](Self::open), but returns `None` for a missing file.
    pub fn open_if_there(&self, name: &str, options: &mut OpenOptions) -> Result<Option<File>, StoreError> {
        match self.open(name, options) {
            Ok(file) => Ok(Some(file)),
            Err(StoreError::File { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn explain(&self, name: &str, cause: io::Error) -> StoreError {
        explain(&self.file(name), cause)
    }

    /// Locks out other writers until the returned file is dropped.
    pub fn lock(&self, policy: LockPolicy) -> Result<Option<File>, StoreError> {
        let timeout = match policy {
            LockPolicy::Interactive => INTERACTIVE_LOCK_TIMEOUT,
            LockPolicy::Background => BACKGROUND_LOCK_TIMEOUT,
        };
        loop {
            let file = self.open(LOCK, files::private().create(true).truncate(false))?;
            match files::lock_within(&file, File::try_lock, timeout) {
                // Else all of it was moved away while we waited.
                Ok(()) if self.is_lock(&file) => return Ok(Some(file)),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { path: self.path.clone() }),
                // Some network drives have none.
                Err(TryLockError::Error(_)) => return Ok(None),
            }
        }
    }

    /// `true` if a file is the current lock of the folder.
    #[cfg(unix)]
    fn is_lock(&self, file: &File) -> bool {
        use std::os::unix::fs::MetadataExt;
        let of = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let there = fs::symlink_metadata(self.file(LOCK)).map(of).ok();
        there.is_some() && there == file.metadata().map(of).ok()
    }

    /// Always `true`: other systems do not move a folder that contains an open file.
    #[cfg(not(unix))]
    fn is_lock(&self, _: &File) -> bool {
        true
    }

    /// `true` if there are transcript files.
    pub fn has_transcripts(&self) -> Result<bool, StoreError> {
        match fs::read_dir(self.file(TRANSCRIPTS)) {
            Ok(listed) => Ok(listed.flatten().any(|entry| is_transcript(&entry.path()))),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(self.explain(TRANSCRIPTS, cause)),
        }
    }

    /// The error for transcript files without a journal.
    pub fn without_journal(&self) -> StoreError {
        let cause = format!("{} is gone, or has no begin, though there are transcripts", JOURNAL_FILE);
        StoreError::Damaged { path: self.path.clone(), cause }
    }

    /// Takes the lock if it is free. Returns `None` if it is not, or if the file system has no locks.
    pub fn try_lock(&self) -> Result<Option<File>, StoreError> {
        let file = self.open(LOCK, files::private().create(true).truncate(false))?;
        Ok(file.try_lock().ok().map(|()| file))
    }

    /// Returns the bytes of all transcript files, and of all other files.
    pub fn bytes(&self) -> (u64, u64) {
        let of = |folder: &Path, is_wanted: fn(&Path) -> bool| -> u64 {
            let Ok(entries) = fs::read_dir(folder) else { return 0 };
            let files = entries.flatten().filter(|entry| is_wanted(&entry.path())).filter_map(|entry| entry.metadata().ok());
            files.filter(fs::Metadata::is_file).map(|file| file.len()).sum()
        };
        let transcripts = self.file(TRANSCRIPTS);
        (of(&transcripts, is_transcript), of(&self.path, |_| true) + of(&transcripts, |path| !is_transcript(path)))
    }
}

/// Returns the file of a transcript's generation. A session's name cannot lead out of the folder: all but the plainest characters
/// are replaced, and a hash of the path keeps transcripts apart.
pub(super) fn transcript_file(session: &str, path: &str, generation: u32) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = session.trim_start_matches('-').chars().map(plain).take(SESSION_CHARS).collect();
    let name = if name.is_empty() { "session" } else { &name };
    format!("{TRANSCRIPTS}/{name}-{}.{generation}.jsonl", &digest::of_bytes(path.as_bytes())[..16])
}

/// `true` if a file beside transcripts is one, rather than checksums of one.
fn is_transcript(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

pub(super) fn explain(path: &Path, cause: io::Error) -> StoreError {
    let path = path.to_owned();
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => StoreError::Full { path },
        _ => StoreError::File { path, cause },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for odd in
            ["", "..", "../../etc/passwd", "/etc/passwd", "-rf", "a\0b", "a\nb", "C:\\x", "é🦀", &"x".repeat(1_000), ".", "a/b"]
        {
            let name = transcript_file(odd, odd, 3);
            let inside = name.strip_prefix("transcripts/").expect("a folder");
            assert!(inside.len() < 120 && inside.ends_with(".3.jsonl"), "{odd:?}: {name}");
            let stem = inside.trim_end_matches(".3.jsonl");
            assert!(stem.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{odd:?}: {name}");
            assert!(stem.starts_with(|c: char| c != '-'), "{odd:?}: {name}");
        }
        assert_ne!(transcript_file("a/b", "/1", 0), transcript_file("a_b", "/2", 0));
        assert_ne!(transcript_file("s", "/1", 0), transcript_file("s", "/1", 1));
    }
}
