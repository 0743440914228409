/*!
A new file made of an old one: ranges of the old file, and new bytes between them.

In an executable of 381 MB some kilobytes change. The rest is never copied through memory: the system copies or shares those
ranges when the file is written.
*/

use std::io;
use std::ops::Range;

use super::FileBytes;

/// A run of bytes of the new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePiece {
    /// These bytes of the old file.
    Kept(Range<usize>),
    /// New bytes.
    New(Vec<u8>),
}

impl FilePiece {
    /// Its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an empty piece is none")]
    pub fn len(&self) -> usize {
        match self {
            Self::Kept(range) => range.len(),
            Self::New(bytes) => bytes.len(),
        }
    }

    fn part(&self, part: Range<usize>) -> Self {
        match self {
            Self::Kept(range) => Self::Kept(range.start + part.start..range.start + part.end),
            Self::New(bytes) => Self::New(bytes[part].to_vec()),
        }
    }
}

/// A new file as a sequence of pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PiecewiseFile {
    pieces: Vec<FilePiece>,
    length: usize,
}

impl PiecewiseFile {
    /// A part of the old file.
    pub fn kept(range: Range<usize>) -> Self {
        let mut pieces = Self::default();
        pieces.push(FilePiece::Kept(range));
        pieces
    }

    /// Length of the new file in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// `true` if the new file is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The pieces, in order.
    pub fn iter(&self) -> impl Iterator<Item = &FilePiece> {
        self.pieces.iter()
    }

    /// Adds a piece at the end. Neighbors that are one run in the old file, or both new, become one.
    pub fn push(&mut self, piece: FilePiece) {
        if piece.len() == 0 {
            return;
        }
        self.length += piece.len();
        match (self.pieces.last_mut(), piece) {
            (Some(FilePiece::Kept(last)), FilePiece::Kept(next)) if last.end == next.start => last.end = next.end,
            (Some(FilePiece::New(last)), FilePiece::New(next)) => last.extend(next),
            (_, piece) => self.pieces.push(piece),
        }
    }

    /// Adds bytes of the old file at the end.
    pub fn keep(&mut self, range: Range<usize>) {
        self.push(FilePiece::Kept(range));
    }

    /// Adds new bytes at the end.
    pub fn insert(&mut self, bytes: impl Into<Vec<u8>>) {
        self.push(FilePiece::New(bytes.into()));
    }

    /// Adds everything of `other` at the end.
    pub fn append(&mut self, other: Self) {
        other.pieces.into_iter().for_each(|piece| self.push(piece));
    }

    /// A part of the new file, which must be inside it.
    pub fn slice(&self, part: Range<usize>) -> Self {
        let mut slice = Self::default();
        let mut at = 0;
        for piece in &self.pieces {
            let (lo, hi) = (part.start.max(at), part.end.min(at + piece.len()));
            if lo < hi {
                slice.push(piece.part(lo - at..hi - at));
            }
            at += piece.len();
        }
        slice
    }

    /// Replaces a part of the new file by `with`.
    pub fn replace(&mut self, part: Range<usize>, with: Self) {
        let mut replaced = self.slice(0..part.start);
        replaced.append(with);
        replaced.append(self.slice(part.end..self.length));
        *self = replaced;
    }

    /// Overwrites bytes of the new file from `at` on. It must be long enough.
    pub fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        let mut new = Self::default();
        new.insert(bytes);
        self.replace(at..at + bytes.len(), new);
    }

    /// Converts ranges of the old file to ranges of a larger one, of which it is the part from `start` on.
    pub fn within(self, start: usize) -> Self {
        let shift = |piece| match piece {
            FilePiece::Kept(range) => FilePiece::Kept(range.start + start..range.end + start),
            new => new,
        };
        Self { pieces: self.pieces.into_iter().map(shift).collect(), length: self.length }
    }

    /// The bytes of the new file, in runs.
    pub fn chunks<'b>(&'b self, old: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
        self.pieces.iter().map(|piece| match piece {
            FilePiece::Kept(range) => &old[range.clone()],
            FilePiece::New(bytes) => bytes,
        })
    }

    /// Passes the bytes of the new file from `from` on to `each`, in order; see [`FileBytes::stream`].
    ///
    /// # Errors
    /// If the old file cannot be read.
    pub fn stream(&self, old: &FileBytes, from: usize, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        for piece in self.slice(from..self.length).pieces {
            match piece {
                FilePiece::Kept(range) => old.stream(range, each)?,
                FilePiece::New(bytes) => each(&bytes),
            }
        }
        Ok(())
    }

    /// Number of bytes at the start that this file certainly has in common with another new file of the same old one.
    pub fn common_start(&self, other: &Self) -> usize {
        let mut common = 0;
        for (own, others) in self.pieces.iter().zip(&other.pieces) {
            let equal = match (own, others) {
                (FilePiece::Kept(own), FilePiece::Kept(others)) if own.start == others.start => own.len().min(others.len()),
                (FilePiece::New(own), FilePiece::New(others)) => {
                    own.iter().zip(others).take_while(|(own, other)| own == other).count()
                }
                _ => 0,
            };
            common += equal;
            if equal < own.len() || equal < others.len() {
                break;
            }
        }
        common
    }

    /// The bytes of the new file, in memory: for small ones.
    pub fn to_bytes(&self, old: &[u8]) -> Vec<u8> {
        self.chunks(old).collect::<Vec<_>>().concat()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// After any edits, the new file equals the bytes in memory after the same edits.
        #[test]
        fn pieces_are_what_they_stand_for(
            old in prop::collection::vec(any::<u8>(), 1..200),
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..9), any::<bool>()), 0..12),
        ) {
            let mut pieces = PiecewiseFile::kept(0..old.len());
            let mut bytes = old.clone();
            for (from, to, new, over) in edits {
                let (from, to) = (from.index(bytes.len() + 1), to.index(bytes.len() + 1));
                let (from, to) = (from.min(to), from.max(to));
                if over {
                    let end = (from + new.len()).min(bytes.len());
                    pieces.overwrite(from, &new[..end - from]);
                    bytes[from..end].copy_from_slice(&new[..end - from]);
                } else {
                    let mut with = PiecewiseFile::default();
                    with.insert(new.clone());
                    pieces.replace(from..to, with);
                    bytes.splice(from..to, new);
                }
                prop_assert_eq!(pieces.len(), bytes.len());
                prop_assert_eq!(&pieces.to_bytes(&old), &bytes);
            }
            prop_assert_eq!(&pieces.slice(bytes.len() / 3..bytes.len()).to_bytes(&old), &bytes[bytes.len() / 3..]);
        }
    }
}
