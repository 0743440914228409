//! Sending one session.

use std::cell::RefCell;

use super::outgoing::{OutgoingTranscript, outgoing_transcripts};
use super::state::SentProgress;
use super::stream::{OffsetMapping, RedactedStream, SharedStream};
use super::worker::{SharedState, WorkerStores};
use super::{SyncError, SyncReport, project};
use ctxbridge_archive::annotations::{PinPolicy, SessionAnnotations};
use ctxbridge_archive::ingest::{IngestReport, ingest_from};
use ctxbridge_archive::learn;
use ctxbridge_archive::reader::Comparison;
use ctxbridge_archive::side_files::{SideFileEffort, turns_with_files};
use ctxbridge_archive::snapshot;
use ctxbridge_archive::store::{
    Session, SessionReader, Store, StoreError, StoreReader, StoredTranscript, StoredTurn, Transcript,
};
use ctxbridge_claude_flow as claude_flow;
use ctxbridge_common::digest;
use ctxbridge_redact::RedactionCounts;

/// Sends a session that may have something new.
pub(super) struct SessionSync<'j> {
    pub shared: &'j SharedState<'j>,
    pub session: &'j Session,
}

impl SessionSync<'_> {
    /// Sends what is new. Returns the report and a hash of the session's facts; `None` where nothing is new.
    /// The other store is opened only where something is.
    pub fn send_all(&self, from: &mut dyn Store, open: &mut WorkerStores) -> Result<Option<(SyncReport, String)>, SyncError> {
        let mut done = SyncReport { sessions: 1, ..SyncReport::default() };
        let all = from.transcripts(self.session.key)?;
        let is_new = all.iter().any(|transcript| !self.is_sent(transcript));
        // Mostly there is nothing to be named.
        let mut transcripts =
            if is_new { outgoing_transcripts(all, &self.session.session, self.shared.sync.redactor) } else { Vec::new() };
        transcripts.retain(|outgoing| !self.is_sent(&outgoing.transcript));
        let facts = SessionAnnotations::of(from, self.session, Some(self.shared.sync.redactor), &mut done.secrets)?;
        let hash = facts.hash();
        if transcripts.is_empty() && self.shared.lock().has_facts(&self.session.session, &hash) {
            return Ok(None);
        }
        let to = open.target(self.shared.sync)?;
        self.shared.record(|state| state.record_vectors(None))?;
        facts.record_compactions(to, &self.session.session)?;
        self.keep_known_paths(to, &mut transcripts)?;
        let late = self.turns_before_files(from, &transcripts)?;
        let mut is_placed = false;
        for outgoing in &transcripts {
            if self.shared.lock().sent(&outgoing.transcript.path).is_none() {
                self.count(self.shared.sync.redactor.redact(&outgoing.transcript.path).found, &mut done.secrets);
            }
            let pass = self.send(from, to, outgoing, &mut done)?;
            done.transcripts += 1;
            done.bytes += pass.bytes;
            done.turns += pass.turns;
            // As soon as there is something to read.
            if !std::mem::replace(&mut is_placed, true)
                && let Some(project) = self.session.folder.as_deref().and_then(project::project_name)
            {
                // Projects of which nothing is left but that they are secret would be one, and so have each other's members.
                if self.shared.sync.redactor.has_secret(&project) {
                    done.unnamed += 1;
                } else if to.assign_project(&self.session.session, &project)? {
                    *done.hidden.entry(project).or_default() += 1;
                }
            }
        }
        for id in late {
            let turns = to.turns_by_id(&digest::hex(&id))?;
            let entries: Vec<i64> = turns.iter().filter(|turn| turn.owner.is_none()).map(|turn| turn.entry).collect();
            to.reindex(&entries)?;
        }
        facts.apply_to(to, &self.session.session, self.shared.sync.now_ms, PinPolicy::Mirror)?;
        Ok(Some((done, hash)))
    }

    /// Derives snapshots and learnings in the other store, from the session as it is there now.
    pub fn derive(&self, open: &mut WorkerStores, hash: &str) -> Result<SyncReport, SyncError> {
        let mut done = SyncReport::default();
        let to = open.target(self.shared.sync)?;
        if let Some(session) = to.session(&self.session.session)? {
            let taken = snapshot::take_snapshots(to, &session, self.shared.sync.deadline)?;
            let learned = learn::learn_from_session(to, &session, self.shared.sync.patterns, self.shared.sync.deadline)?;
            done.learnings = learned.learnings;
            done.is_cut = taken.is_cut || learned.is_cut;
        }
        // What was cut short is looked at again.
        if !done.is_cut {
            self.shared.record(|state| state.record_facts(&self.session.session, hash))?;
        }
        Ok(done)
    }

    fn is_sent(&self, transcript: &StoredTranscript) -> bool {
        let is_all = |sent: SentProgress| (sent.generation, sent.bytes) == (transcript.generation, transcript.bytes);
        self.shared.lock().sent(&transcript.path).is_some_and(is_all)
    }

    /// The ids of turns that were sent before the files that they point to, which are sent now.
    fn turns_before_files(&self, from: &mut dyn Store, transcripts: &[OutgoingTranscript]) -> Result<Vec<[u8; 16]>, StoreError> {
        let files = transcripts.iter().filter_map(|outgoing| outgoing.transcript.part.side_file());
        let names: Vec<String> = files.map(str::to_owned).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let all = from.transcripts(self.session.key)?;
        let sent = |turn: &StoredTurn| {
            let transcript = all.iter().find(|transcript| transcript.key == turn.transcript)?;
            self.shared.lock().sent(&transcript.path)
        };
        let turns = turns_with_files(from, &self.session.session, &names, SideFileEffort::Whole)?;
        let is_there = |turn: &&StoredTurn| sent(turn).is_some_and(|sent| turn.turn.start < sent.bytes);
        Ok(turns.iter().filter(is_there).map(|turn| turn.turn.id).collect())
    }

    /// Keeps the full path of a transcript that was sent under it: under another name, an older copy of it would stay there.
    fn keep_known_paths(&self, to: &mut dyn SessionReader, transcripts: &mut [OutgoingTranscript]) -> Result<(), StoreError> {
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

    fn count(&self, found: RedactionCounts, secrets: &mut RedactionCounts) {
        found.into_iter().for_each(|(rule, count)| *secrets.entry(rule).or_default() += count);
    }

    /// Sends all generations in order, starting with the one that was sent last, so that the other store has them as well.
    /// A rewritten generation that is there already is skipped: sent again, it would count as the latest content.
    fn send(
        &self,
        from: &mut dyn Store,
        to: &mut dyn Store,
        outgoing: &OutgoingTranscript,
        done: &mut SyncReport,
    ) -> Result<IngestReport, SyncError> {
        let transcript = &outgoing.transcript;
        let known = self.shared.lock().sent(&transcript.path).filter(|sent| sent.generation <= transcript.generation);
        let mut passed = IngestReport::default();
        let mut there = 0;
        for generation in known.map_or(0, |sent| sent.generation)..=transcript.generation {
            let again = known.filter(|sent| sent.generation == generation).map_or_else(OffsetMapping::default, |sent| sent.again);
            let bytes = if generation == transcript.generation { transcript.bytes } else { u64::MAX };
            let is_rewritten = generation < transcript.generation;
            if is_rewritten && let Some(same) = self.find_remote_generation(from, to, (outgoing, generation), there)? {
                there = same;
                continue;
            }
            let mut found = RedactionCounts::new();
            let mut sent = self.generation(from, to, (outgoing, generation), (again, bytes), &mut found)?;
            if sent.is_none() {
                // The other store has less than it had.
                found.clear();
                sent = self.generation(from, to, (outgoing, generation), (OffsetMapping::default(), bytes), &mut found)?;
            }
            let Some((pass, again)) = sent else {
                if !outgoing.part.is_transcript() {
                    // It is no text. The same bytes need not be looked at again.
                    let again = OffsetMapping::default();
                    self.shared.record(|state| state.record_sent(&transcript.path, SentProgress { generation, bytes, again }))?;
                    done.not_text += usize::from(generation == transcript.generation);
                }
                continue;
            };
            passed.bytes += pass.bytes;
            passed.turns += pass.turns;
            self.count(found, &mut done.secrets);
            self.shared.record(|state| state.record_sent(&transcript.path, SentProgress { generation, bytes, again }))?;
            if is_rewritten {
                there = self.find_remote_transcript(to, outgoing)?.map_or(there, |transcript| transcript.generation);
            }
        }
        Ok(passed)
    }

    fn find_remote_transcript(
        &self,
        to: &mut dyn SessionReader,
        outgoing: &OutgoingTranscript,
    ) -> Result<Option<StoredTranscript>, StoreError> {
        let Some(session) = to.session(&self.session.session)? else { return Ok(None) };
        Ok(to.transcripts(session.key)?.into_iter().find(|there| there.path == outgoing.path))
    }

    /// The first generation of the other store, at or after `at_least`, that has all of this one.
    fn find_remote_generation(
        &self,
        from: &mut dyn Store,
        to: &mut dyn StoreReader,
        (outgoing, generation): (&OutgoingTranscript, u32),
        at_least: u32,
    ) -> Result<Option<u32>, StoreError> {
        let Some(there) = self.find_remote_transcript(to, outgoing)? else { return Ok(None) };
        // What was taken out of it is counted when it is sent.
        let (whole, mut found) = ((OffsetMapping::default(), u64::MAX), RedactionCounts::new());
        let Some(mut stream) = self.stream(from, (outgoing, generation), whole, &mut found)? else { return Ok(None) };
        stream.find_matching_generation_in(to, &there, at_least)
    }

    /// The redacted bytes of one generation; `None` for a side file that is no text.
    fn stream(
        &self,
        from: &mut dyn Store,
        (outgoing, generation): (&OutgoingTranscript, u32),
        range: (OffsetMapping, u64),
        found: &mut RedactionCounts,
    ) -> Result<Option<RedactedStream>, StoreError> {
        let (key, redactor) = ((outgoing.transcript.key, generation), self.shared.sync.redactor);
        if outgoing.part.is_transcript() {
            RedactedStream::read(from, key, range, redactor, found).map(Some)
        } else {
            RedactedStream::read_file(from, key, redactor, found)
        }
    }

    /// Sends one generation, starting at an offset. `None` where the other store needs bytes before that, and for a side
    /// file that is no text.
    fn generation(
        &self,
        from: &mut dyn Store,
        to: &mut dyn Store,
        (outgoing, generation): (&OutgoingTranscript, u32),
        range: (OffsetMapping, u64),
        found: &mut RedactionCounts,
    ) -> Result<Option<(IngestReport, OffsetMapping)>, SyncError> {
        let Some(stream) = self.stream(from, (outgoing, generation), range, found)? else { return Ok(None) };
        let stream = RefCell::new(stream);
        let OutgoingTranscript { path, part, .. } = outgoing;
        let named = Transcript { path: path.clone(), session: self.session.session.clone(), part: part.clone() };
        let length = stream.borrow().length();
        // What is read from its begin may have been rewritten anywhere.
        let comparison = if range.0 == OffsetMapping::default() { Comparison::Whole } else { Comparison::End };
        let passed = ingest_from(to, &named, comparison, &mut || (Box::new(SharedStream(&stream)), length));
        let stream = stream.borrow();
        match passed {
            Err(_) if stream.needs_earlier_start() => Ok(None),
            passed => {
                let passed = passed?;
                claude_flow::supersede_imported_after(to, &named, &passed)?;
                Ok(Some((passed, stream.resume_at())))
            }
        }
    }
}
