/*!
Checks segments against their SHA-256, and puts the bytes of damaged ones back from wherever they still are.

The bytes of a segment may also be in the client's transcript, in another generation of it, in a cold file, or on a team's server.
What is found nowhere stays damaged: it is listed with the turns that need it, and everything else is read as before.
*/

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::store::sqlite::{SegmentKey, SegmentUse, SqliteStore, bytes_of_file};
use super::store::{SegmentReader, StoreError};
use ctxbridge_common::digest;

/// Number of segments that are listed at once.
const BATCH_SEGMENTS: u32 = 256;

/// Extent of a check.
#[derive(Clone, Copy, Debug)]
pub enum CheckExtent {
    /// All segments, those in cold files too.
    All,
    /// The same, from the first one on, until a time.
    Until(Instant),
    /// Segments in the database, from where the last check of this extent ended, until a time.
    Resume(Instant),
}

/// Finds bytes of a transcript elsewhere, by their length and SHA-256: on a team's server.
pub type OtherSource<'a> = &'a dyn Fn(&SegmentUse, u32, &digest::Sha256Digest) -> Option<Vec<u8>>;

/// No other source.
pub const NO_OTHER_SOURCE: OtherSource<'static> = &|_, _, _| None;

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct SegmentCheckReport {
    /// Segments that were checked.
    pub checked: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Damaged segments whose bytes were put back.
    pub healed: u64,
    /// Damaged segments whose bytes were found nowhere.
    pub lost: Vec<LostSegment>,
    /// Segments in cold files that are not there now.
    pub unreachable: u64,
    /// `true` if there was no time for all of them.
    pub is_partial: bool,
}

/// A damaged segment whose bytes were found nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostSegment {
    /// The session.
    pub session: String,
    /// The transcript, as the client had it.
    pub path: PathBuf,
    /// Offset of the first damaged byte.
    pub start: u64,
    /// Damaged bytes.
    pub bytes: u64,
    /// Ids of the turns that need them.
    pub turns: Vec<[u8; 16]>,
    /// The problem.
    pub cause: String,
}

/// Checks segments, and heals those that are damaged.
///
/// # Errors
/// If the database cannot be read or written.
pub fn check_segments(
    store: &mut SqliteStore,
    extent: CheckExtent,
    other: OtherSource<'_>,
    progress: &mut dyn FnMut(&SegmentCheckReport),
) -> Result<SegmentCheckReport, StoreError> {
    check(store, extent, true, other, progress)
}

/// Checks segments, and changes nothing.
///
/// # Errors
/// If the database cannot be read.
pub fn look_at_segments(store: &mut SqliteStore, extent: CheckExtent) -> Result<SegmentCheckReport, StoreError> {
    check(store, extent, false, NO_OTHER_SOURCE, &mut |_| {})
}

fn check(
    store: &mut SqliteStore,
    extent: CheckExtent,
    may_write: bool,
    other: OtherSource<'_>,
    progress: &mut dyn FnMut(&SegmentCheckReport),
) -> Result<SegmentCheckReport, StoreError> {
    let mut report = SegmentCheckReport::default();
    let first = if matches!(extent, CheckExtent::Resume(_)) { store.checked_up_to()? } else { 0 };
    let mut after = first;
    'all: loop {
        let batch = store.segments_after(after, BATCH_SEGMENTS)?;
        if batch.is_empty() {
            after = 0;
            break;
        }
        for key in batch {
            if let CheckExtent::Until(deadline) | CheckExtent::Resume(deadline) = extent
                && Instant::now() >= deadline
            {
                report.is_partial = true;
                break 'all;
            }
            if key.is_cold && matches!(extent, CheckExtent::Resume(_)) {
                after = key.id;
                continue;
            }
            check_one(store, &key, may_write, other, &mut report)?;
            after = key.id;
        }
        progress(&report);
    }
    if may_write && after != first && matches!(extent, CheckExtent::Resume(_)) {
        store.set_checked_up_to(after)?;
    }
    report.is_partial |= first > 0;
    for hole in store.holes()? {
        let Some((transcript, newest)) = store.identity_of(hole.transcript)? else { continue };
        let range = SegmentUse {
            transcript: hole.transcript,
            path: transcript.path,
            session: transcript.session,
            generation: hole.generation,
            is_current: hole.generation == newest,
            start: hole.start,
        };
        report.add_lost(store, range, hole.end - hole.start, "a salvage could not save it")?;
    }
    Ok(report)
}

fn check_one(
    store: &mut SqliteStore,
    key: &SegmentKey,
    may_write: bool,
    other: OtherSource<'_>,
    report: &mut SegmentCheckReport,
) -> Result<(), StoreError> {
    let cause = match store.segment_bytes(key.id, &key.sha256) {
        Ok(None) => return Ok(()),
        Ok(Some(_)) => {
            report.checked += 1;
            report.bytes += u64::from(key.bytes);
            return Ok(());
        }
        Err(StoreError::Cold { file, .. }) if !file.exists() => {
            report.unreachable += 1;
            return Ok(());
        }
        Err(error) if error.is_session_local() => error.to_string(),
        Err(error) => return Err(error),
    };
    report.checked += 1;
    report.bytes += u64::from(key.bytes);
    let uses = store.segment_uses(key.id)?;
    if may_write && put_back(store, key, &uses, other)? {
        report.healed += 1;
        return Ok(());
    }
    uses.into_iter().try_for_each(|range| report.add_lost(store, range, key.bytes.into(), &cause))
}

impl SegmentCheckReport {
    fn add_lost(&mut self, store: &mut SqliteStore, range: SegmentUse, bytes: u64, cause: &str) -> Result<(), StoreError> {
        let turns = store.turns_in(&range, bytes)?;
        let (path, session, start) = (range.path.into(), range.session, range.start);
        self.lost.push(LostSegment { session, path, start, bytes, turns, cause: cause.to_owned() });
        Ok(())
    }
}

/// Puts the bytes of a segment back from the first source that has them.
fn put_back(store: &mut SqliteStore, key: &SegmentKey, uses: &[SegmentUse], other: OtherSource<'_>) -> Result<bool, StoreError> {
    for range in uses {
        if let Some(bytes) = bytes_of_file(Path::new(&range.path), range.start, key.bytes)
            && store.put_back(key, &bytes)?
        {
            return Ok(true);
        }
    }
    if let Some(bytes) = store.cold_copy(key)?
        && store.put_back(key, &bytes)?
    {
        return Ok(true);
    }
    for range in uses {
        for bytes in [from_generations(store, key, range)?, other(range, key.bytes, &key.sha256)].into_iter().flatten() {
            if store.put_back(key, &bytes)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Bytes of the same range in other generations of the transcript, which may have joined them with others.
fn from_generations(store: &mut SqliteStore, key: &SegmentKey, range: &SegmentUse) -> Result<Option<Vec<u8>>, StoreError> {
    let newest = store.generation(range.transcript)?;
    for generation in (0..=newest).rev().filter(|generation| *generation != range.generation) {
        let mut bytes = Vec::new();
        let end = range.start + u64::from(key.bytes);
        match store.read_bytes(range.transcript, generation, (range.start, end), &mut bytes) {
            Ok(()) if digest::sha256(&bytes) == key.sha256 => return Ok(Some(bytes)),
            Err(error) if !error.is_session_local() => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(None)
}
