//! What texts of one archive have in common: the same instructions, names of tools and files, and the form of every line.

use std::io;

use zstd::bulk::Compressor;

use super::LEVEL;

/// Bytes of a dictionary at most. Of 110 KB, which is usual for small texts, segments of 2 MB gain nothing.
pub const MOST_BYTES: u64 = 512 << 10;

/// A dictionary is this part of what is compressed with it, so that it does not take more room than it saves.
const SHARE: u64 = 64;

/// Bytes that one is trained with at most: more makes it hardly better.
pub const MOST_SAMPLED: u64 = 16 << 20;

/// Bytes of segments below which none is trained: it would take more room than it saves (a tenth of what they take as they are).
pub const WORTH_BYTES: u64 = 16 << 20;

/// A new one is tried when there is so many times as much to compress as there was for the last one.
pub const GROWTH: u64 = 4;

/// How much smaller a new one has to make what was not sampled, to take the place of another.
const CLEARLY: f64 = 0.97;

/// Bytes that are sampled in one piece.
const PIECE: usize = 8 << 10;

/// Pieces of texts that are like many others.
#[derive(Debug, Default)]
pub struct Samples {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

impl Samples {
    /// Takes a share of a text: every `step`-th piece.
    pub fn take(&mut self, text: &[u8], step: usize) {
        for piece in text.chunks(PIECE).step_by(step.max(1)) {
            self.bytes.extend_from_slice(piece);
            self.sizes.push(piece.len());
        }
    }

    /// A dictionary for so many bytes of texts; nothing where they have too little in common.
    pub fn train(&self, for_bytes: u64) -> Option<Vec<u8>> {
        self.train_to((for_bytes / SHARE).min(MOST_BYTES) as usize)
    }

    /// One of so many bytes at most.
    pub fn train_to(&self, most: usize) -> Option<Vec<u8>> {
        zstd::dict::from_continuous(&self.bytes, &self.sizes, most).ok().filter(|dictionary| !dictionary.is_empty())
    }
}

/// Compresses with a dictionary or without.
pub struct Packer(Compressor<'static>);

impl Packer {
    /// With this dictionary.
    ///
    /// # Errors
    /// When it is none, or there is no memory.
    pub fn new(dictionary: Option<&[u8]>, level: i32) -> io::Result<Self> {
        let mut compressor = match dictionary {
            Some(dictionary) => Compressor::with_dictionary(level, dictionary)?,
            None => Compressor::new(level)?,
        };
        compressor.include_checksum(true)?;
        Ok(Self(compressor))
    }

    /// A zstd frame of these bytes.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn pack(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.0.compress(bytes)
    }
}

/// Whether a new dictionary makes these texts clearly smaller than the one there is.
///
/// # Errors
/// When one of them is none.
pub fn is_better(new: &[u8], old: &[u8], texts: &[Vec<u8>]) -> io::Result<bool> {
    let size = |dictionary: &[u8]| -> io::Result<usize> {
        let mut packer = Packer::new(Some(dictionary), LEVEL)?;
        texts.iter().map(|text| packer.pack(text).map(|packed| packed.len())).sum()
    };
    // That it takes room itself counts as well, but that is told by how much there is to compress.
    Ok((size(new)? as f64) < CLEARLY * size(old)? as f64)
}
