/*!
Manifest of a cold file: its last frame, which zstd skips when it unpacks the others.

The content of that frame is JSON, its length in four bytes, and a mark, so that the frame can be found from the end of the file.
*/

use serde::{Deserialize, Serialize};

use ctxbridge_common::digest;

/// Version of the format.
const VERSION: u32 = 1;

/// Start of a frame that zstd skips; its length follows.
const SKIPPABLE: u32 = 0x184D_2A5C;

/// The last bytes of a cold file.
const FOOTER_MAGIC: [u8; 4] = *b"ctxb";

/// Length and mark at the end, in bytes.
pub(super) const FOOTER: usize = 8;

/// Maximum bytes of a manifest: one line for each segment, of sessions longer than any.
pub(super) const MAX_MANIFEST_BYTES: usize = 256 << 20;

/// Contents of a cold file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdManifest {
    /// Version of the format.
    pub version: u32,
    /// The session.
    pub session: String,
    /// Its transcripts, each with each of its generations; the first is the one that the file begins with.
    pub transcripts: Vec<ManifestGeneration>,
}

/// A generation of a transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestGeneration {
    /// Original path.
    pub path: String,
    /// The sub-agent, if it is one's transcript; a file beside the transcript has its path here, behind a slash.
    pub agent: Option<String>,
    /// From 0.
    pub generation: u32,
    /// Its pieces, in sequence.
    pub segments: Vec<ManifestSegment>,
}

/// A piece of a transcript, and its frame in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestSegment {
    /// Byte offset in the transcript.
    pub start: u64,
    /// Bytes, not compressed.
    pub bytes: u32,
    /// SHA-256 of these, hexadecimal.
    pub sha256: String,
    /// Byte offset of the frame in the file.
    pub offset: u64,
    /// Bytes of the frame.
    pub length: u64,
}

impl ColdManifest {
    /// Creates an empty manifest for a session.
    pub fn new(session: &str) -> Self {
        Self { version: VERSION, session: session.to_owned(), transcripts: Vec::new() }
    }

    /// Encodes the frame that ends a cold file.
    ///
    /// # Errors
    /// If it is larger than a manifest may be.
    pub fn to_frame(&self) -> Result<Vec<u8>, String> {
        let json = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        let length = u32::try_from(json.len()).ok().filter(|length| *length as usize <= MAX_MANIFEST_BYTES);
        let length = length.ok_or("the session has too many pieces for one file")?;
        let mut frame = Vec::with_capacity(json.len() + 2 * FOOTER);
        frame.extend(SKIPPABLE.to_le_bytes());
        frame.extend((length + FOOTER as u32).to_le_bytes());
        frame.extend(json);
        frame.extend(length.to_le_bytes());
        frame.extend(FOOTER_MAGIC);
        Ok(frame)
    }

    /// Length of the JSON before the footer, from the last eight bytes of a file.
    ///
    /// # Errors
    /// If it is no cold file.
    pub fn length(footer: [u8; FOOTER]) -> Result<usize, String> {
        let (length, mark) = footer.split_at(4);
        if mark != FOOTER_MAGIC {
            return Err("it does not end like a cold file of ctxbridge; it may be cut off".to_owned());
        }
        let length = u32::from_le_bytes(length.try_into().unwrap_or_default()) as usize;
        if length > MAX_MANIFEST_BYTES { Err("its list of contents is larger than any".to_owned()) } else { Ok(length) }
    }

    /// Parses the JSON of a manifest, of a file in which frames end before `end`.
    ///
    /// # Errors
    /// If it is not in this format.
    pub fn parse(json: &[u8], end: u64) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(json).map_err(|error| format!("its list of contents: {error}"))?;
        if manifest.version != VERSION {
            return Err(format!("it is of version {}, which this ctxbridge does not know", manifest.version));
        }
        let is_inside = |piece: &ManifestSegment| piece.offset.checked_add(piece.length).is_some_and(|behind| behind <= end);
        let pieces = || manifest.transcripts.iter().flat_map(|listed| &listed.segments);
        if let Some(piece) = pieces().find(|piece| !is_inside(piece) || piece.hash().is_none()) {
            return Err(format!("its list of contents has a piece that cannot be, at byte {}", piece.offset));
        }
        Ok(manifest)
    }

    /// Hashes of all pieces in the file.
    pub fn hashes(&self) -> impl Iterator<Item = digest::Sha256Digest> + '_ {
        self.transcripts.iter().flat_map(|listed| &listed.segments).filter_map(ManifestSegment::hash)
    }
}

impl ManifestSegment {
    /// SHA-256 of its bytes; `None` if the text is no hash.
    pub fn hash(&self) -> Option<digest::Sha256Digest> {
        let text = self.sha256.as_bytes();
        let mut hash = digest::Sha256Digest::default();
        if text.len() != 2 * hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(text.chunks(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Some(hash)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifest() -> impl Strategy<Value = ColdManifest> {
        let piece = (any::<u32>(), any::<u32>(), any::<[u8; 32]>(), 0..1_000_u64, 0..1_000_u64).prop_map(
            |(start, bytes, sha256, offset, length)| ManifestSegment {
                start: start.into(),
                bytes,
                sha256: digest::hex(&sha256),
                offset,
                length,
            },
        );
        let listed = (".*", proptest::option::of(".*"), 0..9_u32, proptest::collection::vec(piece, 0..4));
        let listed =
            listed.prop_map(|(path, agent, generation, segments)| ManifestGeneration { path, agent, generation, segments });
        (".*", proptest::collection::vec(listed, 0..4))
            .prop_map(|(session, transcripts)| ColdManifest { transcripts, ..ColdManifest::new(&session) })
    }

    proptest! {
        #[test]
        fn comes_back_and_zstd_skips_it(manifest in manifest()) {
            let frame = manifest.to_frame().expect("a frame");
            let (_, footer) = frame.split_last_chunk::<FOOTER>().expect("a footer");
            let length = ColdManifest::length(*footer).expect("a length");
            let json = &frame[frame.len() - FOOTER - length..frame.len() - FOOTER];
            prop_assert_eq!(ColdManifest::parse(json, 2_000).expect("parses"), manifest);
            let mut file = zstd::bulk::compress(b"what was said", 3).expect("packs");
            file.extend(frame);
            prop_assert_eq!(zstd::stream::decode_all(&file[..]).expect("unpacks"), b"what was said");
        }

        #[test]
        fn nothing_else_is_one(bytes in proptest::collection::vec(any::<u8>(), 0..200), footer in any::<[u8; FOOTER]>(), end in any::<u64>()) {
            ColdManifest::parse(&bytes, end).ok();
            prop_assert!(ColdManifest::length(footer).is_err() || footer.ends_with(b"ctxb"));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let with = |piece: &str| {
            format!(
                r#"{{"version":1,"session":"s","transcripts":[{{"path":"p","agent":null,"generation":0,"segments":[{piece}]}}]}}"#
            )
        };
        let hash = "a".repeat(64);
        let piece =
            |offset: u64, hash: &str| with(&format!(r#"{{"start":0,"bytes":1,"sha256":"{hash}","offset":{offset},"length":5}}"#));
        assert!(ColdManifest::parse(piece(5, &hash).as_bytes(), 10).is_ok());
        assert!(ColdManifest::parse(piece(6, &hash).as_bytes(), 10).is_err(), "behind the end");
        assert!(ColdManifest::parse(piece(u64::MAX, &hash).as_bytes(), u64::MAX).is_err(), "behind all ends");
        assert!(ColdManifest::parse(piece(0, "abc").as_bytes(), 10).is_err());
        assert!(ColdManifest::parse(piece(0, &"ä".repeat(32)).as_bytes(), 10).is_err());
        assert!(ColdManifest::parse(with("").replace(":1,", ":2,").as_bytes(), 10).expect_err("newer").contains("version 2"));
    }
}
