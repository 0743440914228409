/*!
All that keeps an archive in good order, in one run: `ctxbridge archive optimize`.

Nothing is lost by it. Transcripts are compared with their files first, so that what is checked, indexed and moved afterwards is
complete; sessions are moved between tiers last, so that none has to be read from where it was just moved to. In the background a
run is cut short where it would take long, and the next one goes on.
*/

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::heal::{self, CheckExtent, OtherSource, SegmentCheckReport};
use super::import::{ImportReport, import_to};
use super::ingest::AfterPass;
use super::learn::{self, LearningPatterns, LearningReport};
use super::maintenance::{self, MaintenanceMode, MaintenanceReport, RetentionSettings};
use super::open::Location;
use super::reader::Comparison;
use super::recovery::{self, Repair};
use super::search::{IndexingProgress, IndexingReport, SearchError, Searcher};
use super::snapshot;
use super::store::jsonl::{JournalFinding, JsonlStore};
use super::store::sqlite::{LockPolicy, SqliteStore};
use super::store::{MaintenanceStore, Store, StoreError};
use super::tier::{self, TierReport, TierSettings};
use ctxbridge_config::StoreKind;

/// Time limit for extracting learnings in the background.
const BACKGROUND_LEARNING: Duration = Duration::from_secs(60);

/// Time limit for moving unused sessions in the background.
const BACKGROUND_MOVING: Duration = Duration::from_secs(60);

/// Time limits for checking segments, of which each run goes on where the last one ended: in the foreground, in the background, and
/// where nothing may be changed.
const CHECKING: Duration = Duration::from_secs(30);
const BACKGROUND_CHECKING: Duration = Duration::from_secs(5);
const LOOKING: Duration = Duration::from_secs(5);

/// Time limit for making vectors in the background.
const BACKGROUND_EMBEDDING: Duration = Duration::from_secs(20);

/// Pause between tries to write the search index, which is another process's for a while.
const INDEX_PAUSE: Duration = Duration::from_millis(100);

/// Free bytes in a database from which rewriting it is worthwhile, if they are also a quarter of it.
const MIN_FREE_BYTES_TO_SHRINK: u64 = 8 << 20;

/// A run.
pub struct MaintenanceRun<'m> {
    /// The archive.
    pub location: &'m Location,
    /// Transcripts to compare with the archive, byte for byte.
    pub transcripts: &'m [PathBuf],
    /// Settings of decay and pruning.
    pub retention: &'m RetentionSettings,
    /// Settings of the tiers.
    pub tiers: &'m TierSettings,
    /// Patterns of learnings.
    pub patterns: &'m LearningPatterns,
    /// Is called after each pass over a transcript.
    pub after_pass: AfterPass<'m>,
    /// Writes what hooks could not write.
    pub drain: &'m dyn Fn(&mut dyn Store) -> Result<(), StoreError>,
    /// `true` to check all segments, rather than go on for a while where the last run ended.
    pub verifies_all: bool,
    /// Another source for the bytes of a damaged segment, besides this machine.
    pub other_source: OtherSource<'m>,
    /// `true` if the user is at work meanwhile.
    pub is_background: bool,
    /// The current time, in milliseconds since 1970.
    pub now_ms: i64,
    /// Is told each step.
    pub progress: &'m dyn Fn(&str),
}

/// Result of a run, or what it would be.
#[derive(Clone, Debug, Default)]
pub struct MaintenanceRunReport {
    /// Comparison with the transcripts.
    pub compared: ImportReport,
    /// Repairs of the database.
    pub repairs: Vec<Repair>,
    /// Check of segments; `None` for an archive in JSON Lines, whose check is a part of the cycle, or none yet.
    pub segments: Option<SegmentCheckReport>,
    /// Check for damage, decay and pruning.
    pub cycle: RetentionReport,
    /// The search index; `None` for an archive without one.
    pub indexed: Option<IndexingReport>,
    /// Learnings; `None` if there is no archive yet, it was damaged, or nothing is to be written.
    pub learned: Option<LearningReport>,
    /// Tiers; `None` for an archive without them.
    pub tiers: Option<TierReport>,
    /// The rewritten database; `None` if that was not worthwhile.
    pub shrunk: Option<Shrunk>,
}

/// The database after its free space was to go back to the disk.
#[derive(Clone, Debug)]
pub enum Shrunk {
    /// Its bytes before and after.
    Done {
        /// Before.
        before: u64,
        /// After.
        after: u64,
    },
    /// It stays as it is, with free bytes that will be filled again.
    Failed {
        /// The free bytes.
        free: u64,
        /// The error.
        error: String,
    },
}

/// Errors that end a run.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// Of the archive.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Of the search index.
    #[error(transparent)]
    Search(#[from] SearchError),
}

impl MaintenanceRun<'_> {
    /// Does all of it.
    ///
    /// # Errors
    /// If the archive or its index cannot be read or written. What was done before stays done.
    pub fn run(&self) -> Result<MaintenanceRunReport, MaintenanceError> {
        let known_repairs = recovery::repairs(self.location.data()).len();
        let mut done = self.run_steps()?;
        // The file may have been begun anew meanwhile.
        done.repairs = recovery::repairs(self.location.data()).into_iter().skip(known_repairs).collect();
        Ok(done)
    }

    fn run_steps(&self) -> Result<MaintenanceRunReport, MaintenanceError> {
        self.tell("verifying the database, and comparing with the transcripts");
        let compared = import_to(self.location, self.transcripts, Comparison::Whole, self.after_pass, &|_| {})?;
        // Where the database cannot be used, lines were written beside it.
        let is_lines = self.is_lines() || compared.fallback_reason.is_some();
        self.tell("looking for damage");
        let cycle = if is_lines {
            optimize_jsonl(self.location, self.retention, self.now_ms)?
        } else {
            optimize_archive(self.location.data(), self.retention, self.now_ms)?
        };
        let mut done = MaintenanceRunReport { compared, cycle, ..MaintenanceRunReport::default() };
        if done.cycle.outcome.is_some() {
            if !is_lines {
                done.segments = Some(self.check_segments()?);
                done.indexed = Some(self.index()?);
            }
            done.learned = Some(self.learn()?);
            if !is_lines {
                (done.tiers, done.shrunk) = self.move_between_tiers()?;
            }
        }
        Ok(done)
    }

    /// Finds out the effects of [`Self::run`], except for those of transcripts that have changed. Nothing is written.
    ///
    /// # Errors
    /// If the archive or its index cannot be read.
    pub fn preview(&self) -> Result<MaintenanceRunReport, MaintenanceError> {
        self.tell("looking for damage");
        if self.is_lines() {
            let cycle = preview_optimize_jsonl(self.location.folder(), self.retention, self.now_ms)?;
            return Ok(MaintenanceRunReport { cycle, ..MaintenanceRunReport::default() });
        }
        let data = self.location.data();
        let cycle = preview_optimize(data, self.retention, self.now_ms)?;
        let mut done = MaintenanceRunReport { cycle, ..MaintenanceRunReport::default() };
        if done.cycle.outcome.is_some() {
            let _presence = recovery::lock_in_use(data, LockPolicy::Background)?;
            if let Some(mut store) = SqliteStore::open_read_only(data)? {
                let extent = if self.verifies_all { CheckExtent::All } else { CheckExtent::Until(Instant::now() + LOOKING) };
                done.segments = Some(heal::look_at_segments(&mut store, extent)?);
                done.indexed = Some(Searcher::new(data.to_owned()).backlog(&mut store)?);
                done.tiers = Some(tier::preview(&mut store, self.tiers, self.now_ms)?);
            }
        }
        Ok(done)
    }

    fn is_lines(&self) -> bool {
        self.location.kind() == StoreKind::Jsonl
    }

    fn tell(&self, step: &str) {
        (self.progress)(step);
    }

    fn deadline(&self, limit: Duration) -> Option<Instant> {
        self.is_background.then(|| Instant::now() + limit)
    }

    /// Checks segments against their hashes, and puts damaged ones back.
    fn check_segments(&self) -> Result<SegmentCheckReport, MaintenanceError> {
        self.tell("checking what is archived");
        let (mut store, _) = recovery::open_or_recover(self.location.data(), LockPolicy::Background)?;
        let extent = match () {
            () if self.verifies_all => CheckExtent::All,
            () if self.is_background => CheckExtent::Resume(Instant::now() + BACKGROUND_CHECKING),
            () => CheckExtent::Resume(Instant::now() + CHECKING),
        };
        let mut told = |report: &SegmentCheckReport| self.tell(&format!("checking what is archived: {} MB", report.bytes >> 20));
        let checked = heal::check_segments(&mut store, extent, self.other_source, &mut told)?;
        // An archive of an older version gets checksums of its pages, where nobody waits for its lock.
        if !self.is_background {
            store.add_page_sums()?;
        }
        Ok(checked)
    }

    /// Brings the search index up to date. Another process that does the same is waited for as long as for the archive.
    fn index(&self) -> Result<IndexingReport, MaintenanceError> {
        let (mut store, _) = recovery::open_or_recover(self.location.data(), LockPolicy::Background)?;
        store.recut_words()?;
        let mut finder = Searcher::new(self.location.data().to_owned());
        let begun = Instant::now();
        loop {
            let deadline = self.deadline(BACKGROUND_EMBEDDING);
            match finder.catch_up(&mut store, deadline, &mut |step: IndexingProgress| self.tell(&step.to_string())) {
                Err(SearchError::Busy { .. }) if begun.elapsed() < LockPolicy::Background.lock_timeout() => {
                    std::thread::sleep(INDEX_PAUSE);
                }
                done => return Ok(done?),
            }
        }
    }

    /// Finds compactions and learnings in what is new.
    fn learn(&self) -> Result<LearningReport, MaintenanceError> {
        let mut store = self.location.open_for_writing(LockPolicy::Background)?.store;
        let deadline = self.deadline(BACKGROUND_LEARNING);
        (self.drain)(&mut *store)?;
        snapshot::take_all_snapshots(&mut *store, deadline, &mut |done| {
            self.tell(&format!("looking for compactions: {done} sessions"));
        })?;
        let learned = learn::learn_from_all(&mut *store, self.patterns, deadline, &mut |done| {
            self.tell(&format!("learning: {done} sessions"));
        })?;
        Ok(learned)
    }

    /// Moves unused sessions to colder tiers, and sessions that are used again back.
    fn move_between_tiers(&self) -> Result<(Option<TierReport>, Option<Shrunk>), MaintenanceError> {
        let data = self.location.data();
        let (mut store, _) = recovery::open_or_recover(data, LockPolicy::Background)?;
        let deadline = self.deadline(BACKGROUND_MOVING);
        let moves = tier::run(&mut store, data, self.tiers, deadline, self.now_ms, &mut |step| self.tell(step))?;
        // Rewriting blocks all other processes, so it is done only in the foreground.
        let shrunk = if self.is_background { None } else { self.shrink(&mut store)? };
        store.checkpoint()?;
        Ok((Some(moves), shrunk))
    }

    /// Returns free space of the database to the disk, if it is worthwhile.
    fn shrink(&self, store: &mut SqliteStore) -> Result<Option<Shrunk>, StoreError> {
        let (before, free) = store.free_bytes()?;
        if free < MIN_FREE_BYTES_TO_SHRINK || free < before / 4 {
            return Ok(None);
        }
        self.tell("giving room back to the disk");
        Ok(Some(match store.shrink().and_then(|()| store.checkpoint()) {
            Ok(()) => Shrunk::Done { before, after: store.free_bytes()?.0 },
            Err(error) => Shrunk::Failed { free, error: error.to_string() },
        }))
    }
}

/// Result of a check for damage, followed by decay and pruning.
#[derive(Clone, Debug, Default)]
pub struct RetentionReport {
    /// Result of decay and pruning; `None` if the archive is damaged or missing.
    pub outcome: Option<MaintenanceReport>,
    /// Path of a damaged archive, now.
    pub damaged: Option<PathBuf>,
    /// Damaged pieces of a JSON Lines archive that were put back.
    pub healed: u64,
    /// Damage in a JSON Lines archive, which goes on without the damaged parts.
    pub findings: Vec<JournalFinding>,
}

/// Checks for damage, runs decay and pruning, and cleans up.
fn optimize_archive(data: &Path, settings: &RetentionSettings, now_ms: i64) -> Result<RetentionReport, StoreError> {
    let work = || -> Result<RetentionReport, StoreError> {
        let (mut store, damaged) = recovery::open_or_recover(data, LockPolicy::Background)?;
        store.integrity_check()?;
        let outcome = run_maintenance(&mut store, settings, MaintenanceMode::Apply, now_ms)?;
        store.optimize()?;
        store.renew_session_list()?;
        Ok(RetentionReport { outcome: Some(outcome), damaged, ..RetentionReport::default() })
    };
    match work() {
        Err(error) if error.is_damage() => {
            let damaged = recovery::mend_if_damaged(data)?;
            work().map(|done| RetentionReport { damaged: damaged.or(done.damaged), ..done })
        }
        done => done,
    }
}

/// Reports the effects of [`optimize_archive`]. Nothing is written; a damaged archive stays in place.
fn preview_optimize(data: &Path, settings: &RetentionSettings, now_ms: i64) -> Result<RetentionReport, StoreError> {
    let path = data.join(SqliteStore::FILE);
    if !path.exists() {
        return Ok(RetentionReport::default());
    }
    let _presence = recovery::lock_in_use(data, LockPolicy::Background)?;
    let work = || {
        match recovery::damaged_pages(data)? {
            0 => {}
            count => return Err(StoreError::Damaged { path: path.clone(), cause: format!("damaged pages: {count}") }),
        }
        let Some(mut store) = SqliteStore::open_read_only(data)? else { return Ok(None) };
        store.integrity_check()?;
        run_maintenance(&mut store, settings, MaintenanceMode::DryRun, now_ms).map(Some)
    };
    match work() {
        Err(error) if error.is_damage() => Ok(RetentionReport { damaged: Some(path), ..RetentionReport::default() }),
        done => done.map(|outcome| RetentionReport { outcome, ..RetentionReport::default() }),
    }
}

/// Like [`optimize_archive`], for an archive in JSON Lines.
fn optimize_jsonl(location: &Location, settings: &RetentionSettings, now_ms: i64) -> Result<RetentionReport, StoreError> {
    let folder = location.folder();
    let work = || {
        let mut store = JsonlStore::open(folder, LockPolicy::Background)?.noting_repairs(location.data());
        let mut findings = store.integrity_check()?;
        let mut healed = 0;
        if !findings.is_empty() {
            healed = store.heal()?;
            findings = store.integrity_check()?;
        }
        let outcome = run_maintenance(&mut store, settings, MaintenanceMode::Apply, now_ms)?;
        store.optimize().map(|()| RetentionReport { outcome: Some(outcome), damaged: None, findings, healed })
    };
    match work() {
        Err(error) if error.is_damage() => {
            let damaged = JsonlStore::move_damaged_aside(folder)?;
            Ok(RetentionReport { damaged, ..RetentionReport::default() })
        }
        done => done,
    }
}

/// Reports the effects of [`optimize_jsonl`].
fn preview_optimize_jsonl(folder: &Path, settings: &RetentionSettings, now_ms: i64) -> Result<RetentionReport, StoreError> {
    let work = || -> Result<RetentionReport, StoreError> {
        let Some(mut store) = JsonlStore::open_read_only(folder)? else { return Ok(RetentionReport::default()) };
        let findings = store.integrity_check()?;
        let outcome = run_maintenance(&mut store, settings, MaintenanceMode::DryRun, now_ms)?;
        Ok(RetentionReport { outcome: Some(outcome), findings, ..RetentionReport::default() })
    };
    match work() {
        Err(error) if error.is_damage() => Ok(RetentionReport { damaged: Some(folder.to_owned()), ..RetentionReport::default() }),
        done => done,
    }
}

/// Runs one cycle: decay and pruning in one transaction.
///
/// # Errors
/// If the store cannot be read or written.
pub fn run_maintenance(
    store: &mut dyn MaintenanceStore,
    settings: &RetentionSettings,
    mode: MaintenanceMode,
    now_ms: i64,
) -> Result<MaintenanceReport, StoreError> {
    store.run_maintenance(mode, &|facts| maintenance::plan(facts, settings, now_ms))
}
