//! How fast a PostgreSQL server takes an archive, and how fast it searches one.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use ctxbridge::archive::ingest::archive_through;
use ctxbridge::archive::reader::Comparison;
use ctxbridge::archive::search::filter::Filter;
use ctxbridge::archive::search::query::Terms;
use ctxbridge::archive::search::tokens::Tokenizer;
use ctxbridge::archive::store::postgres::{PostgresStore, Settings, Ssl};
use ctxbridge::archive::store::sqlite::{Patience, SqliteStore};
use ctxbridge::archive::store::{Appended, Batch, Store, Transcript};
use ctxbridge_testkit::Rng;
use ctxbridge_testkit::postgres::{Database, Server};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};

#[derive(Debug, clap::Args)]
pub struct PostgresArgs {
    /// Turns that are sent
    #[arg(long, default_value_t = 100_000)]
    turns: u64,
    /// Rows that are searched
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Runs of each query
    #[arg(long, default_value_t = 20)]
    runs: usize,
}

/// Turns of a session, and messages and bytes that make as many.
const TURNS: u64 = 3_600;
const MESSAGES: u64 = 10_000;
const BYTES: u64 = 1_000;

/// The model that made-up vectors are of.
const MODEL: &str = "minilm-384";

pub fn run(args: &PostgresArgs) -> Result<bool> {
    let server =
        Server::start_with(&ctxbridge::paths::cache_dir()?, &["shared_buffers=1GB", "max_wal_size=8GB", "work_mem=16MB"])?;
    let database = Database::on(server.address())?;
    drop(PostgresStore::connect(settings(&database.url())?)?);
    let role = database.role("somebody", "")?;
    let mut store = PostgresStore::connect(Settings { tenant: "bench".to_owned(), ..settings(&database.url_of(&role))? })?;
    send(args, &mut store)?;
    if args.rows > 0 {
        search(args, &database, &mut store)?;
    }
    Ok(true)
}

fn settings(url: &str) -> Result<Settings> {
    Ok(Settings { ssl: Ssl::Off, statement_timeout: Duration::from_secs(3_600), ..Settings::from_url(url)? })
}

fn send(args: &PostgresArgs, store: &mut PostgresStore) -> Result<()> {
    let (mut took, mut turns, mut content, mut raw) = (Duration::ZERO, 0, 0, 0);
    for seed in 0..args.turns.div_ceil(TURNS) {
        let batches = batches(seed)?;
        let begun = Instant::now();
        for batch in &batches {
            if store.append(batch)? == Appended::Moved {
                bail!("somebody else writes");
            }
        }
        took += begun.elapsed();
        turns += batches.iter().map(|batch| batch.turns.len() as u64).sum::<u64>();
        content += batches.iter().flat_map(|batch| &batch.turns).map(|turn| turn.content_chars).sum::<u64>();
        raw += batches.iter().flat_map(|batch| &batch.segments).map(|piece| u64::from(piece.bytes)).sum::<u64>();
    }
    let (seconds, count) = (took.as_secs_f64(), turns as f64);
    println!("\n| what | turns a second | a turn | target |\n| --- | --- | --- | --- |");
    println!(
        "| sent by loopback | {:.0} | {:.0} characters, {:.0} bytes of transcript | ≥ 10,000 |",
        count / seconds,
        content as f64 / count,
        raw as f64 / count
    );
    Ok(())
}

/// What a pass over a session finds.
fn batches(seed: u64) -> Result<Vec<Batch>> {
    let folder = tempfile::tempdir()?;
    let made = generate(&Spec { bytes: Some(MESSAGES * BYTES), ..Spec::new(Kind::Chat, MESSAGES, seed) }, folder.path())?;
    let path = &made.sessions.first().context("no session was made")?.path;
    let transcript = Transcript::at(path);
    let mut nowhere = SqliteStore::open(folder.path(), Patience::Patient)?;
    let mut batches = Vec::new();
    archive_through(&mut nowhere, &transcript, path, Comparison::End, &mut |_, batch| {
        batches.push(batch.clone());
        Ok(Appended::Done)
    })?;
    Ok(batches)
}

fn search(args: &PostgresArgs, database: &Database, store: &mut PostgresStore) -> Result<()> {
    grow(args.rows, database)?;
    let tokenizer = Tokenizer::default();
    let mut admin = database.admin()?;
    let words = |low: f64, high: f64, admin: &mut postgres::Client| -> Result<Vec<String>> {
        let sql = "SELECT e.word FROM pg_stats s, unnest(s.most_common_elems::text::text[], s.most_common_elem_freqs[1:cardinality(
            s.most_common_elems::text::text[])]) AS e (word, share) WHERE s.schemaname = 'ctxbridge' AND s.tablename = 'texts'
            AND s.attname = 'words' AND s.inherited AND e.share BETWEEN $1::float8 AND $2::float8 AND e.word ~ '^[a-z]{3,}$' ORDER BY e.word";
        Ok(admin.query(sql, &[&low, &high])?.iter().map(|row| row.get(0)).collect())
    };
    println!("\n| query | median | slowest | found |\n| --- | --- | --- | --- |");
    let mut rng = Rng::new(7);
    for (name, low, high) in
        [("words that few turns have", 0.0001, 0.002), ("usual words", 0.002, 0.03), ("words of every tenth turn", 0.08, 1.0)]
    {
        let known = words(low, high, &mut admin)?;
        if known.len() < 3 {
            println!("| {name} | no such words | | |");
            continue;
        }
        let (mut by_words, mut near, mut hybrid, mut found) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for _ in 0..args.runs {
            let query: Vec<&str> = (0..3).map(|_| known[(rng.roll() * known.len() as f64) as usize].as_str()).collect();
            let expression = Terms::of(&query.join(" "), &tokenizer).expression(&[]).unwrap_or_default();
            let vector: Vec<f32> = (0..384).map(|_| rng.roll() as f32 - 0.5).collect();
            let begun = Instant::now();
            found += store.search_words(&expression, &Filter::default(), 100)?.len();
            let middle = Instant::now();
            store.search_near(MODEL, &vector, &Filter::default(), 100)?;
            by_words.push(middle - begun);
            near.push(middle.elapsed());
            hybrid.push(begun.elapsed());
        }
        for (what, times) in [("by words", &mut by_words), ("by meaning", &mut near), ("hybrid", &mut hybrid)] {
            times.sort_unstable();
            let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1_000.0);
            println!(
                "| {name}, {what} | {:.1} ms | {:.1} ms | {} |",
                ms(times.get(times.len() / 2)),
                ms(times.last()),
                found / args.runs
            );
        }
    }
    Ok(())
}

/// Copies what there is until there is as much as is wanted, with vectors of their own.
fn grow(rows: u64, database: &Database) -> Result<()> {
    let mut admin = database.admin()?;
    let is_large = |admin: &mut postgres::Client| -> Result<i64> {
        Ok(admin.query_one("SELECT count(*) FROM ctxbridge.texts", &[])?.get(0))
    };
    let begun = is_large(&mut admin)?;
    let mut copies = 0_i64;
    eprintln!("copying to {rows} rows");
    while is_large(&mut admin)? < rows as i64 {
        copies += 1;
        admin.batch_execute(&format!(
            "INSERT INTO ctxbridge.entries (tenant, owner, sha256, chars, content) SELECT tenant, owner, sha256(sha256 || '\\x{copies:08x}'::bytea), chars, content
                FROM ctxbridge.entries WHERE metadata IS NOT NULL;
             INSERT INTO ctxbridge.texts SELECT t.tenant, t.session, t.owner, t.audience, n.id, t.started_ms, t.tools, t.files, t.words
                FROM ctxbridge.texts t JOIN ctxbridge.entries e ON e.id = t.entry AND e.tenant = t.tenant AND e.metadata IS NOT NULL
                JOIN ctxbridge.entries n ON n.tenant = t.tenant AND n.owner = t.owner AND n.sha256 = sha256(e.sha256 || '\\x{copies:08x}'::bytea)"
        ))?;
    }
    eprintln!("{begun} rows copied {copies} times; vectors");
    // An index that is made at once takes a tenth of the time of one that grows.
    let indexes = "SELECT indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'ctxbridge' AND tablename = 'embeddings' AND indexdef LIKE '%hnsw%'";
    let index = admin.query_one(indexes, &[])?;
    let (name, definition): (String, String) = (index.get(0), index.get(1));
    admin.batch_execute(&format!(
        "DROP INDEX ctxbridge.{name};
         INSERT INTO ctxbridge.embeddings (tenant, entry, owner, passage, model, embedding)
            SELECT tenant, id, owner, 0, '{MODEL}', (SELECT array_agg(random()::real - 0.5 + id * 0) FROM generate_series(1, 384))
            FROM ctxbridge.entries;
         SET maintenance_work_mem = '4GB'; SET max_parallel_maintenance_workers = 2; {definition}; ANALYZE"
    ))?;
    Ok(())
}
