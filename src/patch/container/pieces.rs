/*!
A new file made of an old one: which of its bytes stay, and what comes between them.

Of an executable of 381 MB some kilobytes change. The rest is never copied through memory: whoever writes the file lets the system
copy, or share, those ranges.
*/

use std::io;
use std::ops::Range;

use super::Source;

/// A run of bytes of the new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes of the old file.
    Kept(Range<usize>),
    /// Bytes that are not in the old file there.
    New(Vec<u8>),
}

impl Piece {
    /// How many bytes it has.
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

/// A new file, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    pieces: Vec<Piece>,
    length: usize,
}

impl Pieces {
    /// A part of the old file.
    pub fn kept(range: Range<usize>) -> Self {
        let mut pieces = Self::default();
        pieces.push(Piece::Kept(range));
        pieces
    }

    /// How long the new file is.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The pieces, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter()
    }

    /// Adds a piece at the end. Neighbours that are one run in the old file, or both new, become one.
    pub fn push(&mut self, piece: Piece) {
        if piece.len() == 0 {
            return;
        }
        self.length += piece.len();
        match (self.pieces.last_mut(), piece) {
            (Some(Piece::Kept(last)), Piece::Kept(next)) if last.end == next.start => last.end = next.end,
            (Some(Piece::New(last)), Piece::New(next)) => last.extend(next),
            (_, piece) => self.pieces.push(piece),
        }
    }

    /// Adds bytes of the old file at the end.
    pub fn keep(&mut self, range: Range<usize>) {
        self.push(Piece::Kept(range));
    }

    /// Adds new bytes at the end.
    pub fn insert(&mut self, bytes: impl Into<Vec<u8>>) {
        self.push(Piece::New(bytes.into()));
    }

    /// Adds everything of `other` at the end.
    pub fn append(&mut self, other: Self) {
        other.pieces.into_iter().for_each(|piece| self.push(piece));
    }

    /// A part of the new file. It must lie within it.
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

    /// Puts `with` in the place of a part of the new file.
    pub fn replace(&mut self, part: Range<usize>, with: Self) {
        let mut replaced = self.slice(0..part.start);
        replaced.append(with);
        replaced.append(self.slice(part.end..self.length));
        *self = replaced;
    }

    /// Writes these bytes over those at `at` of the new file. It must reach that far.
    pub fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        let mut new = Self::default();
        new.insert(bytes);
        self.replace(at..at + bytes.len(), new);
    }

    /// The same, when the old file was a part of a larger one, from `start` on.
    pub fn within(self, start: usize) -> Self {
        let shift = |piece| match piece {
            Piece::Kept(range) => Piece::Kept(range.start + start..range.end + start),
            new => new,
        };
        Self { pieces: self.pieces.into_iter().map(shift).collect(), length: self.length }
    }

    /// The bytes of the new file, in runs.
    pub fn chunks<'b>(&'b self, old: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
        self.pieces.iter().map(|piece| match piece {
            Piece::Kept(range) => &old[range.clone()],
            Piece::New(bytes) => bytes,
        })
    }

    /// Goes through the bytes of the new file from `from` on, in order; see [`Source::stream`].
    ///
    /// # Errors
    /// When the old file cannot be read.
    pub fn stream(&self, old: &Source, from: usize, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        for piece in self.slice(from..self.length).pieces {
            match piece {
                Piece::Kept(range) => old.stream(range, each)?,
                Piece::New(bytes) => each(&bytes),
            }
        }
        Ok(())
    }

    /// How many bytes this and another new file of the same old one have in common at the start, at least.
    pub fn common_start(&self, other: &Self) -> usize {
        let mut common = 0;
        for (own, others) in self.pieces.iter().zip(&other.pieces) {
            let equal = match (own, others) {
                (Piece::Kept(own), Piece::Kept(others)) if own.start == others.start => own.len().min(others.len()),
                (Piece::New(own), Piece::New(others)) => own.iter().zip(others).take_while(|(own, other)| own == other).count(),
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
        /// Whatever is done, the new file is what the same edits make of the bytes in memory.
        #[test]
        fn pieces_are_what_they_stand_for(
            old in prop::collection::vec(any::<u8>(), 1..200),
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..9), any::<bool>()), 0..12),
        ) {
            let mut pieces = Pieces::kept(0..old.len());
            let mut bytes = old.clone();
            for (from, to, new, over) in edits {
                let (from, to) = (from.index(bytes.len() + 1), to.index(bytes.len() + 1));
                let (from, to) = (from.min(to), from.max(to));
                if over {
                    let end = (from + new.len()).min(bytes.len());
                    pieces.overwrite(from, &new[..end - from]);
                    bytes[from..end].copy_from_slice(&new[..end - from]);
                } else {
                    let mut with = Pieces::default();
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
