//! Sending one session.

use std::cell::RefCell;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::outgoing::{Outgoing, outgoing};
use super::state::{Sent, State};
use super::stream::{Mark, Shared, Stream};
use super::{Sending, SyncError, Synced, project};
use ctxbridge_archive::facts::{Facts, Keeps};
use ctxbridge_archive::ingest::{Pass, archive_from};
use ctxbridge_archive::learn;
use ctxbridge_archive::reader::Comparison;
use ctxbridge_archive::snapshot;
use ctxbridge_archive::store::{Session, Store, StoreError, StoredTranscript, Transcript};
use ctxbridge_claude_flow as claude_flow;
use ctxbridge_redact::Found;

/// A session that may have something new.
pub(super) struct Job<'j> {
    pub sync: &'j Sending<'j>,
    pub state: &'j Mutex<State>,
    pub session: &'j Session,
}

impl Job<'_> {
    /// Sends what is new, and says by what its facts are known again; nothing where nothing is new. The other store is opened where something is.
    pub fn send_all(&self, from: &mut dyn Store, to: &mut Option<Box<dyn Store>>) -> Result<Option<(Synced, String)>, SyncError> {
        let mut done = Synced { sessions: 1, ..Synced::default() };
        let all = from.transcripts(self.session.key)?;
        let is_new = all.iter().any(|transcript| !self.is_sent(transcript));
        // Mostly there is nothing to be named.
        let mut transcripts = if is_new { outgoing(all, &self.session.session, self.sync.redactor) } else { Vec::new() };
        transcripts.retain(|outgoing| !self.is_sent(&outgoing.transcript));
        let facts = Facts::of(from, self.session, Some(self.sync.redactor), &mut done.secrets)?;
        let hash = facts.hash();
        if transcripts.is_empty() && self.state().has_facts(&self.session.session, &hash) {
            return Ok(None);
        }
        let to = self.opened(to)?;
        self.note(self.state().note_vectors(None))?;
        facts.announce(&mut **to, &self.session.session)?;
        self.known_by(&mut **to, &mut transcripts)?;
        let mut is_placed = false;
        for outgoing in &transcripts {
            if self.state().sent(&outgoing.transcript.path).is_none() {
                self.count(self.sync.redactor.redact(&outgoing.transcript.path).found, &mut done.secrets);
            }
            let pass = self.send(from, &mut **to, outgoing, &mut done.secrets)?;
            done.transcripts += 1;
            done.bytes += pass.bytes;
            done.turns += pass.turns;
            // As soon as there is something to read.
            if !std::mem::replace(&mut is_placed, true)
                && let Some(project) = self.session.folder.as_deref().and_then(project::name)
            {
                // Projects of which nothing is left but that they are secret would be one, and so have each other's members.
                if self.sync.redactor.has_secret(&project) {
                    done.unnamed += 1;
                } else if to.place_in_project(&self.session.session, &project)? {
                    *done.hidden.entry(project).or_default() += 1;
                }
            }
        }
        facts.tell(&mut **to, &self.session.session, self.sync.now_ms, Keeps::Same)?;
        Ok(Some((done, hash)))
    }

    /// Finds out what the other store can, of what it has now.
    pub fn derive(&self, to: &mut Option<Box<dyn Store>>, hash: &str) -> Result<Synced, SyncError> {
        let mut done = Synced::default();
        let to = self.opened(to)?;
        if let Some(session) = to.session(&self.session.session)? {
            let taken = snapshot::pass(&mut **to, &session, self.sync.deadline)?;
            let learned = learn::pass(&mut **to, &session, self.sync.patterns, self.sync.deadline)?;
            done.learnings = learned.learnings;
            done.is_cut = taken.is_cut || learned.is_cut;
        }
        // What was cut short is looked at again.
        if !done.is_cut {
            self.note(self.state().note_facts(&self.session.session, hash))?;
        }
        Ok(done)
    }

    fn opened<'t>(&self, to: &'t mut Option<Box<dyn Store>>) -> Result<&'t mut Box<dyn Store>, StoreError> {
        Ok(match to {
            Some(to) => to,
            closed => closed.insert((self.sync.to)()?),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, written: io::Result<()>) -> Result<(), SyncError> {
        written.map_err(|cause| SyncError::State { folder: self.sync.data.to_owned(), cause })
    }

    fn is_sent(&self, transcript: &StoredTranscript) -> bool {
        let is_all = |sent: Sent| (sent.generation, sent.bytes) == (transcript.generation, transcript.bytes);
        self.state().sent(&transcript.path).is_some_and(is_all)
    }

    /// What was sent under its whole path goes on there: a second one beside it would be an older state of the same.
    fn known_by(&self, to: &mut dyn Store, transcripts: &mut [Outgoing]) -> Result<(), StoreError> {
        if transcripts.iter().all(|outgoing| outgoing.path == outgoing.transcript.path) {
            return Ok(());
        }
        let Some(there) = to.session(&self.session.session)?.filter(|there| there.owner.is_none()) else { return Ok(()) };
        let there = to.transcripts(there.key)?;
        for outgoing in transcripts {
            if there.iter().any(|there| there.path == outgoing.transcript.path) {
                outgoing.path.clone_from(&outgoing.transcript.path);
            }
        }
        Ok(())
    }

    fn count(&self, found: Found, secrets: &mut Found) {
        found.into_iter().for_each(|(rule, count)| *secrets.entry(rule).or_default() += count);
    }

    /// All generations from the one on that was sent last, in order, so that the other store has them as well. One that was rewritten, and is
    /// there, is left alone: sent again, it would be taken for what the transcript was rewritten to.
    fn send(
        &self,
        from: &mut dyn Store,
        to: &mut dyn Store,
        outgoing: &Outgoing,
        secrets: &mut Found,
    ) -> Result<Pass, SyncError> {
        let transcript = &outgoing.transcript;
        let known = self.state().sent(&transcript.path).filter(|sent| sent.generation <= transcript.generation);
        let mut passed = Pass::default();
        let mut there = 0;
        for generation in known.map_or(0, |sent| sent.generation)..=transcript.generation {
            let again = known.filter(|sent| sent.generation == generation).map_or_else(Mark::default, |sent| sent.again);
            let bytes = if generation == transcript.generation { transcript.bytes } else { u64::MAX };
            let is_rewritten = generation < transcript.generation;
            if is_rewritten && let Some(same) = self.generation_there(from, to, (outgoing, generation), there)? {
                there = same;
                continue;
            }
            let mut found = Found::new();
            let mut sent = self.generation(from, to, (outgoing, generation), (again, bytes), &mut found)?;
            if sent.is_none() {
                // The other store has less than it had.
                found.clear();
                sent = self.generation(from, to, (outgoing, generation), (Mark::default(), bytes), &mut found)?;
            }
            let Some((pass, again)) = sent else { continue };
            passed.bytes += pass.bytes;
            passed.turns += pass.turns;
            self.count(found, secrets);
            self.note(self.state().note_sent(&transcript.path, Sent { generation, bytes, again }))?;
            if is_rewritten {
                there = self.transcript_there(to, outgoing)?.map_or(there, |transcript| transcript.generation);
            }
        }
        Ok(passed)
    }

    fn transcript_there(&self, to: &mut dyn Store, outgoing: &Outgoing) -> Result<Option<StoredTranscript>, StoreError> {
        let Some(session) = to.session(&self.session.session)? else { return Ok(None) };
        Ok(to.transcripts(session.key)?.into_iter().find(|there| there.path == outgoing.path))
    }

    /// The first generation of the other store, from one on, that has all of this one.
    fn generation_there(
        &self,
        from: &mut dyn Store,
        to: &mut dyn Store,
        (outgoing, generation): (&Outgoing, u32),
        at_least: u32,
    ) -> Result<Option<u32>, StoreError> {
        let Some(there) = self.transcript_there(to, outgoing)? else { return Ok(None) };
        // What was taken out of it is counted when it is sent.
        let (whole, mut found) = ((Mark::default(), u64::MAX), Found::new());
        let mut stream = Stream::read(from, (outgoing.transcript.key, generation), whole, self.sync.redactor, &mut found)?;
        stream.generation_in(to, &there, at_least)
    }

    /// From a mark on; nothing where the other store needs what is before.
    fn generation(
        &self,
        from: &mut dyn Store,
        to: &mut dyn Store,
        (outgoing, generation): (&Outgoing, u32),
        range: (Mark, u64),
        found: &mut Found,
    ) -> Result<Option<(Pass, Mark)>, SyncError> {
        let redactor = self.sync.redactor;
        let stream = RefCell::new(Stream::read(from, (outgoing.transcript.key, generation), range, redactor, found)?);
        let Outgoing { transcript, path } = outgoing;
        let named = Transcript { path: path.clone(), session: self.session.session.clone(), agent: transcript.agent.clone() };
        let length = stream.borrow().length();
        // What is read from its begin may have been rewritten anywhere.
        let comparison = if range.0 == Mark::default() { Comparison::Whole } else { Comparison::End };
        let passed = archive_from(to, &named, comparison, &mut || (Box::new(Shared(&stream)), length));
        let stream = stream.borrow();
        match passed {
            Err(_) if stream.begins_too_late() => Ok(None),
            passed => {
                let passed = passed?;
                claude_flow::settle_after(to, &named, &passed)?;
                Ok(Some((passed, stream.again())))
            }
        }
    }
}
