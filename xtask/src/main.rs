//! Everything a maintainer of ctxbridge runs: `cargo xtask --help`.

mod bench;
mod book;
mod crates;
#[cfg(unix)]
mod cross;
mod dashboard;
mod distill;
mod doors;
mod licenses;
mod mac;
mod picture;
mod release;
mod releases;
mod roundtrip;
mod signatures;
mod steps;
mod test;
mod tools;
mod transcripts;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Everything a maintainer of ctxbridge runs")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything that CI runs: formatting, lints, licenses, tests on real releases
    Test(test::TestArgs),
    /// Fetch releases of the client into the cache, or remove them
    Releases(releases::ReleasesArgs),
    /// Check the signatures against the whole list of releases, or the newest
    Signatures(signatures::SignaturesArgs),
    /// Run clients to see whether they ask the mod before they compact
    Doors(doors::DoorsArgs),
    /// Measure, as ratios against a reference in the same run
    Bench(bench::BenchArgs),
    /// Make sessions in the format of the newest client
    Transcripts(transcripts::TranscriptsArgs),
    /// Print the crates and what they use of each other, as ARCHITECTURE.md shows them
    Crates(crates::CratesArgs),
    /// Check the workspace for macOS, Windows and other Linux systems, with compilers that it brings
    #[cfg(unix)]
    Cross(cross::CrossArgs),
    /// Pack binaries, and make the installers, manifests and notes of a release
    Release(release::ReleaseArgs),
    /// Make the packages for npm out of a release's archives
    Npm(release::NpmArgs),
    /// Look, on a Mac, at what only a Mac shows: signatures, entitlements, attributes of a patched client
    MacCheck(mac::MacArgs),
    /// Make the static embedding, which is part of the program, out of the installed model
    Distill,
    /// Make the picture in README.md from a run of `ctxbridge demo`
    Picture,
    /// Make pictures of the dashboard, from a made-up archive, and say how soon it is seen
    DashboardPictures(dashboard::PicturesArgs),
    /// Parse a file with swc and nothing else: a reference of `bench`
    #[command(hide = true)]
    ReferenceParse(bench::ReferenceFile),
    /// Read and hash a file and nothing else: a reference of `bench`
    #[command(hide = true)]
    ReferenceHash(bench::ReferenceFile),
    /// Copy a file, hash the copy and nothing else: a reference of `bench`
    #[command(hide = true)]
    ReferenceCopy(bench::ReferenceFile),
    /// Parse each line of the transcripts in a folder into a value and nothing else: a reference of `bench`
    #[command(hide = true)]
    ReferenceJson(bench::ReferenceFile),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Test(args) => test::run(&args),
        Command::Releases(args) => releases::run(&args),
        Command::Signatures(args) => signatures::run(&args),
        Command::Doors(args) => doors::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Transcripts(args) => transcripts::run(&args),
        Command::Crates(args) => crates::run(&args),
        #[cfg(unix)]
        Command::Cross(args) => cross::run(&args),
        Command::Release(args) => release::run(&args),
        Command::Npm(args) => release::run_npm(&args),
        Command::MacCheck(args) => mac::run(&args),
        Command::Distill => distill::run(),
        Command::Picture => picture::run(),
        Command::DashboardPictures(args) => dashboard::run(&args),
        Command::ReferenceParse(file) => bench::parse(&file),
        Command::ReferenceHash(file) => bench::hash(&file),
        Command::ReferenceCopy(file) => bench::copy(&file),
        Command::ReferenceJson(folder) => bench::json(&folder),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}
