//! `ctxbridge hooks uninstall`

use serde_json::json;

use super::{Answer, Output, ScopeArg, places, short};
use crate::bundle::{FOLDER, Project};
use crate::cli::output::{DIM, GOOD, styled};
use crate::hook::settings::editor::{Editor, Uninstalled, UninstalledState};
use crate::hook::settings::project::tidy;
use crate::hook::settings::scope::Scope;
use ctxbridge_common::paths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge hooks uninstall

A file that was not changed since the install is put back as it was, to the byte; from any other, only the hooks of ctxbridge are
taken out.

What was archived stays, and so do the bundles of projects (.ctxbridge/bundles). The .ctxbridge of the project one is in goes when
there is nothing in it but what the install put there, and nothing of it is committed. Exit code 1 when there was nothing to take out.")]
pub(super) struct UninstallArgs {
    /// Which settings
    #[arg(long, value_enum, default_value = "user")]
    scope: ScopeArg,
}

impl UninstallArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let scope = Scope::from(self.scope);
        let file = places()?.file(scope)?;
        let notice = |text: &str| output.note(text);
        let done = Editor::new(&paths::data_dir()?, &notice).uninstall(&file)?;
        // Whether bundles are wanted or not: the folder may be from before.
        let project = Project::around(&std::env::current_dir()?, paths::home_dir().as_deref());
        let tidied = project.filter(tidy).map(|project| project.root.join(FOLDER));
        if output.json {
            let Uninstalled { state, file, removed, backup } = &done;
            output.value(
                &json!({ "scope": scope, "file": file, "state": state, "removed": removed, "backup": backup, "tidied": tidied }),
            )?;
        } else {
            tell(&done, output)?;
            if let Some(folder) = tidied {
                output.line(styled(DIM, format!("{}, which held nothing, is gone", short(&folder))))?;
            }
        }
        Ok(if done.state == UninstalledState::NotInstalled { Answer::No } else { Answer::Yes })
    }
}

fn tell(done: &Uninstalled, output: &mut Output) -> anyhow::Result<()> {
    let file = short(&done.file);
    let said = match done.state {
        UninstalledState::Restored => format!("{} {file} is as it was before the install", styled(GOOD, "uninstalled:")),
        UninstalledState::Deleted => format!("{} {file}, which the install had made, is gone", styled(GOOD, "uninstalled:")),
        UninstalledState::Removed => {
            format!("{} {} hooks are out of {file}; all else in it stays", styled(GOOD, "uninstalled:"), done.removed)
        }
        UninstalledState::NotInstalled => format!("not installed: {file} has no hook of ctxbridge in it"),
    };
    output.line(said)?;
    if let Some(backup) = &done.backup {
        output.line(styled(DIM, format!("the file from before the install is kept in {}", short(backup))))?;
    }
    Ok(())
}
