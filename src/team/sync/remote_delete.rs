//! Deleting a sent session from the server.
//!
//! First the record that it was sent is deleted here. Then the server deletes the session in one transaction.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::exclusions::SyncExclusions;
use super::outgoing::{OutgoingTranscript, outgoing_transcripts};
use super::state::SyncState;
use super::{SyncError, lock};
use crate::postgres::PostgresStore;
use ctxbridge_archive::store::{RemovalReport, RetainOnRemove, SessionReader, Store, StoreError};
use ctxbridge_redact::Redactor;

/// Longest wait for a running sync: it may be sending the session that is to be deleted.
const RUN_END_TIMEOUT: Duration = Duration::from_secs(20);

/// Deletion of sessions from a server.
pub struct RemoteDelete<'u> {
    /// The data folder, with the record of what was sent.
    pub data: &'u Path,
    /// The local archive that the session was sent from.
    pub from: &'u mut dyn Store,
    /// Identity of the server.
    pub name: &'u str,
    /// Finds the secrets, which must not stay there.
    pub redactor: &'u Redactor,
    /// `true` to send the session again later, with the settings of that time; `false` to exclude it from sending.
    pub is_resent: bool,
}

impl RemoteDelete<'_> {
    /// Deletes this user's session with this id from the server. Returns `None` where the server has none; the session is excluded,
    /// or sent again, all the same.
    ///
    /// # Errors
    /// If a running sync does not end, a local file cannot be written, or the server fails. It can always be repeated.
    pub fn run(&mut self, session: &str, to: &mut PostgresStore) -> Result<Option<RemovalReport>, SyncError> {
        let failed = |cause| SyncError::State { folder: self.data.to_owned(), cause };
        if !self.is_resent {
            // Whatever comes of the rest.
            SyncExclusions::add(self.data, session).map_err(failed)?;
        }
        let _alone = lock(self.data, RUN_END_TIMEOUT).map_err(failed)?.ok_or(SyncError::RunningAtRemoval)?;
        // Nothing is taken for sent, or for found out, that is about to go, whatever comes in between.
        let mut state = SyncState::of(self.data, self.name).map_err(failed)?;
        forget_sent(&mut *self.from, &mut state, session)?.map_err(failed)?;
        for other in to.sessions_sharing_entries(session)? {
            state.forget_facts(&other).map_err(failed)?;
        }
        let rest = if self.is_resent { RetainOnRemove::Audience } else { RetainOnRemove::Nothing };
        let taken = to.remove_session(session, rest, &|name| self.redactor.has_secret(name))?;
        if self.is_resent {
            SyncExclusions::remove(self.data, session).map_err(failed)?;
        }
        Ok(taken)
    }

    /// Paths of transcripts of this user's session that the server has and the local archive has not.
    ///
    /// # Errors
    /// If one of the two cannot be read.
    pub fn only_on_server(&mut self, session: &str, to: &mut PostgresStore) -> Result<Vec<String>, StoreError> {
        let Some(there) = to.session(session)?.filter(|found| found.owner.is_none()) else { return Ok(Vec::new()) };
        let here = match self.from.session(session)? {
            Some(here) => outgoing_transcripts(self.from.transcripts(here.key)?, session, self.redactor),
            None => Vec::new(),
        };
        // A generation that is only there is an older state of one that is here.
        let has = |path: &str, generation: u32| {
            let is_it = |known: &&OutgoingTranscript| known.path == path || known.transcript.path == path;
            here.iter().find(is_it).is_some_and(|known| known.transcript.generation >= generation)
        };
        let mut transcripts = to.transcripts(there.key)?;
        transcripts.retain(|transcript| !has(&transcript.path, transcript.generation));
        Ok(transcripts.into_iter().map(|transcript| transcript.path).collect())
    }
}

/// Forgets that a session was sent. The record is kept by path: where the local archive does not have the session, all of the
/// record is forgotten and rebuilt.
fn forget_sent(from: &mut dyn SessionReader, state: &mut SyncState, session: &str) -> Result<io::Result<()>, StoreError> {
    let Some(here) = from.session(session)? else { return Ok(state.forget()) };
    let paths: Vec<String> = from.transcripts(here.key)?.into_iter().map(|transcript| transcript.path).collect();
    Ok(state.forget_session(session, &paths))
}
