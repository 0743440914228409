//! Steps of the setup: each is a command that a user could type, with the state that it would find.

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use super::survey::Survey;
use crate::cli::output::short;
use crate::client_mod::install::{ENABLING_VARIABLE, FIRST_RELEASE, ReleaseSupport};
use crate::hook::settings::statusline::StatuslineState;
use ctxbridge_patch::inspect::TargetState;

/// A step: its flag, its question, and what it is good for.
pub(super) struct SetupStep {
    /// Its flag: `--hooks`, `--no-hooks`.
    pub name: &'static str,
    /// The question to the user.
    pub question: &'static str,
    /// The command that does it.
    pub command: &'static [&'static str],
    state: fn(&Survey) -> StepState,
}

/// State of a step on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StepState {
    /// It was done before.
    Done(String),
    /// It can be done, and is unless the user says no.
    Offered,
    /// It can be done, and is if the user says yes.
    Optional,
    /// It cannot be done, or would be of no use, for a reason.
    LeftOut(String),
}

/// The steps, in the order in which they are done: those that others build on first.
pub(super) const STEPS: [SetupStep; 8] = [
    SetupStep {
        name: "mod",
        question: "Answer compactions without a summary, by a plugin? Claude Code itself is not changed",
        command: &["mod", "install"],
        state: |survey| match (&survey.client, survey.mod_support()) {
            _ if survey.has_plugin => StepState::Done("the plugin is installed".to_owned()),
            (Err(_), _) => StepState::LeftOut("there is no client".to_owned()),
            (_, ReleaseSupport::Yes) => StepState::Offered,
            (_, ReleaseSupport::WithVariable) => {
                StepState::LeftOut(format!("this release asks plugins only with {ENABLING_VARIABLE}=1"))
            }
            (_, ReleaseSupport::No) => StepState::LeftOut(format!("it needs Claude Code {FIRST_RELEASE} or newer")),
        },
    },
    SetupStep {
        name: "hooks",
        question: "Archive every turn, and bring the right ones back, by hooks?",
        command: &["hooks", "install"],
        state: |survey| match &survey.client {
            _ if survey.has_hooks => StepState::Done("they are in your settings".to_owned()),
            Err(_) => StepState::LeftOut("there is no client".to_owned()),
            Ok(_) => StepState::Offered,
        },
    },
    SetupStep {
        name: "import",
        question: "Take the sessions from before into the archive?",
        command: &["archive", "import"],
        state: |survey| match (survey.transcripts.len(), survey.unarchived) {
            (0, _) => StepState::LeftOut("there are no sessions yet".to_owned()),
            (_, 0) => StepState::Done("all of them are archived".to_owned()),
            _ => StepState::Offered,
        },
    },
    SetupStep {
        name: "statusline",
        question: "Show in the status line how full the window is?",
        command: &["statusline", "install"],
        state: |survey| match &survey.statusline {
            Ok(StatuslineState::Ours) => StepState::Done("it is in your settings".to_owned()),
            Ok(StatuslineState::Other(_)) => StepState::LeftOut("another status line is there, and stays".to_owned()),
            Ok(StatuslineState::Absent) if survey.client.is_err() => StepState::LeftOut("there is no client".to_owned()),
            Ok(StatuslineState::Absent) => StepState::Offered,
            Err(error) => StepState::LeftOut(error.clone()),
        },
    },
    SetupStep {
        name: "patch",
        question: "Patch Claude Code, so that old steps leave each request? `ctxbridge patch revert` undoes it",
        command: &["patch", "apply"],
        state: |survey| match (&survey.client, survey.patch) {
            (Err(_), _) => StepState::LeftOut("there is no client".to_owned()),
            (_, Some(TargetState::Patched)) => StepState::Done("it is patched".to_owned()),
            (_, Some(TargetState::Foreign | TargetState::Modified)) => {
                StepState::LeftOut("its file was changed by something else; `ctxbridge patch verify` says more".to_owned())
            }
            // Where the mod answers, the patch only makes requests cheaper, and changes the client's file for it.
            _ if survey.mod_support() == ReleaseSupport::Yes => StepState::Optional,
            _ => StepState::Offered,
        },
    },
    SetupStep {
        name: "keep",
        question: "Patch upgrades of Claude Code as well, in the background?",
        command: &["config", "set", "patch.keep", "true"],
        state: |survey| match (&survey.client, survey.patch) {
            (Err(_), _) => StepState::LeftOut("there is no client".to_owned()),
            _ if survey.keeps_patch => StepState::Done("`patch.keep` is on".to_owned()),
            (_, Some(TargetState::Patched)) => StepState::Offered,
            _ => StepState::LeftOut("nothing is patched".to_owned()),
        },
    },
    SetupStep {
        name: "bundle",
        question: "Keep a work log in this project, to commit with it?",
        command: &["bundle", "init"],
        state: |survey| match &survey.project {
            None => StepState::LeftOut("this folder is no project".to_owned()),
            Some((root, true)) => StepState::Done(format!("{} has one", short(root))),
            Some((_, false)) => StepState::Optional,
        },
    },
    SetupStep {
        name: "model",
        question: "Find more by meaning? It downloads a model of 91 MB, once",
        command: &["model", "install"],
        state: |survey| if survey.has_model { StepState::Done("it is installed".to_owned()) } else { StepState::Optional },
    },
];

impl SetupStep {
    /// The state on a machine that is as surveyed.
    pub fn state(&self, survey: &Survey) -> StepState {
        (self.state)(survey)
    }
}

/// Choices of the command line: by step, yes or no, where one was made.
#[derive(Clone, Debug, Default)]
pub(super) struct StepChoices(Vec<(&'static str, bool)>);

impl StepChoices {
    /// The choice for a step.
    pub fn of(&self, step: &SetupStep) -> Option<bool> {
        self.0.iter().find(|(name, _)| *name == step.name).map(|(_, choice)| *choice)
    }
}

impl FromArgMatches for StepChoices {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = |step: &SetupStep| match (matches.get_flag(step.name), matches.get_flag(&no(step))) {
            (true, _) => Some((step.name, true)),
            (_, true) => Some((step.name, false)),
            _ => None,
        };
        Ok(Self(STEPS.iter().filter_map(typed).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for StepChoices {
    fn augment_args(mut command: Command) -> Command {
        for step in &STEPS {
            let words = step.command.join(" ");
            let flag = |id: String, help: String| Arg::new(id.clone()).long(id).action(ArgAction::SetTrue).help(help);
            command = command
                .arg(flag(step.name.to_owned(), format!("Run `{words}` without asking")).overrides_with(no(step)))
                .arg(flag(no(step), format!("Leave out `{words}`")).overrides_with(step.name));
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn no(step: &SetupStep) -> String {
    format!("no-{}", step.name)
}
