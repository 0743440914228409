//! Time of extracting learnings: in answers alone, and in a session that is archived. With a corpus: precision and recall on it.

mod labels;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ctxbridge::archive::learn::{LearningPatterns, extract, learn_from_session, sentences};
use ctxbridge::archive::snapshot::{MAX_TOPIC_TEXT_BYTES, topics};
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{SessionReader, TurnReader, TurnSelection};
use ctxbridge::archive::turn_text;
use ctxbridge_testkit::transcript::Kind;
use serde_json::Value;

use super::scratch::Scratch;
use crate::tools::root;

#[derive(Debug, clap::Args)]
pub struct LearnArgs {
    /// Messages
    #[arg(long, default_value_t = 1_000)]
    messages: u64,
    /// Runs of each
    #[arg(long, default_value_t = 15)]
    runs: usize,
    /// Folder of real transcripts to compare with fixtures/learnings/real.json; nothing is timed then
    #[arg(long, value_name = "FOLDER")]
    pub corpus: Option<PathBuf>,
}

/// Bytes of a message of a session that is made up.
const BYTES: u64 = 1_800;

pub fn run(args: &LearnArgs) -> Result<bool> {
    if let Some(corpus) = &args.corpus {
        return labels::run(corpus, &root().join("fixtures/learnings/real.json"));
    }
    let path = root().join("fixtures/learnings/passages.json");
    let set: Value =
        serde_json::from_str(&fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?)?;
    let texts: Vec<&str> =
        set["passages"].as_array().context("no passages")?.iter().filter_map(|one| one["text"].as_str()).collect();
    let messages: Vec<&str> = texts.iter().copied().cycle().take(args.messages as usize).collect();
    // The first use of a pattern compiles it.
    let begun = Instant::now();
    let patterns = LearningPatterns::standard();
    let found: usize = messages.iter().map(|text| extract(patterns, text).len()).sum();
    let first = begun.elapsed();
    println!("| what | reference | ratio | time, median |");
    println!("| --- | --- | --- | --- |");
    let extracted = median(args.runs, || drop(messages.iter().map(|text| extract(patterns, text)).collect::<Vec<_>>()));
    let cut = median(args.runs, || drop(messages.iter().map(|text| sentences(text)).collect::<Vec<_>>()));
    let name = format!("{} answers, {found} learnings", messages.len());
    println!("| {name} | cutting them into sentences | {:.2} | {:.1} ms |", ratio(extracted, cut), ms(extracted));
    let window = window(&texts);
    let told = median(args.runs, || drop(topics(&window)));
    let cut = median(args.runs, || drop(sentences(&window)));
    println!(
        "| topics of a window of {} KB | cutting it into sentences | {:.2} | {:.1} ms |",
        window.len() >> 10,
        ratio(told, cut),
        ms(told)
    );
    let (learned, read) = in_an_archive(args, patterns)?;
    let name = format!("a session of {} messages in the archive", args.messages);
    println!("| {name} | reading its words | {:.2} | {:.1} ms |", ratio(learned, read), ms(learned));
    println!("\nThe first time takes {:.1} ms more: patterns are compiled.", ms(first.saturating_sub(extracted)));
    Ok(true)
}

/// As much as a snapshot looks at.
fn window(texts: &[&str]) -> String {
    let mut window = String::new();
    for text in texts.iter().cycle() {
        if window.len() + text.len() > MAX_TOPIC_TEXT_BYTES {
            break;
        }
        window.push_str(text);
        window.push_str("\n\n");
    }
    window
}

fn in_an_archive(args: &LearnArgs, patterns: &LearningPatterns) -> Result<(Duration, Duration)> {
    let scratch = Scratch::new()?;
    scratch.generate(Kind::Tools, args.messages, args.messages * BYTES, 1)?;
    scratch.import()?;
    let mut store = SqliteStore::open(&scratch.data(), LockPolicy::Background)?;
    let session = store.sessions("", None, 1)?.pop().context("no session was archived")?;
    let turns = store.turns(session.key, TurnSelection::All)?;
    let read = median(args.runs, || {
        turns.iter().for_each(|turn| drop(turn_text::fields(&mut store, turn)));
    });
    let mut times = Vec::new();
    for run in 0..args.runs {
        // Other patterns have all of it looked through again.
        let patterns = patterns.clone().with("bench", &format!("without = ['run-{run}']"))?;
        let begun = Instant::now();
        learn_from_session(&mut store, &session, &patterns, None)?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok((times[times.len() / 2], read))
}

fn median(runs: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs.max(1))
        .map(|_| {
            let begun = Instant::now();
            work();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64().max(f64::EPSILON)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
