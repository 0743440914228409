//! `ctxbridge statusline`

use std::io::{self, IsTerminal, Read, Write};

use anstream::ColorChoice;
use serde_json::json;

use super::{Answer, Output};
use crate::autopilot::{FALLBACK, Input, Line, Store, gather, percent};
use ctxbridge_common::paths;
use ctxbridge_config::{Config, Sources};
use ctxbridge_patch::notice::quick_state;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example, in Claude Code's settings.json:
  {\"statusLine\": {\"type\": \"command\", \"command\": \"ctxbridge statusline\"}}

Colours are there unless NO_COLOR is set or `--color never` is given.")]
pub(super) struct StatuslineArgs {}

/// More than that is not from the client, in bytes.
const LARGEST_INPUT: u64 = 1 << 20;

/// What is read and dropped of a larger input, in bytes, so that whoever writes it does not fail.
const LARGEST_REST: u64 = 64 << 20;

impl StatuslineArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        let input = read_input().as_deref().and_then(Input::parse);
        let line = input.as_ref().map(look);
        if output.json {
            output.value(&line.as_ref().map(as_json))?;
            return Ok(Answer::Yes);
        }
        let text = line.map_or_else(|| FALLBACK.to_owned(), |line| line.text());
        // The client wants colours though stdout is no terminal.
        let text = if has_colour() { text } else { anstream::adapter::strip_str(&text).to_string() };
        writeln!(io::stdout().lock(), "{text}")?;
        Ok(Answer::Yes)
    }
}

fn look(input: &Input) -> Line {
    let cwd = std::env::current_dir().ok();
    let config = Config::load(&Sources::of_process(cwd.as_deref()));
    let data_dir = paths::data_dir().ok();
    let path = std::env::var_os("PATH");
    let patched = data_dir.as_deref().and_then(|folder| quick_state(folder, path.as_deref(), input.version.as_deref()));
    let store = data_dir.as_deref().map(Store::in_dir);
    gather(input, store.as_ref(), patched, &config.autopilot)
}

fn read_input() -> Option<Vec<u8>> {
    let mut stdin = io::stdin().lock();
    let mut input = Vec::new();
    if stdin.is_terminal() || stdin.by_ref().take(LARGEST_INPUT + 1).read_to_end(&mut input).is_err() {
        return None;
    }
    if input.len() as u64 <= LARGEST_INPUT {
        return Some(input);
    }
    io::copy(&mut stdin.take(LARGEST_REST), &mut io::sink()).ok();
    None
}

fn has_colour() -> bool {
    match ColorChoice::global() {
        ColorChoice::Never => false,
        ColorChoice::Auto => std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        _ => true,
    }
}

fn as_json(line: &Line) -> serde_json::Value {
    json!({
        "tokens": line.tokens, "window": line.window, "used_percentage": line.share().map(percent),
        "phase": line.phase, "trend": line.trend, "optimise_cycles": line.optimise_cycles, "patched": line.patched,
    })
}
