/*!
Checksums of transcript files, by block: a text file `NAME.N.sums` beside each, with a line for each piece.

`0 9000 0011223344556677 8899aabbccddeeff 0123456789abcdef fedcba9876543210` is the piece of 9,000 bytes at byte 0. The begin of its
SHA-256 and the CRC-64 of each block follow. A piece that is not what was archived has its flipped bits turned back by them, and what
is in its other blocks can be read.

The file is an aid. It is only added to, and nothing fails where it cannot be written or makes no sense. Of lines about the same
place, the last one with the right begin of the SHA-256 counts; others are from unfinished writes, or of pieces that grew.
*/

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::folder::Folder;
use ctxbridge_common::crc;
use ctxbridge_common::{digest, files};

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 4096;

/// Digits of a checksum, and of a piece's SHA-256.
const DIGITS: usize = 16;

/// Maximum bytes of a file that are read. None has so many before its transcript has hundreds of times more.
const MAX_BYTES: u64 = 256 << 20;

/// Extension of a file, and of one that is being written.
const EXTENSION: &str = "sums";
const NEW: &str = "new";

/// A piece: its start, its length, and its SHA-256.
pub(super) type PieceKey<'a> = (u64, u32, &'a digest::Sha256Digest);

/// The checksum of a block, as it is written. A flipped bit of a digit is told from damage to the block.
type BlockSum = [u8; DIGITS];

/// The file for a transcript file.
fn sums_file(transcript: &str) -> String {
    format!("{}.{EXTENSION}", transcript.strip_suffix(".jsonl").unwrap_or(transcript))
}

/// Returns the line of a piece, with its line break.
pub(super) fn line(start: u64, piece: &[u8], sha256: &digest::Sha256Digest) -> String {
    let tie = &digest::hex(sha256)[..DIGITS];
    let sums: String = piece.chunks(BLOCK_BYTES).map(|block| format!(" {:016x}", crc::sum64(block))).collect();
    format!("{start} {} {tie}{sums}\n", piece.len())
}

/// Adds lines of a transcript file.
pub(super) fn add(folder: &Folder, transcript: &str, lines: &str) {
    let write = || -> io::Result<()> {
        let options = &mut files::private();
        let Ok(mut file) = folder.open(&sums_file(transcript), options.read(true).create(true).truncate(false)) else {
            return Ok(());
        };
        let end = file.seek(SeekFrom::End(0))?;
        let mut last = [b'\n'];
        if end > 0 {
            file.seek(SeekFrom::Start(end - 1))?;
            file.read_exact(&mut last)?;
        }
        // Behind an unfinished line, a new one begins.
        let gap = if last == *b"\n" { "" } else { "\n" };
        file.write_all(format!("{gap}{lines}").as_bytes())
    };
    // An aid that cannot be had is no reason to fail; maintenance adds it.
    if !lines.is_empty() {
        write().ok();
    }
}

/// Gives a new transcript file the lines of the pieces that it shares with another one: those up to a byte.
pub(super) fn take_along(folder: &Folder, from: &str, to: &str, shared: u64) {
    let text = read(folder, from);
    let mut lines = BTreeMap::new();
    for line in text.lines() {
        if let Some(parsed) = SumsLine::of(line).filter(|parsed| parsed.start + u64::from(parsed.bytes) <= shared) {
            lines.insert(parsed.start, line);
        }
    }
    add(folder, to, &lines.into_values().map(|line| format!("{line}\n")).collect::<String>());
}

/// Writes the file of a transcript file again, with exactly these lines, if it has others. The caller holds the lock.
pub(super) fn replace(folder: &Folder, transcript: &str, lines: &str) {
    if read(folder, transcript) == lines {
        return;
    }
    let name = sums_file(transcript);
    let new = format!("{name}.{NEW}");
    let write = || -> io::Result<()> {
        if let Ok(mut file) = folder.open(&new, files::private().create(true).truncate(true)) {
            file.write_all(lines.as_bytes())?;
            files::patiently(|| fs::rename(folder.file(&new), folder.file(&name)))?;
        }
        Ok(())
    };
    if write().is_err() {
        // It is of no use, and takes room.
        fs::remove_file(folder.file(&new)).ok();
    }
}

/// Returns the line about a piece, if there is one.
pub(super) fn line_about(folder: &Folder, transcript: &str, piece: PieceKey<'_>) -> Option<String> {
    let text = read(folder, transcript);
    SumsLine::about(&text, piece).map(|(line, _)| format!("{line}\n"))
}

/// Text of the file; empty where there is none that can be read.
fn read(folder: &Folder, transcript: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = folder.open(&sums_file(transcript), File::options().read(true)) {
        file.take(MAX_BYTES).read_to_end(&mut bytes).ok();
    }
    text_of(bytes)
}

fn text_of(bytes: Vec<u8>) -> String {
    // The highest bit of a byte is not used: where it is there, it was flipped.
    bytes.into_iter().map(|byte| char::from(byte & 0x7f)).collect()
}

/// Checksums of a piece's blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockSums(Vec<BlockSum>);

/// State of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockState {
    Sound,
    /// One bit was flipped, and is turned back.
    Corrected,
    Damaged,
}

impl BlockSums {
    /// Returns the checksums of a piece, if they are known.
    pub fn of(folder: &Folder, transcript: &str, piece: PieceKey<'_>) -> Option<Self> {
        Self::in_text(&read(folder, transcript), piece)
    }

    fn in_text(text: &str, piece: PieceKey<'_>) -> Option<Self> {
        let (_, line) = SumsLine::about(text, piece)?;
        // A space that is damaged moves nothing.
        let digits = |sum: &[u8]| <BlockSum>::try_from(sum.get(1..)?).ok();
        line.sums.as_bytes().chunks(DIGITS + 1).map(digits).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Turns single flipped bits of a piece back, one in each block at most, and returns the states of its blocks.
    pub fn correct(&self, piece: &mut [u8]) -> Vec<BlockState> {
        piece.chunks_mut(BLOCK_BYTES).zip(&self.0).map(|(block, sum)| correct(block, sum)).collect()
    }
}

fn correct(block: &mut [u8], noted: &BlockSum) -> BlockState {
    let right = crc::sum64(block);
    let digits = format!("{right:016x}");
    let different_bits: u32 = digits.bytes().zip(noted).map(|(right, noted)| (right ^ noted).count_ones()).sum();
    if different_bits <= 1 {
        // With one, it is a digit that was damaged.
        return BlockState::Sound;
    }
    let flipped = std::str::from_utf8(noted)
        .ok()
        .and_then(|noted| u64::from_str_radix(noted, 16).ok())
        .and_then(|noted| crc::CRC_64.find(block.len(), right ^ noted));
    let Some(flipped) = flipped else { return BlockState::Damaged };
    flipped.flip(block);
    BlockState::Corrected
}

/// A line of a file.
struct SumsLine<'a> {
    start: u64,
    bytes: u32,
    tie: &'a str,
    /// The checksums, each after a space.
    sums: &'a str,
}

impl<'a> SumsLine<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let (start, rest) = line.split_once(' ')?;
        let (bytes, rest) = rest.split_once(' ')?;
        let (start, bytes): (u64, u32) = (start.parse().ok()?, bytes.parse().ok()?);
        let (tie, sums) = rest.split_at_checked(DIGITS)?;
        let is_whole = sums.len() == (bytes as usize).div_ceil(BLOCK_BYTES) * (DIGITS + 1);
        (is_whole && start.checked_add(bytes.into()).is_some()).then_some(Self { start, bytes, tie, sums })
    }

    /// The last line about a piece, and what it says.
    fn about(text: &'a str, (start, bytes, sha256): PieceKey<'_>) -> Option<(&'a str, Self)> {
        let tie = digest::hex(sha256);
        let is_about = |line: &Self| (line.start, line.bytes) == (start, bytes) && tie.starts_with(line.tie);
        text.lines().rev().find_map(|line| Some((line, Self::of(line).filter(is_about)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAME: &str = "transcripts/s.0.jsonl";

    fn folder() -> (tempfile::TempDir, Folder) {
        let root = tempfile::tempdir().expect("a folder");
        let folder = Folder::make(&root.path().join("archive")).expect("made");
        (root, folder)
    }

    fn piece(length: usize) -> Vec<u8> {
        (0..length as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    fn noted(folder: &Folder, start: u64, bytes: &[u8]) -> Option<BlockSums> {
        BlockSums::of(folder, NAME, (start, bytes.len() as u32, &digest::sha256(bytes)))
    }

    #[test]
    fn the_last_line_about_a_piece_counts() {
        let (_root, folder) = folder();
        let (small, grown) = (piece(5_000), piece(9_000));
        add(&folder, NAME, &line(0, &small, &digest::sha256(&small)));
        // A line that was not finished, and garbage.
        let path = folder.file(&sums_file(NAME));
        for garbage in ["0 9000 0011", "\n\n \u{e9} x y\n18446744073709551615 1 0011223344556677 8899aabbccddeeff\n"] {
            fs::write(&path, fs::read_to_string(&path).expect("text") + garbage).expect("written");
        }
        add(&folder, NAME, &line(0, &grown, &digest::sha256(&grown)));
        for bytes in [&small, &grown] {
            let sums = noted(&folder, 0, bytes).expect("a line");
            let states = sums.correct(&mut bytes.clone());
            assert_eq!(states, vec![BlockState::Sound; bytes.len().div_ceil(BLOCK_BYTES)]);
        }
        assert_eq!(noted(&folder, 1, &small), None);
        assert_eq!(noted(&folder, 0, &piece(5_001)), None);
    }

    #[test]
    fn a_new_file_has_the_lines_of_what_it_shares() {
        let (_root, folder) = folder();
        let (first, second) = (piece(5_000), piece(700));
        for bytes in [&first[..10], &first] {
            add(&folder, NAME, &line(0, bytes, &digest::sha256(bytes)));
        }
        add(&folder, NAME, &line(5_000, &second, &digest::sha256(&second)));
        let next = "transcripts/s.1.jsonl";
        take_along(&folder, NAME, next, 5_100);
        assert_eq!(read(&folder, next), line(0, &first, &digest::sha256(&first)));
        replace(&folder, next, "");
        assert_eq!(read(&folder, next), "");
    }

    proptest! {
        #[test]
        fn one_bit_of_each_block_is_turned_back(length in 1..20_000_usize, bits: Vec<proptest::sample::Index>) {
            let whole = piece(length);
            let sums = BlockSums(whole.chunks(BLOCK_BYTES).map(|block| {
                format!("{:016x}", crc::sum64(block)).into_bytes().try_into().expect("digits")
            }).collect());
            let mut damaged = whole.clone();
            let mut states = vec![BlockState::Sound; whole.len().div_ceil(BLOCK_BYTES)];
            for bit in bits.iter().map(|bit| bit.index(length * 8)) {
                if std::mem::replace(&mut states[bit / 8 / BLOCK_BYTES], BlockState::Corrected) == BlockState::Sound {
                    damaged[bit / 8] ^= 1 << (bit % 8);
                }
            }
            prop_assert_eq!(sums.correct(&mut damaged), states);
            prop_assert!(damaged == whole);
        }

        /// A line with a flipped bit is the same line, or none: it never makes a sound block a damaged one.
        #[test]
        fn a_damaged_line_costs_nothing(bit: proptest::sample::Index) {
            let (whole, sha256) = (piece(9_000), digest::sha256(&piece(9_000)));
            let mut text = line(0, &whole, &sha256).into_bytes();
            let bit = bit.index(text.len() * 8);
            text[bit / 8] ^= 1 << (bit % 8);
            if let Some(sums) = BlockSums::in_text(&text_of(text), (0, 9_000, &sha256)) {
                prop_assert_eq!(sums.correct(&mut whole.clone()), vec![BlockState::Sound; 3]);
            }
        }
    }
}
