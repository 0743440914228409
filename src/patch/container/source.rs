//! The bytes of a file: those of a script in memory, those of an executable mapped, so that of 381 MB only what is looked at is read.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::{Deref, Range};
use std::sync::Arc;

use memmap2::Mmap;

use super::Kind;
use ctxbridge_common::digest;

/// How much of a file is read at once where all of it is gone through.
const WINDOW: usize = 1 << 20;

/// Bytes that stay where they are as long as anybody has a handle on them.
#[derive(Clone, Debug)]
pub struct Source(Arc<Bytes>);

#[derive(Debug)]
enum Bytes {
    Memory(Vec<u8>),
    Mapped { map: Mmap, file: File },
}

impl Source {
    /// The bytes of a file that was opened: of a script in memory, of an executable mapped.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(mut file: File) -> io::Result<Self> {
        let mut head = [0; 4];
        file.seek(SeekFrom::Start(0))?;
        let length = file.read(&mut head)?;
        if Kind::of(&head[..length]).is_native() {
            return Self::map(file);
        }
        let mut bytes = head[..length].to_vec();
        file.read_to_end(&mut bytes)?;
        Ok(Self::from(bytes))
    }

    /// Maps a file.
    ///
    /// # Errors
    /// When the system cannot.
    pub fn map(file: File) -> io::Result<Self> {
        // SAFETY: the map is only read. What a map must not meet is a file that is changed or cut short under it. Installers and
        // updaters of the client write a new file and rename it, as we do, which leaves the mapped one as it is; and whoever
        // writes into a running program's file would end that program as well.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self(Arc::new(Bytes::Mapped { map, file })))
    }

    /// The SHA-256 of all of it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn sha256(&self) -> io::Result<String> {
        match &*self.0 {
            Bytes::Memory(bytes) => Ok(digest::of_bytes(bytes)),
            Bytes::Mapped { map, .. } => {
                let mut hasher = digest::Hasher::default();
                self.stream(0..map.len(), &mut |bytes| hasher.update(bytes))?;
                Ok(hasher.finish())
            }
        }
    }

    /// The file behind a map.
    pub fn file(&self) -> Option<&File> {
        match &*self.0 {
            Bytes::Memory(_) => None,
            Bytes::Mapped { file, .. } => Some(file),
        }
    }

    /// Goes through a range in order. Of a mapped file the bytes are read, not looked at in the map: what was looked at counts as
    /// memory of this process.
    ///
    /// # Errors
    /// When the file cannot be read, or what `each` says.
    pub fn stream(&self, range: Range<usize>, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let file = match &*self.0 {
            Bytes::Memory(bytes) => {
                each(bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
                return Ok(());
            }
            Bytes::Mapped { file, .. } => file,
        };
        let mut window = vec![0; WINDOW.min(range.len())];
        let mut at = range.start;
        while at < range.end {
            let part = &mut window[..WINDOW.min(range.end - at)];
            read_exact_at(file, part, at as u64)?;
            each(part);
            at += part.len();
        }
        Ok(())
    }
}

/// Reads where it is told to, and leaves the file's own position alone: several threads may read at once.
#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => (bytes, offset) = (&mut bytes[read..], offset + read as u64),
        }
    }
    Ok(())
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Bytes::Memory(bytes)))
    }
}

impl Deref for Source {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &*self.0 {
            Bytes::Memory(bytes) => bytes,
            Bytes::Mapped { map, .. } => map,
        }
    }
}
