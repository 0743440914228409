/*!
Finding turns again: by words, by meaning, or by both.

The [`index`] is a cache beside the archive; [`refresh`] brings it up to date and [`embed`] gives it vectors. A search (`pipeline`) takes the best
candidates by words and by vectors, puts them in order ([`rank`]) and reads only what is shown (`show`). The [`Finder`] is what commands and
servers use: it keeps index and model open and mends what is broken. Without a model, and without vectors, words are enough; what is
missing is said.
*/

mod around;
pub mod catalogue;
mod dot;
mod embed;
mod federated;
pub mod filter;
mod finder;
pub mod index;
mod merge;
pub mod nearest;
pub mod passages;
mod pipeline;
pub mod query;
pub mod rank;
mod refresh;
mod related;
mod remote;
mod scan;
mod show;
pub mod snippet;
pub mod subject;
pub mod time;
pub mod tokens;
pub mod vectors;

use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use around::{is_short, said};
pub use embed::{Embedded, embed, texts_of};
pub use federated::{RemoteArchive, Visit};
pub use filter::{Filter, Kind, project};
pub use finder::{CaughtUp, Finder, Indexing};
pub use index::Index;
pub use merge::merge;
pub use pipeline::search;
pub use rank::Stages;
pub use refresh::{Refreshed, refresh};
pub use related::{About, Related, related};
pub use remote::Remote;
pub use snippet::Snippet;

use super::context;
use super::embed::EmbedError;
use super::recall::Reference;
use super::store::{StoreError, StoredSummary, StoredTurn};

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The archive cannot be read.
    #[error(transparent)]
    Store(StoreError),
    /// The index is in use by another process for longer than one can wait.
    #[error("the search index {} is being written by another ctxbridge; try again when it is done", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The index cannot be used.
    #[error("the search index {}: {cause}; it can be deleted, and `ctxbridge archive optimize` makes it anew", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: rusqlite::Error,
    },
    /// There is no vector of a text.
    #[error(transparent)]
    Embed(#[from] EmbedError),
}

impl SearchError {
    /// Why the index cannot be written, where it may be read all the same: a full disk, a folder of somebody else.
    fn why_it_cannot_be_written(&self) -> Option<&rusqlite::Error> {
        use rusqlite::ErrorCode::{DiskFull, ReadOnly, SystemIoFailure};
        match self {
            Self::Index { cause, .. } => {
                matches!(cause.sqlite_error_code(), Some(DiskFull | ReadOnly | SystemIoFailure)).then_some(cause)
            }
            _ => None,
        }
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Words alone.
    Lexical,
    /// Vectors alone.
    Dense,
    /// Both.
    Hybrid,
}

impl Mode {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Dense => "dense",
            Self::Hybrid => "hybrid",
        }
    }
}

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// As the user typed it.
    pub text: String,
    /// What is compared; as much as can be, where nothing is said.
    pub mode: Option<Mode>,
    /// What may be found.
    pub filter: Filter,
    /// What words have to stand in; anything, where it is empty.
    pub kinds: Vec<Kind>,
    /// Hits at most.
    pub limit: usize,
    /// What goes into the order.
    pub stages: Stages,
    /// The folder that is asked from.
    pub folder: Option<String>,
    /// When it is asked.
    pub now: Timestamp,
    /// In which days and times are named.
    pub zone: TimeZone,
}

impl Request {
    /// The ten best by words and, if there is a model, by meaning, asked now.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            mode: None,
            filter: Filter::default(),
            kinds: Vec::new(),
            limit: 10,
            stages: Stages::ALL,
            folder: None,
            now: Timestamp::now(),
            zone: TimeZone::system(),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A turn, or a sub-agent's work.
    Turn(Box<StoredTurn>),
    /// The summary of a compaction, and the session that it was made of.
    Summary(String, StoredSummary),
}

/// A turn that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The turn or summary.
    pub what: What,
    /// More is better; comparable within one search.
    pub score: f64,
    /// The words in it that were looked for, by where they stand.
    pub words: Vec<(&'static str, Vec<String>)>,
    /// The cosine of its best passage.
    pub cosine: Option<f64>,
    /// Whether it is here for its neighbours alone.
    pub is_neighbour: bool,
    /// Whether it is of the time that the query names.
    pub is_in_time: bool,
    /// The piece that shows best why.
    pub snippet: Snippet,
    /// What it was about.
    pub summary: String,
    /// How many others say the same.
    pub duplicates: usize,
    /// Whether it is on the team's server, and not here.
    pub is_elsewhere: bool,
}

impl Hit {
    /// Who archived it, where that is somebody else.
    pub fn owner(&self) -> Option<&str> {
        match &self.what {
            What::Turn(turn) => turn.owner.as_deref(),
            What::Summary(_, summary) => summary.owner.as_deref(),
        }
    }

    /// Its handle, when it began (milliseconds since 1970), and its session.
    pub fn identity(&self) -> (String, i64, &str) {
        match &self.what {
            What::Turn(turn) => (context::handle(&turn.turn.id), turn.turn.started_ms, &turn.session),
            What::Summary(session, summary) => {
                let reference = match self.is_elsewhere {
                    false => Reference::Summary(summary.entry),
                    true => Reference::TeamSummary(summary.entry),
                };
                (reference.to_string(), summary.at_ms, session)
            }
        }
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best first.
    pub hits: Vec<Hit>,
    /// How well the best of them fits, which says what scores of two searches for the same mean to each other.
    pub fit: f64,
    /// What was compared: without a model or vectors, words.
    pub mode: Mode,
    /// Days that the query named, as text.
    pub time: Option<String>,
    /// What the user should know: why vectors were not used, say.
    pub notes: Vec<String>,
}
