//! An archive in JSON Lines: opening it reads the journal, and every hook opens it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::store::jsonl::JsonlStore;
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{MaintenanceStore, Store, Transcript, TurnSelection};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub struct JsonlArgs {
    /// Turns, a table row each
    #[arg(long, value_delimiter = ',', default_values_t = [5_000, 50_000, 100_000])]
    turns: Vec<u32>,
    /// Turns of a session
    #[arg(long, default_value_t = 500)]
    session: u32,
    /// Measurements of each kind, of which the median is shown
    #[arg(long, default_value_t = 7)]
    runs: usize,
}

pub fn run(args: &JsonlArgs) -> Result<bool> {
    println!(
        "| turns | archived in (SQLite) | journal | opened in | as small as can be | opened in | hook: open, append | of SQLite | 200 hooks later, opened in |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for turns in &args.turns {
        let scratch = tempfile::tempdir()?;
        let (folder, other) = (scratch.path().join("jsonl"), scratch.path().join("sqlite"));
        std::fs::create_dir(&other)?;
        let sessions: Vec<_> =
            (0..turns.div_ceil(args.session)).map(|number| MeasuredSession::new(scratch.path(), number)).collect();
        let mut left = *turns;
        for session in &sessions {
            let here = left.min(args.session);
            session.write(0..here)?;
            left -= here;
        }
        let archived = |store: &mut dyn Store| -> Result<Duration> {
            let begun = Instant::now();
            sessions.iter().try_for_each(|session| ingest(store, &session.transcript(), &session.path).map(drop))?;
            Ok(begun.elapsed())
        };
        let took = archived(&mut JsonlStore::open(&folder, LockPolicy::Background)?)?;
        let took_sqlite = archived(&mut SqliteStore::open(&other, LockPolicy::Background)?)?;
        let journal = journal(&folder)?;
        let open = || JsonlStore::open(&folder, LockPolicy::Interactive);
        let opened = median(args.runs, || open().map(drop))?;
        open()?.optimize()?;
        let small = self::journal(&folder)?;
        let opened_small = median(args.runs, || open().map(drop))?;
        let mut next = args.session;
        let last = &sessions[sessions.len() / 2];
        let mut hook = |store: &mut dyn Store| -> Result<()> {
            last.write(next..next + 1)?;
            next += 1;
            ingest(store, &last.transcript(), &last.path)?;
            let key = store.session(&last.id)?.map_or(0, |session| session.key);
            store.turns(key, TurnSelection::Newest(5)).map(drop)?;
            Ok(())
        };
        let hooked = median(args.runs, || hook(&mut open()?))?;
        let hooked_sqlite = median(args.runs, || hook(&mut SqliteStore::open(&other, LockPolicy::Interactive)?))?;
        for _ in 0..200 {
            hook(&mut open()?)?;
        }
        let later = median(args.runs, || open().map(drop))?;
        println!(
            "| {turns} | {} ({}) | {} | {} | {} | {} | {} | {} | {} |",
            ms(took),
            ms(took_sqlite),
            mb(journal),
            ms(opened),
            mb(small),
            ms(opened_small),
            ms(hooked),
            ms(hooked_sqlite),
            ms(later),
        );
    }
    Ok(true)
}

struct MeasuredSession {
    id: String,
    path: std::path::PathBuf,
}

impl MeasuredSession {
    fn new(folder: &Path, number: u32) -> Self {
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        Self { path: folder.join(format!("{id}.jsonl")), id }
    }

    fn transcript(&self) -> Transcript {
        Transcript { path: self.path.to_string_lossy().into_owned(), session: self.id.clone(), part: Default::default() }
    }

    /// Adds turns: a prompt, a call with its result, an answer.
    fn write(&self, turns: std::ops::Range<u32>) -> Result<()> {
        let mut text = String::new();
        for turn in turns {
            for step in 0..4_u32 {
                let uuid = format!("{:08x}-{step:04x}-4000-8000-{:012x}", turn.wrapping_mul(2_654_435_761), turn);
                let (kind, role) = if step % 2 == 0 { ("user", "user") } else { ("assistant", "assistant") };
                let content = match step {
                    0 => json!(format!("Why does test {turn} of {} fail on the second run?", self.id)),
                    1 => {
                        json!([{ "type": "tool_use", "id": format!("toolu_{turn}"), "name": "Read", "input": { "file_path": format!("/work/p/src/file{}.rs", turn % 90) } }])
                    }
                    2 => {
                        json!([{ "type": "tool_result", "tool_use_id": format!("toolu_{turn}"), "content": format!("fn test_{turn}() {{ assert!(cache.is_empty()); }}\n").repeat(8) }])
                    }
                    _ => {
                        json!([{ "type": "text", "text": format!("Test {turn} leaves its cache behind, so the second run of it finds what the first one wrote. I clear it first.") }])
                    }
                };
                let mut message = json!({ "role": role, "content": content });
                if kind == "assistant" {
                    message["id"] = format!("msg_{turn}_{step}").into();
                    message["model"] = "claude-sonnet-4-5".into();
                    message["usage"] =
                        json!({ "input_tokens": 10, "cache_read_input_tokens": 30_000 + turn, "output_tokens": 50 });
                }
                let minutes = turn % 1_440;
                let line = json!({
                    "type": kind, "uuid": uuid, "sessionId": self.id, "cwd": "/work/p", "version": "2.1.330", "isSidechain": false,
                    "timestamp": format!("2026-06-{:02}T{:02}:{:02}:{step:02}.000Z", 1 + turn / 1_440 % 28, minutes / 60, minutes % 60),
                    "message": message,
                });
                text += &format!("{line}\n");
            }
        }
        let mut file = std::fs::File::options().create(true).append(true).open(&self.path)?;
        Ok(std::io::Write::write_all(&mut file, text.as_bytes())?)
    }
}

fn journal(folder: &Path) -> Result<u64> {
    Ok(folder.join("journal.jsonl").metadata()?.len())
}

fn median<E>(runs: usize, mut what: impl FnMut() -> Result<(), E>) -> Result<Duration, E> {
    let mut times = Vec::new();
    for _ in 0..runs.max(1) {
        let begun = Instant::now();
        what()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn ms(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}

fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
