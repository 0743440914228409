/*!
`bench vectors`: the file for vector search against comparing all vectors. Each query goes to both in sequence, so that ratios hold
whatever else the machine does.
*/

mod data;

use std::collections::HashSet;
use std::convert::Infallible;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use ctxbridge::vectors::ann::{AnnFile, AnnIdentity, Effort, VectorRow};
use ctxbridge::vectors::embed::install;
use ctxbridge::vectors::{Matrix, Quantized};
use ctxbridge_testkit::Rng;

use self::data::DIMENSIONS;

/// Number of nearest vectors to find, of which recall is computed.
const WANTED: usize = 10;
/// Number of measurements of opening.
const OPENED: usize = 21;

#[derive(Debug, clap::Args)]
pub struct VectorsArgs {
    /// Texts, one a line, no two alike; their vectors are kept beside them
    texts: PathBuf,
    /// Number of vectors to search; if there are fewer texts, mixtures of near ones are added
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000")]
    counts: Vec<usize>,
    /// Number of queries: the first texts
    #[arg(long, default_value_t = 200)]
    queries: usize,
    /// Number of lists to scan, in place of the usual; several to choose from
    #[arg(long, value_delimiter = ',')]
    lists: Vec<usize>,
    /// Number of vectors to rescore, in place of the usual
    #[arg(long, value_delimiter = ',')]
    rescored: Vec<usize>,
    /// Folder of the model, if not the installed one
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Folder for the files; they take 0.5 GB for a million
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

pub fn run(args: &VectorsArgs) -> Result<bool> {
    if cfg!(debug_assertions) {
        eprintln!("warning: times are those of a development build; `cargo run --release --package xtask -- bench vectors`");
    }
    ensure!(args.queries > 0, "there must be queries");
    let model = args.model.clone().map_or_else(install::folder, Ok)?;
    let most = args.counts.iter().max().copied().unwrap_or_default();
    let real = data::real(&args.texts, &model, most.saturating_add(args.queries))?;
    let (queries, real) = real.split_at_checked(args.queries * DIMENSIONS).context("there are more queries than texts")?;
    let queries: Vec<&[f32]> = queries.chunks_exact(DIMENSIONS).collect();
    let scratch = match &args.scratch {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    println!(
        "| vectors, real | entries allowed | lists | rescored | recall@{WANTED} | ratio | ms, p95 | all compared, ms, p95 |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for count in &args.counts {
        let (vectors, have) = data::fill(real, *count)?;
        size(args, &queries, &vectors, have, &scratch.path().join("vectors"))?;
    }
    Ok(true)
}

/// The rows of one size.
fn size(args: &VectorsArgs, queries: &[&[f32]], vectors: &[f32], have: usize, path: &Path) -> Result<()> {
    let identity = AnnIdentity { model: "minilm-384".to_owned(), dimensions: DIMENSIONS, index_id: [7; 16] };
    let count = vectors.len() / DIMENSIONS;
    let quantized = || vectors.chunks_exact(DIMENSIONS).map(Quantized::of);
    let rows = quantized()
        .enumerate()
        .map(|(at, vector)| Ok::<_, Infallible>(VectorRow { id: at as i64, entry: entry(at as i64), vector }));
    let begun = Instant::now();
    AnnFile::write(path, &identity, rows)?;
    let built = begun.elapsed();
    let open = || AnnFile::open(path, &identity)?.context("it was just written");
    let mut opened = (0..OPENED).map(|_| timed(open).map(|(_, time)| time)).collect::<Result<Vec<_>>>()?;
    let [opened, _] = quantiles(&mut opened);
    let megabytes = fs::metadata(path)?.len() as f64 / 1e6;
    eprintln!("{count} vectors: written in {:.1} s, {megabytes:.1} MB, opened in {opened:.2} ms", built.as_secs_f64());
    let nearest = open()?;
    let mut all = Matrix::new(DIMENSIONS);
    for (id, vector) in quantized().enumerate() {
        ensure!(all.add(id as i64, &vector.to_bytes()), "a vector is of another size");
    }
    let usual = nearest.effort();
    let or = |given: &[usize], usual| if given.is_empty() { vec![usual] } else { given.to_vec() };
    for lists in or(&args.lists, usual.lists) {
        for rescored in or(&args.rescored, usual.rescored) {
            row(queries, &nearest, &all, have, Effort { lists, rescored }, None)?;
        }
    }
    let mut rng = Rng::new(99);
    for share in [0.5, 0.1, 0.01, 0.0001] {
        let allowed = (0..=entry(count as i64 - 1)).filter(|_| rng.roll() < share).collect();
        row(queries, &nearest, &all, have, usual, Some(&allowed))?;
    }
    Ok(())
}

/// Turns have two passages.
fn entry(id: i64) -> i64 {
    id / 2
}

fn row(
    queries: &[&[f32]],
    nearest: &AnnFile,
    all: &Matrix,
    have: usize,
    effort: Effort,
    allowed: Option<&HashSet<i64>>,
) -> Result<()> {
    let (mut hits, mut wanted) = (0, 0);
    let (mut own, mut base, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for query in queries {
        let (exact, base_time) = timed(|| Ok(compare(all, query, allowed)))?;
        let (found, own_time) = timed(|| Ok(nearest.search_with(effort, query, allowed, WANTED)?))?;
        hits += exact.iter().filter(|id| found.iter().any(|one| one.id == **id)).count();
        wanted += exact.len();
        own.push(own_time);
        base.push(base_time);
        ratios.push(own_time / base_time);
    }
    let ([ratio, _], [own, own_late], [base, base_late]) = (quantiles(&mut ratios), quantiles(&mut own), quantiles(&mut base));
    println!(
        "| {}, {have} | {} | {} | {} | {:.3} | {ratio:.3} | {own:.2}, {own_late:.2} | {base:.2}, {base_late:.2} |",
        all.len(),
        allowed.map_or_else(|| "all".to_owned(), |allowed| allowed.len().to_string()),
        effort.lists,
        effort.rescored,
        hits as f64 / wanted as f64,
    );
    Ok(())
}

/// The ids of the nearest, by comparing all that are allowed.
fn compare(all: &Matrix, query: &[f32], allowed: Option<&HashSet<i64>>) -> Vec<i64> {
    let is_allowed = |id: i64| allowed.is_none_or(|allowed| allowed.contains(&entry(id)));
    let mut best: Vec<(i64, f32)> = all.scan(query).filter(|(id, _)| is_allowed(*id)).collect();
    let order = |one: &(i64, f32), other: &(i64, f32)| other.1.total_cmp(&one.1);
    if best.len() > WANTED {
        best.select_nth_unstable_by(WANTED, order);
        best.truncate(WANTED);
    }
    best.sort_unstable_by(order);
    best.into_iter().map(|(id, _)| id).collect()
}

/// Runs work, and returns its result and its duration in milliseconds.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let begun = Instant::now();
    let done = black_box(work()?);
    Ok((done, milliseconds(begun.elapsed())))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The median and the 95th percentile.
fn quantiles(figures: &mut [f64]) -> [f64; 2] {
    figures.sort_by(f64::total_cmp);
    [50, 95].map(|percent| figures.get(figures.len() * percent / 100).copied().unwrap_or(f64::NAN))
}
