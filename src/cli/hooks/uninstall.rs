//! `ctxbridge hooks uninstall`

use serde_json::json;

use super::{CommandOutcome, Output, ScopeArg, places, short};
use crate::cli::output::{DIM, GOOD, styled};
use crate::hook::settings::editor::{Editor, Uninstalled, UninstalledState};
use crate::hook::settings::scope::SettingsScope;
use ctxbridge_common::paths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge hooks uninstall

If the file was not changed since the install, the original is restored byte for byte. Otherwise only the hooks of ctxbridge are \
removed.

The archive and the bundles of projects (.ctxbridge/bundles) are kept. The current project's .ctxbridge folder is removed only if \
it is as the install created it and nothing in it is committed. Exits 1 if there was nothing to remove.")]
pub(super) struct HooksUninstallArgs {
    /// Settings file to change
    #[arg(long, value_enum, default_value = "user")]
    scope: ScopeArg,
}

impl HooksUninstallArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        let scope = SettingsScope::from(self.scope);
        let file = places()?.file(scope)?;
        let notice = |text: &str| output.note(text);
        let done = Editor::new(&paths::data_dir()?, &notice).uninstall(&file)?;
        if output.json {
            let Uninstalled { state, file, removed, backup } = &done;
            output.value(&json!({ "scope": scope, "file": file, "state": state, "removed": removed, "backup": backup }))?;
        } else {
            tell(&done, output)?;
        }
        Ok(if done.state == UninstalledState::NotInstalled { CommandOutcome::No } else { CommandOutcome::Yes })
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
    output.prose(2, said)?;
    if let Some(backup) = &done.backup {
        output.prose(2, styled(DIM, format!("the file from before the install is kept in {}", short(backup))))?;
    }
    Ok(())
}
