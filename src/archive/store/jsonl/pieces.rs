/*!
Reading of transcript files, piece by piece, and of what can be read of a damaged piece.

A piece is as it was archived if its SHA-256 is the right one. Else the checksums of its blocks ([`sums`](super::sums)) tell which bits were
flipped, and the SHA-256 has to be right once they are turned back. Where other bytes are damaged as well, those of sound blocks can
be read.
*/

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use super::JsonlStore;
use super::folder::{Folder, transcript_file};
use super::sums::{BLOCK_BYTES, BlockState, BlockSums, PieceKey};
use crate::store::StoreError;
use ctxbridge_common::digest;

/// State of a piece in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PieceState {
    /// It is as it was archived.
    Sound,
    /// It had so many flipped bits, which are turned back in memory.
    Corrected(usize),
    /// Some of its bytes are lost.
    Damaged {
        /// The problem.
        cause: String,
        /// Ranges of the transcript with the bytes that cannot be read, in sequence.
        lost: Vec<Range<u64>>,
    },
}

/// A piece that was read.
#[derive(Debug)]
pub(super) struct ReadPiece {
    /// The file, and the place and the SHA-256 of the piece.
    of: (String, u64, digest::Sha256Digest),
    /// Its bytes; flipped bits are turned back.
    bytes: Vec<u8>,
    pub state: PieceState,
}

impl ReadPiece {
    /// Returns all of its bytes, if they are as they were archived; otherwise the problem.
    pub fn whole(&self) -> Result<&[u8], String> {
        match &self.state {
            PieceState::Sound | PieceState::Corrected(_) => Ok(&self.bytes),
            PieceState::Damaged { cause, .. } => Err(cause.clone()),
        }
    }

    /// Returns its bytes in a range of the transcript, if they can be read; otherwise the problem.
    pub fn part(&self, (from, to): (u64, u64)) -> Result<&[u8], String> {
        let start = self.of.1;
        match &self.state {
            PieceState::Damaged { cause, lost } if lost.iter().any(|lost| lost.start < to && from < lost.end) => {
                Err(cause.clone())
            }
            _ => {
                let clamp = |byte: u64| byte.saturating_sub(start).min(self.bytes.len() as u64) as usize;
                Ok(self.bytes.get(clamp(from)..clamp(to)).unwrap_or_default())
            }
        }
    }
}

/// Reads files, and caches the last piece: turns are read in sequence, and many of them are in the same piece.
#[derive(Debug, Default)]
pub(super) struct TranscriptFiles {
    file: Option<(String, File)>,
    piece: Option<ReadPiece>,
}

impl TranscriptFiles {
    /// Reads a piece of a file.
    pub fn piece(&mut self, folder: &Folder, name: &str, piece: PieceKey<'_>) -> &ReadPiece {
        let (start, _, sha256) = piece;
        let read = match self.piece.take() {
            Some(read) if read.of.0 == name && (read.of.1, &read.of.2) == (start, sha256) => read,
            _ => {
                let (bytes, state) = self.read(folder, name, piece);
                ReadPiece { of: (name.to_owned(), start, *sha256), bytes, state }
            }
        };
        self.piece.insert(read)
    }

    /// Reads a piece, and turns flipped bits back.
    fn read(&mut self, folder: &Folder, name: &str, piece: PieceKey<'_>) -> (Vec<u8>, PieceState) {
        let (start, length, sha256) = piece;
        let all = start..start + u64::from(length);
        let lost = |cause: String, lost: Vec<Range<u64>>| PieceState::Damaged { cause, lost };
        let mut bytes = match self.range(folder, name, (all.start, all.end)) {
            Ok(bytes) => bytes,
            Err(error) => return (Vec::new(), lost(error.to_string(), vec![all])),
        };
        let there = bytes.len();
        let cause = match there == length as usize {
            true if digest::sha256(&bytes) == *sha256 => return (bytes, PieceState::Sound),
            true => "its SHA-256 is another".to_owned(),
            false => format!("it has {there} bytes instead of {length}"),
        };
        let Some(sums) = BlockSums::of(folder, name, piece) else { return (bytes, lost(cause, vec![all])) };
        bytes.resize(length as usize, 0);
        let mut states = sums.correct(&mut bytes);
        if digest::sha256(&bytes) == *sha256 {
            let corrected = states.iter().filter(|state| **state == BlockState::Corrected).count();
            return (bytes, PieceState::Corrected(corrected));
        }
        // A block that is not there in full may pass for one with a flipped bit.
        states.iter_mut().skip(there / BLOCK_BYTES).filter(|_| there < length as usize).for_each(|state| {
            *state = BlockState::Damaged;
        });
        if !states.contains(&BlockState::Damaged) {
            // All blocks are right, and the whole is not: the line tells of other bytes.
            return (bytes, lost(cause, vec![all]));
        }
        let blocks = (0..).zip(&states).filter(|(_, state)| **state == BlockState::Damaged);
        let ranges = blocks.map(|(number, _): (u64, _)| {
            let from = start + number * BLOCK_BYTES as u64;
            from..(from + BLOCK_BYTES as u64).min(all.end)
        });
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push(range),
            }
        }
        (bytes, lost(cause, joined))
    }

    /// Returns bytes of a file as they are; fewer than requested if it ends earlier.
    pub fn range(&mut self, folder: &Folder, name: &str, (start, end): (u64, u64)) -> Result<Vec<u8>, StoreError> {
        if self.file.as_ref().is_none_or(|(open, _)| open != name) {
            self.file = Some((name.to_owned(), folder.open(name, File::options().read(true))?));
        }
        let mut bytes = Vec::new();
        if let Some((_, file)) = &mut self.file {
            let mut read = || {
                file.seek(SeekFrom::Start(start))?;
                file.take(end.saturating_sub(start)).read_to_end(&mut bytes)
            };
            read().map_err(|cause| folder.explain(name, cause))?;
        }
        Ok(bytes)
    }

    /// Clears the cache: the names may belong to other files now.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

impl JsonlStore {
    /// A piece of a transcript as it was archived.
    pub(super) fn piece(&mut self, transcript: i64, generation: u32, piece: PieceKey<'_>) -> Result<&[u8], StoreError> {
        self.read_piece(transcript, generation, piece, ReadPiece::whole)
    }

    /// Bytes of a piece in a range of the transcript, as they were archived.
    pub(super) fn part(
        &mut self,
        transcript: i64,
        generation: u32,
        piece: PieceKey<'_>,
        range: (u64, u64),
    ) -> Result<&[u8], StoreError> {
        self.read_piece(transcript, generation, piece, |piece| piece.part(range))
    }

    fn read_piece(
        &mut self,
        transcript: i64,
        generation: u32,
        piece: PieceKey<'_>,
        bytes: impl FnOnce(&ReadPiece) -> Result<&[u8], String>,
    ) -> Result<&[u8], StoreError> {
        let Some((path, session, _)) = self.replayed.memory.transcript_of(transcript)? else { return Ok(&[]) };
        let name = transcript_file(&session, &path, generation);
        let file = self.folder.file(&name);
        let damaged = |cause| StoreError::Segment { path: file, transcript, start: piece.0, cause };
        bytes(self.raw.piece(&self.folder, &name, piece)).map_err(damaged)
    }
}
