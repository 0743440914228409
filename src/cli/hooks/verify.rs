//! `ctxbridge hooks verify`

use serde_json::json;

use super::{Answer, ClientArg, Output, ScopeArg, events_of_some, places, scopes};
use crate::cli::output::{BAD, DIM, GOOD, duration, size, styled};
use crate::hook::Event;
use crate::hook::settings::pipeline::Check;
use crate::hook::settings::status::status;
use crate::hook::settings::verify::{Run, SLOW_MS, Verified, verify};
use crate::hook::settings::wiring::WIRED;
use ctxbridge_config::{Config, KEYS, Sources};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge hooks verify

Each hook that is wired, or all when none is, runs with a sample session in a scratch folder: your settings and your archive are
not touched. Then a line each for what becomes of it: settings written and put back, lines in the project's bundle, turns in the
archive, found by a search, recalled by a later prompt (also in a clone, from the bundles), restored to the byte. All of that is
tried with the settings that ctxbridge comes with; what yours switch off here is noted at the end. Exit code 1 when one fails.")]
pub(super) struct VerifyArgs {
    /// Try what is wired in these settings only [default: in any]
    #[arg(long, value_enum)]
    scope: Option<ScopeArg>,
    #[command(flatten)]
    client: ClientArg,
}

/// Settings that switch off something that is tried, and what is off then.
const SWITCHES: [(&str, &str); 4] = [
    ("bundle.enabled", "nothing is noted down in bundles"),
    ("recall.prompts", "prompts are given nothing"),
    ("recall.agents", "sub-agents are given nothing"),
    ("archive.restore_budget", "nothing comes back after a compaction"),
];

impl VerifyArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let places = places()?;
        let found = status(&places, &scopes(self.scope), (&[], &[]), std::env::var_os("PATH").as_deref())?;
        let mut events: Vec<Event> = found.scopes.iter().flat_map(|scope| &scope.hooks).map(|hook| hook.event).collect();
        if events.is_empty() {
            // What the install would wire; all of it where no client is found that might not know it.
            let readers = self.client.readers(&places, output);
            let all = || Ok((WIRED.iter().map(|wiring| wiring.event).collect(), Vec::new()));
            (events, _) = if readers.clients.is_empty() { all() } else { events_of_some(&readers) }?;
        }
        let progress = |event: &str| output.progress(event);
        let verified = verify(&std::env::current_exe()?, &events, &progress)?;
        output.clear_progress();
        let off = switched_off()?;
        if output.json {
            let mut value = serde_json::to_value(&verified)?;
            value["switched_off"] = json!(off.iter().map(|(key, _)| key).collect::<Vec<_>>());
            output.value(&value)?;
        } else {
            tell(&verified, output)?;
        }
        for run in verified.hooks.iter().filter(|run| run.elapsed_ms > SLOW_MS) {
            output.note(&format!("note: {} took {}, for which the client waits", run.event.name(), duration(run.elapsed_ms)));
        }
        for (key, what) in off {
            output.note(&format!("note: {key} is off here, so that {what}; `ctxbridge config show` says by which file"));
        }
        Ok(if verified.ok { Answer::Yes } else { Answer::No })
    }
}

/// What the settings of this folder switch off of what is tried.
fn switched_off() -> anyhow::Result<Vec<(&'static str, &'static str)>> {
    let config = Config::load(&Sources::of_process(Some(&std::env::current_dir()?)));
    let is_off = |name: &str| {
        let key = KEYS.iter().find(|key| key.name == name);
        key.is_some_and(|key| matches!((key.get)(&config), serde_json::Value::Bool(false)) || (key.get)(&config) == 0)
    };
    Ok(SWITCHES.into_iter().filter(|(name, _)| is_off(name)).collect())
}

fn mark(ok: bool) -> String {
    if ok { styled(GOOD, "✓") } else { styled(BAD, "✗") }
}

fn tell(verified: &Verified, output: &mut Output) -> anyhow::Result<()> {
    for Run { event, input, ok, elapsed_ms, stdout_bytes, problem, .. } in &verified.hooks {
        let name = input.map_or_else(|| event.name().to_owned(), |input| format!("{} ({input})", event.name()));
        let said = match problem {
            Some(problem) => problem.clone(),
            None if *stdout_bytes == 0 => styled(DIM, "said nothing"),
            None => styled(DIM, format!("said {}", size(*stdout_bytes as i64))),
        };
        output.line(format!("{} {name:<22} {:>7}  {said}", mark(*ok), duration(*elapsed_ms)))?;
    }
    for Check { name, ok, said, problem } in &verified.checks {
        let said = problem.as_ref().or(said.as_ref()).map_or("", String::as_str);
        output.line(format!("{} {name:<22} {:>7}  {said}", mark(*ok), ""))?;
    }
    Ok(())
}
