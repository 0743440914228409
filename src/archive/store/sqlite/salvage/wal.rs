//! The log beside a database: pages that were committed, and not yet copied into the file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use super::btree::u32_at;
use super::pages::{PAGE_BYTES, read_at};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// Magic number of a log whose checksums are of little-endian words; with the lowest bit, of big-endian ones.
const MAGIC: u32 = 0x377f_0682;

/// The committed pages of a log.
#[derive(Debug)]
pub(super) struct Wal {
    file: File,
    /// Offset of the newest version of each page.
    pages: HashMap<u32, u64>,
}

/// A running checksum over pairs of words.
struct Checksum {
    sums: (u32, u32),
    is_big_endian: bool,
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        let (pairs, _) = bytes.as_chunks::<8>();
        for [a, b, c, d, e, f, g, h] in pairs {
            let word = if self.is_big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
            self.sums.0 = self.sums.0.wrapping_add(word([*a, *b, *c, *d])).wrapping_add(self.sums.1);
            self.sums.1 = self.sums.1.wrapping_add(word([*e, *f, *g, *h])).wrapping_add(self.sums.0);
        }
    }

    fn is(&self, bytes: &[u8], at: usize) -> bool {
        (u32_at(bytes, at), u32_at(bytes, at + 4)) == (Some(self.sums.0), Some(self.sums.1))
    }
}

impl Wal {
    /// Reads which pages a log has, up to the last commit before the first frame with a wrong checksum. `None` if there is no log.
    pub fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let mut reader = BufReader::with_capacity(16 * PAGE_BYTES, &file);
        let mut header = [0; HEADER_BYTES];
        reader.read_exact(&mut header).ok()?;
        let magic = u32_at(&header, 0)?;
        if magic & !1 != MAGIC || u32_at(&header, 8)? as usize != PAGE_BYTES {
            return None;
        }
        let mut sum = Checksum { sums: (0, 0), is_big_endian: magic & 1 == 1 };
        sum.add(header.get(..24)?);
        if !sum.is(&header, 24) {
            return None;
        }
        let (mut pages, mut open) = (HashMap::new(), Vec::new());
        let mut offset = HEADER_BYTES as u64;
        let mut frame = vec![0; FRAME_HEADER_BYTES + PAGE_BYTES];
        while reader.read_exact(&mut frame).is_ok() {
            sum.add(frame.get(..8)?);
            sum.add(frame.get(FRAME_HEADER_BYTES..)?);
            // Frames of an earlier round of the log have other salts.
            if frame.get(8..16) != header.get(16..24) || !sum.is(&frame, 16) {
                break;
            }
            open.push((u32_at(&frame, 0)?, offset + FRAME_HEADER_BYTES as u64));
            if u32_at(&frame, 4)? != 0 {
                pages.extend(open.drain(..));
            }
            offset += frame.len() as u64;
        }
        drop(reader);
        Some(Self { file, pages })
    }

    /// Reads the newest version of a page.
    pub fn page(&self, number: u32) -> Option<Vec<u8>> {
        read_at(&self.file, *self.pages.get(&number)?)
    }

    /// Number of pages that the database has at least. Each new one has a frame, so it is bounded by the log's size.
    pub fn page_count(&self, file_pages: u32) -> u32 {
        let newest = self.pages.keys().max().copied().unwrap_or_default();
        newest.min(file_pages.saturating_add(u32::try_from(self.pages.len()).unwrap_or(u32::MAX)))
    }
}
