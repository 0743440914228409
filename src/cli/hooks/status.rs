//! `ctxbridge hooks status`

use std::path::PathBuf;

use serde_json::json;

use super::install::clients;
use super::{ClientArg, CommandOutcome, Output, ScopeArg, events, names, places, scopes, short};
use crate::bundle::{Bundles, Project};
use crate::cli::output::{BAD, DIM, GOOD, styled};
use crate::hook::Event;
use crate::hook::settings::clients::Readers;
use crate::hook::settings::status::{HooksStatus, ScopeStatus, WiredHook, status};
use ctxbridge_common::paths;
use ctxbridge_config::{Config, ConfigSources};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge hooks status || ctxbridge hooks install

Exits 0 if every event is installed in settings that Claude Code uses, and each command can run; else 1.")]
pub(super) struct HooksStatusArgs {
    /// Check only this settings file [default: all]
    #[arg(long, value_enum)]
    scope: Option<ScopeArg>,
    #[command(flatten)]
    client: ClientArg,
}

impl HooksStatusArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let places = places()?;
        let readers = self.client.readers(&places, output);
        let (wanted, left_out) = events(&readers);
        let path = std::env::var_os("PATH");
        let status = status(&places, &scopes(self.scope), (&wanted, &left_out), path.as_deref())?;
        // With nothing that could be wired there is nothing that is.
        let wired = status.wired && !wanted.is_empty();
        let project = Project::around(&std::env::current_dir()?, paths::home_dir().as_deref());
        let bundles = project.as_ref().and_then(wanted_bundles);
        if output.json {
            output.value(&json!({
                "bundles": bundles,
                "wired": wired, "missing": status.missing, "left_out": status.left_out, "disabled": status.disabled,
                "twice": status.twice, "plugin": status.plugin, "scopes": status.scopes, "clients": clients(&readers), "project": places.project,
            }))?;
        } else {
            tell(&status, &readers, output)?;
            match bundles {
                Some(folder) => output.prose(2, styled(DIM, format!("bundles: work is recorded in {}", short(&folder))))?,
                None if project.is_some() => {
                    output.prose(2, styled(DIM, "bundles: none in this project; `ctxbridge bundle init` starts them"))?;
                }
                None => {}
            }
        }
        Ok(if wired { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}

/// The folder of a project's bundles, if it has any and they are not switched off.
fn wanted_bundles(project: &Project) -> Option<PathBuf> {
    let bundles = Bundles::of(project);
    let exist = bundles.exist().is_ok_and(|exist| exist);
    let is_on = || Config::load(&ConfigSources::of_process(Some(&project.root))).bundle.enabled;
    (exist && is_on()).then(|| bundles.data_folder().to_owned())
}

fn tell(status: &HooksStatus, readers: &Readers, output: &mut Output) -> anyhow::Result<()> {
    for scope in &status.scopes {
        tell_scope(scope, output)?;
    }
    let bad = |text: String| format!("{} {text}", styled(BAD, "✗"));
    match status.plugin_runs {
        Some(true) => output.prose(2, format!("plugin   {} the plugin is enabled, and wires all of them", styled(GOOD, "✓")))?,
        Some(false) => {
            output.prose(2, format!("plugin   {} the plugin is enabled, but finds no `ctxbridge`", styled(BAD, "✗")))?
        }
        None => {}
    }
    if status.disabled {
        output.prose(2, bad("`disableAllHooks` is set: the client runs no hook at all".to_owned()))?;
    }
    if !status.twice.is_empty() {
        output.prose(2, bad(format!(
            "wired in more than one place, so that the client runs them twice: {}; `ctxbridge hooks uninstall --scope …` takes them out of one",
            names(&status.twice)
        )))?;
    }
    for left in &status.left_out {
        output.prose(2, styled(DIM, format!("left out: {}, which {} does not know", left.event.name(), left.because_of)))?;
    }
    if readers.clients.is_empty() {
        output.prose(
            2,
            styled(DIM, "no installed client was found: which events it knows cannot be told (--client-version says it)"),
        )?;
    }
    let in_some_file =
        |event: &Event| status.scopes.iter().flat_map(|scope| &scope.hooks).any(|hook| hook.event == *event && hook.in_place);
    let (idle, missing): (Vec<Event>, Vec<Event>) = status.missing.iter().copied().partition(in_some_file);
    if !idle.is_empty() {
        output.prose(2, bad(format!("wired, but not in effect, for the reasons above: {}", names(&idle))))?;
    }
    if !missing.is_empty() {
        output.prose(2, bad(format!("not wired: {}; `ctxbridge hooks install` wires them", names(&missing))))?;
    }
    if status.wired {
        output.prose(2, format!("{} all is wired", styled(GOOD, "✓")))?;
    }
    Ok(())
}

fn tell_scope(scope: &ScopeStatus, output: &mut Output) -> anyhow::Result<()> {
    let bad = |text: String| format!("  {} {text}", styled(BAD, "✗"));
    let state = match (scope.exists, scope.hooks.len()) {
        (_, 0) if scope.problem.is_some() => styled(DIM, "(cannot be used)"),
        (false, _) => styled(DIM, "(no such file)"),
        (true, 0) => styled(DIM, "(no hook of ctxbridge)"),
        (true, 1) => "1 hook".to_owned(),
        (true, count) => format!("{count} hooks"),
    };
    output.prose(2, format!("{:<8} {} {state}", scope.scope.name(), short(&scope.file)))?;
    if let Some(problem) = &scope.problem {
        output.prose(2, bad(problem.clone()))?;
    }
    for hook in &scope.hooks {
        output.prose(2, hook_line(hook))?;
    }
    for unknown in &scope.unknown {
        let told = format!(
            "{} is not known to {}, which ignores this whole file because of it; `ctxbridge hooks install --scope {}` takes it out",
            unknown.event.name(),
            unknown.because_of,
            scope.scope.name()
        );
        output.prose(2, bad(told))?;
    }
    if scope.exists && !scope.hooks.is_empty() && scope.trusted == Some(false) {
        output.prose(
            2,
            bad("the client does not trust this project, and ignores these; start `claude` in it once and say yes".to_owned()),
        )?;
    }
    for command in &scope.related {
        output.prose(2, styled(DIM, format!("  not ours, since it does more than run a hook: {command}")))?;
    }
    Ok(())
}

fn hook_line(hook: &WiredHook) -> String {
    let mut remarks = Vec::new();
    if !hook.in_place {
        remarks.push("stands under another event".to_owned());
    }
    if hook.runs == Some(false) {
        remarks.push(
            if hook.program.contains(['/', '\\']) { "is not there or cannot be run" } else { "is not on the PATH" }.to_owned(),
        );
    }
    let matcher = hook.matcher.as_ref().map(|matcher| format!("only for `{matcher}`"));
    match hook.matcher_wanted {
        Some(wanted) => {
            let now = matcher.unwrap_or_else(|| "for all tools".to_owned());
            remarks.push(format!("{now} instead of `{wanted}`"));
        }
        None => remarks.extend(matcher),
    }
    let sound = hook.is_sound();
    let mark = if sound { styled(GOOD, "✓") } else { styled(BAD, "✗") };
    let remarks = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join(", ")) };
    let program = std::path::Path::new(&hook.program);
    let program =
        if paths::home_dir().is_some_and(|home| program.starts_with(home)) { short(program) } else { hook.program.clone() };
    format!("  {mark} {:<17} {}", hook.event.name(), styled(DIM, format!("{program}{remarks}")))
}
