//! `cargo xtask release` and `cargo xtask npm`: all that a release consists of, made from the binaries of all systems.

mod finish;
mod npm;
mod pack;
mod targets;
mod template;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use ctxbridge::common::digest;

use targets::{ReleaseTarget, TARGETS};

/// Name of the program, and of what is published.
const NAME: &str = "ctxbridge";
/// Version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Address of the repository.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");
/// Says in one line what it is; package managers allow 80 characters.
const SUMMARY: &str = "Keeps Claude Code's context window lean without losing anything";

#[derive(Debug, clap::Args)]
pub struct ReleaseArgs {
    #[command(subcommand)]
    step: ReleaseStep,
}

#[derive(Debug, clap::Subcommand)]
enum ReleaseStep {
    /// Pack a binary into the archive for its system
    Pack {
        /// System that the binary is for, as Rust names it
        #[arg(long, value_parser = target)]
        target: &'static ReleaseTarget,
        /// The binary
        #[arg(long, value_name = "FILE")]
        binary: PathBuf,
        /// Folder that the archive is put into
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// Write the checksums, installers, manifests and notes beside the archives
    Finish {
        /// Folder with the archives
        folder: PathBuf,
        /// Address where the files of the release will be [default: this version's release in the repository]
        #[arg(long, value_name = "BASE")]
        url: Option<String>,
        /// Accept a release that lacks systems, to try things
        #[arg(long)]
        partial: bool,
    },
}

#[derive(Debug, clap::Args)]
pub struct NpmArgs {
    /// Folder with the archives of all systems
    #[arg(long, value_name = "FOLDER")]
    binaries: PathBuf,
    /// Folder that the packages are put into; it must be empty or missing
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Accept that systems are missing, to try things
    #[arg(long)]
    partial: bool,
}

pub fn run(args: &ReleaseArgs) -> Result<bool> {
    match &args.step {
        ReleaseStep::Pack { target, binary, out } => println!("{}", pack::pack(target, binary, out)?.display()),
        ReleaseStep::Finish { folder, url, partial } => {
            finish::finish(&Archives::read(folder, *partial)?, url.as_deref())?.iter().for_each(|line| println!("{line}"));
        }
    }
    Ok(true)
}

pub fn run_npm(args: &NpmArgs) -> Result<bool> {
    let archives = Archives::read(&args.binaries, args.partial)?;
    npm::write(&archives, &args.out)?.iter().for_each(|folder| println!("{}", folder.display()));
    Ok(true)
}

fn target(triple: &str) -> Result<&'static ReleaseTarget, String> {
    let known = || TARGETS.iter().map(|target| target.triple).collect::<Vec<_>>().join(", ");
    ReleaseTarget::named(triple).ok_or_else(|| format!("not one of {}", known()))
}

/// The archives of a release, read and looked into.
struct Archives {
    folder: PathBuf,
    packed: Vec<PackedBinary>,
}

struct PackedBinary {
    target: &'static ReleaseTarget,
    sha256: String,
    binary: Vec<u8>,
}

impl Archives {
    /// Reads the archives in a folder. A missing one is an error unless `partial` is set.
    fn read(folder: &Path, partial: bool) -> Result<Self> {
        for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let name = entry?.file_name();
            let is_archive = Path::new(&name).extension().is_some_and(|extension| extension == "gz" || extension == "zip");
            let is_ours = TARGETS.iter().any(|target| *target.archive() == *name);
            ensure!(!is_archive || is_ours, "{} is no archive of {NAME} {VERSION}", folder.join(&name).display());
        }
        let mut packed = Vec::new();
        for target in &TARGETS {
            let path = folder.join(target.archive());
            if path.is_file() {
                let archive = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let binary = pack::read_binary(target, &archive).with_context(|| format!("{} is damaged", path.display()))?;
                packed.push(PackedBinary { target, sha256: digest::of_bytes(&archive), binary });
            } else if !partial {
                bail!("{} has no {}; `--partial` goes on without", folder.display(), target.archive());
            }
        }
        ensure!(!packed.is_empty(), "{} has no archive of {NAME} {VERSION}", folder.display());
        Ok(Self { folder: folder.to_owned(), packed })
    }

    fn find(&self, target: &ReleaseTarget) -> Option<&PackedBinary> {
        self.packed.iter().find(|packed| packed.target == target)
    }
}
