//! [`Store`] for a folder: changes go through the journal, and the in-memory database answers queries.

use std::io::Write;

use super::change::{Append, ChangeOutcome, Hash, JournalChange};
use super::{BACKGROUND_CHECKPOINT_STEPS, JsonlStore};
use crate::learn::{LearningBatch, LearningCursor, ToolStats};
use crate::maintenance::{ArchiveStats, HotSetUsage, MaintenanceMode, MaintenancePlan, MaintenanceReport};
use crate::store::{
    AppendOutcome, ArchiveTotals, Batch, Changes, Compaction, Cursor, ImportedUsage, LearningQuery, Session, SessionStats,
    Snapshot, Store, StoreError, StoredCompaction, StoredFix, StoredLearning, StoredSummary, StoredTranscript, StoredTurn,
    TurnLocation, TurnSelection,
};
use ctxbridge_common::digest;
use ctxbridge_config::StoreKind;
use ctxbridge_transcript::{CompactSummary, FirstContext};

impl Store for JsonlStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Jsonl
    }

    fn location(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn cursor(&mut self, path: &str) -> Result<Option<Cursor>, StoreError> {
        self.now()?.cursor(path)
    }

    fn tail(&mut self, path: &str, below: u32) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let memory = self.now()?;
        let (Some(cursor), Some(transcript)) = (memory.cursor(path)?, memory.transcript_at(path)?) else { return Ok(None) };
        let last = memory.segment_index(path)?.pop().filter(|(_, bytes, _)| *bytes < below);
        let Some((start, bytes, sha256)) = last else { return Ok(None) };
        let piece = self.piece(transcript, cursor.generation, (start, bytes, &sha256))?;
        Ok(Some((start, piece.to_vec())))
    }

    fn segment_index(&mut self, path: &str) -> Result<Vec<(u64, u32, digest::Sha256Digest)>, StoreError> {
        self.now()?.segment_index(path)
    }

    fn turn_at(&mut self, path: &str, byte: u64) -> Result<Option<(u64, u32)>, StoreError> {
        self.now()?.turn_at(path, byte)
    }

    fn append(&mut self, batch: &Batch) -> Result<AppendOutcome, StoreError> {
        let appended = self.change(|store| {
            let known = store.known_bytes(batch)?;
            let new = store.new_turns(batch)?;
            let mut append = Box::new(Append::of(batch));
            if JournalChange::Append(append.clone()).apply(&mut store.replayed.memory)? == ChangeOutcome::Conflict {
                return Ok((AppendOutcome::Conflict, None));
            }
            (append.entries, append.raw) = store.write_files(batch, known, &new)?;
            store.replayed.entries = append.entries;
            Ok((AppendOutcome::Committed, Some(JournalChange::Append(append))))
        })?;
        if appended == AppendOutcome::Committed {
            // What was to be added is there. That the files are larger than they need be is no reason to say otherwise.
            self.compact_if_worthwhile().ok();
        }
        Ok(appended)
    }

    fn read_bytes(
        &mut self,
        transcript: i64,
        generation: u32,
        range: (u64, u64),
        sink: &mut dyn Write,
    ) -> Result<(), StoreError> {
        for (start, bytes, sha256) in self.now()?.pieces(transcript, generation, range)? {
            let piece = self.piece(transcript, generation, (start, bytes, &sha256))?;
            let clamp = |byte: u64| byte.saturating_sub(start).min(piece.len() as u64) as usize;
            sink.write_all(piece.get(clamp(range.0)..clamp(range.1)).unwrap_or_default())?;
        }
        Ok(())
    }

    fn totals(&mut self) -> Result<ArchiveTotals, StoreError> {
        let totals = self.now()?.totals()?;
        let (transcripts, others) = self.folder.bytes();
        Ok(ArchiveTotals { bytes_segments: transcripts, bytes_stored: transcripts + others, ..totals })
    }

    fn session(&mut self, session: &str) -> Result<Option<Session>, StoreError> {
        self.now()?.session(session)
    }

    fn session_stats(&mut self, session: i64) -> Result<SessionStats, StoreError> {
        self.now()?.session_stats(session)
    }

    fn sessions(&mut self, prefix: &str, folder: Option<&str>, limit: usize) -> Result<Vec<Session>, StoreError> {
        self.now()?.sessions(prefix, folder, limit)
    }

    fn transcripts(&mut self, session: i64) -> Result<Vec<StoredTranscript>, StoreError> {
        self.now()?.transcripts(session)
    }

    fn turns(&mut self, session: i64, which: TurnSelection) -> Result<Vec<StoredTurn>, StoreError> {
        self.now()?.turns(session, which)
    }

    fn turns_by_id(&mut self, prefix: &str) -> Result<Vec<StoredTurn>, StoreError> {
        self.now()?.turns_by_id(prefix)
    }

    fn turn_locations(&mut self, entries: &[i64]) -> Result<Vec<TurnLocation>, StoreError> {
        self.now()?.turn_locations(entries)
    }

    fn turn(&mut self, transcript: i64, index: u32) -> Result<Option<StoredTurn>, StoreError> {
        self.now()?.turn(transcript, index)
    }

    fn turn_by_location(&mut self, place: &TurnLocation) -> Result<Option<StoredTurn>, StoreError> {
        self.now()?.turn_by_location(place)
    }

    fn summary_of(&mut self, entry: i64) -> Result<Option<(String, StoredSummary)>, StoreError> {
        self.now()?.summary_of(entry)
    }

    fn summaries(&mut self, session: i64) -> Result<Vec<StoredSummary>, StoreError> {
        self.now()?.summaries(session)
    }

    fn compactions(&mut self, session: Option<i64>, since_ms: i64) -> Result<Vec<StoredCompaction>, StoreError> {
        self.now()?.compactions(session, since_ms)
    }

    fn search_compactions(
        &mut self,
        words: &str,
        project: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredCompaction>, StoreError> {
        self.now()?.search_compactions(words, project, limit)
    }

    fn locate_compactions(
        &mut self,
        transcript: i64,
        summaries: &[CompactSummary],
        contexts: &[FirstContext],
    ) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.locate_compactions(transcript, summaries, contexts)?;
            let of = store.replayed.memory.transcript_of(transcript)?;
            let (summaries, contexts) = (summaries.to_vec(), contexts.to_vec());
            Ok(((), of.map(|(path, ..)| JournalChange::Place { path, summaries, contexts })))
        })
    }

    fn save_snapshot(&mut self, compaction: i64, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.save_snapshot(compaction, snapshot)?;
            let name = store.replayed.memory.compaction_name(compaction)?;
            Ok(((), name.map(|compaction| JournalChange::Snapshot { compaction, snapshot: snapshot.clone() })))
        })
    }

    fn set_pinned(&mut self, turn: &[u8; 16], is_kept: bool, now_ms: i64) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.set_pinned(turn, is_kept, now_ms)?;
            Ok(((), Some(JournalChange::Keep { turn: *turn, is_kept, at_ms: now_ms })))
        })
    }

    fn pinned(&mut self, limit: usize) -> Result<Vec<StoredTurn>, StoreError> {
        self.now()?.pinned(limit)
    }

    fn contexts(&mut self, session: i64) -> Result<Vec<(i64, u64)>, StoreError> {
        self.now()?.contexts(session)
    }

    fn first_entry(&mut self, session: i64) -> Result<Option<i64>, StoreError> {
        self.now()?.first_entry(session)
    }

    fn session_cleared(&mut self, transcripts_in: &str, but: &str, since_ms: i64) -> Result<Option<Session>, StoreError> {
        self.now()?.session_cleared(transcripts_in, but, since_ms)
    }

    fn touch(&mut self, entries: &[i64], now_ms: i64) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.change(|store| {
            store.replayed.memory.touch(entries, now_ms)?;
            let entries: Vec<Hash> = store.replayed.memory.hashes(entries)?.into_iter().map(Hash).collect();
            Ok(((), (!entries.is_empty()).then_some(JournalChange::Touch { entries, at_ms: now_ms })))
        })
    }

    fn merge_usage(&mut self, adopted: &[ImportedUsage]) -> Result<usize, StoreError> {
        self.change(|store| {
            let changed = store.replayed.memory.merge_usage(adopted)?;
            let entries: Vec<i64> = adopted.iter().map(|one| one.entry).collect();
            let known = store.replayed.memory.hashes(&entries)?;
            // Where one of them is not there, nobody can say which hash is whose.
            let pairs =
                (known.len() == adopted.len()).then(|| known.into_iter().map(Hash).zip(adopted.iter().copied()).collect());
            Ok((changed, pairs.filter(|_| changed > 0).map(|adopted| JournalChange::Adopt { adopted })))
        })
    }

    fn record_compaction(&mut self, session: &str, compaction: &Compaction) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.record_compaction(session, compaction)?;
            Ok(((), Some(JournalChange::Announce { session: session.to_owned(), compaction: compaction.clone() })))
        })
    }

    fn add_summary(&mut self, session: &str, text: &str, now_ms: i64) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.add_summary(session, text, now_ms)?;
            Ok(((), Some(JournalChange::Summary { session: session.to_owned(), text: text.to_owned(), at_ms: now_ms })))
        })
    }

    fn end_session(&mut self, session: &str, reason: &str, now_ms: i64) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.end_session(session, reason, now_ms)?;
            Ok(((), Some(JournalChange::End { session: session.to_owned(), reason: reason.to_owned(), at_ms: now_ms })))
        })
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        if self.replayed.steps > BACKGROUND_CHECKPOINT_STEPS {
            self.take_image();
        }
        Ok(())
    }

    fn run_maintenance(
        &mut self,
        run: MaintenanceMode,
        plan: &dyn Fn(&ArchiveStats) -> MaintenancePlan,
    ) -> Result<MaintenanceReport, StoreError> {
        let work = |store: &mut Self| {
            let (transcripts, others) = store.folder.bytes();
            let here = |facts: &ArchiveStats| ArchiveStats {
                usage: HotSetUsage { bytes: transcripts + others, ..facts.usage },
                ..*facts
            };
            let outcome = store.replayed.memory.run_maintenance(run, &|facts| plan(&here(facts)))?;
            Ok((outcome, Some(JournalChange::Cycle { plan: outcome.plan })))
        };
        match run {
            MaintenanceMode::Apply => self.change(work),
            MaintenanceMode::DryRun => {
                self.refresh()?;
                work(self).map(|(outcome, _)| outcome)
            }
        }
    }

    fn changes(&mut self, since: Option<&str>) -> Result<Changes, StoreError> {
        self.now()?.changes(since)
    }

    fn learning_cursor(&mut self, transcript: i64) -> Result<Option<LearningCursor>, StoreError> {
        self.now()?.learning_cursor(transcript)
    }

    fn learnings_by_kind(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        self.now()?.learnings_by_kind()
    }

    fn add_learnings(&mut self, transcript: i64, lesson: &LearningBatch, progress: &LearningCursor) -> Result<usize, StoreError> {
        self.change(|store| {
            let new = store.replayed.memory.add_learnings(transcript, lesson, progress)?;
            let of = store.replayed.memory.transcript_of(transcript)?;
            let (lesson, progress) = (lesson.clone(), Box::new(progress.clone()));
            Ok((new, of.map(|(path, ..)| JournalChange::Learn { path, lesson, progress })))
        })
    }

    fn learnings(&mut self, wanted: &LearningQuery) -> Result<Vec<StoredLearning>, StoreError> {
        self.now()?.learnings(wanted)
    }

    fn tool_stats(&mut self, session: i64) -> Result<Vec<(Option<String>, ToolStats)>, StoreError> {
        self.now()?.tool_stats(session)
    }

    fn fixes(&mut self, project: Option<&str>, limit: usize) -> Result<Vec<StoredFix>, StoreError> {
        self.now()?.fixes(project, limit)
    }

    fn changed_files(&mut self, project: Option<&str>, limit: usize) -> Result<Vec<Vec<String>>, StoreError> {
        self.now()?.changed_files(project, limit)
    }

    fn optimize(&mut self) -> Result<(), StoreError> {
        let _alone = self.lock_and_refresh()?;
        self.compact()
    }
}
