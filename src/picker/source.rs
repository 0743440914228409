//! Sessions and turns to pick from, and where they come from.

use std::ops::Range;

/// Error of a source, as a sentence for the user.
pub type SessionSourceError = Box<dyn std::error::Error + Send + Sync>;

/// A session in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PickableSession {
    /// The client's id.
    pub id: String,
    /// Its title; empty if it has none.
    pub title: String,
    /// The folder that the client worked in.
    pub folder: Option<String>,
    /// End of its last turn, in milliseconds since 1970.
    pub last_ms: Option<i64>,
}

impl PickableSession {
    /// Name of its project: the last part of its folder.
    pub fn project(&self) -> &str {
        let folder = self.folder.as_deref().unwrap_or_default().trim_end_matches(['/', '\\']);
        folder.rsplit(['/', '\\']).next().unwrap_or_default()
    }
}

/// A turn that a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnHit {
    /// Its handle.
    pub handle: String,
    /// Id of its session.
    pub session: String,
    /// Start, in milliseconds since 1970.
    pub started_ms: i64,
    /// The part of its text that fits best, one line.
    pub snippet: String,
    /// Byte ranges in it of the words that were searched for.
    pub marks: Vec<Range<usize>>,
}

/// Hits of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchOutcome {
    /// The hits, the best first.
    pub hits: Vec<TurnHit>,
    /// A note for the user, such as that the index lacks turns.
    pub note: Option<String>,
}

/// The session or turn that is selected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// A session, by its id.
    Session(String),
    /// A turn, by its handle.
    Turn(String),
}

/// Lists sessions and reads previews. Called in a thread of its own.
pub trait SessionSource: Send {
    /// Returns at most `limit` sessions, the newest first.
    ///
    /// # Errors
    /// If they cannot be read.
    fn sessions(&mut self, limit: usize) -> Result<Vec<PickableSession>, SessionSourceError>;

    /// Returns the number of turns of a session.
    ///
    /// # Errors
    /// If it cannot be read.
    fn turn_count(&mut self, session: &str) -> Result<u64, SessionSourceError>;

    /// Returns the text for the preview of a session or turn.
    ///
    /// # Errors
    /// If it cannot be read.
    fn preview(&mut self, of: &Selection) -> Result<String, SessionSourceError>;
}

/// Searches turns by their words. Called in a thread of its own.
pub trait TurnSearch: Send {
    /// Searches for words; the last one may not be complete yet.
    ///
    /// # Errors
    /// If the archive cannot be searched.
    fn search(&mut self, words: &str) -> Result<SearchOutcome, SessionSourceError>;

    /// Does a piece of the work before searches, such as indexing. Called while nothing is searched, as long as it returns `true`.
    fn prepare(&mut self) -> bool {
        false
    }
}
