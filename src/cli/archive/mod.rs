//! `ctxbridge archive`, and the daily commands on the archive, which have names of their own: `ctxbridge search`.

mod damage;
mod diff;
mod export;
mod follow;
mod history;
mod import;
mod move_project;
mod optimize;
mod pin;
mod restore;
mod restore_blanks;
mod restore_folder;
#[cfg(feature = "team")]
mod revoke;
mod search;
mod sessions;
#[cfg(feature = "team")]
mod share;
mod show;
mod status;
#[cfg(feature = "team")]
mod sync;
#[cfg(feature = "team")]
mod sync_preview;
mod tiers;

use std::time::{Duration, Instant};

use clap::Subcommand;

use super::CommandOutcome;
use super::output::Output;
use crate::hook;
use ctxbridge_archive::open::Location;
use ctxbridge_archive::project_moves::follow_all_projects;
use ctxbridge_archive::store::sqlite::LockPolicy;
pub(super) use diff::DiffArgs;
pub(super) use export::ExportArgs;
pub(super) use pin::PinArgs;
pub(super) use search::{SearchArgs, show as show_found};
pub(super) use sessions::SessionsArgs;
pub(super) use show::{ShowArgs, note_owner, show_handle};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive import                      all of ~/.claude/projects
  ctxbridge archive status
  ctxbridge archive restore SESSION > file.jsonl

`ctxbridge sessions`, `show`, `search`, `export`, `diff` and `pin` work on the archive as well; `ctxbridge archive sessions` and so on \
are the same commands.")]
pub(super) struct ArchiveArgs {
    #[command(subcommand)]
    command: ArchiveCommand,
}

#[derive(Debug, Subcommand)]
enum ArchiveCommand {
    /// Show what the archive contains
    Status(status::ArchiveStatusArgs),
    /// Import transcripts: those given, or all of Claude Code's
    Import(import::ImportArgs),
    /// Same as `ctxbridge search`
    #[command(hide = true)]
    Search(SearchArgs),
    /// Same as `ctxbridge sessions`
    #[command(hide = true)]
    Sessions(SessionsArgs),
    /// Same as `ctxbridge show`
    #[command(hide = true)]
    Show(ShowArgs),
    /// List a session's compactions, with the messages before each
    History(history::HistoryArgs),
    /// Tell the archive that a project's folder was renamed or moved
    Move(move_project::MoveArgs),
    /// (internal) Look whether a project's folder was renamed
    #[command(hide = true)]
    Follow(follow::FollowArgs),
    /// Same as `ctxbridge pin`
    #[command(hide = true)]
    Pin(PinArgs),
    /// Restore a session's transcript, byte for byte
    Restore(restore::RestoreArgs),
    /// Same as `ctxbridge export`
    #[command(hide = true)]
    Export(ExportArgs),
    /// Same as `ctxbridge diff`
    #[command(hide = true)]
    Diff(DiffArgs),
    /// Run maintenance: verify, expire unused turns, move old sessions to colder tiers
    Optimize(optimize::OptimizeArgs),
    /// Send new turns to the team server, without secrets
    #[cfg(feature = "team")]
    Sync(sync::SyncArgs),
    /// Set who may read a session on the team server
    #[cfg(feature = "team")]
    Share(share::ShareArgs),
    /// Delete a session from the team server, or exclude it from sync
    #[cfg(feature = "team")]
    Revoke(revoke::RevokeArgs),
}

impl ArchiveArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        match &self.command {
            ArchiveCommand::Status(args) => args.run(output),
            ArchiveCommand::Import(args) => args.run(output),
            ArchiveCommand::Search(args) => args.run(output),
            ArchiveCommand::Sessions(args) => args.run(output),
            ArchiveCommand::Show(args) => args.run(output),
            ArchiveCommand::History(args) => args.run(output),
            ArchiveCommand::Move(args) => args.run(output),
            ArchiveCommand::Follow(args) => args.run(output),
            ArchiveCommand::Pin(args) => args.run(output),
            ArchiveCommand::Restore(args) => args.run(output),
            ArchiveCommand::Export(args) => args.run(output),
            ArchiveCommand::Diff(args) => args.run(output),
            ArchiveCommand::Optimize(args) => args.run(output),
            #[cfg(feature = "team")]
            ArchiveCommand::Sync(args) => args.run(output),
            #[cfg(feature = "team")]
            ArchiveCommand::Share(args) => args.run(output),
            #[cfg(feature = "team")]
            ArchiveCommand::Revoke(args) => args.run(output),
        }
    }
}

/// Time limit for noting which projects there are, and which have moved.
const FOLLOWING: Duration = Duration::from_secs(20);

/// Notes the folders of sessions, and has sessions follow the projects that were renamed. The user is told; a failure is only noted.
fn follow_projects(location: &Location, is_background: bool, output: &Output) {
    if !location.is_begun() {
        return;
    }
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let followed = location
        .open_for_reading(LockPolicy::Background)
        .and_then(|mut opened| follow_all_projects(&mut *opened.store, now_ms, Instant::now() + FOLLOWING));
    match followed {
        Ok(moves) if is_background => moves.iter().for_each(|moved| hook::queue_move_notice(location.data(), moved)),
        Ok(moves) => moves.iter().for_each(|moved| output.note(&format!("{}: {moved}", moved.to))),
        Err(error) => output.note(&format!("could not look for projects that were renamed: {error}")),
    }
}
