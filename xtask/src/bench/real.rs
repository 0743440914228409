//! Real transcripts through the archive: everything has to come back, and most has to be understood.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::store::sqlite::{LockPolicy, SqliteStore};
use ctxbridge::archive::store::{
    CursorReader, EVERYTHING, SegmentReader, SessionReader, StoreReader, Transcript, TurnReader, TurnSelection,
};
use ctxbridge::archive::transcript_paths::transcripts_below;
use ctxbridge::common::digest;
use ctxbridge::transcript::{RecordKind, WholeFile, records};

#[derive(Debug, clap::Args)]
pub struct RealArgs {
    /// Folder of transcripts; each folder in it is a row of the table
    #[arg(long, value_name = "FOLDER")]
    corpus: PathBuf,
}

/// Figures of some transcripts.
#[derive(Clone, Copy, Debug, Default)]
struct CorpusFigures {
    transcripts: u64,
    bytes: u64,
    stored: u64,
    lines: u64,
    bad_lines: u64,
    turns: u64,
    machine_prompts: u64,
    rewinds: u64,
    rewound_turns: u64,
    titled: u64,
    output_files: u64,
    missing_files: u64,
    differ: u64,
    reading: Duration,
    importing: Duration,
    restoring: Duration,
}

impl CorpusFigures {
    fn add(&mut self, other: &Self) {
        for (sum, part) in [
            (&mut self.transcripts, other.transcripts),
            (&mut self.bytes, other.bytes),
            (&mut self.stored, other.stored),
            (&mut self.lines, other.lines),
            (&mut self.bad_lines, other.bad_lines),
            (&mut self.turns, other.turns),
            (&mut self.machine_prompts, other.machine_prompts),
            (&mut self.rewinds, other.rewinds),
            (&mut self.rewound_turns, other.rewound_turns),
            (&mut self.titled, other.titled),
            (&mut self.output_files, other.output_files),
            (&mut self.missing_files, other.missing_files),
            (&mut self.differ, other.differ),
        ] {
            *sum += part;
        }
        self.reading += other.reading;
        self.importing += other.importing;
        self.restoring += other.restoring;
    }

    fn row(&self, name: &str) -> String {
        let ratio = |time: Duration| time.as_secs_f64() / self.reading.as_secs_f64().max(1e-9);
        let understood = 100.0 * (self.lines - self.bad_lines) as f64 / self.lines.max(1) as f64;
        format!(
            "| {name} | {} | {:.1} MB | {:.1} x | {:.1} x | {} | {:.2} % | {understood:.3} % of {} | {} | {} | {} in {} | {} | {} of {} |",
            self.transcripts,
            self.bytes as f64 / 1e6,
            ratio(self.importing),
            ratio(self.restoring),
            self.transcripts - self.differ,
            100.0 * self.stored as f64 / self.bytes.max(1) as f64,
            self.lines,
            self.turns,
            self.machine_prompts,
            self.rewound_turns,
            self.rewinds,
            self.titled,
            self.missing_files,
            self.output_files,
        )
    }
}

pub fn run(args: &RealArgs) -> Result<bool> {
    let mut rows: BTreeMap<String, CorpusFigures> = BTreeMap::new();
    let paths = transcripts_below(&args.corpus, &mut |path, error| eprintln!("{}: {error}", path.display()));
    if paths.is_empty() {
        bail!("there are no transcripts (.jsonl) in {}", args.corpus.display());
    }
    for path in &paths {
        let found = measure(path).with_context(|| path.display().to_string())?;
        if found.differ > 0 {
            eprintln!("{} does not come back as it is", path.display());
        }
        rows.entry(row_of(&args.corpus, path)).or_default().add(&found);
    }
    let mut all = CorpusFigures::default();
    rows.values().for_each(|row| all.add(row));
    println!(
        "| folder | transcripts | size | import | restore | same to the byte | archive | understood lines | turns | prompts nobody typed | rewound turns | titles | output files missing |"
    );
    println!("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |");
    for (name, row) in &rows {
        println!("{}", row.row(name));
    }
    println!("{}", all.row("all"));
    println!("\nTimes are shares of reading the same files and hashing them, in this process and run.");
    Ok(all.differ == 0)
}

/// The folder that a transcript counts for: the first one below the corpus that has several.
fn row_of(corpus: &Path, path: &Path) -> String {
    let inner = path.strip_prefix(corpus).unwrap_or(path);
    let folders: Vec<_> = inner.parent().into_iter().flat_map(Path::components).collect();
    folders.last().map_or_else(|| ".".to_owned(), |folder| folder.as_os_str().to_string_lossy().into_owned())
}

fn measure(path: &Path) -> Result<CorpusFigures> {
    let start = Instant::now();
    let bytes = fs::read(path)?;
    let hash = digest::sha256(&bytes);
    let mut found =
        CorpusFigures { transcripts: 1, bytes: bytes.len() as u64, reading: start.elapsed(), ..CorpusFigures::default() };

    let folder = tempfile::tempdir()?;
    let mut store = SqliteStore::open(folder.path(), LockPolicy::Background)?;
    let transcript = Transcript::at(path);
    let start = Instant::now();
    let pass = ingest(&mut store, &transcript, path)?;
    found.importing = start.elapsed();
    let ended = pass.interpreter.at_end(&mut WholeFile(&bytes));
    let seen = ended.as_ref().unwrap_or(&pass.interpreter).session_metadata();
    (found.lines, found.bad_lines) = (seen.lines, seen.bad_lines);
    found.titled = u64::from(seen.title.is_some());

    let Some(session) = store.session(&transcript.session)? else { return Ok(found) };
    for stored in store.transcripts(session.key)? {
        let start = Instant::now();
        let mut restored = Vec::new();
        store.read_bytes(stored.key, stored.generation, EVERYTHING, &mut restored)?;
        found.restoring += start.elapsed();
        found.differ += u64::from(digest::sha256(&restored) != hash);
        let cursor = store.cursor(&stored.path)?;
        found.rewinds += cursor.map_or(0, |cursor| cursor.interpreter.rewound().len() as u64);
    }
    found.turns = store.turns(session.key, TurnSelection::All)?.len() as u64;
    let superseded = store.turns(session.key, TurnSelection::Superseded)?;
    found.rewound_turns = superseded.iter().filter(|turn| turn.is_rewound).count() as u64;
    found.stored = store.totals()?.bytes_segments;
    records(&bytes, &mut |record| {
        found.machine_prompts += u64::from(record.kind() == RecordKind::Echo && record.is_machine_prompt());
        if let Some(file) = record.output_file() {
            found.output_files += 1;
            found.missing_files += u64::from(!is_beside(path, file));
        }
    });
    Ok(found)
}

/// `true` if the file that a line names is in the session's own folder, wherever that is by now.
fn is_beside(transcript: &Path, file: &str) -> bool {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    transcript.with_extension("").join("tool-results").join(name).is_file()
}
