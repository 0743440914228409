//! `ctxbridge archive`

mod diff;
mod export;
mod history;
mod import;
mod optimize;
mod restore;
mod search;
mod sessions;
mod share;
mod show;
mod status;
mod sync;
mod tag;
mod tiers;

use anyhow::bail;
use clap::Subcommand;

use super::Answer;
use super::output::{BAD, Output, count, styled};
use crate::archive::heal;
use crate::archive::merge::{self, Merged};
use crate::archive::open::Archive;
use crate::archive::server::Server;
use crate::archive::store::sqlite::{Patience, SqliteStore};
use crate::archive::store::{Session, Store};
use crate::archive::sync::{SyncError, Synced};
use crate::config::{Config, Sources, StoreKind};
use crate::learn::Patterns;
use crate::paths;

pub(super) use search::show as show_found;
pub(super) use show::{printable, show_handle};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive import                  everything in ~/.claude/projects
  ctxbridge archive sessions
  ctxbridge archive restore SESSION > file.jsonl
  ctxbridge archive export SESSION -o page.html")]
pub(super) struct ArchiveArgs {
    #[command(subcommand)]
    command: ArchiveCommand,
}

#[derive(Debug, Subcommand)]
enum ArchiveCommand {
    /// What the archive holds
    Status(status::StatusArgs),
    /// Archive transcripts: those given, or all that the client has
    Import(import::ImportArgs),
    /// Find turns by their words and their meaning
    Search(search::SearchArgs),
    /// The sessions in the archive, the newest first
    Sessions(sessions::SessionsArgs),
    /// A session's turns, or one turn in full
    Show(show::ShowArgs),
    /// When a session was compacted, and what was in the window each time
    History(history::HistoryArgs),
    /// Keep turns: they are never pruned, and come back first
    Tag(tag::TagArgs),
    /// Write a session's transcript, byte for byte
    Restore(restore::RestoreArgs),
    /// Write a conversation as a page, as Markdown or as JSON
    Export(export::ExportArgs),
    /// Compare two sessions, or a session with what it was, turn by turn
    Diff(diff::DiffArgs),
    /// Tidy up: look for damage, let confidence decay, prune what is never used, compare with the transcripts
    Optimize(optimize::OptimizeArgs),
    /// Send what is new to the team's server, without secrets
    Sync(sync::SyncArgs),
    /// Say who may read a session on the team's server
    Share(share::ShareArgs),
}

impl ArchiveArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        match &self.command {
            ArchiveCommand::Status(args) => args.run(output),
            ArchiveCommand::Import(args) => args.run(output),
            ArchiveCommand::Search(args) => args.run(output),
            ArchiveCommand::Sessions(args) => args.run(output),
            ArchiveCommand::Show(args) => args.run(output),
            ArchiveCommand::History(args) => args.run(output),
            ArchiveCommand::Tag(args) => args.run(output),
            ArchiveCommand::Restore(args) => args.run(output),
            ArchiveCommand::Export(args) => args.run(output),
            ArchiveCommand::Diff(args) => args.run(output),
            ArchiveCommand::Optimize(args) => args.run(output),
            ArchiveCommand::Sync(args) => args.run(output),
            ArchiveCommand::Share(args) => args.run(output),
        }
    }
}

/// The archive of this machine, as it is configured.
pub(super) fn archive() -> anyhow::Result<Archive> {
    Ok(Archive::of(&paths::data_dir()?, &settings().archive))
}

/// The user's settings. What is wrong with them is said by who loads them first.
fn settings() -> Config {
    Config::load(&Sources::of_process(None))
}

/// The archive; one that is damaged is moved aside, which is said.
pub(super) fn open(output: &Output) -> anyhow::Result<Box<dyn Store>> {
    let opened = archive()?.open_to_read(Patience::Patient)?;
    opened.notes().iter().for_each(|note| output.note(note));
    Ok(opened.store)
}

/// The archive that commands read which change nothing: that on the team's server, where it is configured so.
pub(super) fn open_to_read(output: &Output) -> anyhow::Result<Box<dyn Store>> {
    let config = settings();
    match config.archive.store {
        StoreKind::Postgres => Ok(Box::new(Server::of(&config)?.open()?)),
        StoreKind::Sqlite | StoreKind::Jsonl => open(output),
    }
}

/// The archive of this machine, as what only a file of SQLite can do.
fn open_file(output: &Output) -> anyhow::Result<SqliteStore> {
    let (store, aside) = heal::open(&paths::data_dir()?, Patience::Patient)?;
    if let Some(aside) = aside {
        output.note(&heal::told(&aside));
    }
    Ok(store)
}

/// Takes over what stood in for the archive while it could not be opened, if that is there. Who archives into it just now has it wait.
fn merge(archive: &Archive, output: &Output) -> anyhow::Result<()> {
    let told = |done: &Synced| output.progress(&format!("taking over {} of {} sessions", done.looked_at, done.of));
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let merged = match merge::merge(archive, &Patterns::of_user().0, now_ms, &told) {
        Err(SyncError::Running) => return Ok(()),
        merged => merged?,
    };
    output.clear_progress();
    let Some(Merged { synced, aside }) = merged else { return Ok(()) };
    for (session, reason) in &synced.failed {
        output.note(&format!("{} session {session}: {reason}", styled(BAD, "not taken over:")));
    }
    output.note(&match aside {
        Some(aside) => format!(
            "{} of {} were taken over from the archive in JSON Lines, which is now {}; it can be deleted",
            count(synced.turns, "new turn"),
            count(synced.of as u64, "session"),
            aside.display()
        ),
        None => format!("what is in {} is taken over the next time", archive.folder().display()),
    });
    Ok(())
}

/// The session whose id begins so.
pub(super) fn find(store: &mut dyn Store, prefix: &str) -> anyhow::Result<Option<Session>> {
    const SHOWN: usize = 5;
    if let Some(exact) = store.session(prefix)? {
        return Ok(Some(exact));
    }
    anyhow::ensure!(!prefix.is_empty(), "the session's id is empty; `ctxbridge archive sessions` lists them");
    let mut found = store.sessions(prefix, None, SHOWN)?;
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => {
            let ids: Vec<_> = found.iter().map(|session| session.session.as_str()).collect();
            bail!("several sessions begin with {prefix}: {}; give more of the id", ids.join(", "))
        }
    }
}

/// How many entries, for people.
fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_owned() } else { format!("{number} entries") }
}

/// Local time, to the minute.
pub(super) fn time(ms: Option<i64>) -> String {
    let time = ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(String::new, |time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string())
}

/// A time for JSON.
pub(super) fn stamp(ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms).ok().filter(|_| ms > 0).map(|time| time.to_string())
}
