/*!
Searches archived turns: by words, by meaning, or by both.

The [`index`] is a cache beside the archive; [`refresh()`] brings it up to date and [`embed_missing`] gives it vectors. A search
(`pipeline`) takes the best candidates by words and by vectors and puts them in order ([`rank`]). It reads only what is shown
(`hit_renderer`). The [`Searcher`] is what commands and servers use: it keeps index and model open and repairs what is broken.
Until the model is installed, vectors are those of the static embedding. Without vectors, a search compares words only.

Candidates come from a [`candidate_source`]: the index, a `scan` of all turns where no database is possible, or a server (`remote`).
*/

pub mod candidate_source;
mod federated;
pub mod filter;
mod hit_renderer;
pub mod index;
mod index_embeddings;
pub mod keywords;
mod likely_projects;
mod meaning;
mod merge;
mod neighbor_context;
pub mod passages;
mod pipeline;
pub mod query;
pub mod rank;
mod refresh;
mod related;
pub mod relevance;
mod remote;
mod scan;
mod searcher;
pub mod snippet;
pub mod time;
pub mod tokens;
mod word_list;

use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use federated::{RemoteArchive, Visit};
pub use filter::{Filter, TextKind};
pub(crate) use index::FILE as INDEX_FILE;
pub use index::SearchIndex;
pub use index_embeddings::{EmbedReport, embed_missing, passage_texts_of};
pub use merge::merge_results;
pub use neighbor_context::{context_text, is_short_turn};
pub use pipeline::search;
pub use rank::Stages;
pub use refresh::{RefreshReport, refresh};
pub use related::{Considered, RelatedQuery, RelatedTurn, consider, is_foreign, related};
pub use remote::RemoteCandidates;
pub use searcher::{IndexingProgress, IndexingReport, Searcher};
pub use snippet::Snippet;

use super::handle::{self, Reference};
use super::store::{StoreError, StoredSummary, StoredTurn};
use ctxbridge_vectors::embed::EmbedError;

/// Errors from searching.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The archive cannot be read.
    #[error(transparent)]
    Store(StoreError),
    /// Another process has kept the index locked for too long.
    #[error("the search index {} is being written by another ctxbridge; try again when it is done", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The index cannot be used.
    #[error("the search index {}: {cause}; you can delete it; `ctxbridge archive optimize` rebuilds it", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        cause: rusqlite::Error,
    },
    /// A text's vector cannot be made.
    #[error(transparent)]
    Embed(#[from] EmbedError),
}

impl SearchError {
    /// Returns the reason if the index cannot be written but may be readable: a full disk, or a folder of another user.
    fn unwritable_cause(&self) -> Option<&rusqlite::Error> {
        use rusqlite::ErrorCode::{DiskFull, ReadOnly, SystemIoFailure};
        match self {
            Self::Index { cause, .. } => {
                matches!(cause.sqlite_error_code(), Some(DiskFull | ReadOnly | SystemIoFailure)).then_some(cause)
            }
            _ => None,
        }
    }
}

/// Comparison of query and turns.
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

/// A search: its query, filter and options.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// Query, as the user typed it.
    pub text: String,
    /// Comparison to use; if `None`, words, and vectors if possible.
    pub mode: Option<Mode>,
    /// Filter for turns that may be found.
    pub filter: Filter,
    /// Kinds of text that must contain the words; any, if empty.
    pub kinds: Vec<TextKind>,
    /// Maximum number of hits.
    pub limit: usize,
    /// Stages of the ranking.
    pub stages: Stages,
    /// Folder that the search is run from.
    pub folder: Option<String>,
    /// Time of the search.
    pub now: Timestamp,
    /// Time zone of days and times in the query.
    pub zone: TimeZone,
}

impl SearchRequest {
    /// A search for the ten best by words and, where there are vectors, by meaning, at the current time.
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
            zone: time::local_zone(),
        }
    }
}

/// The turn or summary of a hit.
#[derive(Clone, Debug, PartialEq)]
pub enum HitContent {
    /// A turn, or a sub-agent's work.
    Turn(Box<StoredTurn>),
    /// The summary of a compaction, with its session before it.
    Summary(String, StoredSummary),
}

/// A turn or summary that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The turn or summary.
    pub content: HitContent,
    /// More is better; comparable within one search.
    pub score: f64,
    /// The query's words in it, by kind of text.
    pub words: Vec<(&'static str, Vec<String>)>,
    /// The cosine of its best passage.
    pub cosine: Option<f64>,
    /// `true` if it is a hit only because of its neighbors.
    pub is_neighbor: bool,
    /// `true` if it is of the time that the query names.
    pub is_in_time: bool,
    /// The part of its text that fits best.
    pub snippet: Snippet,
    /// A one-line summary.
    pub summary: String,
    /// Number of other hits with the same text.
    pub duplicates: usize,
    /// `true` if it is on the team's server only.
    pub is_elsewhere: bool,
}

impl Hit {
    /// Owner of the turn, if that is another user.
    pub fn owner(&self) -> Option<&str> {
        match &self.content {
            HitContent::Turn(turn) => turn.owner.as_deref(),
            HitContent::Summary(_, summary) => summary.owner.as_deref(),
        }
    }

    /// `true` if the conversation went back to before the turn.
    pub fn is_rewound(&self) -> bool {
        matches!(&self.content, HitContent::Turn(turn) if turn.is_rewound)
    }

    /// Returns its handle, its start (milliseconds since 1970), and its session.
    pub fn identity(&self) -> (String, i64, &str) {
        match &self.content {
            HitContent::Turn(turn) => (handle::turn_handle(&turn.turn.id), turn.turn.started_ms, &turn.session),
            HitContent::Summary(session, summary) => {
                let reference = match self.is_elsewhere {
                    false => Reference::Summary(summary.entry),
                    true => Reference::TeamSummary(summary.entry),
                };
                (reference.to_string(), summary.at_ms, session)
            }
        }
    }
}

/// Results of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchResults {
    /// Hits, the best first.
    pub hits: Vec<Hit>,
    /// Fit of the best hit. It makes the scores of two searches for the same query comparable.
    pub fit: f64,
    /// Comparison that was used: words only, if there is no vector.
    pub mode: Mode,
    /// Time that the query named, as text.
    pub time: Option<String>,
    /// Notes for the user, such as why vectors were not used.
    pub notes: Vec<String>,
}
