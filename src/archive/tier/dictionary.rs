//! Compression dictionary of an archive's texts: the same instructions, names of tools and files, and the form of every line.

use std::io;

use zstd::bulk::Compressor;

use super::TIER_COMPRESSION_LEVEL;

/// Maximum bytes of a dictionary. With 110 KB, which is usual for small texts, segments of 2 MB gain nothing.
pub const MAX_DICTIONARY_BYTES: u64 = 512 << 10;

/// Ratio of compressed bytes to bytes of a dictionary, so that it does not take more room than it saves.
const DICTIONARY_SHARE_DIVISOR: u64 = 64;

/// Maximum bytes to train a dictionary with: more makes it hardly better.
pub const MAX_SAMPLED_BYTES: u64 = 16 << 20;

/// Minimum bytes of segments to train a dictionary for. With fewer it would take more room than it saves (a tenth of their size
/// now).
pub const MIN_TRAINING_BYTES: u64 = 16 << 20;

/// Growth of the bytes to compress, as a factor since the last dictionary, at which a new one is tried.
pub const GROWTH: u64 = 4;

/// Maximum size ratio, for data that was not sampled, at which a new dictionary replaces the old one.
const MAX_BETTER_RATIO: f64 = 0.97;

/// Bytes of one sample.
const SAMPLE_PIECE_BYTES: usize = 8 << 10;

/// Samples of texts.
#[derive(Debug, Default)]
pub struct Samples {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

impl Samples {
    /// Adds a share of a text: every `step`-th piece.
    pub fn take(&mut self, text: &[u8], step: usize) {
        for piece in text.chunks(SAMPLE_PIECE_BYTES).step_by(step.max(1)) {
            self.bytes.extend_from_slice(piece);
            self.sizes.push(piece.len());
        }
    }

    /// Trains a dictionary for `for_bytes` bytes of texts; `None` if they have too little in common.
    pub fn train(&self, for_bytes: u64) -> Option<Vec<u8>> {
        self.train_to((for_bytes / DICTIONARY_SHARE_DIVISOR).min(MAX_DICTIONARY_BYTES) as usize)
    }

    /// Trains a dictionary of at most `most` bytes.
    pub fn train_to(&self, most: usize) -> Option<Vec<u8>> {
        zstd::dict::from_continuous(&self.bytes, &self.sizes, most).ok().filter(|dictionary| !dictionary.is_empty())
    }
}

/// Compresses with a dictionary or without.
pub struct Packer(Compressor<'static>);

impl Packer {
    /// Creates a compressor with this dictionary.
    ///
    /// # Errors
    /// If it is no dictionary, or memory runs out.
    pub fn new(dictionary: Option<&[u8]>, level: i32) -> io::Result<Self> {
        let mut compressor = match dictionary {
            Some(dictionary) => Compressor::with_dictionary(level, dictionary)?,
            None => Compressor::new(level)?,
        };
        compressor.include_checksum(true)?;
        Ok(Self(compressor))
    }

    /// Compresses bytes to a zstd frame.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn pack(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.0.compress(bytes)
    }
}

/// `true` if a new dictionary makes these texts clearly smaller than the old one.
///
/// # Errors
/// If one of them is no dictionary.
pub fn is_better(new: &[u8], old: &[u8], texts: &[Vec<u8>]) -> io::Result<bool> {
    let size = |dictionary: &[u8]| -> io::Result<usize> {
        let mut packer = Packer::new(Some(dictionary), TIER_COMPRESSION_LEVEL)?;
        texts.iter().map(|text| packer.pack(text).map(|packed| packed.len())).sum()
    };
    // Its own size counts as well, but depends only on how much there is to compress.
    Ok((size(new)? as f64) < MAX_BETTER_RATIO * size(old)? as f64)
}
