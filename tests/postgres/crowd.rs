//! Several who write a large archive, and one who reads it meanwhile.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ctxbridge::archive::ingest::ingest_from;
use ctxbridge::archive::reader::{Comparison, TranscriptSource};
use ctxbridge::archive::search::filter::Filter;
use ctxbridge::archive::store::{MaintenanceStore, SearchBackend, StoreReader, Transcript};
use ctxbridge::team::postgres::{ConnectionSettings, PostgresStore};
use ctxbridge_testkit::share_of;
use serde_json::json;

use super::{database, settings, settings_of};

const WRITERS: usize = 4;
const SESSIONS: usize = 5;

/// Turns of a session: 100,000 in all in a full run.
fn turns() -> usize {
    share_of(5_000) as usize
}

/// A transcript of which every turn has as many bytes.
struct Made {
    bytes: Vec<u8>,
    of_turn: usize,
    of_prompt: usize,
}

struct Bytes<'b>(&'b [u8]);

impl TranscriptSource for Bytes<'_> {
    fn read(&mut self, start: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.extend(self.0.iter().skip(start as usize).take(length as usize));
        Ok(())
    }
}

impl Made {
    fn new(session: usize) -> Self {
        let mut made = Self { bytes: Vec::new(), of_turn: 0, of_prompt: 0 };
        for turn in 0..turns() {
            let at = |second: usize| format!("2026-06-01T{:02}:{:02}:{:02}.000Z", turn / 3600, turn / 60 % 60, second);
            let uuid = |line: usize| format!("{session:08x}-{line:04x}-4000-8000-{turn:012x}");
            let prompt = json!({ "type": "user", "uuid": uuid(1), "sessionId": name(session), "cwd": "/p", "timestamp": at(10),
                "message": { "role": "user", "content": format!("prompt{session:02}x{turn:06} and {}", "y".repeat(400)) } });
            let answer = json!({ "type": "assistant", "uuid": uuid(2), "sessionId": name(session), "timestamp": at(11),
                "message": { "id": format!("msg_{turn:06}"), "type": "message", "role": "assistant", "model": "m",
                    "content": [{ "type": "text", "text": format!("answer{session:02}x{turn:06} {}", "z".repeat(300)) }] } });
            let (prompt, answer) = (format!("{prompt}\n"), format!("{answer}\n"));
            (made.of_prompt, made.of_turn) = (prompt.len(), prompt.len() + answer.len());
            made.bytes.extend(prompt.into_bytes());
            made.bytes.extend(answer.into_bytes());
        }
        assert_eq!(made.bytes.len(), made.of_turn * turns());
        made
    }

    /// Turns of which so many bytes have the prompt.
    fn turns_in(&self, bytes: i64) -> i64 {
        let rest = bytes as usize % self.of_turn;
        (bytes as usize / self.of_turn + usize::from(rest >= self.of_prompt)) as i64
    }
}

fn name(session: usize) -> String {
    format!("{session:08x}-0000-4000-8000-000000000000")
}

/// What one statement sees of each transcript: its bytes, those of its pieces, its turns, the place of the last one, and its texts.
const SEEN: &str = "SELECT t.bytes, (SELECT coalesce(sum(l.bytes), 0)::bigint FROM ctxbridge.layout l WHERE l.session = t.session),
        u.turns, u.last, (SELECT count(*) FROM ctxbridge.entries e JOIN ctxbridge.turns u ON u.tenant = e.tenant AND u.entry = e.id WHERE u.session = t.session)
    FROM ctxbridge.transcripts t,
        LATERAL (SELECT count(*) AS turns, max(idx)::bigint AS last FROM ctxbridge.turns u WHERE u.session = t.session) AS u";

#[test]
fn four_write_and_one_reads() {
    let database = database();
    drop(PostgresStore::connect(settings(&database)).unwrap());
    let role = database.role("judy", "").unwrap();
    let settings = ConnectionSettings { tenant: "crowd".to_owned(), ..settings_of(&database, &role) };
    drop(PostgresStore::connect(settings.clone()).unwrap());
    let is_done = AtomicBool::new(false);
    let like = Made::new(0);
    let looked = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut client = database.client_of(&role).unwrap();
            let mut looked = 0;
            loop {
                let is_last = is_done.load(Ordering::SeqCst);
                for row in client.query(SEEN, &[]).unwrap() {
                    let [bytes, pieces, turns, last, entries]: [i64; 5] = std::array::from_fn(|column| row.get(column));
                    // A batch is there with all that belongs to it.
                    assert_eq!((pieces, turns, last, entries), (bytes, like.turns_in(bytes), turns - 1, turns), "{bytes}");
                    looked += 1;
                }
                if is_last {
                    return looked;
                }
                // Writers are looked at in the middle of their work, not kept from it.
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let settings = settings.clone();
                scope.spawn(move || {
                    let mut store = PostgresStore::connect(settings).unwrap();
                    for session in (0..SESSIONS).map(|session| writer * SESSIONS + session) {
                        let transcript = Transcript {
                            path: format!("/made/{session}.jsonl"),
                            session: name(session),
                            part: Default::default(),
                        };
                        let made = Made::new(session);
                        let length = made.bytes.len() as u64;
                        ingest_from(&mut store, &transcript, Comparison::End, &mut || (Box::new(Bytes(&made.bytes)), length))
                            .unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_done.store(true, Ordering::SeqCst);
        reader.join().unwrap()
    });
    assert!(looked >= WRITERS * SESSIONS);
    let mut store = PostgresStore::connect(settings).unwrap();
    store.checkpoint().unwrap();
    let totals = store.totals().unwrap();
    let all = (WRITERS * SESSIONS * turns()) as u64;
    assert_eq!((totals.sessions, totals.turns, totals.entries), ((WRITERS * SESSIONS) as u64, all, all));
    let counts = "SELECT count(DISTINCT uuid), (SELECT count(*) FROM ctxbridge.texts) FROM ctxbridge.turns";
    let row = database.admin().unwrap().query_one(counts, &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (all as i64, all as i64));
    for session in [0, 7, WRITERS * SESSIONS - 1] {
        for turn in [0, turns() / 2, turns() - 1] {
            let word = format!("\"prompt{session:02}x{turn:06}\"");
            assert_eq!(store.search_text(&word, &Filter::default(), 9).unwrap().len(), 1, "{word}");
        }
    }
}
