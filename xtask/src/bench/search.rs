//! Duration of a search, on made-up sessions.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ctxbridge::archive::search::query::QueryTerms;
use ctxbridge::archive::search::{Mode, SearchIndex, SearchRequest, Searcher};
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::vectors::embed::QUANTIZED;
use ctxbridge::vectors::embed::install::{self, MODEL};
use ctxbridge_testkit::Rng;
use ctxbridge_testkit::transcript::Kind;

use super::measure::Pairs;
use super::scratch::Scratch;

#[derive(Debug, clap::Args)]
pub struct BenchSearchArgs {
    /// Turns in the archive
    #[arg(long, default_value_t = 100_000)]
    turns: u64,
    /// Runs of each query
    #[arg(long, default_value_t = 11)]
    runs: usize,
}

/// Turns of a session, and messages and bytes that make as many.
const TURNS: u64 = 14_500;
const MESSAGES: u64 = 40_000;
const BYTES: u64 = 1_300;
/// Queries of a kind.
const QUERIES: usize = 5;
/// Words of a query of one kind.
const WORDS: usize = 3;
/// Kinds of queries, by the share of entries that have a word.
const KINDS: [(&str, std::ops::Range<f64>); 3] =
    [("words that few turns have", 0.0..0.001), ("usual words", 0.001..0.03), ("words of every tenth turn", 0.1..1.0)];
/// Queries of all kinds of words at once, behind the others.
const LONG: &str = "nine words of all kinds";
/// Groups that made-up vectors are in.
const TOPICS: usize = 500;

pub fn run(args: &BenchSearchArgs) -> Result<bool> {
    let scratch = Scratch::new()?;
    for seed in 0..args.turns.div_ceil(TURNS) {
        scratch.generate(Kind::Chat, MESSAGES.min(args.turns * 11 / 4), MESSAGES.min(args.turns * 11 / 4) * BYTES, seed)?;
    }
    scratch.import()?;
    eprintln!("indexing");
    scratch.run(&["archive", "optimize"])?;
    let data = scratch.data();
    let queries = queries(&data)?;
    let kinds: Vec<(&str, &Vec<String>)> = KINDS.iter().map(|(name, _)| *name).chain([LONG]).zip(&queries).collect();
    println!("\n{} runs of {QUERIES} queries, medians [lowest – highest]\n", args.runs);
    println!("| what | reference | ratio | target | time | peak memory | reference's |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    // Without a model, meaning is compared by the static embedding.
    for (mode, target) in [("lexical", "≤ 20 ms"), ("hybrid", "≤ 40 ms")] {
        for (name, queries) in &kinds {
            let mut pairs = Pairs::default();
            for query in *queries {
                scratch.run(&["archive", "search", "--mode", mode, query])?;
            }
            for query in queries.iter().cycle().take(args.runs * QUERIES) {
                let base = scratch.run(&["--version"])?;
                pairs.push(scratch.run(&["archive", "search", "--mode", mode, query])?, base);
            }
            pairs.print(&format!("`archive search`, {mode}, {name}"), "`ctxbridge --version`", target);
        }
    }
    println!("\n| in a server | median | slowest of 20 | target |\n| --- | --- | --- | --- |");
    let mut store = SqliteStore::open(&data, LockPolicy::Background)?;
    let mut finder = Searcher::new(data.clone());
    for (name, queries) in &kinds {
        served(&format!("by words, {name}"), "≤ 5 ms", &mut finder, &mut store, queries, Mode::Lexical, args.runs)?;
    }
    let model = install::folder()?;
    if !model.exists() {
        eprintln!("the model is not installed, so it is not measured; `ctxbridge model install` brings it");
        return Ok(true);
    }
    let vectors = give_vectors(&data)?;
    link(&model, &install::folder_in(&data))?;
    let mut finder = Searcher::new(data);
    for (name, queries) in &kinds {
        served(&format!("hybrid, {name}"), "≤ 30 ms", &mut finder, &mut store, queries, Mode::Hybrid, args.runs)?;
    }
    let mut pairs = Pairs::default();
    for query in queries[1].iter().cycle().take(args.runs * QUERIES) {
        let base = scratch.run(&["--version"])?;
        pairs.push(scratch.run(&["archive", "search", "--mode", "hybrid", query])?, base);
    }
    println!("\n{vectors} made-up vectors\n");
    pairs.print("`archive search`, hybrid, usual words", "`ctxbridge --version`", "");
    Ok(true)
}

/// Queries of words that are in the archive, by how many entries have them.
fn queries(data: &Path) -> Result<Vec<Vec<String>>> {
    let index = SearchIndex::open(data)?;
    let all = index.count()?;
    let mut words: Vec<Vec<String>> = vec![Vec::new(); KINDS.len()];
    let mut seen = HashSet::new();
    // All over the archive, in steps that have nothing to do with its sessions.
    for entry in (1..=all as i64).step_by(997) {
        let Some(excerpt) = index.excerpt(entry)? else { continue };
        let text = format!("{} {}", excerpt.prompt, excerpt.answer);
        let mut found = Vec::new();
        index.tokenizer().tokens(&text, &mut |token| {
            let typed = &text[token.range];
            if typed.len() > 3 && typed.bytes().all(|byte| byte.is_ascii_lowercase()) && seen.insert(token.word.clone()) {
                found.push((typed.to_owned(), token.word));
            }
        });
        for (typed, word) in found {
            let terms = QueryTerms { words: vec![word.clone()], ..QueryTerms::default() };
            let docs = index.prepare_rare(&terms, usize::MAX)?.terms().first().map_or(0, |term| term.docs);
            let share = docs as f64 / all as f64;
            if let Some(at) = KINDS.iter().position(|(_, range)| range.contains(&share)) {
                words[at].push(typed);
            }
        }
        if words.iter().all(|words| words.len() >= QUERIES * WORDS) {
            break;
        }
    }
    let of_kind = |words: Vec<String>| {
        ensure!(words.len() >= WORDS, "the archive has not enough words of each kind");
        Ok((0..QUERIES)
            .map(|at| (0..WORDS).map(|n| words[(at * WORDS + n) % words.len()].as_str()).collect::<Vec<_>>().join(" "))
            .collect())
    };
    let mut queries: Vec<Vec<String>> = words.into_iter().map(of_kind).collect::<Result<_>>()?;
    let long = (0..QUERIES).map(|at| queries.iter().map(|of_kind| of_kind[at].as_str()).collect::<Vec<_>>().join(" "));
    queries.push(long.collect());
    Ok(queries)
}

/// Searches as a server does, which keeps what it has opened.
fn served(
    name: &str,
    goal: &str,
    finder: &mut Searcher,
    store: &mut SqliteStore,
    queries: &[String],
    mode: Mode,
    runs: usize,
) -> Result<()> {
    let mut times: Vec<Duration> = Vec::new();
    for (at, query) in queries.iter().cycle().take((runs + 1) * queries.len()).enumerate() {
        let request = SearchRequest { mode: Some(mode), ..SearchRequest::new(query) };
        let begun = Instant::now();
        let found = finder.search(store, &request, usize::MAX, &mut |_| {})?;
        let took = begun.elapsed();
        ensure!(found.mode == mode, "{}", found.notes.join("; "));
        // The first of each opens what is kept.
        if at >= queries.len() {
            times.push(took);
        }
    }
    times.sort_unstable();
    let ms = |at: usize| times.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    println!("| {name} | {:.1} ms | {:.1} ms | {goal} |", ms(times.len() / 2), ms(times.len() * 19 / 20));
    Ok(())
}

/// Makes up a vector for each entry. Real ones of 100,000 turns would take an hour, and the time of a search does not depend on the
/// texts behind them.
fn give_vectors(data: &Path) -> Result<usize> {
    const DIMENSIONS: usize = 384;
    let mut index = SearchIndex::open(data)?;
    let mut rng = Rng::new(1);
    let mut around = |center: Option<&Vec<f32>>| -> Vec<f32> {
        let value = |at: usize, noise: f64| center.map_or(0.0, |center| center[at]) + (noise - 0.5) as f32 * 0.1;
        let values: Vec<f32> = (0..DIMENSIONS).map(|at| value(at, rng.roll())).collect();
        let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        values.into_iter().map(|value| value / length).collect()
    };
    let topics: Vec<Vec<f32>> = (0..TOPICS).map(|_| around(None)).collect();
    let mut count = 0;
    index.switch_model(MODEL)?;
    loop {
        let entries = index.without_vectors(MODEL, 1_000)?;
        if entries.is_empty() {
            index.refresh_ann_file(MODEL, DIMENSIONS)?;
            return Ok(count);
        }
        let given: Vec<_> =
            entries.iter().map(|entry| (*entry, vec![around(topics.get(*entry as usize * 7 % TOPICS))])).collect();
        index.set_vectors(MODEL, &given)?;
        count += given.len();
    }
}

fn link(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for name in install::MODEL_FILES.iter().map(|file| file.name).chain([QUANTIZED]) {
        let (from, to) = (from.join(name), to.join(name));
        if std::fs::hard_link(&from, &to).is_err() {
            std::fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
    }
    Ok(())
}
