/*!
List of the sessions of an archive, in a file beside it: of a database that was cut off, it still says what was in it.

`archive.sessions` has a JSON object a line, added when the first bytes of a session are archived. Nothing is read from it but the
names of what was lost, so a line that cannot be read is skipped.
*/

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{SqliteQueries, SqliteStore};
use crate::store::{StoreError, Transcript};
use ctxbridge_common::files;

/// Name of the file in the data folder. An archive whose file is gone or has 0 bytes beside it has lost its content.
pub(crate) const FILE: &str = "archive.sessions";

/// A session that was archived.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListedSession {
    /// Its id.
    pub session: String,
    /// Path of its transcript.
    pub path: String,
}

impl ListedSession {
    fn line(&self) -> String {
        serde_json::to_string(self).map_or_else(|_| String::new(), |line| line + "\n")
    }
}

/// Notes the sessions of these transcripts in the list beside an archive. A failure to do so is no reason to fail: they are archived.
pub(super) fn note<'t>(database: &Path, transcripts: impl Iterator<Item = &'t Transcript>) {
    let listed = |transcript: &Transcript| ListedSession { session: transcript.session.clone(), path: transcript.path.clone() };
    let lines: String = transcripts.map(|transcript| listed(transcript).line()).collect();
    if !lines.is_empty() {
        files::append(&database.with_file_name(FILE), &lines, u64::MAX).ok();
    }
}

/// The sessions of the list in a data folder.
pub(crate) fn listed(data: &Path) -> BTreeSet<ListedSession> {
    let bytes = files::read(data.join(FILE)).unwrap_or_default();
    bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

impl SqliteStore {
    /// The sessions whose transcripts this archive has.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn sessions_to_list(&mut self) -> Result<BTreeSet<ListedSession>, StoreError> {
        self.query(|db| {
            db.prepare(
                "SELECT sessions.session, path FROM transcripts JOIN sessions ON sessions.id = transcripts.session
                 WHERE agent IS NULL",
            )?
            .query_map([], |row| Ok(ListedSession { session: row.get(0)?, path: row.get(1)? }))?
            .collect()
        })
    }

    /// Writes the list beside the archive anew if it differs: archives of older versions have none.
    ///
    /// # Errors
    /// If the archive cannot be read, or the list cannot be written.
    pub fn renew_session_list(&mut self) -> Result<(), StoreError> {
        let there = self.sessions_to_list()?;
        let data = self.path().parent().unwrap_or_else(|| Path::new(""));
        if there == listed(data) { Ok(()) } else { write(data, &there) }
    }
}

/// Replaces the list in a data folder.
pub(crate) fn write(data: &Path, sessions: &BTreeSet<ListedSession>) -> Result<(), StoreError> {
    let path = data.join(FILE);
    let text: String = sessions.iter().map(ListedSession::line).collect();
    files::replace(&path, text.as_bytes()).map_err(|cause| StoreError::File { path, cause })
}
