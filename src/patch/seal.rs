/*!
The seal of a patched executable: by it the file is recognized as exactly the one we wrote, without any other file of ours.

For a script, the marker restores the original in memory, and its hash is the proof. An executable has signatures and checksums
that patching replaces, so its original cannot be restored from it. Instead each marker holds the SHA-256 of the whole patched file.
The seals themselves, and the checksum and the signature of the format, count as zeros: these two are computed last, and cover the
seal.
*/

use std::io;
use std::ops::Range;

use super::container::{Container, ContainerError, FilePiece, PiecewiseFile};
use super::marker::{self, NO_SEAL};
use ctxbridge_common::digest::Hasher;

/// A patched file, complete but not written yet.
#[derive(Debug)]
pub struct Assembled {
    /// Its bytes.
    pub pieces: PiecewiseFile,
    /// Their hash.
    pub sha256: String,
}

/// Errors from assembling a patched file.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The container cannot hold the planned modules.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The unpatched file cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// Puts the seal into a rewritten file, completes it, and hashes it.
///
/// # Errors
/// If the unpatched file cannot be read (any more).
pub fn assemble(container: &Container, mut pieces: PiecewiseFile) -> Result<Assembled, AssembleError> {
    let old = container.source();
    let seals = seals_in(&pieces);
    let Some(first) = seals.first().map(|seal| seal.start) else {
        let pieces = container.finish(pieces)?;
        let mut hasher = Hasher::default();
        pieces.stream(old, 0, &mut |bytes| hasher.update(bytes))?;
        return Ok(Assembled { pieces, sha256: hasher.finish() });
    };
    // Nearly all of the file is the same for both hashes: what comes before the first seal is gone through once.
    let mut before = Hasher::default();
    pieces.slice(0..first).stream(old, 0, &mut |bytes| before.update(bytes))?;
    let mut hasher = before.clone();
    pieces.stream(old, first, &mut |bytes| hasher.update(bytes))?;
    let unfinished = pieces.clone();
    let seal = hasher.finish();
    for place in seals {
        pieces.overwrite(place.start, seal.as_bytes());
    }
    let pieces = container.finish(pieces)?;
    let shared = pieces.common_start(&unfinished) >= first;
    let (mut hasher, from) = if shared { (before, first) } else { (Hasher::default(), 0) };
    pieces.stream(old, from, &mut |bytes| hasher.update(bytes))?;
    Ok(Assembled { pieces, sha256: hasher.finish() })
}

/// The ranges of seals that are not filled in yet.
fn seals_in(pieces: &PiecewiseFile) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut at = 0;
    for piece in pieces.iter() {
        match piece {
            FilePiece::Kept(range) => at += range.len(),
            FilePiece::New(bytes) => {
                let open = |seal: &Range<usize>| bytes[seal.clone()] == *NO_SEAL.as_bytes();
                places.extend(marker::seals(bytes).into_iter().filter(open).map(|seal| at + seal.start..at + seal.end));
                at += bytes.len();
            }
        }
    }
    places
}

/// `true` if a file is sealed, and its seals are right, and also the checksum and the signature that they do not cover.
///
/// # Errors
/// If it cannot be read.
pub fn is_intact(container: &Container) -> io::Result<bool> {
    let source = container.source();
    let mut seals = Vec::new();
    for raw in container.modules() {
        seals.extend(marker::seals(raw.bytes).into_iter().map(|seal| raw.start + seal.start..raw.start + seal.end));
    }
    let stated: Vec<&[u8]> = seals.iter().map(|seal| &source[seal.clone()]).collect();
    let Some(first) = stated.first().map(|seal| seal.to_vec()) else { return Ok(false) };
    if stated.iter().any(|seal| *seal != first) {
        return Ok(false);
    }
    let mut blanks: Vec<(Range<usize>, u8)> = seals.into_iter().map(|seal| (seal, b'0')).collect();
    blanks.extend(container.checksum_ranges().into_iter().map(|range| (range, 0)));
    blanks.sort_by_key(|(range, _)| range.start);
    // Modules may share their contents, and comments may be begun within another: that is nothing we wrote.
    if blanks.windows(2).any(|pair| pair[0].0.end > pair[1].0.start) {
        return Ok(false);
    }
    let mut hasher = Hasher::default();
    let mut done = 0;
    for (range, blank) in blanks {
        source.stream(done..range.start, &mut |bytes| hasher.update(bytes))?;
        hasher.update(&vec![blank; range.len()]);
        done = range.end;
    }
    source.stream(done..source.len(), &mut |bytes| hasher.update(bytes))?;
    Ok(hasher.finish().as_bytes() == first && has_expected_checksums(container))
}

/// `true` if the checksums and signatures, which a seal cannot cover, are those that we compute from the rest.
fn has_expected_checksums(container: &Container) -> bool {
    let source = container.source();
    let places = container.checksum_ranges();
    if places.is_empty() {
        return true;
    }
    let mut pieces = PiecewiseFile::kept(0..source.len());
    for place in &places {
        pieces.overwrite(place.start, &vec![0; place.len()]);
    }
    let Ok(made) = container.finish(pieces) else { return false };
    made.len() == source.len() && places.into_iter().all(|place| made.slice(place.clone()).to_bytes(source) == source[place])
}
