/*!
The data of the dashboard: typed answers, read on request.

The archive is opened for reading, and closed before anything long is done with the data. The lengths and
times of the files tell whether anything has changed.
*/

mod calls;
mod context;
mod conversation;
mod learnings;
mod memory;
mod messages;
mod mod_compactions;
mod overview;
mod periods;
mod savings;
mod search;
mod session_savings;
mod sessions;
mod total;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::doctor::{self, Environment, HealthCheck};
use crate::hook::HookMetrics;
use ctxbridge_archive::open::Location;
use ctxbridge_archive::quote;
use ctxbridge_archive::search::{SearchError, Searcher};
use ctxbridge_archive::store::jsonl::JsonlStore;
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_archive::store::{SessionReader, Store, StoreError};
use ctxbridge_common::files;
use ctxbridge_prune as prune;
use ctxbridge_prune::simulate::prices::PricesError;

pub use context::{ContextMark, ContextSeries, SeriesUnit, downsample};
pub use conversation::{ConversationPage, ReadTurn};
pub use learnings::{LearningList, ListedLearning};
pub use memory::{MemoryUse, UsedTurn};
pub use messages::ShownMessage;
pub use mod_compactions::{AskedCompaction, ModCompactions};
pub use overview::{DayCompactions, Overview, TierUsage};
pub use periods::{PeriodLength, SavingsOverTime, SavingsPeriod};
pub use savings::{Savings, simulate};
pub use search::{DashboardHits, SearchHit};
pub use session_savings::SessionSavings;
pub use sessions::{SessionList, SessionListItem};
pub use total::TotalSavings;

/// Time for which the state of patch, mod and hooks is cached: examining them takes seconds.
const HEALTH_CACHE_DURATION: Duration = Duration::from_secs(60);

/// Maximum characters of a session's title.
const TITLE_CHARS: usize = 120;

/// Locations and settings of the dashboard.
pub struct DashboardConfig {
    /// Our data folder.
    pub data: PathBuf,
    /// Location of the archive.
    pub archive: Location,
    /// Settings by which sessions would be pruned.
    pub prune: prune::PruneSettings,
    /// Time zone in which days are counted.
    pub zone: TimeZone,
    /// The environment that `doctor` examines, made again for each examination.
    pub surroundings: Box<dyn Fn() -> Environment + Send + Sync>,
}

impl fmt::Debug for DashboardConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Source").field("data", &self.data).finish_non_exhaustive()
    }
}

/// Errors from reading dashboard data.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The archive cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The index cannot be read.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The built-in prices cannot be read.
    #[error(transparent)]
    Prices(#[from] PricesError),
    /// There is no such session.
    #[error("the archive has no such session; it may have been moved aside since, so load the page again")]
    UnknownSession,
    /// There is no such turn.
    #[error("the session has no such turn; it may have been forgotten, or its transcript rewritten, so load the page again")]
    UnknownTurn,
    /// The session is too large to be replayed inside the dashboard.
    #[error("its transcript has {} MB, and no more than {} are replayed here; `ctxbridge prune simulate FILE` does it", bytes >> 20, most >> 20)]
    TooLarge {
        /// Bytes of its transcript.
        bytes: u64,
        /// Maximum bytes that are replayed.
        most: u64,
    },
    /// The model never answered.
    #[error("the model never answered in this session, so there is nothing to replay")]
    NoCalls,
}

/// Reads the data of the dashboard, and caches expensive results.
pub struct DashboardService {
    source: DashboardConfig,
    finder: Mutex<Searcher>,
    /// The newest overview, and the mark it belongs to.
    overview: Mutex<Option<(String, Overview)>>,
    /// The newest memory use, and the mark it belongs to.
    memory: Mutex<Option<(String, MemoryUse)>>,
    /// The turns of the session that was read last, and the mark they belong to.
    turns: Mutex<Option<(String, Arc<conversation::TurnList>)>>,
    /// Calls of the session that was shown last: its id and size, and the calls.
    calls: Mutex<Option<(calls::CallsKey, Arc<Vec<calls::SeriesPoint>>)>>,
    looked: Mutex<Option<(Instant, HealthReport)>>,
    /// By session and the number of its bytes.
    replayed: Mutex<HashMap<(String, u64), Savings>>,
    replaying: Mutex<()>,
    /// Results over all sessions.
    kept: Mutex<Option<total::KeptReplays>>,
    /// The sessions of the archive, and the mark they belong to.
    replayable: Mutex<Option<(String, Arc<Vec<total::Replayable>>)>>,
    is_replaying_all: AtomicBool,
}

/// State of patch, mod and hooks, as `doctor` reports it.
#[derive(Clone, Debug, Serialize)]
pub struct HealthReport {
    /// The checks, in the order in which they were made.
    pub checks: Vec<HealthCheck>,
    /// Compactions that the mod was asked about.
    pub compactions: ModCompactions,
}

impl DashboardService {
    /// Reads nothing yet.
    pub fn new(source: DashboardConfig) -> Self {
        Self {
            finder: Mutex::new(Searcher::new(source.data.clone())),
            source,
            overview: Mutex::default(),
            memory: Mutex::default(),
            turns: Mutex::default(),
            calls: Mutex::default(),
            looked: Mutex::default(),
            replayed: Mutex::default(),
            replaying: Mutex::default(),
            kept: Mutex::default(),
            replayable: Mutex::default(),
            is_replaying_all: AtomicBool::new(false),
        }
    }

    /// Returns a text that changes whenever something is archived or measured. It depends only on lengths and times of files. So
    /// asking every few seconds costs nothing and touches no database.
    pub fn data_fingerprint(&self) -> String {
        let data = &self.source.data;
        let own = ["archive.db", "archive.db-wal", "autopilot", "recalled", "search.db"].map(|name| data.join(name));
        let metrics = HookMetrics::in_dir(data).path().to_owned();
        let journal = JsonlStore::journal_in(self.source.archive.folder());
        let stamps: Vec<_> = own.into_iter().chain([metrics, journal]).map(|path| files::stamp(&path)).collect();
        ctxbridge_common::digest::of_bytes(format!("{stamps:?}").as_bytes()).to_string()[..16].to_owned()
    }

    /// The state of patch, mod and hooks.
    pub fn health_report(&self) -> Result<HealthReport, DataError> {
        let mut looked = lock(&self.looked);
        if let Some((_, state)) = looked.as_ref().filter(|(at, _)| at.elapsed() < HEALTH_CACHE_DURATION) {
            return Ok(state.clone());
        }
        let checks = doctor::run_checks(&(self.source.surroundings)(), &|_| {});
        let state = HealthReport { checks, compactions: ModCompactions::read(&self.source.data) };
        *looked = Some((Instant::now(), state.clone()));
        Ok(state)
    }

    /// Opens the archive for reading; none if there is none. It is not moved while it is open.
    fn open(&self) -> Result<Option<Box<dyn Store>>, StoreError> {
        self.source.archive.open_without_repair(LockPolicy::Interactive)
    }

    fn opened(&self) -> Result<Box<dyn Store>, DataError> {
        self.open()?.ok_or(DataError::UnknownSession)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The day of a moment.
fn date(ms: i64, zone: &TimeZone) -> Option<Date> {
    Some(Timestamp::from_millisecond(ms).ok()?.to_zoned(zone.clone()).date())
}

/// Puts a text on one line of at most `chars` characters. Tags in it stay: the page shows everything as text.
fn one_line(text: &str, chars: usize) -> String {
    let words: Vec<&str> = quote::head(text, 4 * chars).split_whitespace().collect();
    quote::cut(&ctxbridge_config::escape_controls(&words.join(" ")), chars)
}

/// Returns the session with this id.
fn session(store: &mut dyn SessionReader, id: &str) -> Result<ctxbridge_archive::store::Session, DataError> {
    store.session(id)?.ok_or(DataError::UnknownSession)
}
