/*!
What is shown: typed answers, read when they are asked for.

The archive is opened to look at and closed before anything long is done with what was read.
*/

mod context;
mod metrics;
mod overview;
mod savings;
mod search;
mod sessions;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::doctor::{self, Check, Surroundings};
use ctxbridge_archive::open::Location;
use ctxbridge_archive::quote;
use ctxbridge_archive::search::{Finder, SearchError};
use ctxbridge_archive::store::jsonl::JsonlStore;
use ctxbridge_archive::store::sqlite::Patience;
use ctxbridge_archive::store::{Store, StoreError};
use ctxbridge_common::files;
use ctxbridge_prune as prune;
use ctxbridge_prune::simulate::prices::PricesError;

pub use context::{Mark, Series, thin};
pub use metrics::{Measured, Metrics};
pub use overview::{Day, Overview, Tier};
pub use savings::Savings;
pub use search::{Hits, SearchHit};
pub use sessions::{Listed, Sessions};

/// For how long what was said of patch and hooks is said again: it takes seconds to look.
const LOOKED_FOR: Duration = Duration::from_secs(60);

/// Where to look, and by which rules.
pub struct Source {
    /// Our data folder.
    pub data: PathBuf,
    /// Where the archive is.
    pub archive: Location,
    /// How sessions would be pruned.
    pub prune: prune::Settings,
    /// In which days are counted.
    pub zone: TimeZone,
    /// What `doctor` looks at, made anew each time.
    pub surroundings: Box<dyn Fn() -> Surroundings + Send + Sync>,
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Source").field("data", &self.data).finish_non_exhaustive()
    }
}

/// Why something cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
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
    Unknown,
    /// A session that is too large to be replayed beside everything else.
    #[error("its transcript has {} MB, and no more than {} are replayed here; `ctxbridge prune simulate FILE` does it", bytes >> 20, most >> 20)]
    TooLarge {
        /// Bytes of its transcript.
        bytes: u64,
        /// Bytes that are replayed at most.
        most: u64,
    },
    /// The model never answered.
    #[error("the model never answered in this session, so there is nothing to replay")]
    NoCalls,
    /// Another session is being replayed.
    #[error("another session is being replayed; ask again when it is done")]
    Hurry,
}

/// Reads what is asked for, and keeps what is dear to make.
pub struct Desk {
    source: Source,
    finder: Mutex<Finder>,
    /// The newest overview, and the mark that it is of.
    overview: Mutex<Option<(String, Overview)>>,
    looked: Mutex<Option<(Instant, State)>>,
    /// By session and the bytes it had.
    replayed: Mutex<HashMap<(String, u64), Savings>>,
    replaying: Mutex<()>,
}

/// How patch and hooks are, as `doctor` says.
#[derive(Clone, Debug, Serialize)]
pub struct State {
    /// In the order in which they were looked at.
    pub checks: Vec<Check>,
}

impl Desk {
    /// Nothing is read yet.
    pub fn new(source: Source) -> Self {
        Self {
            finder: Mutex::new(Finder::new(source.data.clone())),
            source,
            overview: Mutex::default(),
            looked: Mutex::default(),
            replayed: Mutex::default(),
            replaying: Mutex::default(),
        }
    }

    /// Another one whenever something was archived or measured. Only lengths and times of files are looked at, so that asking every few
    /// seconds costs nothing and touches no database.
    pub fn mark(&self) -> String {
        let data = &self.source.data;
        let [database, log, metrics, autopilot] =
            ["archive.db", "archive.db-wal", metrics::FILE, "autopilot"].map(|name| data.join(name));
        let journal = JsonlStore::journal_in(self.source.archive.folder());
        let stamps = [database, log, metrics, autopilot, journal].map(|path| files::stamp(&path));
        ctxbridge_common::digest::of_bytes(format!("{stamps:?}").as_bytes()).to_string()[..16].to_owned()
    }

    /// How patch and hooks are.
    pub fn state(&self) -> Result<State, Trouble> {
        let mut looked = lock(&self.looked);
        if let Some((_, state)) = looked.as_ref().filter(|(at, _)| at.elapsed() < LOOKED_FOR) {
            return Ok(state.clone());
        }
        let state = State { checks: doctor::examine(&(self.source.surroundings)(), &|_| {}) };
        *looked = Some((Instant::now(), state.clone()));
        Ok(state)
    }

    /// The archive, to look at; none where there is none. It is not moved while it is open.
    fn open(&self) -> Result<Option<Box<dyn Store>>, StoreError> {
        self.source.archive.to_look(Patience::Hurried)
    }

    fn opened(&self) -> Result<Box<dyn Store>, Trouble> {
        self.open()?.ok_or(Trouble::Unknown)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The day of a moment, as `2026-11-22`.
fn day(ms: i64, zone: &TimeZone) -> Option<String> {
    Some(Timestamp::from_millisecond(ms).ok()?.to_zoned(zone.clone()).date().to_string())
}

/// So many characters of a text, on one line. What is a tag in it stays one: the page makes text of all it gets.
fn one_line(text: &str, chars: usize) -> String {
    let words: Vec<&str> = quote::head(text, 4 * chars).split_whitespace().collect();
    quote::cut(&ctxbridge_config::plain(&words.join(" ")), chars)
}

/// The session of this id.
fn session(store: &mut dyn Store, id: &str) -> Result<ctxbridge_archive::store::Session, Trouble> {
    store.session(id)?.ok_or(Trouble::Unknown)
}
