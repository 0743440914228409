/*!
What claude-flow (ruflo) kept: its hook's `transcript-archive.db`, or `transcript-archive.json` where that had no database.

[`source`] finds and opens them, `database` and `json_file` read them, whatever state they are in. An [`Entry`](entry::Entry) is a prompt and the last answer
to it, without what tools returned. A session's own transcript says all of that better, so entries that are [`said`] there only
bring their counts; of the others, [`lines`] makes a transcript of its own, which is archived like any other. When the session's own comes
later, [`settle`] takes out of it what that one has.
*/

mod database;
pub mod entry;
pub mod json_file;
pub mod lines;
pub mod said;
mod session;
mod settle;
pub mod source;
mod transcripts;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;

use ctxbridge_archive::store::{Store, StoreError};
use session::Importer;
pub use settle::{settle, settle_after};
use source::{Listed, Source, SourceError};
use transcripts::{bring_up_to_date, by_session};

/// The name of the tool, as it is given and stored.
pub const NAME: &str = "claude-flow";

/// Failures that are remembered: of a broken file, more help nobody.
const MOST_FAILURES: usize = 1_000;

/// What an import did, or has done so far.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Sessions that entries were of.
    pub sessions: BTreeSet<String>,
    /// Entries that were read.
    pub entries: u64,
    /// Those that became turns now.
    pub new: u64,
    /// Those that are in the sessions' own transcripts.
    pub matched: u64,
    /// Those that became turns in an earlier import.
    pub unchanged: u64,
    /// Entries here of which more is known now than before.
    pub updated: u64,
    /// Vectors that are new or others now.
    pub embeddings: u64,
    /// What could not be read.
    pub failed: Vec<Failed>,
    /// Failures beyond these.
    pub more_failed: u64,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The entry's id; none where it is about a whole archive.
    pub id: Option<String>,
    /// Why.
    pub reason: String,
}

impl Failed {
    fn of_source(path: &Path, reason: &str) -> Self {
        Self { id: None, reason: format!("{}: {reason}", path.display()) }
    }
}

/// Why an import stops.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Their archive cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Ours cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Lines cannot be put together.
    #[error("cannot write to a temporary file: {0}; free some space there, or set TMPDIR")]
    Temporary(#[from] io::Error),
}

/// Takes in an archive of theirs. `projects` is where the client keeps the sessions' own transcripts: those that are still there are archived
/// first. `progress` is called after each session.
///
/// # Errors
/// When the archive cannot be read at all, or ours cannot be written. What cannot be read of it is in [`Imported::failed`].
pub fn import(
    store: &mut dyn Store,
    path: &Path,
    projects: Option<&Path>,
    imported: &mut Imported,
    progress: &mut dyn FnMut(&Imported),
) -> Result<(), ImportError> {
    let mut source = Source::open(path)?;
    let (listed, failed) = source.list();
    failed.into_iter().for_each(|failed| imported.fail(failed));
    let mut sessions: Vec<(String, Vec<Listed>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for one in listed {
        let place = *places.entry(one.session.clone()).or_insert_with(|| {
            sessions.push((one.session.clone(), Vec::new()));
            sessions.len() - 1
        });
        sessions[place].1.push(one);
    }
    let transcripts = projects.map(by_session).unwrap_or_default();
    for (session, listed) in &sessions {
        imported.sessions.insert(session.clone());
        bring_up_to_date(store, session, transcripts.get(session))?;
        Importer { source: &mut source, path, session, imported }.import(store, listed)?;
        progress(imported);
    }
    Ok(())
}

impl Imported {
    fn fail(&mut self, failed: Failed) {
        if self.failed.len() < MOST_FAILURES {
            self.failed.push(failed);
        } else {
            self.more_failed += 1;
        }
    }
}
