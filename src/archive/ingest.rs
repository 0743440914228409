//! One pass over one transcript: everything new goes into the archive.

use std::path::Path;

use super::reader::{Comparison, ReadError, TranscriptReader, TranscriptSource};
use super::store::{AppendOutcome, Batch, Store, StoreError, Transcript};
use ctxbridge_transcript::Interpreter;

/// Maximum number of times that a pass starts again because other processes were faster. Each of them has then archived more of the
/// file. So this many in a row do not happen to a file that is written by a person or a model.
const ATTEMPTS: u32 = 100;

/// Result of a pass.
#[derive(Clone, Debug, Default)]
pub struct IngestReport {
    /// Bytes that are new in the archive.
    pub bytes: u64,
    /// Turns that are new or have grown.
    pub turns: u64,
    /// Damaged segments that were put back.
    pub healed: u64,
    /// `true` if the transcript had been rewritten.
    pub was_rewritten: bool,
    /// `true` if nothing of the transcript was archived before.
    pub is_first: bool,
    /// State of the transcript's interpretation now.
    pub interpreter: Interpreter,
}

impl IngestReport {
    /// Counts a batch. `last` is the index of the newest turn before it, and then of the newest in it.
    fn add(&mut self, batch: &Batch, last: &mut Option<u32>) {
        self.is_first |= batch.expected_cursor.is_none();
        let before = batch.rewritten.map_or(batch.expected_cursor.map_or(0, |(_, bytes)| bytes), |rewritten| rewritten.shared);
        self.bytes += batch.cursor.bytes - before;
        // The open turn is in every batch while it grows.
        let grows = batch.turns.first().is_some_and(|first| Some(first.index) == *last);
        self.turns += batch.turns.len() as u64 - u64::from(grows);
        *last = batch.turns.last().map(|turn| turn.index).or(*last);
        self.was_rewritten |= batch.rewritten.is_some();
    }
}

/// A pass over a short transcript that was read, and is not written yet.
#[derive(Debug)]
pub(super) struct PreparedPass {
    /// The new content; `None` if there is none.
    pub batch: Option<Batch>,
    /// Report of the pass once that is in the archive.
    pub report: IngestReport,
}

/// Reads the new content of a transcript; `None` if that is more than one batch.
///
/// # Errors
/// If it cannot be read, or the store cannot be.
pub(super) fn prepare(
    store: &mut dyn Store,
    transcript: &Transcript,
    path: &Path,
    comparison: Comparison,
) -> Result<Option<PreparedPass>, ReadError> {
    if is_forgotten(store, transcript)? {
        return Ok(Some(PreparedPass { batch: None, report: IngestReport::default() }));
    }
    let healed = heal(store, transcript, path, comparison)?;
    let mut reader = TranscriptReader::open(store, transcript, path, comparison)?;
    let batch = reader.next_batch(store)?;
    if batch.is_some() && reader.remaining() > 0 {
        return Ok(None);
    }
    let mut report = IngestReport { healed, ..IngestReport::default() };
    if let Some(batch) = &batch {
        report.add(batch, &mut None);
    }
    report.interpreter = reader.into_interpreter();
    Ok(Some(PreparedPass { batch, report }))
}

/// `true` if the user had the whole session, or this file beside its transcript, forgotten.
fn is_forgotten(store: &mut dyn Store, transcript: &Transcript) -> Result<bool, StoreError> {
    let forgotten = store.blanks()?.tombstones;
    let is_of_forgotten = |file: &str| forgotten.has_file(&transcript.session, file);
    Ok(forgotten.has_session(&transcript.session) || transcript.part.side_file().is_some_and(is_of_forgotten))
}

/// Puts damaged segments back from the transcript's file: its bytes are at hand, and whoever compares all of them has the time.
fn heal(store: &mut dyn Store, transcript: &Transcript, path: &Path, comparison: Comparison) -> Result<u64, StoreError> {
    if comparison == Comparison::Whole { store.heal_from_file(&transcript.path, path) } else { Ok(0) }
}

/// Called after each of many passes, with its result.
pub type AfterPass<'a> = &'a (dyn Fn(&mut dyn Store, &Transcript, &IngestReport) -> Result<(), StoreError> + Sync);

/// Does nothing after a pass.
pub const NO_FOLLOW_UP: AfterPass<'static> = &|_, _, _| Ok(());

/// Opens the reader of a pass, each time that the pass starts.
type OpenReader<'o, 's> = &'o mut dyn FnMut(&mut dyn Store) -> Result<TranscriptReader<'s>, ReadError>;

/// Appends a batch to the store.
pub type AppendBatch<'a> = &'a mut dyn FnMut(&mut dyn Store, &Batch) -> Result<AppendOutcome, StoreError>;

/// Archives new content of a transcript.
///
/// # Errors
/// If it cannot be read, or the store cannot be written. Earlier batches stay.
pub fn ingest(store: &mut dyn Store, transcript: &Transcript, path: &Path) -> Result<IngestReport, ReadError> {
    ingest_with(store, transcript, path, Comparison::End, &mut |store, batch| store.append(batch))
}

/// Like [`ingest`], with a choice of the comparison and of how batches reach the store.
///
/// # Errors
/// As [`ingest`].
pub fn ingest_with(
    store: &mut dyn Store,
    transcript: &Transcript,
    path: &Path,
    comparison: Comparison,
    append: AppendBatch<'_>,
) -> Result<IngestReport, ReadError> {
    let healed = heal(store, transcript, path, comparison)?;
    let (pass, batches) =
        pass(store, (transcript, path), &mut |store| TranscriptReader::open(store, transcript, path, comparison), append)?;
    if batches > 1 {
        store.checkpoint()?;
    }
    Ok(IngestReport { healed, ..pass })
}

/// Like [`ingest`], for a transcript that is no file. The caller, who may have more to write, settles the store afterwards.
///
/// # Errors
/// As [`ingest`].
pub fn ingest_from<'s>(
    store: &mut dyn Store,
    transcript: &Transcript,
    comparison: Comparison,
    source: &mut dyn FnMut() -> (Box<dyn TranscriptSource + 's>, u64),
) -> Result<IngestReport, ReadError> {
    let mut open = |store: &mut dyn Store| TranscriptReader::from_source(store, transcript, source(), comparison);
    let (pass, _) = pass(store, (transcript, Path::new(&transcript.path)), &mut open, &mut |store, batch| store.append(batch))?;
    Ok(pass)
}

/// Returns the result of the pass and its number of batches.
fn pass(
    store: &mut dyn Store,
    (transcript, path): (&Transcript, &Path),
    open: OpenReader<'_, '_>,
    append: AppendBatch<'_>,
) -> Result<(IngestReport, usize), ReadError> {
    let mut pass = IngestReport::default();
    if is_forgotten(store, transcript)? {
        return Ok((pass, 0));
    }
    let mut last = None;
    let mut batches = 0;
    'again: for _ in 0..ATTEMPTS {
        let mut reader = open(store)?;
        while let Some(batch) = reader.next_batch(store)? {
            if append(store, &batch)? == AppendOutcome::Conflict {
                continue 'again;
            }
            batches += 1;
            pass.add(&batch, &mut last);
        }
        pass.interpreter = reader.into_interpreter();
        return Ok((pass, batches));
    }
    Err(StoreError::Busy { path: path.to_owned() }.into())
}
