//! Pieces of transcripts, compressed.

use std::io;

use zstd::bulk::Decompressor;
use zstd::dict::DecoderDictionary;
use zstd::zstd_safe::CParameter;

use crate::store::Segment;
use ctxbridge_common::digest;

/// Bytes of a segment at most. Larger ones compress little better, and a turn is read from its segment.
pub const MAX_BYTES: usize = 2 << 20;

/// What says that it is larger than that by far is not unpacked: somebody else may have written it, so that it fills our memory.
const MOST_BYTES: usize = 8 * MAX_BYTES;

/// A last segment with fewer bytes is joined with what follows: many small ones compress badly, and joining a small one is quick.
pub const JOINED_BELOW: u32 = 128 << 10;

/// zstd's level: the next one takes twice as long, and the first pass over a long session is one that somebody waits for.
const LEVEL: i32 = 4;

/// Binary logarithm of the entries in its two hash tables, one more than usual: 0.5 % smaller. For the few bytes
/// of a hook, zstd chooses small tables.
const HASH_LOG: u32 = 19;

/// Compresses bytes that begin at `start` of their transcript.
///
/// # Errors
/// When zstd has no memory.
pub fn pack(start: u64, bytes: &[u8]) -> io::Result<Vec<Segment>> {
    let mut compressor = zstd::bulk::Compressor::new(if bytes.len() >= MAX_BYTES { LEVEL } else { 3 })?;
    compressor.include_checksum(true)?;
    if bytes.len() >= MAX_BYTES {
        compressor.set_parameter(CParameter::HashLog(HASH_LOG))?;
        compressor.set_parameter(CParameter::ChainLog(HASH_LOG))?;
    }
    let mut start = start;
    let pieces = bytes.chunks(MAX_BYTES).map(|piece| {
        let (sha256, data) = (digest::sha256(piece), compressor.compress(piece)?);
        let segment = Segment { start, bytes: piece.len() as u32, sha256, data };
        start += piece.len() as u64;
        Ok(segment)
    });
    pieces.collect()
}

/// How sure one has to be of bytes that come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// They are shown to somebody: zstd's own checksum finds accidents.
    Checksum,
    /// They stand for the original: its SHA-256.
    Sha256,
}

/// What segments of one archive have in common, ready to unpack with.
pub struct Dictionary(DecoderDictionary<'static>);

impl Dictionary {
    /// One that was trained.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(data: &[u8]) -> io::Result<Self> {
        DecoderDictionary::try_copy(data).map(Self)
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dictionary")
    }
}

/// The bytes of a segment, if they are those that were packed; else what is wrong.
pub fn unpack(
    data: &[u8],
    bytes: u32,
    sha256: &digest::Bytes,
    dictionary: Option<&Dictionary>,
    check: Check,
) -> Result<Vec<u8>, String> {
    if bytes as usize > MOST_BYTES {
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
    } else if check == Check::Sha256 && digest::sha256(&unpacked) != *sha256 {
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
        let zeros = zstd::bulk::compress(&vec![0; MOST_BYTES + 1], LEVEL).expect("compresses");
        assert!(zeros.len() < 10_000);
        let error = unpack(&zeros, MOST_BYTES as u32 + 1, &digest::sha256(&[]), None, Check::Sha256).expect_err("too large");
        assert!(error.contains("none has so many"), "{error}");
        // Nor does it help to say that it is smaller.
        assert!(unpack(&zeros, 1_000, &digest::sha256(&[]), None, Check::Sha256).is_err());
    }

    #[test]
    fn comes_back_to_the_byte() {
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| (n / 7 % 251) as u8).collect();
        let segments = pack(10, &bytes).expect("packs");
        assert_eq!(segments.iter().map(|segment| segment.start).collect::<Vec<_>>(), [10, 2_097_162, 4_194_314]);
        let unpacked = segments.iter().map(|segment| unpack(&segment.data, segment.bytes, &segment.sha256, None, Check::Sha256));
        assert_eq!(unpacked.collect::<Result<Vec<_>, _>>().expect("unpacks").concat(), bytes);
        let mut damaged = segments[0].clone();
        damaged.sha256[0] ^= 1;
        assert!(unpack(&damaged.data, damaged.bytes, &damaged.sha256, None, Check::Sha256).is_err());
        assert!(unpack(&damaged.data, damaged.bytes, &damaged.sha256, None, Check::Checksum).is_ok());
        let middle = damaged.data.len() / 2;
        damaged.data[middle] ^= 1;
        assert!(unpack(&damaged.data, damaged.bytes, &damaged.sha256, None, Check::Checksum).is_err());
        assert!(pack(0, b"").expect("packs").is_empty());
    }
}
