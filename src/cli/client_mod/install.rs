//! `ctxbridge mod install` and `mod uninstall`

use serde_json::json;

use super::{ClientPathArg, user_settings};
use crate::cli::output::{DIM, GOOD, styled};
use crate::cli::wired_program::wired_program;
use crate::cli::{CommandOutcome, Output, configuration};
use crate::client_mod::install::{ENABLING_VARIABLE, InstalledPlugin, ModInstaller, ReleaseSupport};
use crate::client_mod::plugin::{Marketplace, PluginValues};
use ctxbridge_common::paths;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge mod install
  ctxbridge mod install ~/.local/bin/claude

Runs `claude plugin marketplace add` and `claude plugin install`. The plugin has the hooks as well; where your settings wire them \
already, those of the plugin do nothing. With `mod.threshold_tokens` set, a second plugin asks to fold between turns, in the terminal. Needs Claude Code 2.1.295, or 2.1.271 with CLAUDE_CODE_ENABLE_FUNCTION_HOOKS=1.")]
pub(super) struct ModInstallArgs {
    #[command(flatten)]
    client: ClientPathArg,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge mod uninstall

If nothing else in the client's settings was changed since the install, they are restored byte for byte. The archive is kept. Exits 1 \
if there was nothing to remove.")]
pub(super) struct ModUninstallArgs {
    #[command(flatten)]
    client: ClientPathArg,
}

impl ModInstallArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        let (data, target, settings) = (paths::data_dir()?, self.client.target()?, user_settings()?);
        let program = wired_program()?;
        output.progress("asking the client to install the plugin");
        let installer = ModInstaller { data: &data, target: &target, settings: &settings };
        let threshold_tokens = configuration(output).client_mod.threshold_tokens;
        let done = installer.install(PluginValues { program: program.as_ref(), threshold_tokens });
        output.clear_progress();
        let (state, support) = done?;
        let folder = Marketplace::in_dir(&data).plugin();
        let word = match state {
            InstalledPlugin::New => "installed",
            InstalledPlugin::Updated => "updated",
            InstalledPlugin::Unchanged => "unchanged",
        };
        let needs_variable = support == ReleaseSupport::WithVariable;
        if output.json {
            let variable = needs_variable.then_some(ENABLING_VARIABLE);
            output.value(&json!({
                "state": word, "client": target.path, "version": target.version_text(), "plugin": folder, "program": program,
                "settings": settings, "needs_variable": variable,
            }))?;
            return Ok(CommandOutcome::Yes);
        }
        let version = target.version_text();
        match state {
            InstalledPlugin::Unchanged => {
                output.prose(2, format!("nothing to do: the plugin is installed in Claude Code {version}"))?
            }
            _ => output.prose(2, format!("{} the plugin in Claude Code {version}", styled(GOOD, format!("{word}:"))))?,
        }
        output.prose(2, styled(DIM, "it takes effect in the next session; `ctxbridge mod status` says whether it is loaded"))?;
        if needs_variable {
            output.note(&format!("note: this release needs {ENABLING_VARIABLE}=1 in its environment; 2.1.295 and newer do not"));
        }
        Ok(CommandOutcome::Yes)
    }
}

impl ModUninstallArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        let (data, target, settings) = (paths::data_dir()?, self.client.target()?, user_settings()?);
        output.progress("asking the client to remove the plugin");
        let was_installed = ModInstaller { data: &data, target: &target, settings: &settings }.uninstall();
        output.clear_progress();
        let was_installed = was_installed?;
        if output.json {
            output.value(&json!({ "removed": was_installed, "settings": settings }))?;
        } else if was_installed {
            output.prose(2, format!("{} the plugin is out of Claude Code", styled(GOOD, "uninstalled:")))?;
        } else {
            output.prose(2, "not installed: the client has no plugin of ctxbridge")?;
        }
        Ok(if was_installed { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}
