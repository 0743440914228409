//! `ctxbridge mcp`

use std::io::IsTerminal;

use super::output::Output;
use super::{CommandOutcome, server};
use crate::mcp::{Library, serve};
use ctxbridge_archive::open::Location;
use ctxbridge_common::paths;
use ctxbridge_config::{Config, ConfigSources};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  claude mcp add ctxbridge -- ctxbridge mcp                 for this project
  claude mcp add --scope user ctxbridge -- ctxbridge mcp    for all projects

Claude Code starts the server. Its tools are search, recall, timeline, session and learnings. It never changes the archive.")]
pub(super) struct McpArgs {}

impl McpArgs {
    pub fn run(&self, output: &Output) -> anyhow::Result<CommandOutcome> {
        if std::io::stdin().is_terminal() {
            output.note("waiting for a client that speaks MCP on stdin; `claude mcp add ctxbridge -- ctxbridge mcp` makes Claude Code one");
        }
        let current = std::env::current_dir().unwrap_or_default();
        let config = Config::load(&ConfigSources::of_process(Some(&current)));
        let location = Location::of(&paths::data_dir()?, &config.archive);
        serve(Library::at_location(location, current).with_remote(server::federated(output)?))?;
        Ok(CommandOutcome::Yes)
    }
}
