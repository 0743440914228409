//! Comparison of bytes with the generations of an archived transcript.
//!
//! A merge of JSON Lines, and a sync that has no record of a transcript, leave out generations that are there already.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::store::StoreError;
use crate::store::SegmentReader;

/// Finds the first of some generations of a transcript that begins with these bytes; it may be longer.
///
/// # Errors
/// If the archive or the bytes cannot be read.
pub fn find_matching_generation<B: Read + Seek>(
    store: &mut dyn SegmentReader,
    transcript: i64,
    generations: impl IntoIterator<Item = u32>,
    (bytes, length): (&mut B, u64),
) -> Result<Option<u32>, StoreError> {
    for generation in generations {
        bytes.seek(SeekFrom::Start(0))?;
        let mut same = ByteComparer { bytes: &mut *bytes, met: 0, is_other: false };
        match store.read_bytes(transcript, generation, (0, length), &mut same) {
            Err(StoreError::Sink(_)) if same.is_other => {}
            done => {
                done?;
                if same.met == length {
                    return Ok(Some(generation));
                }
            }
        }
    }
    Ok(None)
}

/// Accepts bytes as long as they equal others.
struct ByteComparer<'b, B> {
    bytes: &'b mut B,
    met: u64,
    is_other: bool,
}

impl<B: Read> Write for ByteComparer<'_, B> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut same = Vec::with_capacity(bytes.len());
        Read::take(&mut *self.bytes, bytes.len() as u64).read_to_end(&mut same)?;
        if same != bytes {
            self.is_other = true;
            return Err(io::Error::other("these bytes are others"));
        }
        self.met += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
