//! Processor time of redaction, beside that of a SHA-256 of the same text.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::Result;
use ctxbridge::common::digest;
use ctxbridge::redact::Redactor;
use ctxbridge_testkit::transcript::{Kind, Spec, generate};

use super::MAX_SECONDS;
use super::hostile::{self, HostileText};
use crate::tools::root;

/// Sizes of hostile texts in bytes, of which the second is four times the first.
const SIZES: [usize; 2] = [256 << 10, 1 << 20];
/// Ratio of their times from which on a text counts as superlinear. Linear is 4; the machine does other things as well.
const MAX_RATIO: f64 = 6.0;
/// Hostile texts that are shown unless all are wanted.
const SHOWN: usize = 12;
/// Measurements of a text, the shortest of which counts.
const RUNS: usize = 3;

/// Measured times of a hostile text.
struct Measured {
    text: HostileText,
    seconds_per_mb: f64,
    ratio: f64,
    of_reference: f64,
}

impl Measured {
    fn is_bad(&self) -> bool {
        self.seconds_per_mb > MAX_SECONDS || self.ratio > MAX_RATIO
    }
}

/// Prints both tables. `false` if a text takes too long.
pub fn print(only: Option<&str>, shows_all: bool) -> Result<bool> {
    if only.is_none() {
        ordinary()?;
        println!();
    }
    let mut all: Vec<Measured> =
        hostile::texts().filter(|text| only.is_none_or(|only| text.piece.contains(only))).map(measured).collect();
    all.sort_by(|one, other| other.seconds_per_mb.total_cmp(&one.seconds_per_mb));
    let bad = all.iter().filter(|measured| measured.is_bad()).count();
    println!("| hostile text | s/MB | 1 MiB : 256 KiB | of SHA-256 | |");
    println!("| --- | --: | --: | --: | --- |");
    for (number, measured) in all.iter().enumerate() {
        if shows_all || number < SHOWN || measured.is_bad() {
            let Measured { text, seconds_per_mb, ratio, of_reference } = measured;
            let mark = if measured.is_bad() { "too long" } else { "" };
            println!("| `{}` | {seconds_per_mb:.3} | {ratio:.1} | {of_reference:.0} | {mark} |", text.name());
        }
    }
    println!("\n{} hostile texts, {bad} above {MAX_SECONDS} s/MB or {MAX_RATIO} : 1", all.len());
    Ok(bad == 0)
}

/// The source code of this repository, as one text and file by file, and a made-up transcript by lines.
fn ordinary() -> Result<()> {
    let redactor = Redactor::standard();
    let mut files = Vec::new();
    read_sources(&root().join("src"), &mut files)?;
    let whole = files.concat();
    let folder = tempfile::tempdir()?;
    let made = generate(&Spec::new(Kind::Tools, 3_000, 7), folder.path())?;
    let transcript = fs::read(&made.sessions[0].path)?;
    println!("| ordinary text | s/MB | of SHA-256 |");
    println!("| --- | --: | --: |");
    let row = |name: &str, bytes: &[u8], redact: &dyn Fn()| {
        let (took, reference) = (shortest(redact), shortest(&|| hash(bytes)));
        println!("| {name}, {:.1} MB | {:.4} | {:.1} |", mb(bytes.len()), took / mb(bytes.len()), took / reference);
    };
    row("source code", whole.as_bytes(), &|| drop(std::hint::black_box(redactor.redact(&whole))));
    row("source code, file by file", whole.as_bytes(), &|| {
        files.iter().for_each(|file| drop(std::hint::black_box(redactor.redact(file))));
    });
    row("transcript, line by line", &transcript, &|| {
        let lines = transcript.split_inclusive(|byte| *byte == b'\n');
        lines.for_each(|line| drop(std::hint::black_box(redactor.redact_line(line))));
    });
    Ok(())
}

fn read_sources(folder: &Path, files: &mut Vec<String>) -> Result<()> {
    let mut paths: Vec<_> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(fs::read_to_string(path)?);
        }
    }
    Ok(())
}

fn measured(text: HostileText) -> Measured {
    let redact = |text: &str| drop(std::hint::black_box(Redactor::standard().redact(text)));
    let [short, long] = SIZES.map(|bytes| text.of(bytes));
    // Patterns are compiled when they are needed first.
    redact(&text.of(SIZES[0] / 64));
    let took = shortest(&|| redact(&long));
    Measured {
        seconds_per_mb: took / mb(long.len()),
        ratio: took / shortest(&|| redact(&short)),
        of_reference: took / shortest(&|| hash(long.as_bytes())),
        text,
    }
}

fn mb(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

/// The shortest of several measurements in seconds.
fn shortest(what: &dyn Fn()) -> f64 {
    let measure = || {
        let begun = processor_seconds();
        what();
        processor_seconds() - begun
    };
    (0..RUNS).map(|_| measure()).fold(f64::MAX, f64::min).max(1e-9)
}

/// Processor time of this thread, which other processes change less than the time of a clock; that one where the system does not
/// tell.
fn processor_seconds() -> f64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    // Linux brings the number up to date when a thread yields.
    std::thread::yield_now();
    let used = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = used.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    nanoseconds.map_or_else(|| BEGUN.get_or_init(Instant::now).elapsed().as_secs_f64(), |number| number * 1e-9)
}

/// The reference.
fn hash(bytes: &[u8]) {
    std::hint::black_box(digest::sha256(bytes));
}
