//! The store traits, implemented for a server.

use std::io::Write;
use std::time::Duration;

use super::connection::Connection;
use super::error::PostgresError;
use super::{
    PostgresStore, changes, compactions, learnings, learnings_write as lessons, maintenance, pins, read, sharing, turns, write,
};
use ctxbridge_archive::learn::{LearningBatch, LearningCursor, ToolStats};
use ctxbridge_archive::maintenance::{ArchiveStats, MaintenanceMode, MaintenancePlan, MaintenanceReport};
use ctxbridge_archive::search::filter::Filter;
use ctxbridge_archive::store::{
    AppendOutcome, ArchiveTotals, Batch, Changes, Compaction, Cursor, ImportedUsage, LearningQuery, SearchBackend, Session,
    SessionStats, Snapshot, Store, StoreError, StoredCompaction, StoredFix, StoredLearning, StoredSummary, StoredTranscript,
    StoredTurn, TurnLocation, TurnOffset, TurnSelection, VectorStore,
};
use ctxbridge_common::digest;
use ctxbridge_config::StoreKind;
use ctxbridge_transcript::{CompactSummary, FirstContext};

/// Longest time for the server to put written rows in order: minutes after millions of rows.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(600);

/// Retries of a transaction after conflicts with another.
const MAX_CONFLICT_RETRIES: u32 = 5;

impl PostgresStore {
    pub(super) fn read<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, PostgresError>) -> Result<T, StoreError> {
        Ok(self.pool.with(work)?)
    }

    /// Runs one transaction, with retries after conflicts.
    pub(super) fn write<T>(&self, work: impl Fn(&mut Connection) -> Result<T, PostgresError>) -> Result<T, StoreError> {
        retry_conflicts(|| Ok(self.pool.with(|db| db.transaction(&work))?))
    }
}

fn retry_conflicts<T>(mut work: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    for _ in 0..MAX_CONFLICT_RETRIES {
        match work() {
            Err(error) if matches!(PostgresError::of(&error), Some(PostgresError::Conflict { .. })) => {}
            result => return result,
        }
    }
    work()
}

impl SearchBackend for PostgresStore {
    fn has_vectors(&mut self) -> Result<bool, StoreError> {
        Ok(PostgresStore::has_vectors(self)?)
    }

    fn search_text(&mut self, expression: &str, filter: &Filter, most: usize) -> Result<Vec<(i64, f32)>, StoreError> {
        Ok(self.search_words(expression, filter, most)?.into_iter().map(|hit| (hit.entry, hit.score)).collect())
    }

    fn search_vectors(
        &mut self,
        model: &str,
        vector: &[f32],
        filter: &Filter,
        most: usize,
    ) -> Result<Vec<(i64, f32)>, StoreError> {
        Ok(self.search_nearest(model, vector, filter, most)?.into_iter().map(|hit| (hit.entry, hit.score)).collect())
    }
}

impl Store for PostgresStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Postgres
    }

    fn location(&self) -> String {
        let settings = self.pool.settings();
        format!("{}/{}", settings.server(), settings.database)
    }

    fn as_search_backend(&mut self) -> Option<&mut dyn SearchBackend> {
        Some(self)
    }

    fn cursor(&mut self, path: &str) -> Result<Option<Cursor>, StoreError> {
        self.read(|db| read::cursor(db, path))
    }

    fn tail(&mut self, path: &str, below: u32) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let Self { pool, remembered, .. } = self;
        pool.with(|db| remembered.tail(db, path, below))
    }

    fn segment_index(&mut self, path: &str) -> Result<Vec<(u64, u32, digest::Sha256Digest)>, StoreError> {
        self.read(|db| read::segment_index(db, path))
    }

    fn turn_at(&mut self, path: &str, byte: u64) -> Result<Option<(u64, u32)>, StoreError> {
        self.read(|db| read::turn_at(db, path, byte))
    }

    fn append(&mut self, batch: &Batch) -> Result<AppendOutcome, StoreError> {
        retry_conflicts(|| self.pool.with(|db| write::append(db, batch)))
    }

    fn read_bytes(
        &mut self,
        transcript: i64,
        generation: u32,
        range: (u64, u64),
        sink: &mut dyn Write,
    ) -> Result<(), StoreError> {
        let Self { pool, remembered, .. } = self;
        pool.with(|db| remembered.read_bytes(db, transcript, generation, range, sink))
    }

    fn totals(&mut self) -> Result<ArchiveTotals, StoreError> {
        self.read(|db| db.snapshot(read::totals))
    }

    fn session(&mut self, session: &str) -> Result<Option<Session>, StoreError> {
        self.read(|db| read::session(db, session))
    }

    fn session_stats(&mut self, session: i64) -> Result<SessionStats, StoreError> {
        self.read(|db| read::session_stats(db, session))
    }

    fn sessions(&mut self, prefix: &str, folder: Option<&str>, limit: usize) -> Result<Vec<Session>, StoreError> {
        self.read(|db| read::sessions(db, prefix, folder, limit))
    }

    fn transcripts(&mut self, session: i64) -> Result<Vec<StoredTranscript>, StoreError> {
        self.read(|db| read::transcripts(db, session))
    }

    fn turns(&mut self, session: i64, which: TurnSelection) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::turns(db, session, which))
    }

    fn turn_offsets(&mut self, session: i64, of_agents: bool) -> Result<Vec<TurnOffset>, StoreError> {
        self.read(|db| turns::turn_offsets(db, session, of_agents))
    }

    fn turns_by_id(&mut self, prefix: &str) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::turns_by_id(db, prefix))
    }

    fn turn_locations(&mut self, entries: &[i64]) -> Result<Vec<TurnLocation>, StoreError> {
        self.read(|db| turns::turn_locations(db, entries))
    }

    fn turn(&mut self, transcript: i64, index: u32) -> Result<Option<StoredTurn>, StoreError> {
        let Self { pool, remembered, .. } = self;
        let found = pool.with(|db| match remembered.session_of(db, transcript)? {
            Some(session) => turns::turn(db, session, transcript, index),
            None => Ok(None),
        });
        Ok(found?)
    }

    fn turn_by_location(&mut self, place: &TurnLocation) -> Result<Option<StoredTurn>, StoreError> {
        self.read(|db| turns::turn_by_location(db, place))
    }

    fn summary_of(&mut self, entry: i64) -> Result<Option<(String, StoredSummary)>, StoreError> {
        self.read(|db| read::summary_of(db, entry))
    }

    fn summaries(&mut self, session: i64) -> Result<Vec<StoredSummary>, StoreError> {
        self.read(|db| read::summaries(db, session))
    }

    fn compactions(&mut self, session: Option<i64>, since_ms: i64) -> Result<Vec<StoredCompaction>, StoreError> {
        self.read(|db| compactions::compactions(db, session, since_ms))
    }

    fn search_compactions(
        &mut self,
        words: &str,
        project: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredCompaction>, StoreError> {
        self.read(|db| compactions::search_compactions(db, words, project, limit))
    }

    fn locate_compactions(
        &mut self,
        transcript: i64,
        summaries: &[CompactSummary],
        contexts: &[FirstContext],
    ) -> Result<(), StoreError> {
        self.write(|db| {
            maintenance::lock_shared(db)?;
            compactions::locate_compactions(db, transcript, summaries, contexts)
        })
    }

    fn save_snapshot(&mut self, compaction: i64, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.write(|db| compactions::save_snapshot(db, compaction, snapshot))
    }

    fn set_pinned(&mut self, turn: &[u8; 16], is_kept: bool, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| pins::set_pinned(db, turn, is_kept, now_ms))
    }

    fn pinned(&mut self, limit: usize) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::pinned(db, limit))
    }

    fn contexts(&mut self, session: i64) -> Result<Vec<(i64, u64)>, StoreError> {
        self.read(|db| read::contexts(db, session))
    }

    fn first_entry(&mut self, session: i64) -> Result<Option<i64>, StoreError> {
        self.read(|db| read::first_entry(db, session))
    }

    fn session_cleared(&mut self, transcripts_in: &str, but: &str, since_ms: i64) -> Result<Option<Session>, StoreError> {
        self.read(|db| read::session_cleared(db, transcripts_in, but, since_ms))
    }

    fn touch(&mut self, entries: &[i64], now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| maintenance::touch(db, entries, now_ms))
    }

    fn merge_usage(&mut self, adopted: &[ImportedUsage]) -> Result<usize, StoreError> {
        self.write(|db| maintenance::merge_usage(db, adopted))
    }

    fn as_vector_store(&mut self) -> Option<&mut dyn VectorStore> {
        Some(self)
    }

    fn assign_project(&mut self, session: &str, project: &str) -> Result<bool, StoreError> {
        if !self.write(|db| sharing::assign_unshown(db, session, project))? {
            return Ok(false);
        }
        self.write(|db| sharing::join_project(db, project))?;
        self.write(|db| sharing::assign_shown(db, session, project))
    }

    fn revoked_project(&mut self, session: &str) -> Result<Option<String>, StoreError> {
        self.read(|db| sharing::revoked_project(db, session))
    }

    fn learnings_by_kind(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        self.read(learnings::count_by_kind)
    }

    fn record_compaction(&mut self, session: &str, compaction: &Compaction) -> Result<(), StoreError> {
        self.write(|db| compactions::record_compaction(db, session, compaction))
    }

    fn add_summary(&mut self, session: &str, text: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| {
            maintenance::lock_shared(db)?;
            compactions::record_hook_summary(db, session, text, now_ms)
        })
    }

    fn end_session(&mut self, session: &str, reason: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| write::end_session(db, session, reason, now_ms))
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.read(|db| {
            db.transaction(|db| {
                db.extend_timeouts(CHECKPOINT_TIMEOUT)?;
                db.one_without_tenant("SELECT ctxbridge.settle()", &[]).map(drop)
            })
        })
    }

    fn run_maintenance(
        &mut self,
        run: MaintenanceMode,
        plan: &dyn Fn(&ArchiveStats) -> MaintenancePlan,
    ) -> Result<MaintenanceReport, StoreError> {
        match run {
            MaintenanceMode::Apply => self.write(|db| maintenance::run_maintenance(db, run, plan)),
            // All of it as it is now; nothing is written.
            MaintenanceMode::DryRun => self.read(|db| db.snapshot(|db| maintenance::run_maintenance(db, run, plan))),
        }
    }

    fn changes(&mut self, since: Option<&str>) -> Result<Changes, StoreError> {
        self.write(|db| changes::changes_since(db, since))
    }

    fn learning_cursor(&mut self, transcript: i64) -> Result<Option<LearningCursor>, StoreError> {
        self.read(|db| learnings::learning_cursor(db, transcript))
    }

    fn add_learnings(&mut self, transcript: i64, lesson: &LearningBatch, progress: &LearningCursor) -> Result<usize, StoreError> {
        self.write(|db| lessons::add_learnings(db, transcript, lesson, progress))
    }

    fn learnings(&mut self, wanted: &LearningQuery) -> Result<Vec<StoredLearning>, StoreError> {
        self.read(|db| learnings::learnings(db, wanted))
    }

    fn tool_stats(&mut self, session: i64) -> Result<Vec<(Option<String>, ToolStats)>, StoreError> {
        self.read(|db| learnings::tool_stats(db, session))
    }

    fn fixes(&mut self, project: Option<&str>, limit: usize) -> Result<Vec<StoredFix>, StoreError> {
        self.read(|db| learnings::fixes(db, project, limit))
    }

    fn changed_files(&mut self, project: Option<&str>, limit: usize) -> Result<Vec<Vec<String>>, StoreError> {
        self.read(|db| learnings::changed_files(db, project, limit))
    }

    fn optimize(&mut self) -> Result<(), StoreError> {
        self.write(changes::trim_changes)
    }
}

impl VectorStore for PostgresStore {
    fn unavailable_reason(&mut self) -> Result<Option<String>, StoreError> {
        self.require_vectors().map_or_else(without_extension, |()| Ok(None))
    }

    fn entries_without_vectors(
        &mut self,
        model: &str,
        dimensions: usize,
        below: i64,
        most: usize,
    ) -> Result<Vec<(i64, digest::Sha256Digest)>, StoreError> {
        self.without_vectors(model, dimensions, below, most)
    }

    fn save_vectors(&mut self, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), StoreError> {
        self.put_vectors(model, vectors)
    }
}

/// The reason to report where the extension for vectors is missing. Other errors are returned.
fn without_extension(error: StoreError) -> Result<Option<String>, StoreError> {
    match PostgresError::of(&error) {
        Some(PostgresError::NoVectors { .. }) => Ok(Some(error.to_string())),
        _ => Err(error),
    }
}
