/*!
The command line: arguments in, text or JSON out, no logic.

One file per command. Results go to stdout, everything else to stderr. Exit codes: 0 done or yes, 1 the answer is no, 2 wrong usage,
3 failure.
*/

mod archive;
mod archives;
mod autopilot;
mod bundle;
mod client_mod;
mod completions;
mod config;
mod dashboard;
mod demo;
mod doctor;
mod forget;
mod hook;
mod hooks;
mod learnings;
mod mcp;
mod model;
mod object_input;
mod output;
mod patch;
mod pick;
mod prune;
mod recall;
mod search_shared;
mod server;
mod statusline;

use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, Parser, Subcommand};

use crate::autopilot::{WindowStateStore, compact_window_tokens};
use output::Output;

use ctxbridge_archive::recovery;
use ctxbridge_common::paths;
use ctxbridge_config::{Config, ConfigSources};
use ctxbridge_patch::catalog::CatalogError;
use ctxbridge_patch::patcher::PatchError;
use ctxbridge_prune::PruneSettings;

/// Keeps Claude Code's context window lean without losing anything.
#[derive(Debug, Parser)]
#[command(name = "ctxbridge", version, propagate_version = true, infer_subcommands = false, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: CliCommand,
}

const EXAMPLES: &str = "Examples:
  ctxbridge patch apply     patch the `claude` that your shell runs
  ctxbridge patch verify    check that it is patched and intact
  ctxbridge patch revert    restore the original
  ctxbridge demo            try the patch on a copy, without an account";

/// Heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// Options of every command.
#[derive(Debug, clap::Args)]
struct Global {
    /// Print one JSON value on stdout and nothing else
    #[arg(long, global = true, help_heading = GLOBAL)]
    json: bool,
    /// Suppress non-essential output
    #[arg(short, long, global = true, help_heading = GLOBAL, conflicts_with = "verbose")]
    quiet: bool,
    /// Print more detail
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    verbose: bool,
    /// Control colors; NO_COLOR is respected
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Patch the installed Claude Code, verify it, or revert it
    Patch(patch::PatchArgs),
    /// Show what pruning would fold in a session, and what that saves
    Prune(prune::PruneArgs),
    /// Import, search, restore and export archived sessions
    Archive(archive::ArchiveArgs),
    /// Show and search the project's work log (committed in .ctxbridge/)
    Bundle(bundle::BundleArgs),
    /// List decisions, fixes and outcomes extracted from sessions
    Learnings(learnings::LearningsArgs),
    /// Forget turns or sessions for good, here and on the team server
    Forget(forget::ForgetArgs),
    /// Print the original text behind a ctx: handle
    Recall(recall::RecallArgs),
    /// Run an MCP server that lets a model search and recall the archive
    Mcp(mcp::McpArgs),
    /// (internal) Handle a Claude Code hook event from stdin
    #[command(hide = true)]
    Hook(hook::HookArgs),
    /// Install, remove and test the Claude Code hooks
    Hooks(hooks::HooksArgs),
    /// Answer compactions without a summary, and without a patch
    Mod(client_mod::ModArgs),
    /// Manage the embedding model used for semantic search
    Model(model::ModelArgs),
    /// Show the effect of the patch on a copy, without an account
    Demo(demo::DemoArgs),
    /// Show sessions, contexts, savings and hooks in a local web page
    Dashboard(dashboard::DashboardArgs),
    /// Show how full the context window is
    Autopilot(autopilot::AutopilotArgs),
    /// Print the status line for Claude Code, from its JSON on stdin
    Statusline(statusline::StatuslineArgs),
    /// Show the settings
    Config(config::ConfigArgs),
    /// Check the installation and report problems
    Doctor(doctor::DoctorArgs),
    /// Print a shell completion script
    Completions(completions::CompletionsArgs),
    /// Print the manual page
    #[command(after_help = "Example:\n  ctxbridge man > ~/.local/share/man/man1/ctxbridge.1")]
    Man,
}

/// Outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandOutcome {
    /// Done, or yes.
    Yes,
    /// No: not patched, drifted, nothing found.
    No,
}

/// Parses the arguments, does what they say, and turns the outcome into an exit code.
pub fn main() -> ExitCode {
    // Under a limit of the shell (`ulimit -f`) a write fails, and that is told; it must not end the process.
    #[cfg(unix)]
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default()).ok();
    let cli = Cli::try_parse_from(pick::arguments()).unwrap_or_else(|error| {
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
    if let CliCommand::Hook(args) = &cli.command {
        return args.run();
    }
    let mut output = Output::new(cli.global.json, cli.global.quiet, cli.global.verbose);
    match guarded(|| dispatch(&cli.command, &mut output)) {
        Ok(CommandOutcome::Yes) => ExitCode::SUCCESS,
        Ok(CommandOutcome::No) => ExitCode::from(1),
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            mend_archive(&output);
            ExitCode::from(if is_usage(&error) { 2 } else { 3 })
        }
    }
}

/// Mends the archive after an error if its pages are damaged. What was printed cannot be taken back, so the command is not run again.
fn mend_archive(output: &Output) {
    let Ok(data) = paths::data_dir() else { return };
    // Only an error that has this cause is worth reading all of the archive.
    if recovery::damaged_pages(&data).is_ok_and(|pages| pages > 0) {
        match recovery::mend_if_damaged(&data) {
            Ok(None) => output.note("the archive had damaged pages, and is mended: run the command again"),
            Ok(Some(aside)) => output.note(&recovery::quarantine_message(&aside)),
            Err(error) => output.note(&format!("note: {error}")),
        }
    }
}

/// Turns a panic into an error that reports a bug.
fn guarded(work: impl FnOnce() -> anyhow::Result<CommandOutcome>) -> anyhow::Result<CommandOutcome> {
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

fn dispatch(command: &CliCommand, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    match command {
        CliCommand::Patch(args) => args.run(output),
        // Has no output of the usual kind, see above.
        CliCommand::Hook(_) => Ok(CommandOutcome::Yes),
        CliCommand::Prune(args) => args.run(output),
        CliCommand::Archive(args) => args.run(output),
        CliCommand::Bundle(args) => args.run(output),
        CliCommand::Learnings(args) => args.run(output),
        CliCommand::Forget(args) => args.run(output),
        CliCommand::Recall(args) => args.run(output),
        CliCommand::Mcp(args) => args.run(output),
        CliCommand::Hooks(args) => args.run(output),
        CliCommand::Mod(args) => args.run(output),
        CliCommand::Model(args) => args.run(output),
        CliCommand::Demo(args) => args.run(output),
        CliCommand::Dashboard(args) => args.run(output),
        CliCommand::Autopilot(args) => args.run(output),
        CliCommand::Statusline(args) => args.run(output),
        CliCommand::Config(args) => args.run(output),
        CliCommand::Doctor(args) => args.run(output),
        CliCommand::Completions(args) => args.run(&mut Cli::command(), output),
        CliCommand::Man => completions::man(Cli::command(), output),
    }
}

/// Loads the user's settings, and notes their problems.
fn configuration(output: &Output) -> Config {
    let config = Config::load(&ConfigSources::of_process(None));
    for problem in &config.problems {
        output.note(&problem.to_string());
    }
    config
}

/// Adds what is known of windows to the settings by which a client that is patched and started now prunes.
fn with_windows(settings: PruneSettings) -> PruneSettings {
    let known = paths::data_path().map(|data| WindowStateStore::in_dir(&data).model_windows());
    PruneSettings { model_windows: known.unwrap_or_default(), compact_window_tokens: compact_window_tokens(), ..settings }
}

/// Error for arguments that do not make sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UsageError(String);

/// `true` if the arguments are at fault: a patch that does not exist is like an option that does not exist.
fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<UsageError>()
        || matches!(error.downcast_ref(), Some(PatchError::Catalog(CatalogError::Unknown { .. } | CatalogError::NoDefault)))
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
