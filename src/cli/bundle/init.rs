//! `ctxbridge bundle init`

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::project_around;
use crate::bundle::{BUNDLES_FOLDER, Bundles, PROJECT_DATA_FOLDER};
use crate::cli::CommandOutcome;
use crate::cli::output::{DIM, GOOD, Output, short, styled};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge bundle init

Creates the folder .ctxbridge in this project. From then on, hooks record in it which prompts led to which work. Commit it to share \
the log with every clone. Without it, nothing is written into the project.")]
pub(super) struct BundleInitArgs {}

impl BundleInitArgs {
    #[expect(clippy::unused_self, reason = "as all commands")]
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        let bundles = Bundles::to_create(&project_around(&std::env::current_dir()?)?);
        let is_new = bundles.prepare()?;
        let is_ignored = is_ignored(bundles.project());
        let folder = bundles.data_folder();
        if output.json {
            output.value(&json!({ "folder": folder, "is_new": is_new, "ignored": is_ignored }))?;
        } else {
            let word = if is_new { "created:" } else { "already there:" };
            output.prose(2, format!("{} {}", styled(GOOD, word), short(folder)))?;
            output.prose(2, styled(DIM, format!("`git add {PROJECT_DATA_FOLDER}` shares it with the repository")))?;
        }
        if is_ignored == Some(true) {
            output.note(&format!(
                "note: git ignores {}, by a rule of this project or of yours; `git check-ignore -v {}` names it",
                short(folder),
                some_bundle()
            ));
        }
        Ok(CommandOutcome::Yes)
    }
}

fn some_bundle() -> String {
    format!("{PROJECT_DATA_FOLDER}/{BUNDLES_FOLDER}/x.jsonl")
}

/// `true` if git would ignore bundles; `None` if it cannot tell.
fn is_ignored(root: &Path) -> Option<bool> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["check-ignore", "--quiet", "--", &some_bundle()]);
    match git.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?.code()? {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}
