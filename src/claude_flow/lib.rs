/*!
Import from claude-flow (ruflo): its hook's `transcript-archive.db`, or `transcript-archive.json` where it had no database.

[`source`] finds and opens these files, `database` and `json_file` read them, whatever state they are in. An
[`FlowEntry`](entry::FlowEntry) is a prompt and the last answer to it, without tool results. A session's own transcript is more
complete, so entries that it contains ([`archived_messages`]) only bring their counts, which never lower those of the archive.
From the others, [`lines`] makes a transcript `claude-flow:FILE#SESSION`, which is archived like any other. If the session's own
transcript comes later, [`supersede_imported`] removes the turns that it has.
*/

pub mod archived_messages;
mod database;
pub mod entry;
pub mod json_file;
pub mod lines;
pub mod listed;
mod session;
pub mod source;
mod supersede;
mod transcripts;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;

use ctxbridge_archive::store::{Store, StoreError};
use listed::{ListedEntry, SourceError};
use session::Importer;
use source::FlowSource;
pub use supersede::{supersede_imported, supersede_imported_after};
use transcripts::{bring_up_to_date, by_session};

/// The name of the tool, as it is given and stored.
pub const NAME: &str = "claude-flow";

/// Maximum number of reported failures; more do not help with a broken file.
const MAX_FAILURES: usize = 1_000;

/// Report of an import, or of its progress so far.
#[derive(Clone, Debug, Default)]
pub struct EntryImportReport {
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
    /// Entries here whose usage was raised.
    pub updated: u64,
    /// Vectors that are new or changed.
    pub embeddings: u64,
    /// Entries that could not be read.
    pub failed: Vec<Failed>,
    /// Failures beyond these.
    pub more_failed: u64,
}

/// An entry or an archive that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The entry's id; none where it is about a whole archive.
    pub id: Option<String>,
    /// The reason.
    pub reason: String,
}

impl Failed {
    fn of_source(path: &Path, reason: &str) -> Self {
        Self { id: None, reason: format!("{}: {reason}", path.display()) }
    }
}

/// Errors that stop an import.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The claude-flow archive cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The ctxbridge archive cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The temporary file for the lines cannot be written.
    #[error("cannot write to a temporary file: {0}; free some space there, or set TMPDIR")]
    Temporary(#[from] io::Error),
}

/// Imports a claude-flow archive. `projects` is the folder of the sessions' own transcripts: those that still exist are archived
/// first. `progress` is called after each session.
///
/// # Errors
/// If the archive cannot be read at all, or ours cannot be written. Entries that cannot be read are in
/// [`EntryImportReport::failed`].
pub fn import(
    store: &mut dyn Store,
    path: &Path,
    projects: Option<&Path>,
    imported: &mut EntryImportReport,
    progress: &mut dyn FnMut(&EntryImportReport),
) -> Result<(), ImportError> {
    let mut source = FlowSource::open(path)?;
    let (listed, failed) = source.list();
    failed.into_iter().for_each(|failed| imported.fail(failed));
    let mut sessions: Vec<(String, Vec<ListedEntry>)> = Vec::new();
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

impl EntryImportReport {
    fn fail(&mut self, failed: Failed) {
        if self.failed.len() < MAX_FAILURES {
            self.failed.push(failed);
        } else {
            self.more_failed += 1;
        }
    }
}
