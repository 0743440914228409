//! Time and memory of archiving and restoring, on made-up sessions.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use ctxbridge_testkit::transcript::{Kind, Made, Spec, append_turn, generate};

use super::measure::{Pairs, own_peak, program};
use super::scratch::{MeasuredHook, Scratch};

#[derive(Debug, clap::Args)]
pub struct BenchArchiveArgs {
    /// Pairs of runs of a hook; the long ones are run less often
    #[arg(long, default_value_t = 21)]
    runs: usize,
    /// Size of what is imported, in GB; twice as much has to be free in the temporary folder
    #[arg(long, default_value_t = 1.0)]
    gb: f64,
    /// In place of the cases, import so many sessions of two to four messages, and search once
    #[arg(long, value_name = "N")]
    sessions: Option<u64>,
    /// A tenth of every size, to see that it runs
    #[arg(long)]
    quick: bool,
    /// Only some of the cases
    #[arg(long, value_delimiter = ',')]
    only: Vec<Case>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// A turn more in sessions of three lengths
    Prompt,
    /// A long session that was never archived
    First,
    /// The restore from a large archive
    Restore,
    /// Everything that there is
    Import,
}

/// Bytes for a message of a long chat.
const CHAT: u64 = 1_800;
/// And where many sessions are needed, as short as they come.
const SHORT: u64 = 1_300;
/// Bytes for a message where little but its line is wanted.
const SMALL: u64 = 700;
/// Minutes after which no further case is started.
const PATIENCE: u64 = 40;

pub fn run(args: &BenchArchiveArgs) -> Result<bool> {
    let bench = ArchiveBench { begun: Instant::now(), runs: args.runs, scale: if args.quick { 10 } else { 1 } };
    println!("\n{} pairs of runs, medians [lowest – highest]\n", args.runs);
    println!("| what | reference | ratio | target | time | peak memory | reference's |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    if let Some(sessions) = args.sessions {
        return bench.small_sessions(sessions).map(|()| true);
    }
    let wanted = |case| args.only.is_empty() || args.only.contains(&case);
    if wanted(Case::Prompt) {
        bench.prompt()?;
    }
    if wanted(Case::First) {
        bench.first()?;
    }
    if wanted(Case::Restore) {
        bench.restore("5 sessions of 20,000 turns", 5, 20_000)?;
        bench.restore("one session of 100,000 turns", 1, 100_000)?;
    }
    if wanted(Case::Import) {
        bench.import(args.gb)?;
    }
    println!(
        "\nA child begins with the peak of the process that starts it: {:.1} MB here, so nothing less can be seen.",
        own_peak()
    );
    Ok(true)
}

struct ArchiveBench {
    begun: Instant,
    runs: usize,
    scale: u64,
}

impl ArchiveBench {
    /// The hook that the user waits for: one new turn, in sessions that are in the archive already.
    fn prompt(&self) -> Result<()> {
        let mut cases = Vec::new();
        for messages in [500, 5_000, 50_000].map(|messages| messages / self.scale) {
            let scratch = Scratch::new()?;
            let made = scratch.generate(Kind::Chat, messages, messages * CHAT, messages)?;
            let transcript = only(&made);
            scratch.hook(MeasuredHook::Stop, &transcript)?;
            scratch.check(made.human_turns(), made.bytes())?;
            cases.push((messages, scratch, transcript, made.human_turns(), Pairs::default()));
        }
        for run in 0..=self.runs {
            self.in_time()?;
            // Each length is first, second and third equally often.
            for at in 0..cases.len() {
                let number = (at + run) % cases.len();
                let (messages, scratch, transcript, ..) = &cases[number];
                append_turn(transcript, *messages * 1_000 + run as u64)?;
                let base = scratch.run(&["--version"])?;
                let own = scratch.hook(MeasuredHook::UserPromptSubmit, transcript)?;
                // The first run of each warms the file cache.
                if run > 0 {
                    cases[number].4.push(own, base);
                }
            }
        }
        for (messages, scratch, transcript, turns, pairs) in &cases {
            scratch.check(turns + self.runs as u64, std::fs::metadata(transcript)?.len())?;
            pairs.print(&format!("`hook user-prompt-submit`, {messages} messages"), "`ctxbridge --version`", "≤ 10 ms, ≤ 25 MB");
        }
        Ok(())
    }

    /// The first hook in a long session.
    fn first(&self) -> Result<()> {
        let messages = 50_000 / self.scale;
        let scratch = Scratch::new()?;
        let made = scratch.generate(Kind::Chat, messages, messages * CHAT, 1)?;
        let transcript = only(&made);
        let mut pairs = Pairs::default();
        for run in 0..=self.runs.min(7) {
            self.in_time()?;
            scratch.forget()?;
            let base = super::measure::measure(&mut reference("hash", &transcript))?;
            let own = scratch.hook(MeasuredHook::Stop, &transcript)?;
            if run > 0 {
                pairs.push(own, base);
            }
        }
        scratch.check(made.human_turns(), made.bytes())?;
        let share = scratch.archive_bytes()? as f64 / made.bytes() as f64;
        let name = format!("`hook stop`, first archive of {messages} messages, {:.0} MB", made.bytes() as f64 / 1e6);
        pairs.print(&name, "read and hash", "≤ 1500 ms, ≤ 120 MB");
        println!("| its database | the transcript | {:.3} | ≤ 0.25 | | | |", share);
        Ok(())
    }

    /// The restore after a compaction, from a large archive.
    fn restore(&self, what: &str, sessions: u64, turns: u64) -> Result<()> {
        let scratch = Scratch::new()?;
        let messages = turns * 11 / 4 / self.scale;
        let mut transcripts = Vec::new();
        let mut found = 0;
        for seed in 0..sessions {
            let made = scratch.generate(Kind::Chat, messages, messages * SHORT, 100 + seed)?;
            found += made.human_turns();
            transcripts.push(only(&made));
        }
        scratch.import()?;
        scratch.check(found, 0)?;
        let transcript = &transcripts[0];
        let restored = scratch.hook_output(MeasuredHook::SessionStart, transcript)?;
        ensure!(!restored.trim().is_empty(), "session-start restored nothing: what was measured is no restore");
        let mut pairs = Pairs::default();
        for _ in 0..self.runs {
            self.in_time()?;
            let base = scratch.run(&["--version"])?;
            pairs.push(scratch.hook(MeasuredHook::SessionStart, transcript)?, base);
        }
        pairs.print(&format!("`hook session-start`, {what} ({found} in all)"), "`ctxbridge --version`", "≤ 30 ms");
        Ok(())
    }

    /// All kinds of sessions, against reading and parsing them on one thread.
    fn import(&self, gb: f64) -> Result<()> {
        let scratch = Scratch::new()?;
        let wanted = (gb * 1e9) as u64 / self.scale;
        let each = (wanted / 20).max(1_000_000);
        let (mut bytes, mut turns) = (0, 0);
        for seed in 0.. {
            if bytes >= wanted {
                break;
            }
            let kind = Kind::ALL[seed as usize % Kind::ALL.len()];
            let per_message = if kind == Kind::Chat { CHAT } else { 3_600 };
            let made = scratch.generate(kind, each / per_message, each, 1_000 + seed)?;
            bytes += made.bytes();
            turns += made.human_turns();
        }
        let mut pairs = Pairs::default();
        for run in 0..=self.runs.min(3) {
            self.in_time()?;
            scratch.forget()?;
            let base = super::measure::measure(&mut reference("json", &scratch.sessions()))?;
            let own = scratch.import()?;
            if run > 0 {
                pairs.push(own, base);
            }
        }
        scratch.check(turns, bytes)?;
        let share = scratch.archive_bytes()? as f64 / bytes as f64;
        let name = format!("`archive import`, {:.2} GB", bytes as f64 / 1e9);
        pairs.print(&name, "read and parse each line", "≤ 3.0");
        println!("| its database | the transcripts | {:.3} | | | | |", share);
        Ok(())
    }

    /// Sessions that are hardly more than their files, against reading and parsing them on one thread; and the first search, which
    /// indexes all of them.
    fn small_sessions(&self, sessions: u64) -> Result<()> {
        let scratch = Scratch::new()?;
        let sessions = sessions / self.scale;
        let (mut bytes, mut turns) = (0, 0);
        for seed in 0..sessions {
            let messages = 2 + seed % 3;
            let spec = Spec { bytes: Some(messages * SMALL), ..Spec::new(Kind::Chat, messages, seed) };
            let made = generate(&spec, &scratch.sessions())?;
            bytes += made.bytes();
            turns += made.human_turns();
        }
        let mut imports = Pairs::default();
        let base = super::measure::measure(&mut reference("json", &scratch.sessions()))?;
        imports.push(scratch.import()?, base);
        scratch.check(turns, bytes)?;
        let name = format!("`archive import`, {sessions} sessions of two to four messages, {:.0} MB", bytes as f64 / 1e6);
        imports.print(&name, "read and parse each line", "≤ 60 s for 100,000");
        let search = ["archive", "search", "the"];
        let mut searches = Pairs::default();
        let first = scratch.run(&search)?;
        searches.push(first, scratch.run(&search)?);
        searches.print("the first `archive search` after it", "the second", "");
        Ok(())
    }

    fn in_time(&self) -> Result<()> {
        ensure!(
            self.begun.elapsed().as_secs() < PATIENCE * 60,
            "stopped after {PATIENCE} minutes; ask for fewer runs, or --only some"
        );
        Ok(())
    }
}

fn only(made: &Made) -> PathBuf {
    made.sessions.first().map(|session| session.path.clone()).unwrap_or_default()
}

fn reference(what: &str, path: &Path) -> Command {
    let mut command = Command::new(program("xtask"));
    command.arg(format!("reference-{what}")).arg(path);
    command
}
