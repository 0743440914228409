//! `cargo xtask cross`: the workspace for the systems that this machine is not.
//!
//! No `rust-std` of another system has to be fetched: Debian carries a compiler with the source of its library, from which cargo makes
//! one for any target. The C parts are compiled by zig, or by mingw for Windows. All of it lies in `target/tools/cross`, where it stays
//! from run to run; nothing is installed.

mod journey;
mod runner;
mod toolchain;

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::builder::PossibleValuesParser;

use crate::steps::Steps;
use crate::tools::root;
use runner::{Emulator, Runner};
use toolchain::Toolchain;

/// A target, and what compiles its C parts.
#[derive(Clone, Copy)]
struct CrossTarget {
    triple: &'static str,
    /// `true` if zig brings the C compiler and the linker; else there are those of mingw.
    by_zig: bool,
    /// The way to run its programs here, with the npm package of the client for it; none where nothing does.
    runs: Option<(Emulator, &'static str)>,
}

const TARGETS: [CrossTarget; 5] = [
    CrossTarget { triple: "aarch64-apple-darwin", by_zig: true, runs: None },
    CrossTarget { triple: "x86_64-apple-darwin", by_zig: true, runs: None },
    CrossTarget {
        triple: "x86_64-pc-windows-gnu",
        by_zig: false,
        runs: Some((Emulator::Wine, "@anthropic-ai/claude-code-win32-x64")),
    },
    CrossTarget {
        triple: "x86_64-unknown-linux-musl",
        by_zig: true,
        runs: Some((Emulator::None, "@anthropic-ai/claude-code-linux-x64")),
    },
    CrossTarget {
        triple: "aarch64-unknown-linux-musl",
        by_zig: true,
        runs: Some((Emulator::Qemu, "@anthropic-ai/claude-code-linux-arm64")),
    },
];

/// Optimized third-party crates are for what runs long; it would hold for procedural macros as well.
const UNOPTIMIZED: [&str; 2] = ["--config", "profile.dev.package.\"*\".opt-level=0"];

#[derive(Debug, clap::Args)]
#[command(after_help = "Needs Debian 12 or newer with apt-get, Python 3 with pip, and for Windows gcc-mingw-w64-x86-64-posix. \
To run, it needs wine64 and qemu-user-static. The first run fetches 145 MB, and takes two minutes more for each target.")]
pub struct CrossArgs {
    /// Targets to check [default: all]
    #[arg(value_name = "TARGET", value_parser = PossibleValuesParser::new(TARGETS.map(|target| target.triple)))]
    targets: Vec<String>,
    /// Link and run as well, where something runs it here: unit tests, and what a user does
    #[arg(long)]
    run: bool,
}

/// Checks the workspace, tests and all, with warnings denied. `false` if a target fails.
pub fn run(args: &CrossArgs) -> Result<bool> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("the compiler for other systems is Debian's for x86-64; run this there");
    }
    let mut steps = Steps::default();
    let toolchain = Toolchain::prepare(&mut steps)?;
    let is_wanted = |target: &&CrossTarget| args.targets.is_empty() || args.targets.iter().any(|wanted| wanted == target.triple);
    let mut failed = Vec::new();
    for target in TARGETS.iter().filter(is_wanted) {
        if !target.by_zig {
            Toolchain::require_mingw()?;
        }
        toolchain.make_std(*target, &mut steps)?;
        let begun = Instant::now();
        let done = match target.runs {
            // What is linked and run was checked as well.
            Some(way) if args.run => build_and_run(&toolchain, *target, way),
            _ => check(&toolchain, *target),
        };
        match done {
            Ok(done) => println!("{}: {done}, {:.0} s", target.triple, begun.elapsed().as_secs_f64()),
            Err(error) => {
                println!("{}: {error:#}", target.triple);
                failed.push(target.triple);
            }
        }
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    Ok(failed.is_empty())
}

fn check(toolchain: &Toolchain, target: CrossTarget) -> Result<&'static str> {
    println!("checking for {}", target.triple);
    let mut check = toolchain.cargo(target, "check");
    check.args(["--workspace", "--all-targets", "--keep-going"]).args(UNOPTIMIZED);
    succeeds(check.env("RUSTFLAGS", "-D warnings"), "the check failed")?;
    Ok("clean")
}

fn build_and_run(toolchain: &Toolchain, target: CrossTarget, (emulator, client): (Emulator, &str)) -> Result<&'static str> {
    let runner = Runner::prepare(emulator, &toolchain.folder_for(target)?, toolchain::MINGW)?;
    println!("building for {}", target.triple);
    let mut build = toolchain.cargo(target, "build");
    succeeds(build.args(["--bin", "ctxbridge"]).args(UNOPTIMIZED).env("RUSTFLAGS", "-D warnings"), "the build failed")?;
    journey::take(&runner, &toolchain.built(target, "ctxbridge"), client).context("what a user does failed")?;
    println!("unit tests for {}", target.triple);
    let mut tests = toolchain.cargo(target, "test");
    tests
        .args(["--workspace", "--exclude", "xtask", "--lib", "--no-fail-fast"])
        .args(UNOPTIMIZED)
        .env("RUSTFLAGS", "-D warnings");
    tests.envs(runner.environment());
    // Snapshots lie in the workspace, which cargo cannot be asked for there.
    tests.env("INSTA_WORKSPACE_ROOT", runner.path(&root()));
    if let Some(program) = runner.for_cargo() {
        tests.env(format!("CARGO_TARGET_{}_RUNNER", target.triple.to_uppercase().replace('-', "_")), program);
    }
    succeeds(&mut tests, "unit tests failed")?;
    Ok("built, tested and used")
}

fn succeeds(command: &mut std::process::Command, otherwise: &'static str) -> Result<()> {
    if !command.status()?.success() {
        bail!(otherwise);
    }
    Ok(())
}
