//! Sending an archive to a PostgreSQL server, and searching one there.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ctxbridge::archive::import::import;
use ctxbridge::archive::learn::LearningPatterns;
use ctxbridge::archive::reader::Comparison;
use ctxbridge::archive::search::filter::Filter;
use ctxbridge::archive::search::query::QueryTerms;
use ctxbridge::archive::search::tokens::Tokenizer;
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{SearchBackend, StoreReader};
use ctxbridge::redact::Redactor;
use ctxbridge::team::postgres::{ConnectionPool, ConnectionSettings, PostgresStore, TlsMode};
use ctxbridge::team::sync::{RetryPolicy, SyncRun};
use ctxbridge_testkit::Rng;
use ctxbridge_testkit::postgres::{Server, TestDatabase};
use ctxbridge_testkit::transcript::{Kind, Spec, generate};

#[derive(Debug, clap::Args)]
pub struct PostgresArgs {
    /// Turns that are sent
    #[arg(long, default_value_t = 100_000)]
    turns: u64,
    /// Bytes of a message: a turn has 2.8 of them
    #[arg(long, default_value_t = 1_000)]
    bytes: u64,
    /// Rows that are searched
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Runs of each query
    #[arg(long, default_value_t = 20)]
    runs: usize,
}

/// Turns of a session, and messages that make as many.
const TURNS: u64 = 3_600;
const MESSAGES: u64 = 10_000;

/// Searches that are not counted.
const WARMING: usize = 300;

/// The model that made-up vectors are of.
const MODEL: &str = "minilm-384";

pub fn run(args: &PostgresArgs) -> Result<bool> {
    let settings_of_server = ["shared_buffers=6GB", "max_wal_size=8GB", "work_mem=16MB", "log_line_prefix=%u "];
    let server = Server::start_with(&ctxbridge::common::paths::cache_dir()?, &settings_of_server)?;
    let database = TestDatabase::on(server.address())?;
    drop(PostgresStore::connect(settings(&database.url())?)?);
    let role = database.role("somebody", "")?;
    let pool = ConnectionPool::new(ConnectionSettings { tenant: "bench".to_owned(), ..settings(&database.url_of(&role))? });
    send(args, &pool)?;
    if args.rows > 0 {
        grow(args.rows, &database)?;
        // The server writes down what each statement takes there; connections from now on are asked for that.
        let log = format!("ALTER ROLE {} SET log_min_duration_statement = 0", role.name);
        database.admin()?.batch_execute(&log)?;
        let mut store =
            PostgresStore::connect(ConnectionSettings { tenant: "bench".to_owned(), ..settings(&database.url_of(&role))? })?;
        search(args, &server, &database, &mut store)?;
    }
    Ok(true)
}

fn settings(url: &str) -> Result<ConnectionSettings> {
    Ok(ConnectionSettings {
        ssl: TlsMode::Off,
        statement_timeout: Duration::from_secs(3_600),
        ..ConnectionSettings::from_url(url)?
    })
}

/// All that `archive sync` does, but for vectors; and an import of the same sessions on this machine as its reference.
fn send(args: &PostgresArgs, pool: &ConnectionPool) -> Result<()> {
    let (sessions, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut paths: Vec<PathBuf> = Vec::new();
    for seed in 0..args.turns.div_ceil(TURNS) {
        let spec = Spec { bytes: Some(MESSAGES * args.bytes), ..Spec::new(Kind::Chat, MESSAGES, seed) };
        paths.extend(generate(&spec, sessions.path())?.sessions.into_iter().map(|session| session.path));
    }
    let begun = Instant::now();
    let imported = import(data.path(), &paths, Comparison::Whole, ctxbridge::archive::ingest::NO_FOLLOW_UP, &|_| {})?;
    let local = begun.elapsed();
    let open = || SqliteStore::open(data.path(), LockPolicy::Background);
    let turns = open()?.totals()?.turns;
    let name = "the server of the benchmark";
    let sending = SyncRun {
        data: data.path(),
        from: &|| Ok(Box::new(open()?)),
        to: &|| Ok(Box::new(PostgresStore::of(pool)?)),
        name,
        redactor: Redactor::standard(),
        patterns: &LearningPatterns::of_user().0,
        model: None,
        is_full_resync: false,
        deadline: None,
        retries: RetryPolicy::default(),
        now_ms: 1_780_000_000_000,
    };
    // When the last session is there, and when the server has sorted their words in.
    let (there, sorted) = (OnceLock::new(), Mutex::new(Duration::ZERO));
    let begun = Instant::now();
    let sent = sending.run(&|done| {
        if done.sessions == paths.len() {
            there.get_or_init(|| begun.elapsed());
        }
        if done.derived == 0 {
            *sorted.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = begun.elapsed();
        }
    })?;
    let whole = begun.elapsed();
    let there = there.into_inner().unwrap_or(whole);
    let sorted = sorted.into_inner().unwrap_or_default();
    ensure!(sent.failed.is_empty() && sent.turns >= turns && turns >= args.turns, "{sent:?}, of {turns} turns");
    ensure!(PostgresStore::of(pool)?.totals()?.turns == turns, "the server has not all of {turns} turns");
    let again = Instant::now();
    ensure!(sending.run(&|_| {})?.sessions == 0, "something is sent twice");
    let again = again.elapsed();
    let each = |took: Duration| turns as f64 / took.as_secs_f64();
    println!("\n{turns} turns of {:.0} bytes of transcript\n", imported.bytes as f64 / turns as f64);
    println!("| what | turns a second | against the import | target |\n| --- | --- | --- | --- |");
    println!("| import of the same sessions, on this machine | {:.0} | 1 | |", each(local));
    for (what, took, target) in [
        ("sync, until every turn is there", there, "≥ 10,000"),
        ("sync, with all words sorted in", sorted, ""),
        ("sync, with learnings and snapshots", whole, ""),
    ] {
        println!("| {what} | {:.0} | {:.2} | {target} |", each(took), took.as_secs_f64() / local.as_secs_f64());
    }
    println!(
        "| sync once more, with nothing new | {:.1} s | {:.2} | |",
        again.as_secs_f64(),
        again.as_secs_f64() / local.as_secs_f64()
    );
    Ok(())
}

/// Durations of a function's calls, as the server reports them, in milliseconds, in their order.
fn took(server: &Server, function: &str) -> Vec<f64> {
    let mut all = Vec::new();
    // A statement is logged as it is planned, given its parameters, and executed: the last two belong to each call.
    let mut bound = 0.0;
    for line in server.log().lines().filter(|line| line.contains(function)) {
        let Some((_, rest)) = line.split_once("duration: ") else { continue };
        let Some((ms, what)) = rest.split_once(" ms  ") else { continue };
        let Ok(ms) = ms.parse::<f64>() else { continue };
        if what.starts_with("bind") {
            bound = ms;
        } else if what.starts_with("execute") {
            all.push(bound + ms);
        }
    }
    all
}

fn search(args: &PostgresArgs, server: &Server, database: &TestDatabase, store: &mut PostgresStore) -> Result<()> {
    let tokenizer = Tokenizer::default();
    let mut admin = database.admin()?;
    let sample = "SELECT count(*)::float8 FROM ctxbridge.texts TABLESAMPLE SYSTEM (1) REPEATABLE (7)";
    let sampled: f64 = admin.query_one(sample, &[])?.get(0);
    let words = |low: f64, high: f64, admin: &mut postgres::Client| -> Result<Vec<String>> {
        // Statistics of the server know the thousand words only that most texts have.
        let sql = "SELECT word FROM ts_stat('SELECT words FROM ctxbridge.texts TABLESAMPLE SYSTEM (1) REPEATABLE (7)')
            WHERE ndoc BETWEEN $1::float8 * $3 AND $2::float8 * $3 AND word ~ '^[a-z0-9_]{3,}$' ORDER BY word";
        Ok(admin.query(sql, &[&low, &high, &sampled])?.iter().map(|row| row.get(0)).collect())
    };
    let rows: i64 = admin.query_one("SELECT count(*) FROM ctxbridge.texts", &[])?.get(0);
    println!("\n{rows} rows; medians of {} runs (slowest), in the server's process\n", args.runs);
    println!("| three words each | by words | by meaning | both | target | found |\n| --- | --- | --- | --- | --- | --- |");
    let mut rng = Rng::new(7);
    let meaning = |rng: &mut Rng| (0..384).map(|_| rng.roll() as f32 - 0.5).collect::<Vec<f32>>();
    // A server that is used has its index in memory; one that was just filled reads it from the disk.
    for _ in 0..WARMING {
        store.search_vectors(MODEL, &meaning(&mut rng), &Filter::default(), 100)?;
    }
    for (name, low, high) in
        [("words that few turns have", 0.0001, 0.002), ("usual words", 0.002, 0.03), ("words of every tenth turn", 0.08, 1.0)]
    {
        let known = words(low, high, &mut admin)?;
        if known.len() < 3 {
            println!("| {name} | no such words | | | | |");
            continue;
        }
        let mut found = 0;
        let times = || ["find_words(", "find_near("].map(|function| took(server, function));
        let before = times().map(|times| times.len());
        for _ in 0..args.runs {
            let query: Vec<&str> = (0..3).map(|_| known[(rng.roll() * known.len() as f64) as usize].as_str()).collect();
            let expression = QueryTerms::of(&query.join(" "), &tokenizer).expression(&[]).unwrap_or_default();
            let vector = meaning(&mut rng);
            found += store.search_text(&expression, &Filter::default(), 100)?.len();
            store.search_vectors(MODEL, &vector, &Filter::default(), 100)?;
        }
        let [mut by_words, mut near] = times();
        by_words.drain(..before[0]);
        near.drain(..before[1]);
        ensure!(by_words.len() == args.runs && near.len() == args.runs, "the server has logged other calls than those");
        let both: Vec<f64> = by_words.iter().zip(&near).map(|(words, near)| words + near).collect();
        let columns = [by_words, near, both].map(|mut times| {
            times.sort_by(f64::total_cmp);
            let last = times.last().copied().unwrap_or_default();
            format!("{:.1} ms ({last:.1})", times.get(times.len() / 2).copied().unwrap_or_default())
        });
        println!("| {name} | {} | ≤ 50 ms | {} |", columns.join(" | "), found / args.runs);
    }
    Ok(())
}

/// Copies rows until there are `rows` of them. The copies have vectors of their own.
fn grow(rows: u64, database: &TestDatabase) -> Result<()> {
    let mut admin = database.admin()?;
    let is_large = |admin: &mut postgres::Client| -> Result<i64> {
        Ok(admin.query_one("SELECT count(*) FROM ctxbridge.texts", &[])?.get(0))
    };
    let begun = is_large(&mut admin)?;
    let mut copies = 0_i64;
    eprintln!("copying to {rows} rows");
    // What the server has not counted it joins as if it were empty: each with each.
    admin.batch_execute("ANALYZE; SET enable_nestloop = off")?;
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
    // What the server says of it makes none of the partitions'.
    let definition = definition.replace(" ON ONLY ", " ON ");
    admin.batch_execute(&format!(
        "DROP INDEX ctxbridge.{name};
         INSERT INTO ctxbridge.embeddings (tenant, entry, owner, passage, model, embedding)
            SELECT tenant, id, owner, 0, '{MODEL}', (SELECT array_agg((random() - 0.5 + 0 * n + 0 * id)::real) FROM generate_series(1, 384) AS n)
            FROM ctxbridge.entries;
         SET maintenance_work_mem = '4GB'; SET max_parallel_maintenance_workers = 2; {definition}; ANALYZE"
    ))?;
    Ok(())
}
