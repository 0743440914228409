//! Taking back what was sent.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::outgoing::{Outgoing, outgoing};
use super::state::State;
use super::withheld::Withheld;
use super::{SyncError, lock};
use crate::postgres::PostgresStore;
use ctxbridge_archive::store::{Rest, Store, StoreError, TakenBack};
use ctxbridge_redact::Redactor;

/// How long to wait for a run that sends: it may be in the middle of what is to be taken back.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who takes what back.
pub struct Unsending<'u> {
    /// The data folder, where it is written down what was sent.
    pub data: &'u Path,
    /// The archive here, of which it was sent.
    pub from: &'u mut dyn Store,
    /// What tells the server from others.
    pub name: &'u str,
    /// What must not stay there.
    pub redactor: &'u Redactor,
    /// Whether it is sent again, by the settings of then; else it is sent no more.
    pub is_sent_again: bool,
}

impl Unsending<'_> {
    /// Takes one's own session of this id back. None where the server has none: from then on it is not sent, or sent again, all the same.
    ///
    /// # Errors
    /// When a run that sends does not end, something cannot be written down here, or the server does not do it. It may be done again, whatever
    /// was done of it.
    pub fn run(&mut self, session: &str, to: &mut PostgresStore) -> Result<Option<TakenBack>, SyncError> {
        let failed = |cause| SyncError::State { folder: self.data.to_owned(), cause };
        if !self.is_sent_again {
            // Whatever comes of the rest.
            Withheld::add(self.data, session).map_err(failed)?;
        }
        let _alone = lock(self.data, PATIENCE).map_err(failed)?.ok_or(SyncError::Sending)?;
        // Nothing is taken for sent, or for found out, that is about to go, whatever comes in between.
        let mut state = State::of(self.data, self.name).map_err(failed)?;
        forget(&mut *self.from, &mut state, session)?.map_err(failed)?;
        for other in to.also_said_in(session)? {
            state.forget_facts(&other).map_err(failed)?;
        }
        let rest = if self.is_sent_again { Rest::Audience } else { Rest::Nothing };
        let taken = to.take_back(session, rest, &|name| self.redactor.has_secret(name))?;
        if self.is_sent_again {
            Withheld::remove(self.data, session).map_err(failed)?;
        }
        Ok(taken)
    }

    /// What a server has of one's own session and the archive here has not: paths of transcripts.
    ///
    /// # Errors
    /// When one of both cannot be read.
    pub fn only_there(&mut self, session: &str, to: &mut PostgresStore) -> Result<Vec<String>, StoreError> {
        let Some(there) = to.session(session)?.filter(|found| found.owner.is_none()) else { return Ok(Vec::new()) };
        let here = match self.from.session(session)? {
            Some(here) => outgoing(self.from.transcripts(here.key)?, session, self.redactor),
            None => Vec::new(),
        };
        // A generation that is only there is an older state of one that is here.
        let has = |path: &str, generation: u32| {
            let is_it = |known: &&Outgoing| known.path == path || known.transcript.path == path;
            here.iter().find(is_it).is_some_and(|known| known.transcript.generation >= generation)
        };
        let mut transcripts = to.transcripts(there.key)?;
        transcripts.retain(|transcript| !has(&transcript.path, transcript.generation));
        Ok(transcripts.into_iter().map(|transcript| transcript.path).collect())
    }
}

/// Forgets that a session was sent. What is written down goes by paths: where the archive here knows none, all of it is forgotten, and asked for again.
fn forget(from: &mut dyn Store, state: &mut State, session: &str) -> Result<io::Result<()>, StoreError> {
    let Some(here) = from.session(session)? else { return Ok(state.forget()) };
    let paths: Vec<String> = from.transcripts(here.key)?.into_iter().map(|transcript| transcript.path).collect();
    Ok(state.forget_session(session, &paths))
}
