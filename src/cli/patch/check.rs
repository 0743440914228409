//! `ctxbridge patch check`

use std::path::PathBuf;

use serde_json::json;

use super::{CommandOutcome, Output};
use crate::cli::output::{BAD, DIM, GOOD, styled};
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::check::{CheckState, CheckedRelease, check};
use ctxbridge_patch::install::Target;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge patch check
  npm pack @anthropic-ai/claude-code@2.1.112 && tar xzf *.tgz
  ctxbridge patch check package/cli.js

Exits 1 if a signature no longer matches, 3 if a file could not be checked.")]
pub(super) struct CheckArgs {
    /// Files or package folders of Claude Code releases [default: the `claude` that your shell runs]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl CheckArgs {
    pub fn run(&self, catalog: &Catalog, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut releases = Vec::new();
        let mut errors = Vec::new();
        let paths = match &self.paths[..] {
            [] => vec![Target::resolve(None)?.path],
            paths => paths.to_vec(),
        };
        for path in &paths {
            output.progress(&format!("checking {}", path.display()));
            let checked = check(catalog, path);
            output.clear_progress();
            match checked {
                Ok(release) => {
                    if !output.json {
                        tell(&release, output)?;
                    }
                    releases.push(release);
                }
                // One that cannot be read does not keep the others from being checked.
                Err(error) => {
                    output.error(&anyhow::anyhow!("{error}"));
                    errors.push(json!({ "path": path, "message": error.to_string() }));
                }
            }
        }
        let drifted: usize = releases.iter().map(CheckedRelease::drifted).sum();
        let unreadable = errors.len();
        if output.json {
            output.value(&json!({ "releases": releases, "drifted": drifted, "errors": errors }))?;
        }
        anyhow::ensure!(unreadable == 0, "{unreadable} of {} files could not be checked", paths.len());
        Ok(if drifted == 0 { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}

fn tell(release: &CheckedRelease, output: &mut Output) -> anyhow::Result<()> {
    let version = release.version.as_ref().map_or_else(|| "unknown version".to_owned(), ToString::to_string);
    output.line(format!("{} ({version})", release.path.display()))?;
    for patch in &release.patches {
        let state = match patch.state {
            CheckState::Match => styled(GOOD, "match"),
            CheckState::Drift => styled(BAD, "drift"),
            CheckState::NotApplicable => styled(DIM, "not applicable"),
        };
        output.line(format!("  {:<26} {state} {}", patch.id, patch.reason.as_deref().unwrap_or_default()))?;
        if output.verbose {
            for site in &patch.sites {
                let names = site.names.iter().map(|(metavariable, name)| format!("{metavariable}={name}")).collect::<Vec<_>>();
                output.line(format!("    {:<25} {:<18} {}", site.site, site.signature, styled(DIM, names.join(" "))))?;
            }
        }
    }
    Ok(())
}
