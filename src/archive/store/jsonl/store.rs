//! [`Store`] for a folder: changes go through the journal, and the in-memory database answers queries.

use std::io::Write;
use std::path::Path;

use rusqlite::Connection;

use super::change::{Append, ChangeOutcome, Hash, JournalChange};
use super::{BACKGROUND_CHECKPOINT_STEPS, JsonlStore};
use crate::forget::{Blanks, Tombstones};
use crate::learn::{LearningBatch, LearningCursor};
use crate::maintenance::{ArchiveStats, HotSetUsage, MaintenanceMode, MaintenancePlan, MaintenanceReport};
use crate::store::sqlite::SqliteQueries;
use crate::store::{
    AppendOutcome, ArchiveTotals, Batch, Compaction, CompactionWriter, CursorReader, FolderFacts, FolderStore, ImportedUsage,
    LearningWriter, MaintenanceStore, PinWriter, ProjectStore, SegmentReader, SessionMove, Snapshot, Store, StoreError,
    StoreReader, StoredTranscript, TierReader, TranscriptAppender, UsageWriter,
};
use ctxbridge_config::StoreKind;
use ctxbridge_transcript::{CompactSummary, FirstContext};

impl SqliteQueries for JsonlStore {
    fn query<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.now()?.query(work)
    }
}

impl TierReader for JsonlStore {}

impl ProjectStore for JsonlStore {}

impl FolderStore for JsonlStore {
    fn folder_facts(&mut self) -> Result<Vec<FolderFacts>, StoreError> {
        self.now()?.folder_facts()
    }

    fn note_folder(&mut self, facts: &FolderFacts) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.note_folder(facts)?;
            Ok(((), Some(JournalChange::Folder { facts: facts.clone() })))
        })
    }

    fn move_sessions(&mut self, moves: &[SessionMove]) -> Result<(), StoreError> {
        if moves.is_empty() {
            return Ok(());
        }
        self.change(|store| {
            store.replayed.memory.move_sessions(moves)?;
            Ok(((), Some(JournalChange::Move { moves: moves.to_vec() })))
        })
    }
}

impl Store for JsonlStore {}

impl StoreReader for JsonlStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Jsonl
    }

    fn location(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn blanks(&mut self) -> Result<Blanks, StoreError> {
        if let Some(data) = &self.data {
            self.watch.begin(data);
        }
        let tombstones = self.data.as_deref().map_or_else(|| Ok(Tombstones::default()), Tombstones::read)?;
        Ok(Blanks { tombstones, keeps_private: self.keeps_private })
    }

    fn totals(&mut self) -> Result<ArchiveTotals, StoreError> {
        let totals = self.now()?.totals()?;
        let (transcripts, others) = self.folder.bytes();
        Ok(ArchiveTotals { bytes_segments: transcripts, bytes_stored: transcripts + others, ..totals })
    }
}

impl SegmentReader for JsonlStore {
    fn tail(&mut self, path: &str, below: u32) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let memory = self.now()?;
        let (Some(cursor), Some(transcript)) = (memory.cursor(path)?, memory.transcript_at(path)?) else { return Ok(None) };
        let last = memory.segment_index(path)?.pop().filter(|(_, bytes, _)| *bytes < below);
        let Some((start, bytes, sha256)) = last else { return Ok(None) };
        let piece = self.piece(transcript, cursor.generation, (start, bytes, &sha256))?;
        Ok(Some((start, piece.to_vec())))
    }

    fn side_file(&mut self, transcript: i64, path: &str) -> Result<Option<StoredTranscript>, StoreError> {
        self.now()?.side_file(transcript, path)
    }

    fn read_bytes(
        &mut self,
        transcript: i64,
        generation: u32,
        range: (u64, u64),
        sink: &mut dyn Write,
    ) -> Result<(), StoreError> {
        for (start, bytes, sha256) in self.now()?.segments_of(transcript, generation, range)? {
            sink.write_all(self.part(transcript, generation, (start, bytes, &sha256), range)?)?;
        }
        Ok(())
    }
}

impl TranscriptAppender for JsonlStore {
    fn append(&mut self, batch: &Batch) -> Result<AppendOutcome, StoreError> {
        let appended = self.change(|store| {
            // Once nobody else writes: who forgets may have done so just then.
            if store.data.as_ref().is_some_and(|data| store.watch.has_changed(data)) {
                store.watch.reset();
                return Ok((AppendOutcome::Conflict, None));
            }
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

    fn heal_from_file(&mut self, transcript: &str, file: &Path) -> Result<u64, StoreError> {
        self.heal_transcript(transcript, file)
    }

    fn end_session(&mut self, session: &str, reason: &str, now_ms: i64) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.end_session(session, reason, now_ms)?;
            Ok(((), Some(JournalChange::End { session: session.to_owned(), reason: reason.to_owned(), at_ms: now_ms })))
        })
    }
}

impl CompactionWriter for JsonlStore {
    fn record_compaction(&mut self, session: &str, compaction: &Compaction) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.record_compaction(session, compaction)?;
            Ok(((), Some(JournalChange::Announce { session: session.to_owned(), compaction: compaction.clone() })))
        })
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

    fn add_summary(&mut self, session: &str, text: &str, now_ms: i64) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.add_summary(session, text, now_ms)?;
            Ok(((), Some(JournalChange::Summary { session: session.to_owned(), text: text.to_owned(), at_ms: now_ms })))
        })
    }

    fn save_snapshot(&mut self, compaction: i64, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.save_snapshot(compaction, snapshot)?;
            let name = store.replayed.memory.compaction_name(compaction)?;
            Ok(((), name.map(|compaction| JournalChange::Snapshot { compaction, snapshot: snapshot.clone() })))
        })
    }
}

impl LearningWriter for JsonlStore {
    fn add_learnings(&mut self, transcript: i64, batch: &LearningBatch, progress: &LearningCursor) -> Result<usize, StoreError> {
        self.change(|store| {
            let new = store.replayed.memory.add_learnings(transcript, batch, progress)?;
            let of = store.replayed.memory.transcript_of(transcript)?;
            let (batch, progress) = (batch.clone(), Box::new(progress.clone()));
            Ok((new, of.map(|(path, ..)| JournalChange::Learn { path, batch, progress })))
        })
    }
}

impl PinWriter for JsonlStore {
    fn set_pinned(&mut self, turn: &[u8; 16], is_kept: bool, now_ms: i64) -> Result<(), StoreError> {
        self.change(|store| {
            store.replayed.memory.set_pinned(turn, is_kept, now_ms)?;
            Ok(((), Some(JournalChange::Keep { turn: *turn, is_kept, at_ms: now_ms })))
        })
    }
}

impl UsageWriter for JsonlStore {
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
}

impl MaintenanceStore for JsonlStore {
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

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        if self.replayed.steps > BACKGROUND_CHECKPOINT_STEPS {
            self.take_image();
        }
        Ok(())
    }

    fn optimize(&mut self) -> Result<(), StoreError> {
        let _alone = self.lock_and_refresh()?;
        self.compact()?;
        self.renew_sums()
    }
}
