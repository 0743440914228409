/*!
A session in a file of its own, `SESSION.jsonl.zst`: a zstd frame for each segment, then a [`ColdManifest`].

The segments of the session's own transcript come first, so that `zstd -dc FILE` prints it. Those of its sub-agents, of the files
beside it and of earlier generations follow, as far as they differ. Each can be read alone. No dictionary is needed: the file is enough.
*/

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use zstd::bulk::Compressor;

use super::TIER_COMPRESSION_LEVEL;
use super::manifest::{ColdManifest, FOOTER, ManifestGeneration, ManifestSegment};
use crate::segment::{self, SegmentCheck};
use crate::store::StoreError;
use ctxbridge_common::digest;
use ctxbridge_common::files;

/// Maximum characters of a session's id in a file name.
const MAX_NAME_CHARS: usize = 100;

/// A segment that goes into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSegmentRef {
    /// Id in the store.
    pub id: i64,
    /// Byte offset in the transcript.
    pub start: u64,
    /// Bytes.
    pub bytes: u32,
    /// SHA-256 of these bytes.
    pub sha256: digest::Sha256Digest,
}

/// A generation of a transcript that goes into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The transcript, in the store.
    pub transcript: i64,
    /// Original path.
    pub path: String,
    /// The part of the session, as a store's column has it ([`SessionPart`](crate::store::SessionPart)).
    pub agent: Option<String>,
    /// From 0.
    pub number: u32,
    /// Segments, in sequence.
    pub segments: Vec<StoredSegmentRef>,
}

/// Position of a segment in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The segment, in the store.
    pub segment: i64,
    /// Byte offset.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A file that was written and verified.
#[derive(Clone, Debug)]
pub struct Written {
    /// Path.
    pub path: PathBuf,
    /// Bytes.
    pub bytes: u64,
    /// Frames; each segment once.
    pub frames: Vec<Frame>,
    /// `true` if it was not there before.
    pub is_new: bool,
}

/// Errors from writing a cold file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be written.
    #[error("cannot write {path}: {cause}; see that the folder is mounted, may be written and has room")]
    Write {
        /// The file.
        path: PathBuf,
        /// Error from the operating system.
        cause: io::Error,
    },
    /// The bytes read differ from those written.
    #[error("{path} does not contain what was written to it: {cause}; do not trust the disk or mount that it is on")]
    Different {
        /// The file.
        path: PathBuf,
        /// The difference.
        cause: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads the bytes of one frame.
///
/// # Errors
/// If the file is not there, or is too short.
pub fn frame(path: &Path, start: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = files::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut frame = Vec::new();
    file.take(bytes).read_to_end(&mut frame)?;
    if frame.len() as u64 == bytes {
        Ok(frame)
    } else {
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("it ends before byte {}", start.saturating_add(bytes))))
    }
}

/// Reads the manifest of a file.
///
/// # Errors
/// If it cannot be read, or is no cold file.
pub fn manifest(path: &Path) -> Result<ColdManifest, String> {
    let read = |file: &mut File, from: u64, bytes: &mut [u8]| {
        file.seek(SeekFrom::Start(from)).and_then(|_| file.read_exact(bytes)).map_err(|error| error.to_string())
    };
    let mut file = files::open(path).map_err(|error| error.to_string())?;
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    let behind = length.checked_sub(FOOTER as u64).ok_or("it is empty, or cut off")?;
    let mut footer = [0; FOOTER];
    read(&mut file, behind, &mut footer)?;
    let json = ColdManifest::length(footer)?;
    let from = behind.checked_sub(json as u64).ok_or("it is shorter than its list of contents")?;
    let mut bytes = vec![0; json];
    read(&mut file, from, &mut bytes)?;
    ColdManifest::parse(&bytes, from)
}

/// Writes a session to a file in a folder, or finds one that already has exactly that. No file is ever overwritten: a backup of the
/// database, or another archive, may refer to it. `read` returns the bytes of a segment.
///
/// # Errors
/// As [`write()`].
pub fn put(
    folder: &Path,
    session: &str,
    generations: &[Generation],
    read: &mut dyn FnMut(&StoredSegmentRef) -> Result<Vec<u8>, StoreError>,
) -> Result<Written, FileError> {
    let name = file_name(session);
    let names =
        (1_u32..).map(|number| if number == 1 { format!("{name}.jsonl.zst") } else { format!("{name}-{number}.jsonl.zst") });
    for path in names.map(|name| folder.join(name)) {
        if path.symlink_metadata().is_err() {
            return write(&path, session, generations, read);
        }
        if let Ok(found) = check(&path, generations)
            && found.session == session
        {
            let failed = |cause| FileError::Write { path: path.clone(), cause };
            let bytes = fs::metadata(&path).map_err(failed)?.len();
            return Ok(Written { frames: frames_of(&found, generations), path, bytes, is_new: false });
        }
    }
    // There is always a next number.
    Err(FileError::Different { path: folder.to_owned(), cause: "it has no room for another name".to_owned() })
}

/// Frames of these generations in a file.
fn frames_of(manifest: &ColdManifest, generations: &[Generation]) -> Vec<Frame> {
    let mut frames: HashMap<digest::Sha256Digest, Frame> = HashMap::new();
    for (listed, generation) in manifest.transcripts.iter().zip(generations) {
        for (piece, wanted) in listed.segments.iter().zip(&generation.segments) {
            let frame = Frame { segment: wanted.id, start: piece.offset, bytes: piece.length };
            frames.entry(wanted.sha256).or_insert(frame);
        }
    }
    let mut frames: Vec<Frame> = frames.into_values().collect();
    frames.sort_unstable_by_key(|frame| frame.start);
    frames
}

/// A session's id as a name for every file system. Ids come from foreign files.
fn file_name(session: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let plain: String = session.chars().take(MAX_NAME_CHARS).map(|c| if is_plain(c) { c } else { '_' }).collect();
    if plain == session && !plain.is_empty() { plain } else { format!("{plain}-{}", &digest::of_bytes(session.as_bytes())[..8]) }
}

/// Writes a session to a file, whole or not at all, and verifies it. `read` returns the bytes of a segment.
///
/// # Errors
/// If it cannot be written, or the bytes read differ: then there is no such file.
pub fn write(
    path: &Path,
    session: &str,
    generations: &[Generation],
    read: &mut dyn FnMut(&StoredSegmentRef) -> Result<Vec<u8>, StoreError>,
) -> Result<Written, FileError> {
    let part = part_of(path);
    let written = write_part(&part, session, generations, read).and_then(|frames| {
        let failed = |cause| FileError::Write { path: path.to_owned(), cause };
        fs::rename(&part, path).map_err(failed)?;
        sync_folder(path).map_err(failed)?;
        check(path, generations).inspect_err(|_| drop(fs::remove_file(path)))?;
        let bytes = fs::metadata(path).map_err(failed)?.len();
        Ok(Written { path: path.to_owned(), bytes, frames, is_new: true })
    });
    if written.is_err() {
        fs::remove_file(&part).ok();
    }
    written
}

/// Syncs the folder, so that the file's name is on disk too.
fn sync_folder(file: &Path) -> io::Result<()> {
    let Some(folder) = file.parent().filter(|_| cfg!(unix)) else { return Ok(()) };
    match files::open(folder)?.sync_all() {
        // Some mounts have nothing to sync.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}

/// Temporary path of a file, with the id of this process: two archives may have one folder.
fn part_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

/// Temporary files of processes that were killed long ago.
fn abandoned_parts(folder: &Path) -> impl Iterator<Item = PathBuf> {
    const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
    let is_old = |entry: &fs::DirEntry| {
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        changed.is_ok_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|age| age > ABANDONED_AFTER))
    };
    let is_part = |name: &str| name.starts_with('.') && name.ends_with(".part") && name.contains(".jsonl.zst.");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(move |entry| is_part(&entry.file_name().to_string_lossy()) && is_old(entry)).map(|entry| entry.path())
}

/// Removes temporary files of processes that were killed long ago.
pub(super) fn remove_abandoned_parts(folder: &Path) {
    abandoned_parts(folder).for_each(|part| drop(fs::remove_file(part)));
}

fn write_part(
    part: &Path,
    session: &str,
    generations: &[Generation],
    read: &mut dyn FnMut(&StoredSegmentRef) -> Result<Vec<u8>, StoreError>,
) -> Result<Vec<Frame>, FileError> {
    let failed = |cause| FileError::Write { path: part.to_owned(), cause };
    let file = files::private().create(true).truncate(true).open(part).map_err(failed)?;
    let mut file = BufWriter::new(file);
    let mut compressor = Compressor::new(TIER_COMPRESSION_LEVEL).map_err(failed)?;
    compressor.include_checksum(true).map_err(failed)?;
    let mut manifest = ColdManifest::new(session);
    let mut known: HashMap<digest::Sha256Digest, Frame> = HashMap::new();
    let mut end = 0;
    for (number, generation) in generations.iter().enumerate() {
        let mut pieces = Vec::with_capacity(generation.segments.len());
        for wanted in &generation.segments {
            // The first transcript is to be printed whole, whatever it repeats.
            let frame = match known.get(&wanted.sha256).filter(|_| number > 0) {
                Some(frame) => *frame,
                None => {
                    let data = compressor.compress(&read(wanted)?).map_err(failed)?;
                    file.write_all(&data).map_err(failed)?;
                    let frame = Frame { segment: wanted.id, start: end, bytes: data.len() as u64 };
                    end += frame.bytes;
                    known.insert(wanted.sha256, frame);
                    frame
                }
            };
            let sha256 = digest::hex(&wanted.sha256);
            pieces.push(ManifestSegment {
                start: wanted.start,
                bytes: wanted.bytes,
                sha256,
                offset: frame.start,
                length: frame.bytes,
            });
        }
        let Generation { path, agent, number, .. } = generation;
        manifest.transcripts.push(ManifestGeneration {
            path: path.clone(),
            agent: agent.clone(),
            generation: *number,
            segments: pieces,
        });
    }
    let frame = manifest.to_frame().map_err(|cause| failed(io::Error::other(cause)))?;
    file.write_all(&frame).map_err(failed)?;
    file.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)?;
    let mut frames: Vec<Frame> = known.into_values().collect();
    frames.sort_unstable_by_key(|frame| frame.start);
    Ok(frames)
}

/// Verifies a file like a stranger: by its own manifest.
fn check(path: &Path, generations: &[Generation]) -> Result<ColdManifest, FileError> {
    let different = |cause: String| FileError::Different { path: path.to_owned(), cause };
    let found = manifest(path).map_err(different)?;
    let same = |(listed, wanted): (&ManifestGeneration, &Generation)| {
        listed.segments.len() == wanted.segments.len()
            && listed.segments.iter().zip(&wanted.segments).all(|(piece, wanted)| piece.hash() == Some(wanted.sha256))
    };
    if found.transcripts.len() != generations.len() || !found.transcripts.iter().zip(generations).all(same) {
        return Err(different("its list of contents is another".to_owned()));
    }
    let mut seen = HashSet::new();
    for piece in found.transcripts.iter().flat_map(|listed| &listed.segments) {
        let Some(sha256) = piece.hash().filter(|_| seen.insert(piece.offset)) else { continue };
        let data = frame(path, piece.offset, piece.length).map_err(|error| different(error.to_string()))?;
        segment::unpack(&data, piece.bytes, &sha256, None, SegmentCheck::Sha256).map_err(different)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        assert_eq!(file_name("0b9e-4_A"), "0b9e-4_A");
        for strange in ["", "..", "../../etc/passwd", "a/b", "a\\b", "a\0", "con:", "ä", &"x".repeat(300)] {
            let name = file_name(strange);
            assert!(name.len() < 120 && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{name}");
        }
        assert_ne!(file_name("a/b"), file_name("a:b"));
    }
}
