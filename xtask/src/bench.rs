//! `cargo xtask bench`: whole processes, measured in turn with a reference, printed as ratios.
//!
//! The machine's speed drifts, so absolute times say little; each run of a command is paired with a run of its reference right
//! before it, and the median of the pairs' ratios is what counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Subcommand;
use ctxbridge::releases::CLIENT_PACKAGE;
use ctxbridge::{demo, releases};
use sha2::{Digest, Sha256};
use swc_common::BytePos;
use swc_ecma_parser::{EsSyntax, Parser, StringInput, Syntax, lexer::Lexer};
use wait4::Wait4;

use crate::tools::{cargo, step, target};

#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// `patch apply`, `verify` and `locate` against a bare parse and a bare hash of the same file
    Patch {
        /// The release
        #[arg(long, default_value = demo::RELEASE)]
        release: String,
        /// Pairs of runs for each command
        #[arg(long, default_value_t = 15)]
        runs: usize,
    },
}

/// A file to read.
#[derive(Debug, clap::Args)]
pub struct Reference {
    file: PathBuf,
}

/// What a parse with swc takes, and nothing else.
pub fn parse(reference: &Reference) -> Result<bool> {
    let text = fs::read_to_string(&reference.file)?;
    let input = StringInput::new(&text, BytePos(1), BytePos(1 + text.len() as u32));
    let lexer = Lexer::new(Syntax::Es(EsSyntax::default()), swc_ecma_ast::EsVersion::EsNext, input, None);
    let module = Parser::new_from(lexer).parse_module().map_err(|error| anyhow::anyhow!("{error:?}"))?;
    println!("{} items", module.body.len());
    // A process that only parses would end here; freeing a tree of 300 MB is not part of parsing it.
    std::mem::forget(module);
    Ok(true)
}

/// What reading and hashing takes, and nothing else.
pub fn hash(reference: &Reference) -> Result<bool> {
    println!("{:x?}", Sha256::digest(fs::read(&reference.file)?));
    Ok(true)
}

pub fn run(args: &BenchArgs) -> Result<bool> {
    let Bench::Patch { release, runs } = &args.what;
    let build = ["build", "--release", "--workspace"];
    step("building in release mode", cargo().args(build), "")?;
    let scratch = tempfile::tempdir()?;
    let cli_js = demo::copy_client(&releases::fetch(CLIENT_PACKAGE, release)?.join("cli.js"), &scratch.path().join("client"))?;
    let bench = Patch { release: release.clone(), cli_js, data: scratch.path().join("data"), runs: *runs };
    bench.run()?;
    Ok(true)
}

struct Patch {
    release: String,
    cli_js: PathBuf,
    data: PathBuf,
    runs: usize,
}

/// One run of a process.
#[derive(Clone, Copy)]
struct Sample {
    wall: Duration,
    peak_bytes: u64,
}

impl Patch {
    fn run(&self) -> Result<()> {
        let size = fs::metadata(&self.cli_js)?.len();
        println!(
            "\ncli.js of {} ({:.1} MB), {} pairs of runs, medians [lowest – highest]\n",
            self.release,
            size as f64 / 1e6,
            self.runs
        );
        println!("| command | reference | ratio | target | peak memory | reference's |");
        println!("| --- | --- | --- | --- | --- | --- |");
        let nothing = |_: &Self| Ok(());
        self.row("patch apply --no-smoke", &["patch", "apply", "--no-smoke"], "parse", "≤ 2.0", &Self::revert)?;
        self.row("patch locate", &["patch", "locate"], "parse", "≤ 1.5", &nothing)?;
        self.ctxbridge(&["patch", "apply", "--no-smoke"])?;
        self.row("patch verify", &["patch", "verify"], "hash", "≤ 3.0", &nothing)?;
        Ok(())
    }

    fn row(&self, name: &str, command: &[&str], reference: &str, goal: &str, after: &dyn Fn(&Self) -> Result<()>) -> Result<()> {
        let mut pairs = Vec::new();
        // The first pair warms the file cache and is not counted.
        for run in 0..=self.runs {
            let base = self.reference(reference)?;
            let own = self.ctxbridge(command)?;
            after(self)?;
            if run > 0 {
                pairs.push((own, base));
            }
        }
        let mut ratios: Vec<f64> = pairs.iter().map(|(own, base)| own.wall.as_secs_f64() / base.wall.as_secs_f64()).collect();
        ratios.sort_by(f64::total_cmp);
        let peak = |samples: Vec<u64>| samples.into_iter().max().unwrap_or(0) as f64 / 1e6;
        println!(
            "| `{name}` | {reference} of the file | {:.2} [{:.2} – {:.2}] | {goal} | {:.0} MB | {:.0} MB |",
            ratios[ratios.len() / 2],
            ratios[0],
            ratios[ratios.len() - 1],
            peak(pairs.iter().map(|(own, _)| own.peak_bytes).collect()),
            peak(pairs.iter().map(|(_, base)| base.peak_bytes).collect()),
        );
        Ok(())
    }

    fn reference(&self, what: &str) -> Result<Sample> {
        measure(Command::new(program("xtask")).arg(format!("reference-{what}")).arg(&self.cli_js))
    }

    fn ctxbridge(&self, arguments: &[&str]) -> Result<Sample> {
        measure(Command::new(program("ctxbridge")).args(arguments).arg(&self.cli_js).env("CTXBRIDGE_DATA_DIR", &self.data))
    }

    fn revert(&self) -> Result<()> {
        self.ctxbridge(&["patch", "revert"]).map(drop)
    }
}

fn program(name: &str) -> PathBuf {
    Path::new(&target()).join("release").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

fn measure(command: &mut Command) -> Result<Sample> {
    let begun = Instant::now();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().with_context(|| format!("cannot start {command:?}"))?;
    let used = child.wait4()?;
    let wall = begun.elapsed();
    ensure!(used.status.success(), "{command:?} failed: {}", used.status);
    Ok(Sample { wall, peak_bytes: used.rusage.maxrss })
}
