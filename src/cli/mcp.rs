//! `ctxbridge mcp`

use std::io::IsTerminal;

use super::output::Output;
use super::{Answer, server};
use crate::mcp::{Library, serve};
use ctxbridge_archive::open::Location;
use ctxbridge_common::paths;
use ctxbridge_config::{Config, Sources};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  claude mcp add ctxbridge -- ctxbridge mcp                 for this project
  claude mcp add --scope user ctxbridge -- ctxbridge mcp    for all of yours

The client runs it. Tools: search, recall, timeline, session. Nothing in the archive is changed.")]
pub(super) struct McpArgs {}

impl McpArgs {
    pub fn run(&self, output: &Output) -> anyhow::Result<Answer> {
        if std::io::stdin().is_terminal() {
            output.note("waiting for a client that speaks MCP on stdin; `claude mcp add ctxbridge -- ctxbridge mcp` makes Claude Code one");
        }
        let current = std::env::current_dir().unwrap_or_default();
        let config = Config::load(&Sources::of_process(Some(&current)));
        let location = Location::of(&paths::data_dir()?, &config.archive);
        serve(Library::of(location, current).with_remote(server::federated(output)?))?;
        Ok(Answer::Yes)
    }
}
