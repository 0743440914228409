/*!
The seal of a patched executable: what lets it be recognised as exactly what we wrote, with no file of ours beside it.

Of a script, the marker gives the original back in memory, and its hash is the proof. An executable has signatures and checksums
that patching replaces, so its original cannot come out of it. Instead each marker holds the SHA-256 of the whole patched file, read
with zeros where the seals themselves stand and where the checksum and the signature of the format are (which are made last, and are
over the seal).
*/

use std::io;
use std::ops::Range;

use super::container::{Container, ContainerError, Piece, Pieces};
use super::marker::{self, NO_SEAL};
use ctxbridge_common::digest::Hasher;

/// A patched file, whole but not written anywhere yet.
#[derive(Debug)]
pub struct Assembled {
    /// Its bytes.
    pub pieces: Pieces,
    /// Their hash.
    pub sha256: String,
}

/// A patched file that cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The container does not take what was planned.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The unpatched file cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// Puts the seal into a file that was rewritten, finishes it, and hashes it.
///
/// # Errors
/// When the unpatched file cannot be read (any more).
pub fn assemble(container: &Container, mut pieces: Pieces) -> Result<Assembled, AssembleError> {
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

/// The places of seals that are still to be filled in.
fn seals_in(pieces: &Pieces) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut at = 0;
    for piece in pieces.iter() {
        match piece {
            Piece::Kept(range) => at += range.len(),
            Piece::New(bytes) => {
                let open = |seal: &Range<usize>| bytes[seal.clone()] == *NO_SEAL.as_bytes();
                places.extend(marker::seals(bytes).into_iter().filter(open).map(|seal| at + seal.start..at + seal.end));
                at += bytes.len();
            }
        }
    }
    places
}

/// Whether a file is sealed, its seals are right, and so are the checksum and the signature that they leave out.
///
/// # Errors
/// When it cannot be read.
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
    blanks.extend(container.made_last().into_iter().map(|range| (range, 0)));
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
    Ok(hasher.finish().as_bytes() == first && made_as_we_do(container))
}

/// Whether what a seal cannot be over, the checksums and signatures, is what we make of the rest.
fn made_as_we_do(container: &Container) -> bool {
    let source = container.source();
    let places = container.made_last();
    if places.is_empty() {
        return true;
    }
    let mut pieces = Pieces::kept(0..source.len());
    for place in &places {
        pieces.overwrite(place.start, &vec![0; place.len()]);
    }
    let Ok(made) = container.finish(pieces) else { return false };
    made.len() == source.len() && places.into_iter().all(|place| made.slice(place.clone()).to_bytes(source) == source[place])
}
