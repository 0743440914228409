/*!
Copies of transcripts, byte for byte: a file for each generation.

A file only grows. Anything after the bytes that the journal knows is from an unfinished write, and the next write starts there. A
new generation starts as a copy of the bytes that it shares with the previous one.
*/

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::folder::Folder;
use super::sums;
use crate::segment::{self, SegmentCheck};
use crate::store::{Segment, StoreError};
use ctxbridge_common::files;

/// Minimum bytes of a write that is synced before the journal lists it. A smaller one is a single piece; if its hash is wrong, it
/// is read from the client's file again ([`segment::JOIN_BELOW_BYTES`]).
const SYNCED_BYTES: u64 = segment::JOIN_BELOW_BYTES as u64;

/// Data that a pass adds to a file.
pub(super) struct Addition<'a> {
    /// The file.
    pub name: &'a str,
    /// Bytes of it that the journal knows; anything after them is cut off.
    pub known: u64,
    /// Pieces, in sequence.
    pub segments: &'a [Segment],
    /// `true` if nobody waits.
    pub is_patient: bool,
}

/// Writes the segments of a pass and the checksums of their blocks, and returns the file's new length.
pub(super) fn add(folder: &Folder, addition: &Addition<'_>) -> Result<u64, StoreError> {
    let Addition { name, known, segments, is_patient } = *addition;
    let mut file = folder.open(name, files::private().read(true).create(true).truncate(false))?;
    let mut lines = String::new();
    let mut write = || -> io::Result<u64> {
        let mut end = known;
        if file.metadata()?.len() > known {
            file.set_len(known)?;
        }
        for Segment { start, bytes, sha256, data } in segments {
            let piece = segment::unpack(data, *bytes, sha256, None, SegmentCheck::Sha256).map_err(io::Error::other)?;
            let mut from = 0;
            // The begin of it is there mostly; where something else is, it is damaged, and comes back.
            if *start < known && is_there(&mut file, *start, &piece[..piece.len().min((known - start) as usize)])? {
                from = piece.len().min((known - start) as usize);
            }
            file.seek(SeekFrom::Start(start + from as u64))?;
            file.write_all(&piece[from..])?;
            end = end.max(start + piece.len() as u64);
            lines += &sums::line(*start, &piece, sha256);
        }
        if is_patient && end - known >= SYNCED_BYTES {
            file.sync_data()?;
        }
        Ok(end)
    };
    let end = write().map_err(|cause| {
        // It makes room, if nothing else; what stays is cut off by the next write.
        file.set_len(known).ok();
        folder.explain(name, cause)
    })?;
    sums::add(folder, name, &lines);
    Ok(end)
}

/// Removes everything after a known length.
pub(super) fn cut(folder: &Folder, name: &str, known: u64) {
    // Nobody is told: it makes room, and what stays is cut off by who writes next.
    if let Ok(file) = folder.open(name, &mut files::private())
        && file.metadata().is_ok_and(|metadata| metadata.len() > known)
    {
        file.set_len(known).ok();
    }
}

/// Creates a file with the bytes that it shares with another one, and with their checksums.
pub(super) fn begin(folder: &Folder, name: &str, shared: Option<(&str, u64)>) -> Result<(), StoreError> {
    let mut file = folder.open(name, files::private().create(true).truncate(true))?;
    let Some((before, bytes)) = shared.filter(|(_, bytes)| *bytes > 0) else { return Ok(()) };
    let mut copy = || -> io::Result<()> {
        // One that is gone, or too short, is damage in the new one as well, in the same place.
        if let Ok(before) = folder.open(before, File::options().read(true)) {
            io::copy(&mut before.take(bytes), &mut file)?;
        }
        file.set_len(bytes)
    };
    copy().map_err(|cause| {
        file.set_len(0).ok();
        folder.explain(name, cause)
    })?;
    sums::take_along(folder, before, name, bytes);
    Ok(())
}

fn is_there(file: &mut File, start: u64, bytes: &[u8]) -> io::Result<bool> {
    let mut there = Vec::with_capacity(bytes.len());
    file.seek(SeekFrom::Start(start))?;
    file.take(bytes.len() as u64).read_to_end(&mut there)?;
    Ok(there == bytes)
}
