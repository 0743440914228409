//! `cargo xtask bench`: whole processes, measured in turn with a reference, printed as ratios.
//!
//! The machine's speed drifts, so absolute times say little; each run of a command is paired with a run of its reference right
//! before it, and the median of the pairs' ratios is what counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use clap::Subcommand;
use ctxbridge::patch::install::Target;
use ctxbridge::{demo, digest, releases};
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
    /// `patch apply`, `verify` and `locate` against bare work on the same `cli.js`: a parse, a hash
    Patch {
        /// The release
        #[arg(long, default_value = "2.1.112")]
        release: String,
        /// Pairs of runs for each command
        #[arg(long, default_value_t = 15)]
        runs: usize,
    },
    /// The same for an executable, against a copy and a hash; and how long the patched client takes to start
    Native {
        /// The release
        #[arg(long, default_value = "2.1.330")]
        release: String,
        /// Pairs of runs for each command
        #[arg(long, default_value_t = 9)]
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
    println!("{}", digest::of_file(&reference.file)?);
    Ok(true)
}

/// What copying and hashing once takes, and nothing else.
pub fn copy(reference: &Reference) -> Result<bool> {
    let copy = reference.file.with_extension("copy");
    fs::copy(&reference.file, &copy)?;
    println!("{}", digest::of_file(&copy)?);
    fs::remove_file(&copy)?;
    Ok(true)
}

pub fn run(args: &BenchArgs) -> Result<bool> {
    let (release, runs, native) = match &args.what {
        Bench::Patch { release, runs } => (release, *runs, false),
        Bench::Native { release, runs } => (release, *runs, true),
    };
    step("building in release mode", cargo().args(["build", "--release", "--workspace"]), "")?;
    let client = Target::at(&releases::fetch_client(release)?)?;
    ensure!(client.kind.is_native() == native, "{release} is a {}: use the other benchmark", client.kind);
    let scratch = tempfile::tempdir()?;
    let copy = demo::copy_client(&client, &scratch.path().join("client"))?;
    let bench = Patch { client: copy, data: scratch.path().join("data"), runs };
    let size = fs::metadata(&bench.client)?.len() as f64 / 1e6;
    println!("\n{release} ({size:.0} MB), {runs} pairs of runs, medians [lowest – highest]\n");
    println!("| command | reference | ratio | target | time | peak memory | reference's |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    if native {
        bench.native()?
    } else {
        bench.script()?
    }
    Ok(true)
}

struct Patch {
    client: PathBuf,
    data: PathBuf,
    runs: usize,
}

/// One run of a process.
#[derive(Clone, Copy)]
struct Sample {
    wall: Duration,
    peak_bytes: u64,
}

/// One line of the table.
struct Row<'a> {
    name: &'a str,
    command: &'a [&'a str],
    reference: &'a str,
    goal: &'a str,
}

impl Patch {
    fn script(&self) -> Result<()> {
        let nothing = || Ok(());
        let apply: &[&str] = &["patch", "apply", "--no-smoke"];
        let row = |name, command, reference, goal| Row { name, command, reference, goal };
        self.row(&row("patch apply --no-smoke", apply, "parse", "≤ 2.0"), &nothing, &|| self.revert())?;
        self.row(&row("patch locate", &["patch", "locate"], "parse", "≤ 1.5"), &nothing, &nothing)?;
        self.ctxbridge(apply)?;
        self.row(&row("patch verify", &["patch", "verify"], "hash", "≤ 3.0"), &|| self.touch(), &nothing)
    }

    fn native(&self) -> Result<()> {
        let nothing = || Ok(());
        let apply: &[&str] = &["patch", "apply", "--no-smoke"];
        let row = |name, command, reference, goal| Row { name, command, reference, goal };
        self.row(&row("patch apply --no-smoke", apply, "copy", "≤ 2.5"), &nothing, &|| self.revert())?;
        self.row(&row("patch locate", &["patch", "locate"], "hash", "≤ 0.5 s"), &nothing, &nothing)?;
        let original = self.client.with_extension("original");
        fs::copy(&self.client, &original)?;
        self.ctxbridge(apply)?;
        self.row(&row("patch verify", &["patch", "verify"], "hash", "≤ 1.2"), &|| self.touch(), &nothing)?;
        // Whoever verifies a file that was written just now reads it again.
        std::thread::sleep(Duration::from_secs(3));
        self.ctxbridge(&["patch", "verify"])?;
        self.row(&row("patch verify, unchanged", &["patch", "verify"], "hash", "< 20 ms"), &nothing, &nothing)?;
        let home = tempfile::tempdir()?;
        let help = |program: &Path| {
            let mut command = Command::new(program);
            command.arg("--help").env_clear().env("HOME", home.path()).env("DISABLE_AUTOUPDATER", "1");
            measure(command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"))
        };
        self.pairs("claude --help, patched", "claude --help", "≤ 1.10", &|| help(&original), &|| help(&self.client), &nothing)
    }

    fn row(&self, row: &Row<'_>, before: &dyn Fn() -> Result<()>, after: &dyn Fn() -> Result<()>) -> Result<()> {
        let reference = format!("{} of the file", row.reference);
        let own = || {
            before()?;
            self.ctxbridge(row.command)
        };
        self.pairs(row.name, &reference, row.goal, &|| self.reference(row.reference), &own, after)
    }

    fn pairs(
        &self,
        name: &str,
        reference: &str,
        goal: &str,
        base: &dyn Fn() -> Result<Sample>,
        own: &dyn Fn() -> Result<Sample>,
        after: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut pairs = Vec::new();
        // The first pair warms the file cache and is not counted.
        for run in 0..=self.runs {
            let base = base()?;
            let own = own()?;
            after()?;
            if run > 0 {
                pairs.push((own, base));
            }
        }
        let mut ratios: Vec<f64> = pairs.iter().map(|(own, base)| own.wall.as_secs_f64() / base.wall.as_secs_f64()).collect();
        ratios.sort_by(f64::total_cmp);
        let mut times: Vec<Duration> = pairs.iter().map(|(own, _)| own.wall).collect();
        times.sort();
        let peak = |samples: Vec<u64>| samples.into_iter().max().unwrap_or(0) as f64 / 1e6;
        println!(
            "| `{name}` | {reference} | {:.2} [{:.2} – {:.2}] | {goal} | {:.0} ms | {:.0} MB | {:.0} MB |",
            ratios[ratios.len() / 2],
            ratios[0],
            ratios[ratios.len() - 1],
            times[times.len() / 2].as_secs_f64() * 1e3,
            peak(pairs.iter().map(|(own, _)| own.peak_bytes).collect()),
            peak(pairs.iter().map(|(_, base)| base.peak_bytes).collect()),
        );
        Ok(())
    }

    /// Makes the file look changed, so that it is read again.
    fn touch(&self) -> Result<()> {
        Ok(fs::File::open(&self.client)?.set_modified(SystemTime::now())?)
    }

    fn reference(&self, what: &str) -> Result<Sample> {
        measure(Command::new(program("xtask")).arg(format!("reference-{what}")).arg(&self.client))
    }

    fn ctxbridge(&self, arguments: &[&str]) -> Result<Sample> {
        measure(Command::new(program("ctxbridge")).args(arguments).arg(&self.client).env("CTXBRIDGE_DATA_DIR", &self.data))
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
