//! `cargo xtask cross`: the workspace for the systems that this machine is not.
//!
//! No `rust-std` of another system has to be fetched: Debian carries a compiler with the source of its library, from which cargo makes
//! one for any target. The C parts are compiled by zig, or by mingw for Windows. All of it lies in `target/tools/cross`, where it stays
//! from run to run; nothing is installed.

mod toolchain;

use std::time::Instant;

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;

use crate::steps::Steps;
use toolchain::Toolchain;

/// A target, and what compiles its C parts.
#[derive(Clone, Copy)]
struct Target {
    triple: &'static str,
    /// `true` if zig brings the C compiler and the linker; else there are those of mingw.
    by_zig: bool,
}

const TARGETS: [Target; 5] = [
    Target { triple: "aarch64-apple-darwin", by_zig: true },
    Target { triple: "x86_64-apple-darwin", by_zig: true },
    Target { triple: "x86_64-pc-windows-gnu", by_zig: false },
    Target { triple: "x86_64-unknown-linux-musl", by_zig: true },
    Target { triple: "aarch64-unknown-linux-musl", by_zig: true },
];

#[derive(Debug, clap::Args)]
#[command(after_help = "Needs Debian 12 or newer with apt-get, Python 3 with pip, and for Windows gcc-mingw-w64-x86-64-posix. \
The first run fetches 145 MB, and takes two minutes more for each target.")]
pub struct CrossArgs {
    /// Targets to check [default: all]
    #[arg(value_name = "TARGET", value_parser = PossibleValuesParser::new(TARGETS.map(|target| target.triple)))]
    targets: Vec<String>,
}

/// Checks the workspace, tests and all, with warnings denied. `false` if a target fails.
pub fn run(args: &CrossArgs) -> Result<bool> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("the compiler for other systems is Debian's for x86-64; run this there");
    }
    let mut steps = Steps::default();
    let toolchain = Toolchain::prepare(&mut steps)?;
    let is_wanted = |target: &&Target| args.targets.is_empty() || args.targets.iter().any(|wanted| wanted == target.triple);
    let mut failed = Vec::new();
    for target in TARGETS.iter().filter(is_wanted) {
        let begun = Instant::now();
        if !target.by_zig {
            Toolchain::require_mingw()?;
        }
        toolchain.make_std(target.triple, &mut steps)?;
        let mut check = toolchain.cargo(*target, "check");
        // Optimized third-party crates are for what runs, and here nothing does; it would hold for procedural macros as well.
        check.args(["--workspace", "--all-targets", "--keep-going", "--config", "profile.dev.package.\"*\".opt-level=0"]);
        check.env("RUSTFLAGS", "-D warnings");
        println!("checking for {}", target.triple);
        if check.status()?.success() {
            println!("{}: clean, {:.0} s", target.triple, begun.elapsed().as_secs_f64());
        } else {
            failed.push(target.triple);
        }
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    Ok(failed.is_empty())
}
