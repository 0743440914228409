//! One pass over one transcript: everything that is new goes into the archive.

use std::path::Path;

use super::reader::{Comparison, ReadError, Reader, Source};
use super::store::{Appended, Batch, Store, StoreError, Transcript};
use ctxbridge_transcript::Interpreter;

/// How often a pass begins again because other processes were faster. Each of them has then brought the archive further, so this
/// many in a row do not happen to a file that anybody writes by hand or by model.
const ATTEMPTS: u32 = 100;

/// What a pass did.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Bytes that are new in the archive.
    pub bytes: u64,
    /// Turns that are new or have grown.
    pub turns: u64,
    /// Whether the transcript had been rewritten.
    pub was_rewritten: bool,
    /// Whether nothing of the transcript was archived before.
    pub is_first: bool,
    /// What is known of the transcript now.
    pub interpreter: Interpreter,
}

/// Called after each of many passes, with what it did.
pub type AfterPass<'a> = &'a (dyn Fn(&mut dyn Store, &Transcript, &Pass) -> Result<(), StoreError> + Sync);

/// Nothing is done after a pass.
pub const NO_FOLLOW_UP: AfterPass<'static> = &|_, _, _| Ok(());

/// Where a pass gets its reader from, each time that it begins.
type Opening<'o, 's> = &'o mut dyn FnMut(&mut dyn Store) -> Result<Reader<'s>, ReadError>;

/// How batches reach the store.
type Appending<'a> = &'a mut dyn FnMut(&mut dyn Store, &Batch) -> Result<Appended, StoreError>;

/// Archives what is new in a transcript.
///
/// # Errors
/// When it cannot be read, or the store cannot be written. What was done before stays.
pub fn archive(store: &mut dyn Store, transcript: &Transcript, path: &Path) -> Result<Pass, ReadError> {
    archive_through(store, transcript, path, Comparison::End, &mut |store, batch| store.append(batch))
}

/// The same, with a say in what is compared and how batches reach the store.
///
/// # Errors
/// As [`archive`].
pub fn archive_through(
    store: &mut dyn Store,
    transcript: &Transcript,
    path: &Path,
    comparison: Comparison,
    append: Appending<'_>,
) -> Result<Pass, ReadError> {
    let (pass, batches) = pass(store, path, &mut |store| Reader::open(store, transcript, path, comparison), append)?;
    if batches > 1 {
        store.settle()?;
    }
    Ok(pass)
}

/// The same for a transcript that is no file. To settle what was written is left to the caller, who may have more.
///
/// # Errors
/// As [`archive`].
pub fn archive_from<'s>(
    store: &mut dyn Store,
    transcript: &Transcript,
    comparison: Comparison,
    source: &mut dyn FnMut() -> (Box<dyn Source + 's>, u64),
) -> Result<Pass, ReadError> {
    let mut open = |store: &mut dyn Store| Reader::over(store, transcript, source(), comparison);
    let (pass, _) = pass(store, Path::new(&transcript.path), &mut open, &mut |store, batch| store.append(batch))?;
    Ok(pass)
}

/// The pass, and how many batches it had.
fn pass(store: &mut dyn Store, path: &Path, open: Opening<'_, '_>, append: Appending<'_>) -> Result<(Pass, usize), ReadError> {
    let mut pass = Pass::default();
    let mut last = None;
    let mut batches = 0;
    'again: for _ in 0..ATTEMPTS {
        let mut reader = open(store)?;
        while let Some(batch) = reader.next_batch()? {
            if append(store, &batch)? == Appended::Moved {
                continue 'again;
            }
            batches += 1;
            pass.is_first |= batch.follows.is_none();
            let before = batch.rewritten.map_or(batch.follows.map_or(0, |(_, bytes)| bytes), |rewritten| rewritten.shared);
            pass.bytes += batch.cursor.bytes - before;
            // The open turn is in every batch while it grows.
            let grows = batch.turns.first().is_some_and(|first| Some(first.index) == last);
            pass.turns += batch.turns.len() as u64 - u64::from(grows);
            last = batch.turns.last().map(|turn| turn.index).or(last);
            pass.was_rewritten |= batch.rewritten.is_some();
        }
        pass.interpreter = reader.into_interpreter();
        return Ok((pass, batches));
    }
    Err(StoreError::Busy { path: path.to_owned() }.into())
}
