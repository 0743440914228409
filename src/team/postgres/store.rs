//! What any archive can do, done by a server.

use std::io::Write;
use std::time::Duration;

use super::connection::Connection;
use super::error::PostgresError;
use super::{PostgresStore, changes, compactions, cycle, kept, learnings, lesson as lessons, read, sharing, turns, write};
use ctxbridge_archive::cycle::{Facts, Outcome, Plan, Run};
use ctxbridge_archive::learn::{Lesson, Progress, Tally};
use ctxbridge_archive::search::filter::Filter;
use ctxbridge_archive::store::{
    Adopted, Appended, Batch, Changes, Compaction, Cursor, Place, Searching, Session, Size, Snapshot, Start, Store, StoreError,
    StoredCompaction, StoredFix, StoredLearning, StoredSummary, StoredTranscript, StoredTurn, Totals, Turns, Vectors, Wanted,
};
use ctxbridge_common::digest;
use ctxbridge_config::StoreKind;
use ctxbridge_transcript::{CompactSummary, FirstContext};

/// How long the server may take to put in order what was written: after millions of rows, minutes.
const SETTLING: Duration = Duration::from_secs(600);

/// Times that a transaction is tried again that another one was in the way of.
const RETRIES: u32 = 5;

impl PostgresStore {
    pub(super) fn read<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, PostgresError>) -> Result<T, StoreError> {
        Ok(self.pool.with(work)?)
    }

    /// One transaction, tried again when another one is in the way.
    pub(super) fn write<T>(&self, work: impl Fn(&mut Connection) -> Result<T, PostgresError>) -> Result<T, StoreError> {
        retrying(|| Ok(self.pool.with(|db| db.transaction(&work))?))
    }
}

fn retrying<T>(mut work: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    for _ in 0..RETRIES {
        match work() {
            Err(error) if matches!(PostgresError::of(&error), Some(PostgresError::Conflict { .. })) => {}
            result => return result,
        }
    }
    work()
}

impl Searching for PostgresStore {
    fn has_vectors(&mut self) -> Result<bool, StoreError> {
        Ok(PostgresStore::has_vectors(self)?)
    }

    fn words(&mut self, expression: &str, filter: &Filter, most: usize) -> Result<Vec<(i64, f32)>, StoreError> {
        Ok(self.search_words(expression, filter, most)?.into_iter().map(|hit| (hit.entry, hit.score)).collect())
    }

    fn near(&mut self, model: &str, vector: &[f32], filter: &Filter, most: usize) -> Result<Vec<(i64, f32)>, StoreError> {
        Ok(self.search_near(model, vector, filter, most)?.into_iter().map(|hit| (hit.entry, hit.score)).collect())
    }
}

impl Store for PostgresStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Postgres
    }

    fn place(&self) -> String {
        let settings = self.pool.settings();
        format!("{}/{}", settings.server(), settings.database)
    }

    fn searching(&mut self) -> Option<&mut dyn Searching> {
        Some(self)
    }

    fn cursor(&mut self, path: &str) -> Result<Option<Cursor>, StoreError> {
        self.read(|db| read::cursor(db, path))
    }

    fn tail(&mut self, path: &str, below: u32) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let Self { pool, remembered, .. } = self;
        pool.with(|db| remembered.tail(db, path, below))
    }

    fn layout(&mut self, path: &str) -> Result<Vec<(u64, u32, digest::Bytes)>, StoreError> {
        self.read(|db| read::layout(db, path))
    }

    fn turn_at(&mut self, path: &str, byte: u64) -> Result<Option<(u64, u32)>, StoreError> {
        self.read(|db| read::turn_at(db, path, byte))
    }

    fn append(&mut self, batch: &Batch) -> Result<Appended, StoreError> {
        retrying(|| self.pool.with(|db| write::append(db, batch)))
    }

    fn raw(&mut self, transcript: i64, generation: u32, range: (u64, u64), sink: &mut dyn Write) -> Result<(), StoreError> {
        let Self { pool, remembered, .. } = self;
        pool.with(|db| remembered.raw(db, transcript, generation, range, sink))
    }

    fn totals(&mut self) -> Result<Totals, StoreError> {
        self.read(|db| db.snapshot(read::totals))
    }

    fn session(&mut self, session: &str) -> Result<Option<Session>, StoreError> {
        self.read(|db| read::session(db, session))
    }

    fn size(&mut self, session: i64) -> Result<Size, StoreError> {
        self.read(|db| read::size(db, session))
    }

    fn sessions(&mut self, prefix: &str, folder: Option<&str>, limit: usize) -> Result<Vec<Session>, StoreError> {
        self.read(|db| read::sessions(db, prefix, folder, limit))
    }

    fn transcripts(&mut self, session: i64) -> Result<Vec<StoredTranscript>, StoreError> {
        self.read(|db| read::transcripts(db, session))
    }

    fn turns(&mut self, session: i64, which: Turns) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::turns(db, session, which))
    }

    fn starts(&mut self, session: i64, of_agents: bool) -> Result<Vec<Start>, StoreError> {
        self.read(|db| turns::starts(db, session, of_agents))
    }

    fn turns_by_id(&mut self, prefix: &str) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::turns_by_id(db, prefix))
    }

    fn places(&mut self, entries: &[i64]) -> Result<Vec<Place>, StoreError> {
        self.read(|db| turns::places(db, entries))
    }

    fn turn(&mut self, transcript: i64, index: u32) -> Result<Option<StoredTurn>, StoreError> {
        let Self { pool, remembered, .. } = self;
        let found = pool.with(|db| match remembered.session_of(db, transcript)? {
            Some(session) => turns::turn(db, session, transcript, index),
            None => Ok(None),
        });
        Ok(found?)
    }

    fn turn_of(&mut self, place: &Place) -> Result<Option<StoredTurn>, StoreError> {
        self.read(|db| turns::turn_of(db, place))
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

    fn compactions_with(
        &mut self,
        words: &str,
        project: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredCompaction>, StoreError> {
        self.read(|db| compactions::compactions_with(db, words, project, limit))
    }

    fn place_compactions(
        &mut self,
        transcript: i64,
        summaries: &[CompactSummary],
        contexts: &[FirstContext],
    ) -> Result<(), StoreError> {
        self.write(|db| {
            cycle::lock_shared(db)?;
            compactions::place(db, transcript, summaries, contexts)
        })
    }

    fn keep_snapshot(&mut self, compaction: i64, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.write(|db| compactions::keep_snapshot(db, compaction, snapshot))
    }

    fn keep(&mut self, turn: &[u8; 16], is_kept: bool, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| kept::keep(db, turn, is_kept, now_ms))
    }

    fn kept(&mut self, limit: usize) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|db| turns::kept(db, limit))
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
        self.write(|db| cycle::touch(db, entries, now_ms))
    }

    fn adopt(&mut self, adopted: &[Adopted]) -> Result<usize, StoreError> {
        self.write(|db| cycle::adopt(db, adopted))
    }

    fn vectors(&mut self) -> Option<&mut dyn Vectors> {
        Some(self)
    }

    fn place_in_project(&mut self, session: &str, project: &str) -> Result<bool, StoreError> {
        if !self.write(|db| sharing::place(db, session, project))? {
            return Ok(false);
        }
        self.write(|db| sharing::enter(db, project))?;
        self.write(|db| sharing::place_shown(db, session, project))
    }

    fn left_project(&mut self, session: &str) -> Result<Option<String>, StoreError> {
        self.read(|db| sharing::left_project(db, session))
    }

    fn learnings_by_kind(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        self.read(learnings::by_kind)
    }

    fn announce(&mut self, session: &str, compaction: &Compaction) -> Result<(), StoreError> {
        self.write(|db| compactions::announce(db, session, compaction))
    }

    fn add_summary(&mut self, session: &str, text: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| {
            cycle::lock_shared(db)?;
            compactions::hooked_summary(db, session, text, now_ms)
        })
    }

    fn end_session(&mut self, session: &str, reason: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| write::end_session(db, session, reason, now_ms))
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        self.read(|db| {
            db.transaction(|db| {
                db.be_patient(SETTLING)?;
                db.fact("SELECT ctxbridge.settle()", &[]).map(drop)
            })
        })
    }

    fn cycle(&mut self, run: Run, plan: &dyn Fn(&Facts) -> Plan) -> Result<Outcome, StoreError> {
        match run {
            Run::Real => self.write(|db| cycle::cycle(db, run, plan)),
            // All of it as it is now; nothing is written.
            Run::Dry => self.read(|db| db.snapshot(|db| cycle::cycle(db, run, plan))),
        }
    }

    fn changes(&mut self, since: Option<&str>) -> Result<Changes, StoreError> {
        self.write(|db| changes::since(db, since))
    }

    fn progress(&mut self, transcript: i64) -> Result<Option<Progress>, StoreError> {
        self.read(|db| learnings::progress(db, transcript))
    }

    fn learn(&mut self, transcript: i64, lesson: &Lesson, progress: &Progress) -> Result<usize, StoreError> {
        self.write(|db| lessons::learn(db, transcript, lesson, progress))
    }

    fn learnings(&mut self, wanted: &Wanted) -> Result<Vec<StoredLearning>, StoreError> {
        self.read(|db| learnings::learnings(db, wanted))
    }

    fn tallies(&mut self, session: i64) -> Result<Vec<(Option<String>, Tally)>, StoreError> {
        self.read(|db| learnings::tallies(db, session))
    }

    fn fixes(&mut self, project: Option<&str>, limit: usize) -> Result<Vec<StoredFix>, StoreError> {
        self.read(|db| learnings::fixes(db, project, limit))
    }

    fn changed_files(&mut self, project: Option<&str>, limit: usize) -> Result<Vec<Vec<String>>, StoreError> {
        self.read(|db| learnings::changed_files(db, project, limit))
    }

    fn optimise(&mut self) -> Result<(), StoreError> {
        self.write(changes::forget)
    }
}

impl Vectors for PostgresStore {
    fn refusal(&mut self) -> Result<Option<String>, StoreError> {
        self.with_vectors().map_or_else(without_extension, |()| Ok(None))
    }

    fn missing(
        &mut self,
        model: &str,
        dimensions: usize,
        below: i64,
        most: usize,
    ) -> Result<Vec<(i64, digest::Bytes)>, StoreError> {
        self.without_vectors(model, dimensions, below, most)
    }

    fn keep(&mut self, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), StoreError> {
        self.put_vectors(model, vectors)
    }
}

/// What there is to say where the extension for vectors is missing.
fn without_extension(error: StoreError) -> Result<Option<String>, StoreError> {
    match PostgresError::of(&error) {
        Some(PostgresError::NoVectors { .. }) => Ok(Some(error.to_string())),
        _ => Err(error),
    }
}
