/*!
The command line: arguments in, text or JSON out, no logic.

One file a command. Results go to stdout, everything else to stderr. Exit codes: 0 done or yes, 1 the answer is no, 2 wrong usage,
3 could not be done.
*/

mod archive;
mod autopilot;
mod bundle;
mod completions;
mod config;
mod dashboard;
mod demo;
mod doctor;
mod finding;
mod hook;
mod hooks;
mod learnings;
mod mcp;
mod model;
mod output;
mod patch;
mod prune;
mod recall;
mod server;
mod statusline;

use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, Parser, Subcommand};

use output::Output;

use ctxbridge_config::{Config, Sources};
use ctxbridge_patch::catalogue::CatalogueError;
use ctxbridge_patch::patcher::PatchError;

/// Keeps Claude Code's context window lean without losing anything.
#[derive(Debug, Parser)]
#[command(name = "ctxbridge", version, propagate_version = true, infer_subcommands = false, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  ctxbridge patch apply     patch the `claude` that your shell runs
  ctxbridge patch verify    is it patched, by ctxbridge, intact
  ctxbridge patch revert    put the original back
  ctxbridge demo            see the effect on a copy, with no account";

/// Options of every command.
#[derive(Debug, clap::Args)]
struct Global {
    /// Print one JSON value on stdout and nothing else
    #[arg(long, global = true)]
    json: bool,
    /// Say less
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more
    #[arg(short, long, global = true)]
    verbose: bool,
    /// When to use colours; NO_COLOR is honoured
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Patch the installed client, check it, put it back
    Patch(patch::PatchArgs),
    /// Show what pruning would cut of a session, and what that saves
    Prune(prune::PruneArgs),
    /// What was said and done: import, look at, restore
    Archive(archive::ArchiveArgs),
    /// What was asked and done in a project, in files that are committed with it
    Bundle(bundle::BundleArgs),
    /// What was decided and found out in archived sessions
    Learnings(learnings::LearningsArgs),
    /// Print a turn in full, by the handle that stands in restored context
    Recall(recall::RecallArgs),
    /// Let a model search and recall what is archived: an MCP server on stdin and stdout
    Mcp(mcp::McpArgs),
    /// Run by Claude Code at its events: JSON on stdin
    Hook(hook::HookArgs),
    /// Wire ctxbridge into the client's settings
    Hooks(hooks::HooksArgs),
    /// The model by which the archive finds what says the same in other words
    Model(model::ModelArgs),
    /// Patch a copy of a real release and watch it talk to a stub, with no account
    Demo(demo::DemoArgs),
    /// Show sessions, contexts, savings and hooks in a browser, on this machine alone
    Dashboard(dashboard::DashboardArgs),
    /// Show how full the context window is
    Autopilot(autopilot::AutopilotArgs),
    /// Print the line that Claude Code shows under its prompt, from its JSON on stdin
    Statusline(statusline::StatuslineArgs),
    /// Show the settings
    Config(config::ConfigArgs),
    /// Look whether everything is as it should be, or what hooks were told
    Doctor(doctor::DoctorArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page
    #[command(after_help = "Example:\n  ctxbridge man > ~/.local/share/man/man1/ctxbridge.1")]
    Man,
}

/// What a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Done, or yes.
    Yes,
    /// No: not patched, drifted, nothing found.
    No,
}

/// Parses the arguments, does what they say, and turns the outcome into an exit code.
pub fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        // What the client runs must not fail it, and exit code 2 would block: an older version may be called by newer settings.
        let is_hook = std::env::args_os().nth(1).is_some_and(|command| command == "hook");
        if is_hook && error.use_stderr() {
            eprint!("{error}");
            std::process::exit(0);
        }
        error.exit()
    });
    let choice = match cli.global.color {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
    if let Command::Hook(args) = &cli.command {
        return args.run();
    }
    let mut output = Output::new(cli.global.json, cli.global.quiet, cli.global.verbose);
    match guarded(|| dispatch(&cli.command, &mut output)) {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(if is_usage(&error) { 2 } else { 3 })
        }
    }
}

/// No panic reaches a user: it is a bug of ours, and is said as such.
fn guarded(work: impl FnOnce() -> anyhow::Result<Answer>) -> anyhow::Result<Answer> {
    let report = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let kept = report.clone();
    std::panic::set_hook(Box::new(move |panic| {
        if let Ok(mut kept) = kept.lock() {
            *kept = panic.to_string();
        }
    }));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let what = report.lock().map_or_else(|_| String::new(), |report| report.replace('\n', " "));
        Err(anyhow::anyhow!("a bug in ctxbridge {}: {what}. Please report it", env!("CARGO_PKG_VERSION")))
    })
}

fn dispatch(command: &Command, output: &mut Output) -> anyhow::Result<Answer> {
    match command {
        Command::Patch(args) => args.run(output),
        // Has no output of the usual kind, see above.
        Command::Hook(_) => Ok(Answer::Yes),
        Command::Prune(args) => args.run(output),
        Command::Archive(args) => args.run(output),
        Command::Bundle(args) => args.run(output),
        Command::Learnings(args) => args.run(output),
        Command::Recall(args) => args.run(output),
        Command::Mcp(args) => args.run(output),
        Command::Hooks(args) => args.run(output),
        Command::Model(args) => args.run(output),
        Command::Demo(args) => args.run(output),
        Command::Dashboard(args) => args.run(output),
        Command::Autopilot(args) => args.run(output),
        Command::Statusline(args) => args.run(output),
        Command::Config(args) => args.run(output),
        Command::Doctor(args) => args.run(output),
        Command::Completions(args) => args.run(&mut Cli::command(), output),
        Command::Man => completions::man(Cli::command(), output),
    }
}

/// A patch that does not exist is a mistake in the arguments, like an option that does not exist.
/// What the user has set; what is wrong in there is told.
fn configuration(output: &Output) -> Config {
    let config = Config::load(&Sources::of_process(None));
    for problem in &config.problems {
        output.note(&problem.to_string());
    }
    config
}

/// The command was given what it cannot mean.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<Usage>()
        || matches!(error.downcast_ref(), Some(PatchError::Catalogue(CatalogueError::Unknown { .. } | CatalogueError::NoDefault)))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_well_formed_and_each_has_an_example() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        let mut stack: Vec<_> = command.get_subcommands().collect();
        let mut seen = 0;
        while let Some(command) = stack.pop() {
            // Clap's own, which only shows the help of others.
            if command.get_name() == "help" {
                continue;
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "`{}` has no example", command.get_name());
            stack.extend(command.get_subcommands());
            seen += 1;
        }
        assert!(seen >= 10, "only {seen} commands were looked at");
    }
}
