/*!
The part of a file that is not its bytes: mode, owner, times, and which file it is.
*/

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Metadata of a file, and what of it is no part of Rust's metadata on Windows.
pub struct FileStat {
    metadata: Metadata,
    inode: (u64, u64),
    /// The number of names that the file has.
    pub links: u64,
}

impl FileStat {
    #[cfg(unix)]
    fn of_metadata(metadata: Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { inode: (metadata.dev(), metadata.ino()), links: metadata.nlink(), metadata }
    }

    /// Reads it from an open file.
    ///
    /// # Errors
    /// If the system does not tell.
    #[cfg(unix)]
    pub fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(Self::of_metadata)
    }

    /// Reads it from a file that links may lead to.
    ///
    /// # Errors
    /// If there is none, or the system does not tell.
    #[cfg(unix)]
    pub fn at(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(Self::of_metadata)
    }

    /// Reads it from an open file.
    ///
    /// # Errors
    /// If the system does not tell.
    #[cfg(windows)]
    pub fn of(file: &File) -> io::Result<Self> {
        let known = winapi_util::file::information(file)?;
        let inode = (known.volume_serial_number(), known.file_index());
        Ok(Self { metadata: file.metadata()?, inode, links: known.number_of_links() })
    }

    /// Reads it from a file that links may lead to.
    ///
    /// # Errors
    /// If there is none, or the system does not tell.
    #[cfg(windows)]
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::of(winapi_util::Handle::from_path_any(path)?.as_file())
    }

    /// `true` if it is the file that it was, and was not written to. A new name or mode is no matter.
    pub fn is_unwritten_since(&self, before: &Self) -> bool {
        let written = |stat: &Self| (stat.inode, stat.metadata.len(), stat.metadata.modified().ok());
        written(self) == written(before)
    }

    /// Returns mode, owner, times and identity.
    pub fn attributes(&self) -> Attributes {
        let Self { metadata, inode, .. } = self;
        let mtime_ns = metadata.modified().map_or(0, nanoseconds);
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Attributes { mode: metadata.mode() & 0o7777, uid: metadata.uid(), gid: metadata.gid(), mtime_ns, inode: *inode }
        }
        #[cfg(windows)]
        Attributes {
            mode: if metadata.permissions().readonly() { 0o444 } else { 0o644 },
            uid: 0,
            gid: 0,
            mtime_ns,
            inode: *inode,
        }
    }

    /// Returns identity and last change.
    pub fn fingerprint(&self) -> Fingerprint {
        let Self { metadata, inode, .. } = self;
        #[cfg(unix)]
        let ctime_ns = {
            use std::os::unix::fs::MetadataExt;
            metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec())
        };
        #[cfg(windows)]
        let ctime_ns = metadata.created().map_or(0, nanoseconds);
        let mtime_ns = metadata.modified().map_or(0, nanoseconds);
        Fingerprint { size: metadata.len(), mtime_ns, ctime_ns, inode: *inode }
    }
}

/// Attributes of a file: mode, owner, times and identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Permission bits; if the system has none, only whether the file may be written.
    pub mode: u32,
    /// Owner; 0 if the system has none.
    pub uid: u32,
    /// Group; 0 if the system has none.
    pub gid: u32,
    /// Last modification, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The file system and the file's number in it.
    pub inode: (u64, u64),
}

/// Identity and last change of a file: as long as these are the same, so are the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    size: u64,
    mtime_ns: i64,
    /// Time of the last change of the file or its attributes, which nobody can set; the time of creation if the system has none.
    ctime_ns: i64,
    inode: (u64, u64),
}

/// Coarsest clock of a file system: a file that changed so recently may change again and keep its times.
const COARSEST_CLOCK: Duration = Duration::from_secs(2);

impl Fingerprint {
    /// `true` if the bytes are most likely the same, even if the file was copied or its mode changed: good enough for a message.
    pub fn resembles(&self, other: &Self) -> bool {
        (self.size, self.mtime_ns) == (other.size, other.mtime_ns)
    }

    /// Time since the last change; zero if that is in the future.
    pub fn age(&self) -> Duration {
        let changed = u64::try_from(self.mtime_ns.max(self.ctime_ns)).unwrap_or_default();
        SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_nanos(changed)).unwrap_or_default()
    }

    /// `true` if a change after `now` would be visible in the fingerprint.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        nanoseconds(now).saturating_sub(self.mtime_ns.max(self.ctime_ns)) > COARSEST_CLOCK.as_nanos() as i64
    }

    pub(crate) fn to_json(self) -> String {
        serde_json::to_string(&self).unwrap_or_default()
    }
}

fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i64,
        Err(before) => -(before.duration().as_nanos() as i64),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_of_one_file_are_told_from_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let [file, name, copy] = ["file", "name", "copy"].map(|name| folder.path().join(name));
        fs::write(&file, "bytes").unwrap();
        let stat = |path: &Path| FileStat::at(path).unwrap();
        assert_eq!(stat(&file).links, 1);
        fs::hard_link(&file, &name).unwrap();
        fs::copy(&file, &copy).unwrap();
        assert_eq!(stat(&file).attributes().inode, stat(&name).attributes().inode);
        assert_ne!(stat(&file).attributes().inode, stat(&copy).attributes().inode);
        assert_eq!(stat(&name).links, 2);
        let open = FileStat::of(&File::open(&file).unwrap()).unwrap();
        assert_eq!((open.attributes(), open.fingerprint()), (stat(&name).attributes(), stat(&name).fingerprint()));
    }
}
