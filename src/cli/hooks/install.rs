//! `ctxbridge hooks install`

use serde_json::json;

use super::{ClientArg, CommandOutcome, Output, ScopeArg, events_of_some, names, places, scopes, short};
use crate::cli::output::{DIM, GOOD, styled};
use crate::cli::wired_program::wired_program;
use crate::hook::Event;
use crate::hook::settings::clients::Readers;
use crate::hook::settings::editor::{Editor, Installed, InstalledState};
use crate::hook::settings::scope::{SettingsPaths, SettingsScope};
use crate::hook::settings::status::{ScopeStatus, status};
use crate::hook::settings::wiring::{HookForm, UnsupportedEvent, hooks};
use ctxbridge_common::paths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge hooks install
  ctxbridge hooks install --scope project --client-version 2.1.330

Installs only hooks for events that every installed client supports: an unknown event makes a client ignore all of its settings. \
The rest of the file is not changed, and `ctxbridge hooks uninstall` restores the original.

The plugin does the same (`claude plugin install ctxbridge@ctxbridge`). If both are installed, the plugin's hooks do nothing.")]
pub(super) struct HooksInstallArgs {
    /// Settings file to change
    #[arg(long, value_enum, default_value = "user")]
    scope: ScopeArg,
    #[command(flatten)]
    client: ClientArg,
}

impl HooksInstallArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        let places = places()?;
        let scope = SettingsScope::from(self.scope);
        let file = places.file(scope)?;
        let readers = self.client.readers(&places, output);
        let (wanted, left_out) = events_of_some(&readers)?;
        let own = wired_program()?;
        let program = scope.program(&own);
        let notice = |text: &str| output.note(text);
        let hooks = hooks(&wanted, program, HookForm::for_all(&readers.clients, readers.unknown.is_empty()));
        let done = Editor::new(&paths::data_dir()?, &notice).install(&file, &hooks, scope.is_private())?;
        for unknown in &readers.unknown {
            output.note(&format!("{}: its version is not known; if it is old, name it with --client-version", unknown.display()));
        }
        let warnings = warnings(&places, scope, &wanted, &left_out)?;
        if output.json {
            output.value(&json!({
                "scope": scope, "file": done.file, "state": done.state, "events": wanted, "left_out": left_out,
                "program": program, "backup": done.backup, "clients": clients(&readers), "warnings": warnings,
            }))?;
        } else {
            tell(&done, &wanted, &left_out, output)?;
            for warning in warnings {
                output.note(&format!("note: {warning}"));
            }
        }
        Ok(CommandOutcome::Yes)
    }
}

pub(super) fn clients(readers: &Readers) -> Vec<serde_json::Value> {
    let client = |path: Option<&std::path::PathBuf>, version: Option<String>| json!({ "path": path, "version": version });
    let known = readers.clients.iter().map(|known| client(known.path.as_ref(), Some(known.version.to_string())));
    known.chain(readers.unknown.iter().map(|path| client(Some(path), None))).collect()
}

/// Warnings about problems that keep installed hooks from running exactly once each.
fn warnings(
    places: &SettingsPaths,
    scope: SettingsScope,
    wanted: &[Event],
    left_out: &[UnsupportedEvent],
) -> anyhow::Result<Vec<String>> {
    let path = std::env::var_os("PATH");
    let status = status(places, &scopes(None), (wanted, left_out), path.as_deref())?;
    let own = status.scopes.iter().find(|found| found.scope == scope);
    let mut warnings = Vec::new();
    if own.is_some_and(|own| own.trusted == Some(false)) {
        warnings.push("the client does not trust this project yet: start `claude` in it once and say yes".to_owned());
    }
    if status.disabled {
        warnings.push("`disableAllHooks` is set, so that the client runs none of them".to_owned());
    }
    if own.is_some_and(|own| own.hooks.iter().any(|hook| hook.runs == Some(false))) {
        warnings.push("there is no `ctxbridge` on the PATH, which these settings call".to_owned());
    }
    if status.plugin {
        warnings.push(
            "the plugin is enabled, too: its hooks step back where settings wire the same, so one of both is enough".to_owned(),
        );
    }
    let also = |found: &&ScopeStatus| found.scope != scope && !found.hooks.is_empty();
    let others: Vec<_> = status.scopes.iter().filter(also).map(|found| found.scope.name()).collect();
    if !status.twice.is_empty() && !others.is_empty() {
        warnings.push(format!(
            "they are wired in the {} settings, too, and would run twice; `ctxbridge hooks uninstall --scope {}` takes those out",
            others.join(" and "),
            others[0]
        ));
    }
    Ok(warnings)
}

fn tell(done: &Installed, wanted: &[Event], left_out: &[UnsupportedEvent], output: &mut Output) -> anyhow::Result<()> {
    let file = short(&done.file);
    match done.state {
        InstalledState::Installed => {
            output.prose(2, format!("{} {} hooks in {file}", styled(GOOD, "installed:"), wanted.len()))?
        }
        InstalledState::Updated => output.prose(2, format!("{} {} hooks in {file}", styled(GOOD, "updated:"), wanted.len()))?,
        InstalledState::Unchanged => output.prose(2, format!("nothing to do: {} hooks are in {file} already", wanted.len()))?,
    }
    output.prose(2, styled(DIM, names(wanted)))?;
    for UnsupportedEvent { event, because_of } in left_out {
        output.prose(2, styled(DIM, format!("left out: {}, which {because_of} does not know", event.name())))?;
    }
    if let Some(backup) = &done.backup {
        output.prose(2, styled(DIM, format!("the original is kept in {}", short(backup))))?;
    }
    Ok(())
}
