//! `ctxbridge hooks verify`

use super::{Answer, Output, ScopeArg, places, scopes};
use crate::cli::output::{BAD, DIM, GOOD, duration, size, styled};
use crate::hook::Event;
use crate::hook::settings::pipeline::Check;
use crate::hook::settings::status::status;
use crate::hook::settings::verify::{Run, SLOW_MS, Verified, verify};
use crate::hook::settings::wiring::WIRED;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge hooks verify

Each hook that is wired, or all when none is, runs with a sample session in a scratch folder: your settings and your archive are
not touched. Then a line each for what becomes of it: settings written and put back, lines in the project's bundle, turns in the
archive, found by a search, recalled by a later prompt (also in a clone, from the bundles), restored to the byte. Exit code 1 when
one fails.")]
pub(super) struct VerifyArgs {
    /// Try what is wired in these settings only [default: in any]
    #[arg(long, value_enum)]
    scope: Option<ScopeArg>,
}

impl VerifyArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let found = status(&places()?, &scopes(self.scope), (&[], &[]), std::env::var_os("PATH").as_deref())?;
        let mut events: Vec<Event> = found.scopes.iter().flat_map(|scope| &scope.hooks).map(|hook| hook.event).collect();
        if events.is_empty() {
            events = WIRED.iter().map(|wiring| wiring.event).collect();
        }
        let progress = |event: &str| output.progress(event);
        let verified = verify(&std::env::current_exe()?, &events, &progress)?;
        output.clear_progress();
        if output.json {
            output.value(&verified)?;
        } else {
            tell(&verified, output)?;
        }
        for run in verified.hooks.iter().filter(|run| run.elapsed_ms > SLOW_MS) {
            output.note(&format!("note: {} took {}, for which the client waits", run.event.name(), duration(run.elapsed_ms)));
        }
        Ok(if verified.ok { Answer::Yes } else { Answer::No })
    }
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
