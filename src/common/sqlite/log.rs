/*!
The log beside a database (`-wal`), read and mended without SQLite: that takes the first damaged frame for the log's end, and writes
over what follows.

A frame's checksum goes on from that of the frame before, and each frame notes it. So a frame behind a damaged one is still known to
be sound: it goes on from what the damaged one notes. A damaged frame is told from the end of the log by a sound commit behind it, or
by being one bit away from a sound one. (What a transaction that was taken back left behind has no commit.)

The checksum is linear modulo 2^32, and its weights are Fibonacci numbers: what a flipped bit changes is known for each position. For
the higher bits of a word, several positions change it alike; then nobody can tell which one it was, and the frame stays damaged.

Format: <https://sqlite.org/fileformat2.html#the_write_ahead_log>.
*/

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::page_sum::{PAGE_BYTES, SUM_BYTES};
use super::pages::read_page_at;
use crate::files;

const HEADER_BYTES: usize = 32;
/// Bytes of the header that its checksum is of.
const SUMMED_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 24;
/// Bytes of a frame's header that its checksum is of: the number of the page, and that of all pages if the frame ends a commit.
const FRAME_SUMMED_BYTES: usize = 8;
const FRAME_BYTES: usize = FRAME_HEADER_BYTES + PAGE_BYTES;

/// Magic number of a log whose checksums are of little-endian words; with the lowest bit, of big-endian ones.
const MAGIC: u32 = 0x377f_0682;
/// Version of the format.
const VERSION: u32 = 3_007_000;

/// A running checksum over pairs of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums(u32, u32);

/// Condition of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameCondition {
    Sound,
    /// Its salts or its checksum are damaged, and its content is sound. It has these sums.
    HeaderDamaged(Sums),
    /// Its content is damaged; it goes on from these sums.
    Damaged(Sums),
    /// Only one bit keeps the last frame from being sound, in its content or in its checksum; it goes on from these sums.
    LastDamaged(Sums),
}

/// A frame that counts.
#[derive(Clone, Copy, Debug)]
struct LogFrame {
    /// Its offset in the file.
    offset: u64,
    page: u32,
    condition: FrameCondition,
}

/// The header of a log.
#[derive(Clone, Debug)]
struct Header {
    bytes: [u8; HEADER_BYTES],
    is_damaged: bool,
}

/// The committed frames of a log.
#[derive(Debug)]
pub struct DatabaseLog {
    path: PathBuf,
    file: File,
    header: Header,
    frames: Vec<LogFrame>,
    /// Offset of the newest version of each page.
    pages: HashMap<u32, u64>,
    /// Pages whose newest version is damaged.
    lost: HashSet<u32>,
}

/// Path of a database's log.
pub fn log_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// `true` if a damaged frame or header keeps SQLite from reading all of the log of a database that it has opened. Then it has taken the
/// damage for the log's end: the log is read here only if what it takes for the end may be none.
///
/// Where another process had the database open before, the log was read when that one opened it, and is not read again.
pub(super) fn is_cut_short(db: &Connection, database: &Path) -> bool {
    // Without a checkpoint, this tells how many frames there are for SQLite.
    let frames = db.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get::<_, i64>(1)).unwrap_or(-1);
    let may_be = || -> io::Result<bool> {
        let file = files::open(log_path(database))?;
        // An earlier round of the log had other salts.
        let salts = |at: usize| {
            let mut salts = [0; 8];
            let mut file = &file;
            file.seek(SeekFrom::Start(at as u64))?;
            file.read_exact(&mut salts).map(|()| u64::from_be_bytes(salts))
        };
        let next = HEADER_BYTES + usize::try_from(frames).unwrap_or_default() * FRAME_BYTES;
        if file.metadata()?.len() < (next + FRAME_BYTES) as u64 {
            return Ok(false);
        }
        Ok((salts(16)? ^ salts(next + 8)?).count_ones() <= 1)
    };
    // What cannot be read here cannot be read by SQLite either, and that is told better there.
    let is_damaged = || Ok::<_, io::Error>(DatabaseLog::open(database)?.is_some_and(|log| log.damaged() > 0));
    may_be().unwrap_or(false) && is_damaged().unwrap_or(false)
}

impl DatabaseLog {
    /// Reads the log of a database up to its last commit. `None` if there is no log, or nothing in it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(database: &Path) -> io::Result<Option<Self>> {
        let path = log_path(database);
        let file = match files::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut start = Vec::new();
        (&file).take((HEADER_BYTES + FRAME_BYTES) as u64).read_to_end(&mut start)?;
        let Some(header) = start.split_first_chunk().and_then(|(bytes, first)| Header::read(bytes, first)) else {
            return Ok(None);
        };
        let frames = read_frames(&file, &header)?;
        let mut log = Self { path, file, header, frames, pages: HashMap::new(), lost: HashSet::new() };
        log.index();
        Ok(Some(log))
    }

    fn index(&mut self) {
        self.pages.clear();
        self.lost.clear();
        for LogFrame { offset, page, condition } in &self.frames {
            if matches!(condition, FrameCondition::Damaged(_) | FrameCondition::LastDamaged(_)) {
                self.lost.insert(*page);
            } else {
                self.lost.remove(page);
            }
            self.pages.insert(*page, offset + FRAME_HEADER_BYTES as u64);
        }
    }

    /// Number of damaged frames; the header counts as one.
    pub fn damaged(&self) -> usize {
        self.frames.iter().filter(|frame| frame.condition != FrameCondition::Sound).count() + usize::from(self.header.is_damaged)
    }

    /// `true` if the log has the newest version of a page, and it is damaged.
    pub fn has_lost(&self, page: u32) -> bool {
        self.lost.contains(&page)
    }

    /// Reads the newest version of a page, unless it is damaged.
    pub fn page(&self, number: u32) -> Option<Vec<u8>> {
        if self.has_lost(number) { None } else { read_page_at(&self.file, *self.pages.get(&number)?).ok() }
    }

    /// Number of pages that the database has at least. Each new one has a frame, so it is bounded by the log's size.
    pub fn page_count(&self, file_pages: u32) -> u32 {
        let newest = self.pages.keys().max().copied().unwrap_or_default();
        newest.min(file_pages.saturating_add(u32::try_from(self.pages.len()).unwrap_or(u32::MAX)))
    }

    /// Turns single flipped bits back, in place. Returns the number of damaged frames that are left. Nobody may have the database open.
    ///
    /// # Errors
    /// If the log cannot be read or written.
    pub fn correct(&mut self) -> io::Result<usize> {
        if self.damaged() == 0 {
            return Ok(0);
        }
        let mut file = File::options().read(true).write(true).open(&self.path)?;
        if self.header.is_damaged {
            file.write_all(&self.header.bytes)?;
            self.header.is_damaged = false;
        }
        let is_big_endian = self.header.is_big_endian();
        for frame in &mut self.frames {
            if frame.condition == FrameCondition::Sound {
                continue;
            }
            let mut bytes = [0; FRAME_BYTES];
            file.seek(SeekFrom::Start(frame.offset))?;
            file.read_exact(&mut bytes)?;
            let sums = match frame.condition {
                FrameCondition::HeaderDamaged(sums) => Some(sums),
                FrameCondition::Damaged(before) => correct_frame(&mut bytes, before, false, is_big_endian),
                FrameCondition::LastDamaged(before) => correct_frame(&mut bytes, before, true, is_big_endian),
                FrameCondition::Sound => None,
            };
            let Some(Sums(first, second)) = sums else { continue };
            bytes[8..16].copy_from_slice(self.header.salts());
            bytes[16..20].copy_from_slice(&first.to_be_bytes());
            bytes[20..24].copy_from_slice(&second.to_be_bytes());
            file.seek(SeekFrom::Start(frame.offset))?;
            file.write_all(&bytes)?;
            frame.condition = FrameCondition::Sound;
            frame.page = word(&bytes, 0);
        }
        file.sync_all()?;
        self.index();
        Ok(self.damaged())
    }

    /// Empties a damaged log if the database file has all that is still known of it: then a checkpoint has copied it there. Nobody may
    /// have the database open.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn drop_if_copied(&self, database: &Path) -> io::Result<bool> {
        let file = files::open(database)?;
        let mut sound = self.pages.keys().filter(|page| !self.has_lost(**page)).peekable();
        let is_known = sound.peek().is_some();
        let is_copied = |page: &u32| {
            let there = read_page_at(&file, u64::from(page.saturating_sub(1)) * PAGE_BYTES as u64).ok();
            // The end of a page is its checksum there.
            let content = |page: Vec<u8>| page.get(..PAGE_BYTES - SUM_BYTES).map(<[u8]>::to_vec);
            there.and_then(content) == self.page(*page).and_then(content)
        };
        let is_copied = is_known && sound.all(is_copied);
        if is_copied {
            File::options().write(true).open(&self.path)?.set_len(0)?;
        }
        Ok(is_copied)
    }
}

impl Header {
    /// Reads a header, which may have one flipped bit. `first` are the bytes of the first frame.
    fn read(bytes: &[u8; HEADER_BYTES], first: &[u8]) -> Option<Self> {
        let header = Self { bytes: *bytes, is_damaged: false };
        if header.is_sound() {
            return Some(header);
        }
        // What a frame has is sure, as it goes on from the header's checksum.
        let candidates = (0..HEADER_BYTES * 8).map(|bit| {
            let mut bytes = *bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            Self { bytes, is_damaged: true }
        });
        candidates.filter(Self::is_sound).find(|header| {
            let sums = header.sums().after_frame(first, header.is_big_endian());
            first.len() == FRAME_BYTES && first.get(8..16) == Some(header.salts()) && sums == Sums::of_frame(first)
        })
    }

    fn is_sound(&self) -> bool {
        let expected = Sums::default().after(&self.bytes[..SUMMED_BYTES], self.is_big_endian());
        word(&self.bytes, 0) & !1 == MAGIC
            && word(&self.bytes, 4) == VERSION
            && word(&self.bytes, 8) as usize == PAGE_BYTES
            && self.sums() == expected
    }

    fn is_big_endian(&self) -> bool {
        word(&self.bytes, 0) & 1 == 1
    }

    fn salts(&self) -> &[u8] {
        &self.bytes[16..24]
    }

    fn sums(&self) -> Sums {
        Sums(word(&self.bytes, 24), word(&self.bytes, 28))
    }
}

impl Sums {
    fn after(mut self, bytes: &[u8], is_big_endian: bool) -> Self {
        let word = if is_big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        for [a, b, c, d, e, f, g, h] in bytes.as_chunks::<8>().0 {
            self.0 = self.0.wrapping_add(word([*a, *b, *c, *d])).wrapping_add(self.1);
            self.1 = self.1.wrapping_add(word([*e, *f, *g, *h])).wrapping_add(self.0);
        }
        self
    }

    fn after_frame(self, frame: &[u8], is_big_endian: bool) -> Self {
        let part = |range: std::ops::Range<usize>| frame.get(range).unwrap_or_default();
        self.after(part(0..FRAME_SUMMED_BYTES), is_big_endian).after(part(FRAME_HEADER_BYTES..FRAME_BYTES), is_big_endian)
    }

    /// The checksum that a frame notes.
    fn of_frame(frame: &[u8]) -> Self {
        Self(word(frame, 16), word(frame, 20))
    }

    /// Number of bits that differ.
    fn distance(self, other: Self) -> u32 {
        (self.0 ^ other.0).count_ones() + (self.1 ^ other.1).count_ones()
    }
}

/// Reads the frames up to the last sound commit, or up to one that is a bit away from it.
fn read_frames(file: &File, header: &Header) -> io::Result<Vec<LogFrame>> {
    let is_big_endian = header.is_big_endian();
    let mut reader = BufReader::with_capacity(16 * PAGE_BYTES, file);
    reader.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
    let (mut frames, mut committed) = (Vec::<LogFrame>::new(), 0);
    // What the frame before notes, and what it should.
    let (mut noted, mut computed) = (header.sums(), header.sums());
    let mut bytes = vec![0; FRAME_BYTES];
    // A damaged frame of which it is not known yet if the log ends there.
    let mut last_damaged = None;
    loop {
        match reader.read_exact(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            read => read?,
        }
        let offset = (HEADER_BYTES + frames.len() * FRAME_BYTES) as u64;
        let (page, ends_commit) = (word(&bytes, 0), word(&bytes, 4) != 0);
        let stored = Sums::of_frame(&bytes);
        let salts = bytes[8..16].iter().zip(header.salts()).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        let by_noted = noted.after_frame(&bytes, is_big_endian);
        let by_computed = if noted == computed { by_noted } else { computed.after_frame(&bytes, is_big_endian) };
        let goes_on = [by_noted, by_computed].into_iter().find(|sums| *sums == stored);
        let condition = match goes_on {
            // Frames of an earlier round of the log have other salts, all of them.
            Some(_) if salts > 1 => break,
            Some(sums) => {
                // The one before is sound but for what it notes, if this one goes on from what it should note.
                if noted != computed
                    && by_computed == stored
                    && let Some(before) = frames.last_mut()
                {
                    before.condition = FrameCondition::HeaderDamaged(computed);
                }
                if salts == 0 { FrameCondition::Sound } else { FrameCondition::HeaderDamaged(sums) }
            }
            None if salts > 1 => break,
            None => FrameCondition::Damaged(noted),
        };
        frames.push(LogFrame { offset, page, condition });
        if matches!(condition, FrameCondition::Damaged(_)) {
            if last_damaged.is_none() {
                last_damaged = Some((frames.len(), bytes.clone()));
            }
        } else if ends_commit {
            (committed, last_damaged) = (frames.len(), None);
        }
        (noted, computed) = (stored, by_noted);
    }
    // The very last commit may be damaged: all before it is sound, and nothing that counts is behind it.
    if let Some((count, bytes)) = last_damaged
        && let Some(LogFrame { condition: FrameCondition::Damaged(before), .. }) = frames.get(count - 1).copied()
        && is_one_bit_away(&bytes, before, is_big_endian)
    {
        frames.truncate(count);
        if let Some(last) = frames.last_mut() {
            last.condition = FrameCondition::LastDamaged(before);
        }
        return Ok(frames);
    }
    frames.truncate(committed);
    Ok(frames)
}

/// `true` if a frame that goes on from these sums ends a commit, and would be sound with one bit turned.
fn is_one_bit_away(frame: &[u8], before: Sums, is_big_endian: bool) -> bool {
    word(frame, 4) != 0 && (is_noted_near(frame, before, is_big_endian) || !flips(frame, before, is_big_endian).is_empty())
}

/// `true` if a frame's checksum differs from the right one by one bit.
fn is_noted_near(frame: &[u8], before: Sums, is_big_endian: bool) -> bool {
    Sums::of_frame(frame).distance(before.after_frame(frame, is_big_endian)) == 1
}

/// Turns the one flipped bit of a frame back, and returns its checksum. `None` if there is no such bit, or several.
fn correct_frame(frame: &mut [u8; FRAME_BYTES], before: Sums, is_last: bool, is_big_endian: bool) -> Option<Sums> {
    let is_noted_damaged = is_last && is_noted_near(frame, before, is_big_endian);
    // Nothing is in the end of a page yet, so whichever bit it is there is as good.
    let (free, content): (Vec<_>, Vec<_>) =
        flips(frame, before, is_big_endian).into_iter().partition(|(at, _)| *at >= FRAME_BYTES - SUM_BYTES);
    match (&content[..], &free[..], is_noted_damaged) {
        ([], [(at, bit), ..], _) | ([(at, bit)], [], false) => frame[*at] ^= 1 << bit,
        ([], [], true) => return Some(before.after_frame(frame, is_big_endian)),
        _ => return None,
    }
    Some(Sums::of_frame(frame))
}

/// The bits of a frame's content, by byte and number, each of which alone would make its checksum fit.
fn flips(frame: &[u8], before: Sums, is_big_endian: bool) -> Vec<(usize, u8)> {
    let (stored, computed) = (Sums::of_frame(frame), before.after_frame(frame, is_big_endian));
    let missing = (stored.0.wrapping_sub(computed.0), stored.1.wrapping_sub(computed.1));
    let mut found = Vec::new();
    // What 1 more in the first and in the second word of a pair adds to the sums, beginning with the last pair.
    let (mut first, mut second) = ((1_u32, 1_u32), (0_u32, 1_u32));
    let step = |(a, b): (u32, u32)| (a.wrapping_add(b), a.wrapping_add(b).wrapping_add(b));
    let pairs = (FRAME_HEADER_BYTES..FRAME_BYTES).step_by(8).rev().chain([0]);
    for start in pairs {
        for (at, weight) in [(start, first), (start + 4, second)] {
            for bit in 0..32_u32 {
                let byte = at + if is_big_endian { 3 - bit / 8 } else { bit / 8 } as usize;
                let is_set = frame.get(byte).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
                let change = if is_set { (1_u32 << bit).wrapping_neg() } else { 1 << bit };
                if (weight.0.wrapping_mul(change), weight.1.wrapping_mul(change)) == missing {
                    found.push((byte, (bit % 8) as u8));
                }
            }
        }
        (first, second) = (step(first), step(second));
    }
    found
}

/// Reads a big-endian word; 0 where there is none.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

#[cfg(test)]
mod tests;
