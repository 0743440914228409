//! An archive of turns that have nothing but an age and a content.

use ctxbridge::archive::maintain::run_maintenance;
use ctxbridge::archive::maintenance::{MaintenanceMode, MaintenanceReport, RetentionSettings};
use ctxbridge::archive::store::{AppendOutcome, ArchiveTotals, Batch, Cursor, Store, StoredTurn, Transcript, TurnSelection};
use ctxbridge::config;
use ctxbridge::transcript::{CompactSummary, Interpreter, Turn};
use tempfile::TempDir;

use super::kinds::{self, Kind};

pub const HOUR: i64 = 3_600_000;
pub const DAY: i64 = 24 * HOUR;
pub const NOW: i64 = 1_780_000_000_000;

pub struct Place {
    pub kind: Kind,
    pub store: Box<dyn Store>,
    pub data: TempDir,
}

/// The settings that nobody changed.
pub fn usual() -> RetentionSettings {
    RetentionSettings::from(&config::ArchiveSettings::default())
}

impl Place {
    pub fn new(kind: Kind) -> Self {
        let data = tempfile::tempdir().unwrap();
        Self { kind, store: kind.open(data.path()), data }
    }

    /// Adds turns to a session, each with its begin and content; turns of the same content are one entry.
    pub fn add(&mut self, session: &str, turns: &[(i64, u32)]) {
        self.add_with(session, turns, Vec::new());
    }

    pub fn add_with(&mut self, session: &str, turns: &[(i64, u32)], summaries: Vec<CompactSummary>) {
        let transcript = Transcript { path: format!("/{session}.jsonl"), session: session.to_owned(), part: Default::default() };
        let before = self.store.cursor(&transcript.path).unwrap().map_or(0, |cursor| cursor.bytes);
        let follows = (before > 0).then_some((0, before));
        let turns: Vec<Turn> = turns.iter().zip(before as u32..).map(|(turn, index)| a_turn(index, *turn)).collect();
        let bytes = before + turns.len() as u64;
        let cursor = Cursor { generation: 0, bytes, check: [0; 32], interpreter: Interpreter::default() };
        let (segments, first_contexts) = (Vec::new(), Vec::new());
        let batch = Batch {
            transcript,
            expected_cursor: follows,
            rewritten: None,
            segments,
            turns,
            summaries,
            first_contexts,
            path_changes: Vec::new(),
            cursor,
        };
        assert_eq!(self.store.append(&batch).unwrap(), AppendOutcome::Committed);
    }

    pub fn key(&mut self, session: &str) -> i64 {
        self.store.session(session).unwrap().unwrap().key
    }

    pub fn turns(&mut self, session: &str) -> Vec<StoredTurn> {
        let key = self.key(session);
        self.store.turns(key, TurnSelection::All).unwrap()
    }

    /// Contents of the turns that are ranked after a compaction.
    pub fn candidates(&mut self, session: &str) -> Vec<u32> {
        let key = self.key(session);
        let mut found: Vec<u32> = self.store.turns(key, TurnSelection::Candidates(1_000)).unwrap().iter().map(content).collect();
        found.sort_unstable();
        found
    }

    /// Contents of the turns that are pruned.
    pub fn pruned(&mut self, session: &str) -> Vec<u32> {
        self.turns(session).iter().filter(|turn| turn.is_pruned).map(content).collect()
    }

    pub fn entry(&mut self, session: &str, wanted: u32) -> i64 {
        self.turns(session).iter().find(|turn| content(turn) == wanted).unwrap().entry
    }

    pub fn run(&mut self, run: MaintenanceMode, now_ms: i64) -> MaintenanceReport {
        run_maintenance(&mut *self.store, &usual(), run, now_ms).unwrap()
    }

    pub fn cycle(&mut self, now_ms: i64) -> MaintenanceReport {
        self.run(MaintenanceMode::Apply, now_ms)
    }

    /// All that is known of what is in it.
    pub fn dump(&mut self) -> String {
        // That there was a cycle may be noted down where it did nothing.
        let totals = ArchiveTotals { bytes_stored: 0, ..self.store.totals().unwrap() };
        let mut dump = format!("{totals:?}\n");
        for session in self.store.sessions("", None, usize::MAX).unwrap() {
            dump += &format!("{session:?} {:?}\n", self.store.session_stats(session.key).unwrap());
            for which in [
                TurnSelection::All,
                TurnSelection::Superseded,
                TurnSelection::Agents,
                TurnSelection::Candidates(1_000),
                TurnSelection::Pinned,
            ] {
                dump += &format!("{which:?}: {:?}\n", self.store.turns(session.key, which).unwrap());
            }
            dump += &format!("{:?}\n", self.store.summaries(session.key).unwrap());
        }
        dump += &format!("{:?}\n", self.store.compactions(None, i64::MIN).unwrap());
        match self.kind {
            Kind::Sqlite => dump + &self.rows(),
            Kind::Jsonl => dump,
            #[cfg(unix)]
            Kind::Postgres => dump + &kinds::server::rows(self.data.path()),
        }
    }

    /// All rows of the database, but for segments.
    fn rows(&self) -> String {
        let db = kinds::database(self.data.path());
        let mut dump = String::new();
        for table in ["sessions", "transcripts", "entries", "turns", "compactions", "notes", "decays", "kept"] {
            let mut rows = db.prepare(&format!("SELECT * FROM {table} ORDER BY 1")).unwrap();
            let columns = rows.column_count();
            let mut rows = rows.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                let row: Vec<_> = (0..columns).map(|at| format!("{:?}", row.get_ref(at).unwrap())).collect();
                dump += &format!("{table}: {}\n", row.join(", "));
            }
        }
        dump
    }
}

pub fn content(turn: &StoredTurn) -> u32 {
    u32::from_be_bytes(turn.turn.content_sha256[..4].try_into().unwrap())
}

fn a_turn(index: u32, (started_ms, content): (i64, u32)) -> Turn {
    let mut sha256 = [0; 32];
    sha256[..4].copy_from_slice(&content.to_be_bytes());
    let named = |there: bool| there.then(|| "Bash".to_owned()).into_iter().collect();
    Turn {
        index,
        start: index.into(),
        end: u64::from(index) + 1,
        id: u128::from(index).to_be_bytes(),
        started_ms,
        ended_ms: started_ms,
        content_sha256: sha256,
        content_chars: 1,
        tools: named(content % 2 == 1),
        files: Vec::new(),
        agents: Vec::new(),
        context_tokens: None,
        output_tokens: 0,
        is_answered: true,
        open_work: Vec::new(),
        is_kept: false,
    }
}
