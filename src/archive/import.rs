/*!
Many transcripts at once.

Reading, interpreting and compressing take all processors; writing is one at a time. Each transcript goes on where its cursor is, so
an import that is interrupted is simply begun again.
*/

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::ingest::{AfterPass, Pass, archive_through};
use super::open::{Location, Opened};
use super::reader::{Comparison, ReadError};
use super::store::sqlite::Patience;
use super::store::{Store, StoreError, Transcript};

/// More threads than this wait for each other at the store.
const MOST_WORKERS: usize = 8;

/// What an import did, or has done so far.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Transcripts that were looked at.
    pub transcripts: usize,
    /// Of all that there are.
    pub of: usize,
    /// Bytes that are new in the archive.
    pub bytes: u64,
    /// Turns that are new or have grown.
    pub turns: u64,
    /// Lines that could not be read, in these transcripts.
    pub bad_lines: u64,
    /// Transcripts that had been rewritten.
    pub rewritten: usize,
    /// Transcripts that could not be archived, and why.
    pub failed: Vec<(PathBuf, String)>,
    /// Where the archive is now that was there before, if it was damaged.
    pub aside: Option<PathBuf>,
    /// Why it went into JSON Lines, where it should go into a database.
    pub instead: Option<String>,
}

/// Archives what is new in all of these files, into the database of a data folder, or a new one if that is damaged. `after` and `progress`
/// are called after each of them.
///
/// # Errors
/// When the archive cannot be opened or written. A transcript that cannot be read is no error: it is in [`Imported::failed`].
pub fn import(
    data: &Path,
    paths: &[PathBuf],
    comparison: Comparison,
    after: AfterPass<'_>,
    progress: &(dyn Fn(&Imported) + Sync),
) -> Result<Imported, StoreError> {
    import_to(&Location::database(data), paths, comparison, after, progress)
}

/// The same into an archive that is anywhere on this machine.
///
/// # Errors
/// As [`import`].
pub fn import_to(
    location: &Location,
    paths: &[PathBuf],
    comparison: Comparison,
    after: AfterPass<'_>,
    progress: &(dyn Fn(&Imported) + Sync),
) -> Result<Imported, StoreError> {
    match attempt(location, paths, comparison, after, progress) {
        Err(error) if error.is_damage() => {
            let aside = location.move_aside(&error)?;
            attempt(location, paths, comparison, after, progress)
                .map(|imported| Imported { aside: imported.aside.or(aside), ..imported })
        }
        done => done,
    }
}

fn attempt(
    location: &Location,
    paths: &[PathBuf],
    comparison: Comparison,
    after: AfterPass<'_>,
    progress: &(dyn Fn(&Imported) + Sync),
) -> Result<Imported, StoreError> {
    let next = AtomicUsize::new(0);
    let writing = Mutex::new(());
    let done = Mutex::new(Imported { of: paths.len(), ..Imported::default() });
    let work = || -> Result<(), StoreError> {
        let Opened { mut store, aside, instead } = location.to_write(Patience::Patient)?;
        {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.aside = aside.or(done.aside.take());
            done.instead = instead;
        }
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            let pass = archive_one(&mut *store, path, comparison, after, &writing);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.transcripts += 1;
            match pass {
                Ok(pass) => done.add(&pass),
                Err(ReadError::Store(error)) => return Err(error),
                Err(error) => done.failed.push((path.clone(), error.to_string())),
            }
            progress(&done);
        }
        Ok(())
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_WORKERS).min(paths.len()).max(1);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mine = work();
        let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        others.fold(mine, Result::and)
    })?;
    Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn archive_one(
    store: &mut dyn Store,
    path: &Path,
    comparison: Comparison,
    after: AfterPass<'_>,
    writing: &Mutex<()>,
) -> Result<Pass, ReadError> {
    let transcript = Transcript::at(path);
    let pass = archive_through(store, &transcript, path, comparison, &mut |store, batch| {
        // Those who wait here are awake at once; SQLite's own waiting sleeps.
        let _turn = writing.lock().unwrap_or_else(PoisonError::into_inner);
        store.append(batch)
    })?;
    after(store, &transcript, &pass)?;
    Ok(pass)
}

impl Imported {
    fn add(&mut self, pass: &Pass) {
        self.bytes += pass.bytes;
        self.turns += pass.turns;
        self.bad_lines += pass.interpreter.seen().bad_lines;
        self.rewritten += usize::from(pass.was_rewritten);
    }
}
