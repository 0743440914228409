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
mod command_list;
mod completions;
mod config;
mod dashboard;
mod demo;
mod doctor;
mod forget;
mod format;
mod hook;
mod hooks;
mod learnings;
mod man;
mod mcp;
mod merge_back;
mod model;
mod object_input;
mod output;
mod pager;
mod patch;
mod pick;
mod prune;
mod recall;
mod search_shared;
mod server;
mod setup;
mod stats;
mod statusline;
mod uninstall;
mod wired_program;

use std::process::ExitCode;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::autopilot::{WindowStateStore, compact_window_tokens};
use output::{Output, OutputOptions};

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
    command: Option<CliCommand>,
}

const EXAMPLES: &str = "Examples:
  ctxbridge                           pick a session or a turn from a list
  ctxbridge setup                     install what fits your client, step by step
  ctxbridge search flaky login test   find a turn of any session
  ctxbridge recall ctx:1a2b3c4d       print it in full
  ctxbridge demo                      see it work on a copy, without an account

`ctxbridge COMMAND --help` explains a command.";

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
    /// Do not show long output page by page
    #[arg(long, global = true, help_heading = GLOBAL)]
    no_pager: bool,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// List archived sessions, newest first
    Sessions(archive::SessionsArgs),
    /// Search all sessions by words and meaning
    Search(archive::SearchArgs),
    /// Show the turns of a session, or one turn in full
    Show(archive::ShowArgs),
    /// Print the original text behind a ctx: handle
    Recall(recall::RecallArgs),
    /// Export a conversation as HTML, Markdown or JSON
    Export(archive::ExportArgs),
    /// Compare two sessions, or two states of one, turn by turn
    Diff(archive::DiffArgs),
    /// Pin turns: never pruned, restored first
    Pin(archive::PinArgs),
    /// Forget turns or sessions for good, here and on the team server
    Forget(forget::ForgetArgs),
    /// Show what pruning saves over all sessions, and what is archived
    Stats(stats::StatsArgs),
    /// Show sessions, contexts, savings and hooks in a local web page
    Dashboard(dashboard::DashboardArgs),
    /// Install what fits this machine, step by step
    Setup(setup::SetupArgs),
    /// Take ctxbridge out of Claude Code, and remove its data if asked
    Uninstall(uninstall::UninstallArgs),
    /// Answer compactions without a summary, and without a patch
    Mod(client_mod::ModArgs),
    /// Patch the installed Claude Code, verify it, or revert it
    Patch(patch::PatchArgs),
    /// Install, remove and test the Claude Code hooks
    Hooks(hooks::HooksArgs),
    /// (internal) Handle a Claude Code hook event from stdin
    #[command(hide = true)]
    Hook(hook::HookArgs),
    /// Show what pruning would fold in a session, and save
    Prune(prune::PruneArgs),
    /// Show how full the context window is
    Autopilot(autopilot::AutopilotArgs),
    /// Print the status line for Claude Code, from its JSON on stdin
    Statusline(statusline::StatuslineArgs),
    /// Import, restore, maintain and share archived sessions
    Archive(archive::ArchiveArgs),
    /// Show and search a project's work log, committed in .ctxbridge/
    Bundle(bundle::BundleArgs),
    /// List decisions, fixes and outcomes extracted from sessions
    Learnings(learnings::LearningsArgs),
    /// Manage the embedding model used for semantic search
    Model(model::ModelArgs),
    /// Run an MCP server through which a model searches and recalls
    Mcp(mcp::McpArgs),
    /// Check the installation and report problems
    Doctor(doctor::DoctorArgs),
    /// Show and change the settings
    Config(config::ConfigArgs),
    /// Show the effect of the patch on a copy, without an account
    Demo(demo::DemoArgs),
    /// Print a shell completion script
    Completions(completions::CompletionsArgs),
    /// Print the manual page of a command
    Man(man::ManArgs),
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
    // Building all commands takes time that a hook has not: only help, or an error, needs them in groups.
    let matches = Cli::command().try_get_matches().or_else(|_| command_list::grouped(Cli::command()).try_get_matches());
    let cli = matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches)).unwrap_or_else(|error| {
        // What the client runs must not fail it, and exit code 2 would block: an older version may be called by newer settings.
        let is_hook = std::env::args_os().nth(1).is_some_and(|command| command == "hook");
        if is_hook && error.use_stderr() {
            eprint!("{error}");
            std::process::exit(0);
        }
        if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
            println!("{}", usage_json(&error));
        }
        error.exit()
    });
    let choice = match cli.global.color {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
    if let Some(CliCommand::Hook(args)) = &cli.command {
        return args.run();
    }
    let Global { json, quiet, verbose, no_pager, .. } = cli.global;
    let mut output = Output::new(OutputOptions { json, quiet, verbose, may_page: !no_pager });
    if cli.command.is_none() && (json || !pick::can_show()) {
        anstream::eprint!("{}", command_list::grouped(Cli::command()).render_help().ansi());
        return ExitCode::from(2);
    }
    let done = guarded(|| {
        let outcome = match &cli.command {
            Some(command) => dispatch(command, &mut output)?,
            None => pick::run("", None, &mut output)?,
        };
        if outcome == CommandOutcome::No {
            output.explain_no()?;
        }
        output.finish()?;
        Ok(outcome)
    });
    match done {
        Ok(CommandOutcome::Yes) => ExitCode::SUCCESS,
        Ok(CommandOutcome::No) => ExitCode::from(1),
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output.finish().ok();
            output.error(&error);
            mend_archive(&output);
            ExitCode::from(if is_usage(&error) { 2 } else { 3 })
        }
    }
}

/// Formats an error of the arguments for `--json`.
fn usage_json(error: &clap::Error) -> serde_json::Value {
    let told = error.render().to_string();
    let mut parts = told.split("\n\n").map(str::trim);
    let cause = parts.next().unwrap_or_default().trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ");
    let tip = parts.find_map(|part| part.strip_prefix("tip: "));
    serde_json::json!({ "error": cause, "hint": tip.unwrap_or("`--help` lists what there is") })
}

/// Mends the archive after an error if its pages are damaged. What was printed cannot be taken back, so the command is not run again.
fn mend_archive(output: &Output) {
    let Ok(data) = paths::data_path() else { return };
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
        // Has no output of the usual kind, see above.
        CliCommand::Hook(_) => Ok(CommandOutcome::Yes),
        CliCommand::Sessions(args) => args.run(output),
        CliCommand::Search(args) => args.run(output),
        CliCommand::Show(args) => args.run(output),
        CliCommand::Recall(args) => args.run(output),
        CliCommand::Export(args) => args.run(output),
        CliCommand::Diff(args) => args.run(output),
        CliCommand::Pin(args) => args.run(output),
        CliCommand::Forget(args) => args.run(output),
        CliCommand::Stats(args) => args.run(output),
        CliCommand::Dashboard(args) => args.run(output),
        CliCommand::Setup(args) => args.run(output),
        CliCommand::Uninstall(args) => args.run(output),
        CliCommand::Mod(args) => args.run(output),
        CliCommand::Patch(args) => args.run(output),
        CliCommand::Hooks(args) => args.run(output),
        CliCommand::Prune(args) => args.run(output),
        CliCommand::Autopilot(args) => args.run(output),
        CliCommand::Statusline(args) => args.run(output),
        CliCommand::Archive(args) => args.run(output),
        CliCommand::Bundle(args) => args.run(output),
        CliCommand::Learnings(args) => args.run(output),
        CliCommand::Model(args) => args.run(output),
        CliCommand::Mcp(args) => args.run(output),
        CliCommand::Doctor(args) => args.run(output),
        CliCommand::Config(args) => args.run(output),
        CliCommand::Demo(args) => args.run(output),
        CliCommand::Completions(args) => args.run(&mut Cli::command(), output),
        CliCommand::Man(args) => args.run(Cli::command(), output),
    }
}

/// Runs a command as if it was typed.
fn run_typed(words: &[&str], output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let cli = Cli::try_parse_from(std::iter::once("ctxbridge").chain(words.iter().copied()))?;
    cli.command.as_ref().map_or(Ok(CommandOutcome::No), |command| dispatch(command, output))
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

    /// All commands, with what is above them.
    fn all(command: &clap::Command, found: &mut Vec<clap::Command>) {
        found.push(command.clone());
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            all(inner, found);
        }
    }

    #[test]
    fn every_help_fits_and_no_paragraph_is_broken_by_hand() {
        let mut root = command_list::grouped(Cli::command());
        root.build();
        let mut commands = Vec::new();
        all(&root, &mut commands);
        for command in commands {
            let name = command.get_bin_name().unwrap_or_default().to_owned();
            for columns in [80, 120] {
                for help in
                    [command.clone().term_width(columns).render_help(), command.clone().term_width(columns).render_long_help()]
                {
                    for line in help.to_string().lines() {
                        assert!(unicode_width::UnicodeWidthStr::width(line) <= columns, "{name} at {columns}: {line}");
                    }
                }
            }
            // A line that is broken by hand is broken once more by a narrow terminal. Examples and lists are indented.
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for paragraph in after.split("\n\n") {
                let lines: Vec<&str> = paragraph.lines().collect();
                let is_broken = |pair: &[&str]| !pair[0].starts_with(' ') && !pair[0].ends_with(':') && !pair[1].starts_with(' ');
                assert!(!lines.windows(2).any(is_broken), "{name}: {paragraph}");
            }
        }
    }

    #[test]
    fn a_typo_of_any_level_gets_a_suggestion() {
        for (typed, meant) in [
            (&["sesions"][..], "sessions"),                   // typos: ignore
            (&["serch", "x"], "search"),                      // typos: ignore
            (&["archive", "improt"], "import"),               // typos: ignore
            (&["patch", "aply"], "apply"),                    // typos: ignore
            (&["search", "x", "--projct", "y"], "--project"), // typos: ignore
            (&["config", "sett", "a", "b"], "set"),
            (&["export", "x", "--format", "htm"], "html"),
        ] {
            let arguments = std::iter::once("ctxbridge").chain(typed.iter().copied());
            let error = command_list::grouped(Cli::command()).try_get_matches_from(arguments).unwrap_err().to_string();
            assert!(error.contains("tip:") && error.contains(meant), "{typed:?}: {error}");
        }
    }
}
