//! The bytes of a file. A script is in memory; an executable is mapped, so that only the used parts of its 381 MB are read.
//! Its hash is computed window by window.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::{Deref, Range};
use std::sync::Arc;

use memmap2::Mmap;

use super::ContainerKind;
use ctxbridge_common::digest;

/// Number of bytes read at once from a file that is read in full.
const WINDOW: usize = 1 << 20;

/// Bytes of a file, shared by all clones of the handle.
#[derive(Clone, Debug)]
pub struct FileBytes(Arc<ByteStorage>);

#[derive(Debug)]
enum ByteStorage {
    Memory(Vec<u8>),
    Mapped { map: Mmap, file: File },
}

impl FileBytes {
    /// Takes the bytes of an open file: reads a script into memory, maps an executable.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(mut file: File) -> io::Result<Self> {
        let mut head = [0; 4];
        file.seek(SeekFrom::Start(0))?;
        let length = file.read(&mut head)?;
        if ContainerKind::of(&head[..length]).is_native() {
            return Self::map(file);
        }
        let mut bytes = head[..length].to_vec();
        file.read_to_end(&mut bytes)?;
        Ok(Self::from(bytes))
    }

    /// Maps a file.
    ///
    /// # Errors
    /// If the system cannot map it.
    pub fn map(file: File) -> io::Result<Self> {
        // SAFETY: the map is only read. What a map must not meet is a file that is changed or cut short under it. Installers and
        // updaters of the client write a new file and rename it, as we do, which leaves the mapped one as it is; and whoever
        // writes into a running program's file would end that program as well.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self(Arc::new(ByteStorage::Mapped { map, file })))
    }

    /// The SHA-256 of all bytes.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn sha256(&self) -> io::Result<String> {
        match &*self.0 {
            ByteStorage::Memory(bytes) => Ok(digest::of_bytes(bytes)),
            ByteStorage::Mapped { map, .. } => {
                let mut hasher = digest::Hasher::default();
                self.stream(0..map.len(), &mut |bytes| hasher.update(bytes))?;
                Ok(hasher.finish())
            }
        }
    }

    /// The mapped file, if the bytes are mapped.
    pub fn file(&self) -> Option<&File> {
        match &*self.0 {
            ByteStorage::Memory(_) => None,
            ByteStorage::Mapped { file, .. } => Some(file),
        }
    }

    /// Passes a range to `each` in order. The bytes of a mapped file are read from the file, not from the map: pages used in the
    /// map count as memory of this process.
    ///
    /// # Errors
    /// If the file cannot be read, or if `each` fails.
    pub fn stream(&self, range: Range<usize>, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let file = match &*self.0 {
            ByteStorage::Memory(bytes) => {
                each(bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
                return Ok(());
            }
            ByteStorage::Mapped { file, .. } => file,
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

/// Reads at a position and leaves the file's own position alone: several threads may read at once.
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

impl From<Vec<u8>> for FileBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new(ByteStorage::Memory(bytes)))
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &*self.0 {
            ByteStorage::Memory(bytes) => bytes,
            ByteStorage::Mapped { map, .. } => map,
        }
    }
}
