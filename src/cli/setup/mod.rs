//! `ctxbridge setup`

mod steps;
mod survey;

use std::io::{self, BufRead as _, IsTerminal, Write as _};

use serde_json::json;

use super::output::{BAD, BOLD, DIM, GOOD, Output, OutputOptions, count, short, styled, wrapped_for_stderr};
use super::wired_program::refresh_copy;
use super::{CommandOutcome, UsageError, run_typed};
use ctxbridge_patch::inspect::TargetState;
use steps::{STEPS, SetupStep, StepChoices, StepState};
use survey::Survey;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge setup                   ask before each step
  ctxbridge setup --yes --no-model  take the defaults, and no model
  ctxbridge setup --dry-run         only say what would be done

Each step is a command of its own, and `ctxbridge uninstall` undoes them all. Run it again at any time: what is done is left alone.")]
pub(super) struct SetupArgs {
    /// Take the default of each step instead of asking
    #[arg(short, long)]
    yes: bool,
    /// Say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    choices: StepChoices,
}

/// Outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StepOutcome {
    /// It was done now, or would be with `--dry-run`.
    Ran,
    /// It was done before.
    AlreadyDone(String),
    /// The user, or the default, said no.
    Declined,
    /// It cannot be done here.
    LeftOut(String),
    /// It failed.
    Failed(String),
}

impl StepOutcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Ran => "done",
            Self::AlreadyDone(_) => "already_done",
            Self::Declined => "declined",
            Self::LeftOut(_) => "left_out",
            Self::Failed(_) => "failed",
        }
    }

    fn reason(&self) -> Option<&str> {
        match self {
            Self::AlreadyDone(reason) | Self::LeftOut(reason) | Self::Failed(reason) => Some(reason),
            Self::Ran | Self::Declined => None,
        }
    }
}

impl SetupArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let asks = !self.yes && !self.dry_run;
        if asks && (output.json || !io::stdin().is_terminal()) {
            return Err(UsageError(
                "setup asks, and nobody can answer here; --yes takes the defaults, --dry-run only says what it would do"
                    .to_owned(),
            )
            .into());
        }
        output.reports();
        if !self.dry_run {
            refresh_copy()?;
        }
        let mut survey = Survey::of_this_machine(output)?;
        if !output.json {
            tell(&survey, output)?;
        }
        let mut outcomes = Vec::new();
        for step in &STEPS {
            let outcome = self.take(step, &survey, output)?;
            match step.name {
                // It has the hooks as well.
                "mod" if outcome == StepOutcome::Ran => survey.has_plugin = true,
                "patch" if outcome == StepOutcome::Ran => survey.patch = Some(TargetState::Patched),
                _ => {}
            }
            if !output.json {
                tell_step(step, &outcome, self.dry_run, output)?;
            }
            outcomes.push((step, outcome));
        }
        if output.json {
            let replayed = survey.replayed;
            output.value(&json!({
                "client": survey.client.as_ref().ok().map(|client| &client.path),
                "version": survey.client.as_ref().ok().and_then(|client| client.version.as_ref()).map(ToString::to_string),
                "sessions": survey.transcripts.len(), "replayed": replayed, "dry_run": self.dry_run,
                "steps": outcomes.iter().map(|(step, outcome)| json!({
                    "step": step.name, "command": format!("ctxbridge {}", step.command.join(" ")), "state": outcome.word(), "reason": outcome.reason(),
                })).collect::<Vec<_>>(),
            }))?;
        } else {
            tell_next(&survey, &outcomes, self.dry_run, output)?;
        }
        let failed = outcomes.iter().filter(|(_, outcome)| matches!(outcome, StepOutcome::Failed(_))).count();
        anyhow::ensure!(
            failed == 0,
            "{} failed; the lines above say why, and `ctxbridge setup` goes on from there",
            count(failed as u64, "step")
        );
        Ok(CommandOutcome::Yes)
    }

    /// Asks about a step, and does it.
    fn take(&self, step: &SetupStep, survey: &Survey, output: &mut Output) -> anyhow::Result<StepOutcome> {
        let is_covered = step.name == "hooks" && survey.has_plugin && !survey.has_hooks;
        let default = match step.state(survey) {
            StepState::Done(reason) => return Ok(StepOutcome::AlreadyDone(reason)),
            // Who asked for it is told that it cannot be.
            StepState::LeftOut(reason) if self.choices.of(step) == Some(true) => return Ok(StepOutcome::Failed(reason)),
            StepState::LeftOut(reason) => return Ok(StepOutcome::LeftOut(reason)),
            _ if is_covered && self.choices.of(step).is_none() => {
                return Ok(StepOutcome::LeftOut("the plugin brings them".to_owned()));
            }
            StepState::Offered => true,
            StepState::Optional => false,
        };
        let is_wanted = match self.choices.of(step) {
            Some(choice) => choice,
            None if self.yes || self.dry_run => default,
            None => ask(step.question, default)?,
        };
        if !is_wanted {
            return Ok(StepOutcome::Declined);
        }
        if self.dry_run {
            return Ok(StepOutcome::Ran);
        }
        // What it prints would be more than one value for a program, and is too much for a person.
        let quiet =
            OutputOptions { json: false, quiet: output.json || !output.verbose, verbose: output.verbose, may_page: false };
        let mut inner = Output::new(quiet);
        inner.reports();
        output.progress(&format!("ctxbridge {}", step.command.join(" ")));
        let done = run_typed(step.command, &mut inner);
        output.clear_progress();
        Ok(match done {
            Ok(CommandOutcome::Yes) => StepOutcome::Ran,
            Ok(CommandOutcome::No) => {
                StepOutcome::Failed(format!("nothing was changed; `ctxbridge {}` says why", step.command.join(" ")))
            }
            Err(error) => StepOutcome::Failed(format!("{error:#}")),
        })
    }
}

/// Asks a question that is answered by yes or no; Enter takes the default.
pub(super) fn ask(question: &str, default: bool) -> anyhow::Result<bool> {
    let hint = if default { "[Y/n]" } else { "[y/N]" };
    loop {
        let mut stderr = anstream::stderr().lock();
        write!(stderr, "{} ", wrapped_for_stderr(&format!("{BOLD}{question}{BOLD:#} {DIM}{hint}{DIM:#}")))?;
        stderr.flush()?;
        drop(stderr);
        let mut answer = String::new();
        if io::stdin().lock().read_line(&mut answer)? == 0 {
            anyhow::bail!("there was no answer; nothing more was changed, and the same command goes on from there");
        }
        match answer.trim().to_lowercase().as_str() {
            "" => return Ok(default),
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => writeln!(anstream::stderr().lock(), "Please answer y or n.")?,
        }
    }
}

/// Says in three lines what was found.
fn tell(survey: &Survey, output: &mut Output) -> anyhow::Result<()> {
    match &survey.client {
        Ok(client) => output.prose(
            2,
            format!("{} {} {}", styled(BOLD, "Claude Code"), client.version_text(), styled(DIM, short(&client.path))),
        )?,
        Err(_) => output.prose(2, format!("{} no `claude` is on the PATH", styled(BAD, "No Claude Code:")))?,
    }
    let since = survey.since_day().map(|day| format!(" since {day}")).unwrap_or_default();
    let (sessions, replayed) = (survey.transcripts.len() as u64, survey.replayed);
    let avoided = replayed.compactions.saturating_sub(replayed.pruned_compactions);
    let savings = match (replayed.sessions, replayed.compactions) {
        (0, _) => String::new(),
        (some, _) if some < sessions => format!("; of the newest {some}, {}", compactions(replayed.compactions, avoided)),
        (_, _) => format!("; {}", compactions(replayed.compactions, avoided)),
    };
    match sessions {
        0 => output.prose(2, "No sessions yet")?,
        _ => output.prose(2, format!("{}{since}{savings}", count(sessions, "session")))?,
    }
    let archived = match survey.archived {
        0 => "no archive yet".to_owned(),
        some => format!("{} archived", count(some, "session")),
    };
    output.prose(2, format!("Settings in {}; {archived}", short(&survey.settings)))?;
    output.prose(2, "")?;
    Ok(())
}

fn compactions(number: u64, avoided: u64) -> String {
    match (number, avoided) {
        (0, _) => "no compaction in them".to_owned(),
        (1, 1) => "1 compaction, which pruning would have avoided".to_owned(),
        (number, avoided) => format!("{}; pruning would have avoided {avoided}", count(number, "compaction")),
    }
}

fn tell_step(step: &SetupStep, outcome: &StepOutcome, is_dry: bool, output: &mut Output) -> anyhow::Result<()> {
    let command = format!("ctxbridge {}", step.command.join(" "));
    let (mark, said) = match outcome {
        StepOutcome::Ran if is_dry => (styled(GOOD, "+"), format!("would run `{command}`")),
        StepOutcome::Ran => (styled(GOOD, "✓"), styled(DIM, &command)),
        StepOutcome::AlreadyDone(reason) => (styled(GOOD, "✓"), styled(DIM, format!("already: {reason}"))),
        StepOutcome::Declined => (styled(DIM, "–"), styled(DIM, format!("`{command}` does it later"))),
        StepOutcome::LeftOut(reason) => (styled(DIM, "–"), styled(DIM, reason)),
        StepOutcome::Failed(reason) => (styled(BAD, "✗"), reason.clone()),
    };
    output.prose(2, format!("{mark} {:<10}  {said}", step.name))?;
    Ok(())
}

fn tell_next(survey: &Survey, outcomes: &[(&SetupStep, StepOutcome)], is_dry: bool, output: &mut Output) -> anyhow::Result<()> {
    let ran = |name: &str| outcomes.iter().any(|(step, outcome)| step.name == name && *outcome == StepOutcome::Ran);
    output.prose(2, "")?;
    let would_run = is_dry && outcomes.iter().any(|(_, outcome)| *outcome == StepOutcome::Ran);
    let next = if would_run {
        "Nothing was changed. `ctxbridge setup` does it, and asks before each step."
    } else if survey.client.is_err() {
        "Install Claude Code, then run `ctxbridge setup` again."
    } else if is_dry {
        "Nothing was changed, and nothing is left to do."
    } else if ran("mod") || ran("hooks") {
        "It takes effect in the next session. Next: `ctxbridge sessions`, `ctxbridge doctor`."
    } else {
        "Next: `ctxbridge sessions` lists what is archived, `ctxbridge doctor` checks it all."
    };
    output.prose(0, next)?;
    Ok(())
}
