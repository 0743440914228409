//! `cargo xtask releases`: the cache of published releases.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Subcommand;
use ctxbridge::client::releases::CLIENT_PACKAGE;
use ctxbridge::client::releases::{self, Release};
use ctxbridge::common::digest;
use ctxbridge::common::paths;

#[derive(Debug, clap::Args)]
pub struct ReleasesArgs {
    #[command(subcommand)]
    command: ReleasesCommand,
}

#[derive(Debug, Subcommand)]
enum ReleasesCommand {
    /// Fetch these versions of the client, or, without any, those that the tests use
    Fetch {
        /// Versions, as `2.1.330` (its executable for this machine), or `@anthropic-ai/claude-agent-sdk@0.1.76` for another package
        versions: Vec<String>,
    },
    /// Remove executables that were not used for longest, until the others fit
    Trim {
        #[command(flatten)]
        budget: DiskBudget,
    },
    /// Remove all fetched releases
    Clean,
}

/// Limit on the disk space of releases: an executable has 200 to 400 MB, and there are hundreds of them.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct DiskBudget {
    /// Maximum disk space of fetched executables, in GB; those used longest ago are removed first
    #[arg(long = "budget-gb", value_name = "GB", default_value_t = 8.0)]
    gigabytes: f64,
}

impl DiskBudget {
    /// Removes releases until the rest fits, but none of these.
    pub fn keep_to(self, kept: &[PathBuf]) -> Result<()> {
        let bytes = (self.gigabytes * 1e9) as u64;
        for removed in releases::evict_executables(bytes, kept).context("cannot tidy the cache of releases")? {
            eprintln!("removed {}, to keep to {} GB", removed.display(), self.gigabytes);
        }
        Ok(())
    }
}

pub fn run(args: &ReleasesArgs) -> Result<bool> {
    match &args.command {
        ReleasesCommand::Fetch { versions } if versions.is_empty() => fetch_tested()?,
        ReleasesCommand::Fetch { versions } => {
            for version in versions {
                let (package, version) = match version.rsplit_once('@') {
                    Some((package, version)) if !package.is_empty() => (package, version),
                    _ => (CLIENT_PACKAGE, version.as_str()),
                };
                let path = match package {
                    CLIENT_PACKAGE => releases::fetch_client(version)?,
                    other => releases::fetch(other, version)?,
                };
                println!("{}", path.display());
            }
        }
        ReleasesCommand::Trim { budget } => budget.keep_to(&[])?,
        ReleasesCommand::Clean => {
            let folder = paths::cache_dir()?.join("releases");
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot remove {}", folder.display()));
                }
                _ => println!("removed {}", folder.display()),
            }
        }
    }
    Ok(true)
}

/// Fetches the releases that the tests use.
pub fn fetch_tested() -> Result<()> {
    eprintln!("== releases of the client, from the cache or with npm");
    for release in releases::known().iter().filter(|release| release.tested) {
        fetch(release)?;
    }
    Ok(())
}

/// Fetches a known release and checks that it is the one that was published.
pub fn fetch(release: &Release) -> Result<PathBuf> {
    let path = release.fetch()?;
    let sha256 = digest::of_file(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        sha256 == release.sha256,
        "{} has SHA-256 {sha256}, not {} as releases.toml says; `cargo xtask releases clean` and try again",
        path.display(),
        release.sha256
    );
    Ok(path)
}
