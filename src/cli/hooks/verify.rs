//! `ctxbridge hooks verify`

use serde_json::json;

use super::{ClientArg, CommandOutcome, Output, ScopeArg, events_of_some, places, scopes};
use crate::cli::output::{BAD, DIM, GOOD, count, duration, size, styled};
use crate::hook::Event;
use crate::hook::settings::pipeline::PipelineCheck;
use crate::hook::settings::status::status;
use crate::hook::settings::tried_settings::TriedSettings;
use crate::hook::settings::verify::{HookTrial, SLOW_MS, Verified, verify};
use crate::hook::settings::wiring::WIRED;
use ctxbridge_config::{Config, ConfigSources};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge hooks verify

Runs each installed hook, or all if none is installed, on a sample session in a scratch folder. Your settings and your archive \
are not touched.

Then checks the results, one line each: settings edited and restored, bundle lines written, turns archived, found by a search, \
recalled by a later prompt (also in a clone), and restored byte for byte.

The checks use your settings, but for a server and for other folders. What they disable is not checked, and is listed at the end. \
Exits 1 if a check fails.")]
pub(super) struct HooksVerifyArgs {
    /// Test only the hooks in this settings file [default: all]
    #[arg(long, value_enum)]
    scope: Option<ScopeArg>,
    #[command(flatten)]
    client: ClientArg,
}

/// Settings that disable a checked feature, with the effect of disabling it.
const SWITCHES: [(&str, &str); 5] = [
    ("archive.enabled", "nothing is archived"),
    ("bundle.enabled", "nothing is noted down in bundles"),
    ("recall.prompts", "prompts are given nothing"),
    ("recall.agents", "sub-agents are given nothing"),
    ("archive.restore_budget", "nothing comes back after a compaction"),
];

impl HooksVerifyArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let places = places()?;
        let found = status(&places, &scopes(self.scope), (&[], &[]), std::env::var_os("PATH").as_deref())?;
        let mut events: Vec<Event> = found.scopes.iter().flat_map(|scope| &scope.hooks).map(|hook| hook.event).collect();
        let wiring = match (found.plugin_runs, events.len()) {
            (Some(true), 0) => HookOrigin::Plugin,
            (_, 0) => HookOrigin::None,
            (_, hooks) => HookOrigin::Settings(hooks),
        };
        if events.is_empty() {
            // What the install would wire; all of it where no client is found that might not know it.
            let readers = self.client.readers(&places, output);
            let all = || Ok((WIRED.iter().map(|wiring| wiring.event).collect(), Vec::new()));
            (events, _) = if readers.clients.is_empty() { all() } else { events_of_some(&readers) }?;
        }
        let progress = |event: &str| output.progress(event);
        let config = Config::load(&ConfigSources::of_process(Some(&std::env::current_dir()?)));
        let settings = TriedSettings::of(&config);
        let verified = verify(&std::env::current_exe()?, &events, &settings, &progress)?;
        output.clear_progress();
        let off: Vec<_> = SWITCHES.into_iter().filter(|(name, _)| settings.is_off(name)).collect();
        if output.json {
            let mut value = serde_json::to_value(&verified)?;
            value["wired_by"] = json!(wiring.word());
            value["switched_off"] = json!(off.iter().map(|(key, _)| key).collect::<Vec<_>>());
            output.value(&value)?;
        } else {
            output.prose(2, styled(DIM, wiring.text()))?;
            tell(&verified, output)?;
        }
        for run in verified.hooks.iter().filter(|run| run.elapsed_ms > SLOW_MS) {
            output.note(&format!("note: {} took {}, for which the client waits", run.event.name(), duration(run.elapsed_ms)));
        }
        for (key, what) in off {
            output.note(&format!("note: {key} is disabled, so {what}; `ctxbridge config show` says by which file"));
        }
        Ok(if verified.ok { CommandOutcome::Yes } else { CommandOutcome::No })
    }
}

/// The way in which hooks are wired, which says what is tested.
enum HookOrigin {
    /// In settings; the number of hooks.
    Settings(usize),
    /// By the plugin, which has all of them.
    Plugin,
    /// In no way.
    None,
}

impl HookOrigin {
    fn word(&self) -> &'static str {
        match self {
            Self::Settings(_) => "settings",
            Self::Plugin => "plugin",
            Self::None => "nothing",
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Settings(hooks) => {
                format!("{} in your settings; each is run once, in a scratch folder", count(*hooks as u64, "hook"))
            }
            Self::Plugin => "wired by the plugin; each of its hooks is run once, in a scratch folder".to_owned(),
            Self::None => "no hook is wired, so these are those that `ctxbridge hooks install` would wire".to_owned(),
        }
    }
}

fn mark(ok: bool) -> String {
    if ok { styled(GOOD, "✓") } else { styled(BAD, "✗") }
}

fn tell(verified: &Verified, output: &mut Output) -> anyhow::Result<()> {
    for HookTrial { event, input, ok, elapsed_ms, stdout_bytes, problem, .. } in &verified.hooks {
        let name = input.map_or_else(|| event.name().to_owned(), |input| format!("{} ({input})", event.name()));
        let said = match problem {
            Some(problem) => problem.clone(),
            None if *stdout_bytes == 0 => styled(DIM, "said nothing"),
            None => styled(DIM, format!("said {}", size(*stdout_bytes as i64))),
        };
        output.prose(34, format!("{} {name:<22} {:>7}  {said}", mark(*ok), duration(*elapsed_ms)))?;
    }
    for PipelineCheck { name, ok, said, problem } in &verified.checks {
        let said = problem.as_ref().or(said.as_ref()).map_or("", String::as_str);
        output.prose(34, format!("{} {name:<22} {:>7}  {said}", mark(*ok), ""))?;
    }
    Ok(())
}
