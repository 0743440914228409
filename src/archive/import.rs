/*!
Imports many transcripts at once.

Reading, interpreting and compressing use all processors; writing is one at a time. Short transcripts are written many at a time: with
a transaction for each, an import of 100,000 sessions would mostly write the same pages of the database again and again. Each
transcript continues at its cursor, so an interrupted import is simply run again.
*/

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::ingest::{AfterPass, IngestReport, PreparedPass, ingest_with, prepare};
use super::open::{Location, OpenedArchive};
use super::reader::{Comparison, ReadError};
use super::recovery;
use super::side_files::{OmittedFile, SideFileEffort, SideFileReport, ingest_side_files};
use super::store::sqlite::LockPolicy;
use super::store::{AppendOutcome, Batch, Store, StoreError, Transcript};
use ctxbridge_config::StoreKind;

/// Maximum number of threads: more would wait for each other at the store.
const MAX_IMPORT_THREADS: usize = 8;

/// Maximum size of a transcript that is written together with others, in bytes.
const MAX_GROUPED_BYTES: u64 = 256 << 10;

/// Maximum number of transcripts that are written together, and of their bytes. Hooks wait for such a transaction.
const MAX_GROUP_TRANSCRIPTS: usize = 128;
const MAX_GROUP_BYTES: u64 = 1 << 20;

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
        let mut importer =
            ImportWorker { store: &mut *store, comparison, after, writing: &writing, group: WriteGroup::default() };
        let finished = |path: &PathBuf, imported: Imported| {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.transcripts += 1;
            done.add_side_files(imported.beside);
            match imported.pass {
                Ok(pass) => done.add(&pass),
                Err(ReadError::Store(error)) => return Err(error),
                Err(error) => done.failed.push((path.clone(), error.to_string())),
            }
            progress(&done);
            Ok(())
        };
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            importer.take(path, &finished)?;
        }
        importer.write_group(&finished)?;
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

/// Outcome for a transcript and the files beside it.
struct Imported {
    beside: SideFileReport,
    pass: Result<IngestReport, ReadError>,
}

/// Transcripts that were read and are written together.
#[derive(Default)]
struct WriteGroup<'p> {
    transcripts: Vec<(&'p PathBuf, Transcript, PreparedPass, SideFileReport)>,
    bytes: u64,
}

/// Receives the result of each transcript. An error ends the import.
type OnFinished<'f> = &'f dyn Fn(&PathBuf, Imported) -> Result<(), StoreError>;

/// A thread's part of an import.
struct ImportWorker<'a, 'p> {
    store: &'a mut dyn Store,
    comparison: Comparison,
    after: AfterPass<'a>,
    writing: &'a Mutex<()>,
    group: WriteGroup<'p>,
}

impl<'p> ImportWorker<'_, 'p> {
    /// Archives a transcript, or reads it and leaves it to the group.
    fn take(&mut self, path: &'p PathBuf, finished: OnFinished<'_>) -> Result<(), StoreError> {
        let mut beside = SideFileReport::default();
        match self.prepare(path, &mut beside) {
            Ok(Some((transcript, pass))) => {
                self.group.bytes += pass.report.bytes;
                self.group.transcripts.push((path, transcript, pass, beside));
                if self.group.transcripts.len() >= MAX_GROUP_TRANSCRIPTS || self.group.bytes >= MAX_GROUP_BYTES {
                    self.write_group(finished)?;
                }
                Ok(())
            }
            Ok(None) => {
                let pass = self.ingest(path);
                finished(path, Imported { beside, pass })
            }
            Err(error) => finished(path, Imported { beside, pass: Err(error) }),
        }
    }

    /// Archives the files beside a transcript, and reads it if it is short; else returns none.
    fn prepare(&mut self, path: &Path, beside: &mut SideFileReport) -> Result<Option<(Transcript, PreparedPass)>, ReadError> {
        let transcript = Transcript::at(path);
        let writing = self.writing;
        *beside =
            ingest_side_files(self.store, &transcript, SideFileEffort::Whole, &mut |store, batch| append(store, batch, writing))?;
        if std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_GROUPED_BYTES) {
            let prepared = prepare(self.store, &transcript, path, self.comparison)?;
            return Ok(prepared.map(|pass| (transcript, pass)));
        }
        Ok(None)
    }

    /// Archives a transcript that is not written together with others.
    fn ingest(&mut self, path: &Path) -> Result<IngestReport, ReadError> {
        let transcript = Transcript::at(path);
        let writing = self.writing;
        let append = &mut |store: &mut dyn Store, batch: &Batch| append(store, batch, writing);
        let pass = ingest_with(self.store, &transcript, path, self.comparison, append)?;
        (self.after)(self.store, &transcript, &pass)?;
        Ok(pass)
    }

    /// Writes the group in one transaction.
    fn write_group(&mut self, finished: OnFinished<'_>) -> Result<(), StoreError> {
        let WriteGroup { transcripts, .. } = std::mem::take(&mut self.group);
        let batches: Vec<&Batch> = transcripts.iter().filter_map(|(_, _, pass, _)| pass.batch.as_ref()).collect();
        let outcomes = if batches.is_empty() {
            Vec::new()
        } else {
            let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            self.store.append_all(&batches)?
        };
        let mut outcomes = outcomes.into_iter();
        for (path, transcript, PreparedPass { batch, report }, beside) in transcripts {
            let is_written = batch.is_none() || outcomes.next() == Some(AppendOutcome::Committed);
            let pass = if is_written {
                (self.after)(self.store, &transcript, &report)?;
                Ok(report)
            } else {
                // Another process was first, and the rest is for a pass of its own.
                self.ingest(path)
            };
            finished(path, Imported { beside, pass })?;
        }
        Ok(())
    }
}

/// Those who wait here are awake at once; SQLite's own waiting sleeps.
fn append(store: &mut dyn Store, batch: &Batch, writing: &Mutex<()>) -> Result<AppendOutcome, StoreError> {
    let _turn = writing.lock().unwrap_or_else(PoisonError::into_inner);
    store.append(batch)
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
