//! `ctxbridge patch list`

use serde::Serialize;
use serde_json::json;

use super::{Answer, Output, with_patcher};
use crate::cli::output::{DIM, GOOD, styled};
use crate::patch::catalogue::Catalogue;
use crate::patch::container::Kind;
use crate::patch::era::era;
use crate::patch::inspect::State;
use crate::patch::install::{Target, discover};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ctxbridge patch list --json")]
pub(super) struct ListArgs {}

#[derive(Serialize)]
struct Installation {
    path: std::path::PathBuf,
    kind: Kind,
    package: Option<String>,
    version: Option<String>,
    era: Option<&'static str>,
    state: Option<State>,
    patches: Vec<String>,
    problem: Option<String>,
}

impl ListArgs {
    pub fn run(&self, catalogue: Catalogue, output: &mut Output) -> anyhow::Result<Answer> {
        let project = std::env::current_dir().ok();
        let targets = discover(project.as_deref());
        let installations: Vec<Installation> = with_patcher(catalogue, output, |patcher| {
            let looked_at = targets.into_iter().map(|target| {
                let inspection = match target.kind {
                    Kind::Script => patcher.verify(&target).map_err(|error| error.to_string()),
                    other => Err(format!("this version of ctxbridge cannot patch a {other}")),
                };
                installation(target, inspection)
            });
            Ok(looked_at.collect())
        })?;
        let found = !installations.is_empty();
        if output.json {
            output.value(&json!({ "installations": installations }))?;
        } else if found {
            for installation in &installations {
                tell(installation, output)?;
            }
        } else {
            output.line("no client found; name one: ctxbridge patch apply PATH")?;
        }
        Ok(if found { Answer::Yes } else { Answer::No })
    }
}

fn installation(target: Target, inspection: Result<crate::patch::inspect::Inspection, String>) -> Installation {
    let (state, patches, problem) = match inspection {
        Ok(inspection) => (Some(inspection.state), inspection.patches, inspection.reason),
        Err(problem) => (None, Vec::new(), Some(problem)),
    };
    Installation {
        kind: target.kind,
        package: target.package,
        era: target.version.as_ref().and_then(era),
        version: target.version.map(|version| version.to_string()),
        path: target.path,
        state,
        patches,
        problem,
    }
}

fn tell(installation: &Installation, output: &mut Output) -> anyhow::Result<()> {
    let state = match installation.state {
        Some(State::Patched) => styled(GOOD, format!("{:<10}", "patched")),
        Some(State::Unpatched) => format!("{:<10}", "unpatched"),
        Some(State::Upgraded) => format!("{:<10}", "upgraded"),
        Some(State::Modified) => format!("{:<10}", "modified"),
        Some(State::Foreign) => format!("{:<10}", "foreign"),
        None => format!("{:<10}", "-"),
    };
    let version = installation.version.as_deref().unwrap_or("?");
    let era = installation.era.unwrap_or("?");
    output.line(format!("{version:<10} {era:<4} {state} {}", installation.path.display()))?;
    if let Some(problem) = &installation.problem {
        output.line(styled(DIM, format!("{:<26} {problem}", "")))?;
    }
    Ok(())
}
