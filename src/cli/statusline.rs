//! `ctxbridge statusline`

use std::io::{self, IsTerminal, Read, Write};

use anstream::ColorChoice;
use clap::Subcommand;
use serde_json::json;

use super::client_mod::user_settings;
use super::output::{GOOD, short, styled};
use super::{CommandOutcome, Output};
use crate::autopilot::{FALLBACK, StatusLine, StatuslineInput, WindowStateStore, compact_window_tokens, gather, percent};
use crate::cli::wired_program::wired_program;
use crate::client_mod::way::PruningWay;
use crate::hook::settings::editor::Editor;
use crate::hook::settings::statusline::{StatuslineState, statusline_state};
use ctxbridge_archive::quote::printable;
use ctxbridge_common::paths;
use ctxbridge_config::{Config, ConfigSources};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge statusline install      add it to Claude Code's settings
  ctxbridge statusline uninstall

Without a subcommand it is run by Claude Code. Prints colors unless NO_COLOR is set or `--color never` is given.")]
pub(super) struct StatuslineArgs {
    #[command(subcommand)]
    command: Option<StatuslineCommand>,
}

#[derive(Debug, Subcommand)]
enum StatuslineCommand {
    /// Add the status line to your Claude Code settings
    #[command(
        after_help = "Example:\n  ctxbridge statusline install\n\nA status line of another program stays. Exits 1 if there is one."
    )]
    Install,
    /// Remove the status line from your Claude Code settings
    #[command(after_help = "Example:\n  ctxbridge statusline uninstall\n\nExits 1 if there is none of ctxbridge.")]
    Uninstall,
}

/// Maximum size of the client's input, in bytes.
const MAX_STATUS_INPUT_BYTES: u64 = 1 << 20;

/// Bytes of a larger input that are read and dropped, so that its writer does not fail.
const MAX_DRAINED_BYTES: u64 = 64 << 20;

impl StatuslineArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        match &self.command {
            Some(StatuslineCommand::Install) => return install(output),
            Some(StatuslineCommand::Uninstall) => return uninstall(output),
            None => {}
        }
        let input = read_input().as_deref().and_then(StatuslineInput::parse);
        let line = input.as_ref().map(look);
        if output.json {
            output.value(&line.as_ref().map(as_json))?;
            return Ok(CommandOutcome::Yes);
        }
        let text = line.map_or_else(|| FALLBACK.to_owned(), |line| line.text());
        // The client wants colors though stdout is no terminal.
        let text = if has_color() { text } else { anstream::adapter::strip_str(&text).to_string() };
        writeln!(io::stdout().lock(), "{text}")?;
        Ok(CommandOutcome::Yes)
    }
}

fn install(output: &mut Output) -> anyhow::Result<CommandOutcome> {
    output.reports();
    let (data, settings) = (paths::data_dir()?, user_settings()?);
    let program = wired_program()?;
    let notice = |text: &str| output.note(text);
    let is_new = Editor::new(&data, &notice).add_statusline(&settings, &program, true)?;
    let state = statusline_state(&settings)?;
    let word = match (&state, is_new) {
        (StatuslineState::Ours, true) => "installed",
        (StatuslineState::Ours, false) => "unchanged",
        _ => "left_out",
    };
    if output.json {
        output.value(&json!({ "state": word, "file": settings }))?;
    } else {
        let file = short(&settings);
        output.prose(
            2,
            match &state {
                StatuslineState::Ours if is_new => format!("{} the status line in {file}", styled(GOOD, "installed:")),
                StatuslineState::Ours => format!("nothing to do: the status line is in {file} already"),
                StatuslineState::Other(command) => {
                    format!("left as it is: {file} has the status line `{}`", printable(command))
                }
                StatuslineState::Absent => format!("left as it is: `statusLine` in {file} is null; remove it, then try again"),
            },
        )?;
    }
    Ok(if state == StatuslineState::Ours { CommandOutcome::Yes } else { CommandOutcome::No })
}

fn uninstall(output: &mut Output) -> anyhow::Result<CommandOutcome> {
    output.reports();
    let (data, settings) = (paths::data_dir()?, user_settings()?);
    let notice = |text: &str| output.note(text);
    let was_there = Editor::new(&data, &notice).remove_statusline(&settings)?;
    if output.json {
        output.value(&json!({ "removed": was_there, "file": settings }))?;
    } else if was_there {
        output.prose(2, format!("{} the status line is out of {}", styled(GOOD, "uninstalled:"), short(&settings)))?;
    } else {
        output.prose(2, format!("not installed: {} has no status line of ctxbridge", short(&settings)))?;
    }
    Ok(if was_there { CommandOutcome::Yes } else { CommandOutcome::No })
}

fn look(input: &StatuslineInput) -> StatusLine {
    let cwd = input.folder.clone().or_else(|| std::env::current_dir().ok());
    let config = Config::load(&ConfigSources::of_process(cwd.as_deref()));
    let data_dir = paths::data_dir().ok();
    let (path, settings) = (std::env::var_os("PATH"), user_settings().ok());
    let way = data_dir
        .as_deref()
        .and_then(|folder| PruningWay::quick(folder, settings.as_deref(), path.as_deref(), input.version.as_deref()));
    // What is left out leaves no trace.
    let is_kept = cwd.as_deref().is_none_or(|cwd| config.left_out(cwd, paths::home_dir().as_deref()).is_none());
    let store = data_dir.as_deref().filter(|_| is_kept).map(WindowStateStore::in_dir);
    gather(input, store.as_ref(), way, compact_window_tokens(), &config.autopilot)
}

fn read_input() -> Option<Vec<u8>> {
    let mut stdin = io::stdin().lock();
    let mut input = Vec::new();
    if stdin.is_terminal() || stdin.by_ref().take(MAX_STATUS_INPUT_BYTES + 1).read_to_end(&mut input).is_err() {
        return None;
    }
    if input.len() as u64 <= MAX_STATUS_INPUT_BYTES {
        return Some(input);
    }
    io::copy(&mut stdin.take(MAX_DRAINED_BYTES), &mut io::sink()).ok();
    None
}

fn has_color() -> bool {
    match ColorChoice::global() {
        ColorChoice::Never => false,
        ColorChoice::Auto => std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        _ => true,
    }
}

fn as_json(line: &StatusLine) -> serde_json::Value {
    json!({
        "tokens": line.tokens, "window": line.window, "used_percentage": line.share().map(percent),
        "phase": line.phase, "trend": line.trend, "optimize_cycles": line.optimize_cycles,
        "patched": line.way.map(PruningWay::is_patched), "way": line.way,
    })
}
