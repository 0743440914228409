//! Pieces of transcripts, compressed.
//!
//! Each piece is kept once, under the SHA-256 of its bytes. A turn is a range of a transcript's bytes; its text and its summary are
//! read from there. So the whole archive takes about a quarter of the size of the transcripts.

use std::cell::RefCell;
use std::io;

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::DecoderDictionary;
use zstd::zstd_safe::CParameter;

use crate::store::Segment;
use ctxbridge_common::digest;

/// Maximum bytes of a segment. Larger ones compress little better, and a turn is read from its segment.
pub const MAX_SEGMENT_BYTES: usize = 2 << 20;

/// Maximum bytes to unpack. A segment that claims more may have been written by somebody else to fill our memory.
const MAX_UNPACKED_BYTES: usize = 8 * MAX_SEGMENT_BYTES;

/// A last segment with fewer bytes is joined with the next bytes: many small ones compress badly, and joining a small one is quick.
pub const JOIN_BELOW_BYTES: u32 = 128 << 10;

/// zstd's level. The next one takes twice as long, and somebody waits for the first pass over a long session.
const LEVEL: i32 = 4;

/// The level for less than a segment.
const SHORT_LEVEL: i32 = 3;

/// Binary logarithm of the entries in its two hash tables, one more than usual: 0.5 % smaller. For the few bytes
/// of a hook, zstd chooses small tables.
const HASH_LOG: u32 = 19;

/// Compresses bytes that begin at `start` of their transcript.
///
/// # Errors
/// If zstd runs out of memory.
pub fn pack(start: u64, bytes: &[u8]) -> io::Result<Vec<Segment>> {
    thread_local! {
        // Making its tables takes longer than compressing a short transcript.
        static SHORT: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    }
    if bytes.len() >= MAX_SEGMENT_BYTES {
        let mut compressor = compressor(LEVEL)?;
        compressor.set_parameter(CParameter::HashLog(HASH_LOG))?;
        compressor.set_parameter(CParameter::ChainLog(HASH_LOG))?;
        return pack_with(&mut compressor, start, bytes);
    }
    SHORT.with_borrow_mut(|short| {
        let compressor = match short {
            Some(compressor) => compressor,
            None => short.insert(compressor(SHORT_LEVEL)?),
        };
        pack_with(compressor, start, bytes)
    })
}

fn compressor(level: i32) -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(level)?;
    compressor.include_checksum(true)?;
    Ok(compressor)
}

fn pack_with(compressor: &mut Compressor<'_>, start: u64, bytes: &[u8]) -> io::Result<Vec<Segment>> {
    let mut start = start;
    let pieces = bytes.chunks(MAX_SEGMENT_BYTES).map(|piece| {
        let (sha256, data) = (digest::sha256(piece), compressor.compress(piece)?);
        let segment = Segment { start, bytes: piece.len() as u32, sha256, data };
        start += piece.len() as u64;
        Ok(segment)
    });
    pieces.collect()
}

/// Compresses the bytes of one segment, however many there are.
///
/// # Errors
/// If zstd runs out of memory.
pub(crate) fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    compressor(LEVEL)?.compress(bytes)
}

/// Check of unpacked bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentCheck {
    /// For display: zstd's own checksum finds accidents.
    Checksum,
    /// In place of the original: its SHA-256.
    Sha256,
}

/// Compression dictionary of an archive's segments, ready for unpacking.
pub struct Dictionary(DecoderDictionary<'static>);

impl Dictionary {
    /// Loads a trained dictionary.
    ///
    /// # Errors
    /// If it is no dictionary.
    pub fn new(data: &[u8]) -> io::Result<Self> {
        DecoderDictionary::try_copy(data).map(Self)
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dictionary")
    }
}

/// Unpacks a segment and checks its bytes; the error describes the difference.
pub fn unpack(
    data: &[u8],
    bytes: u32,
    sha256: &digest::Sha256Digest,
    dictionary: Option<&Dictionary>,
    check: SegmentCheck,
) -> Result<Vec<u8>, String> {
    if bytes as usize > MAX_UNPACKED_BYTES {
        return Err(format!("it would have {bytes} bytes, and none has so many"));
    }
    let decompressor = match dictionary {
        Some(Dictionary(dictionary)) => Decompressor::with_prepared_dictionary(dictionary),
        None => Decompressor::new(),
    };
    let unpacked = decompressor.and_then(|mut decompressor| decompressor.decompress(data, bytes as usize));
    let unpacked = unpacked.map_err(|error| error.to_string())?;
    if unpacked.len() != bytes as usize {
        Err(format!("it has {} bytes instead of {bytes}", unpacked.len()))
    } else if check == SegmentCheck::Sha256 && digest::sha256(&unpacked) != *sha256 {
        Err("its SHA-256 is another".to_owned())
    } else {
        Ok(unpacked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_fill_the_memory_is_not_unpacked() {
        let zeros = zstd::bulk::compress(&vec![0; MAX_UNPACKED_BYTES + 1], LEVEL).expect("compresses");
        assert!(zeros.len() < 10_000);
        let error = unpack(&zeros, MAX_UNPACKED_BYTES as u32 + 1, &digest::sha256(&[]), None, SegmentCheck::Sha256)
            .expect_err("too large");
        assert!(error.contains("none has so many"), "{error}");
        // Nor does it help to say that it is smaller.
        assert!(unpack(&zeros, 1_000, &digest::sha256(&[]), None, SegmentCheck::Sha256).is_err());
    }

    #[test]
    fn comes_back_to_the_byte() {
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| (n / 7 % 251) as u8).collect();
        let segments = pack(10, &bytes).expect("packs");
        assert_eq!(segments.iter().map(|segment| segment.start).collect::<Vec<_>>(), [10, 2_097_162, 4_194_314]);
        let unpacked =
            segments.iter().map(|segment| unpack(&segment.data, segment.bytes, &segment.sha256, None, SegmentCheck::Sha256));
        assert_eq!(unpacked.collect::<Result<Vec<_>, _>>().expect("unpacks").concat(), bytes);
        let mut damaged = segments[0].clone();
        damaged.sha256[0] ^= 1;
        assert!(unpack(&damaged.data, damaged.bytes, &damaged.sha256, None, SegmentCheck::Sha256).is_err());
        assert!(unpack(&damaged.data, damaged.bytes, &damaged.sha256, None, SegmentCheck::Checksum).is_ok());
        let middle = damaged.data.len() / 2;
        damaged.data[middle] ^= 1;
        assert!(unpack(&damaged.data, damaged.bytes, &damaged.sha256, None, SegmentCheck::Checksum).is_err());
        assert!(pack(0, b"").expect("packs").is_empty());
    }
}
