//! Bytes of a transcript between two stores, or out of a store and back: in memory, or in a file without a name where they are many.

use std::cell::{RefCell, RefMut};
use std::io::{self, Read, Seek, SeekFrom};

use tempfile::SpooledTempFile;

use super::reader::TranscriptSource;
use super::store::{EVERYTHING, SegmentReader, StoreError};

/// Maximum bytes that are kept in memory.
const MAX_IN_MEMORY_BYTES: usize = 64 << 20;

/// Bytes that can be read again and again.
pub(crate) struct SpooledBytes {
    file: RefCell<SpooledTempFile>,
    length: u64,
}

impl SpooledBytes {
    /// Takes the bytes that `write` writes.
    pub fn written_by<E>(write: impl FnOnce(&mut SpooledTempFile) -> Result<(), E>) -> Result<Self, StoreError>
    where
        StoreError: From<E>,
    {
        let mut file = SpooledTempFile::new(MAX_IN_MEMORY_BYTES);
        write(&mut file)?;
        let length = file.stream_position()?;
        Ok(Self { file: RefCell::new(file), length })
    }

    /// Takes all bytes of a generation of a transcript.
    pub fn of_generation(store: &mut dyn SegmentReader, transcript: i64, generation: u32) -> Result<Self, StoreError> {
        Self::written_by(|file| store.read_bytes(transcript, generation, EVERYTHING, file))
    }

    /// The bytes themselves, with their number.
    pub fn file(&self) -> (RefMut<'_, SpooledTempFile>, u64) {
        (self.file.borrow_mut(), self.length)
    }

    /// A reader of them, with their number.
    pub fn source(&self) -> (Box<dyn TranscriptSource + '_>, u64) {
        (Box::new(self), self.length)
    }
}

impl TranscriptSource for &SpooledBytes {
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut file = self.file.borrow_mut();
        file.seek(SeekFrom::Start(start))?;
        Read::take(&mut *file, length).read_to_end(bytes).map(drop)
    }
}
