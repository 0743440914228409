/*!
Imports many transcripts at once.

Reading, interpreting and compressing use all processors; writing is one at a time. Each transcript continues at its cursor, so an
interrupted import is simply run again.
*/

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::ingest::{AfterPass, IngestReport, ingest_with};
use super::open::{Location, OpenedArchive};
use super::reader::{Comparison, ReadError};
use super::recovery;
use super::side_files::{OmittedFile, SideFileEffort, SideFileReport, ingest_side_files};
use super::store::sqlite::LockPolicy;
use super::store::{Batch, Store, StoreError, Transcript};
use ctxbridge_config::StoreKind;

/// Maximum number of threads: more would wait for each other at the store.
const MAX_IMPORT_THREADS: usize = 8;

/// Result of an import, final or so far.
#[derive(Clone, Debug, Default)]
pub struct ImportReport {
    /// Transcripts processed so far.
    pub transcripts: usize,
    /// Number of all transcripts.
    pub total: usize,
    /// Bytes of transcripts that are new in the archive.
    pub bytes: u64,
    /// Turns that are new or have grown.
    pub turns: u64,
    /// Lines that could not be read, in these transcripts.
    pub bad_lines: u64,
    /// Transcripts that had been rewritten.
    pub rewritten: usize,
    /// Damaged segments that were put back from these transcripts.
    pub healed: u64,
    /// Files beside transcripts that are new in the archive, or have changed.
    pub side_files: u64,
    /// Bytes of these that are new.
    pub side_bytes: u64,
    /// Files beside transcripts that are too large to be kept.
    pub omitted: Vec<(PathBuf, OmittedFile)>,
    /// Transcripts that could not be archived, with the reason.
    pub failed: Vec<(PathBuf, String)>,
    /// Files beside transcripts that could not be archived, with the reason.
    pub side_failed: Vec<(PathBuf, String)>,
    /// New path of the previous archive, if it was damaged.
    pub quarantined: Option<PathBuf>,
    /// Reason for writing JSON Lines although a database is configured.
    pub fallback_reason: Option<String>,
}

/// Archives new content of all these files into the database of a data folder, or into a new one if that is damaged. `after` and
/// `progress` are called after each file.
///
/// # Errors
/// If the archive cannot be opened or written. A transcript that cannot be read is no error: it is in [`ImportReport::failed`].
pub fn import(
    data: &Path,
    paths: &[PathBuf],
    comparison: Comparison,
    after: AfterPass<'_>,
    progress: &(dyn Fn(&ImportReport) + Sync),
) -> Result<ImportReport, StoreError> {
    import_to(&Location::database(data), paths, comparison, after, progress)
}

/// Like [`import`], into an archive anywhere on this machine.
///
/// # Errors
/// As [`import`].
pub fn import_to(
    location: &Location,
    paths: &[PathBuf],
    comparison: Comparison,
    after: AfterPass<'_>,
    progress: &(dyn Fn(&ImportReport) + Sync),
) -> Result<ImportReport, StoreError> {
    // Pages that no transcript needs would stay damaged. To read all of them takes a moment, and whoever imports has it.
    // What is in the way of that is told by the import itself.
    let is_database = location.kind() == StoreKind::Sqlite;
    let mended = if is_database { recovery::verify_pages(location.data()).unwrap_or_default() } else { None };
    let imported = match attempt(location, paths, comparison, after, progress) {
        Err(error) if error.is_damage() => {
            let aside = location.quarantine_damaged(&error)?;
            attempt(location, paths, comparison, after, progress)
                .map(|imported| ImportReport { quarantined: imported.quarantined.or(aside), ..imported })
        }
        done => done,
    };
    imported.map(|imported| ImportReport { quarantined: imported.quarantined.or(mended), ..imported })
}

fn attempt(
    location: &Location,
    paths: &[PathBuf],
    comparison: Comparison,
    after: AfterPass<'_>,
    progress: &(dyn Fn(&ImportReport) + Sync),
) -> Result<ImportReport, StoreError> {
    let next = AtomicUsize::new(0);
    let writing = Mutex::new(());
    let done = Mutex::new(ImportReport { total: paths.len(), ..ImportReport::default() });
    let work = || -> Result<(), StoreError> {
        let OpenedArchive { mut store, quarantined: aside, fallback_reason: instead } =
            location.open_for_writing(LockPolicy::Background)?;
        {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.quarantined = aside.or(done.quarantined.take());
            done.fallback_reason = instead;
        }
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut beside = SideFileReport::default();
            let pass = ingest_one(&mut *store, path, comparison, after, &writing, &mut beside);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.transcripts += 1;
            done.add_side_files(beside);
            match pass {
                Ok(pass) => done.add(&pass),
                Err(ReadError::Store(error)) => return Err(error),
                Err(error) => done.failed.push((path.clone(), error.to_string())),
            }
            progress(&done);
        }
        // Pages in the database have checksums by which a flipped bit is turned back; the log has none of that kind.
        store.checkpoint()
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_IMPORT_THREADS).min(paths.len()).max(1);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mine = work();
        let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        others.fold(mine, Result::and)
    })?;
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn ingest_one(
    store: &mut dyn Store,
    path: &Path,
    comparison: Comparison,
    after: AfterPass<'_>,
    writing: &Mutex<()>,
    beside: &mut SideFileReport,
) -> Result<IngestReport, ReadError> {
    let transcript = Transcript::at(path);
    let append = &mut |store: &mut dyn Store, batch: &Batch| {
        // Those who wait here are awake at once; SQLite's own waiting sleeps.
        let _turn = writing.lock().unwrap_or_else(PoisonError::into_inner);
        store.append(batch)
    };
    *beside = ingest_side_files(store, &transcript, SideFileEffort::Whole, append)?;
    let pass = ingest_with(store, &transcript, path, comparison, append)?;
    after(store, &transcript, &pass)?;
    Ok(pass)
}

impl ImportReport {
    fn add_side_files(&mut self, beside: SideFileReport) {
        self.side_files += beside.files;
        self.side_bytes += beside.bytes;
        self.omitted.extend(beside.omitted);
        self.side_failed.extend(beside.failed);
    }

    fn add(&mut self, pass: &IngestReport) {
        self.bytes += pass.bytes;
        self.turns += pass.turns;
        self.healed += pass.healed;
        self.bad_lines += pass.interpreter.session_metadata().bad_lines;
        self.rewritten += usize::from(pass.was_rewritten);
    }
}
