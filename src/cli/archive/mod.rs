//! `ctxbridge archive`

mod diff;
mod export;
mod history;
mod import;
mod optimize;
mod pin;
mod restore;
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
mod tiers;

use std::time::Instant;

use anyhow::bail;
use clap::Subcommand;

use super::output::{Output, count};
use super::{CommandOutcome, server};
use ctxbridge_archive::merge::{MergeReport, merge};
use ctxbridge_archive::open::{Location, OpenedArchive};
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_archive::store::{Session, SessionReader, Store};
use ctxbridge_common::paths;
use ctxbridge_config::{Config, ConfigSources, StoreKind};

pub(super) use ctxbridge_archive::quote::printable;
pub(super) use search::show as show_found;
pub(super) use show::{note_owner, show_handle};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive import                      all of ~/.claude/projects
  ctxbridge archive sessions
  ctxbridge archive restore SESSION > file.jsonl
  ctxbridge archive export SESSION -o page.html")]
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
    /// Search archived turns by words and meaning
    Search(search::ArchiveSearchArgs),
    /// List archived sessions, newest first
    Sessions(sessions::SessionsArgs),
    /// Show a session's turns, or one turn in full
    Show(show::ArchiveShowArgs),
    /// List a session's compactions, with the messages before each
    History(history::HistoryArgs),
    /// Pin turns so they are never pruned and are restored first
    Pin(pin::PinArgs),
    /// Restore a session's transcript, byte for byte
    Restore(restore::RestoreArgs),
    /// Export a conversation as HTML, Markdown or JSON
    Export(export::ExportArgs),
    /// Compare two sessions, or two states of one session, turn by turn
    Diff(diff::DiffArgs),
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

/// Opens the archive of this machine. A damaged one is moved aside, and the user is told.
pub(super) fn open(output: &Output) -> anyhow::Result<Box<dyn Store>> {
    opened(location(&settings())?.open_for_reading(LockPolicy::Background)?, output)
}

/// Opens the archive for reading: the team server's if `archive.store` is `postgres`, else the one of this machine.
pub(super) fn open_to_read(output: &Output) -> anyhow::Result<Box<dyn Store>> {
    let config = settings();
    match config.archive.store {
        StoreKind::Postgres => server::open(&config),
        StoreKind::Sqlite | StoreKind::Jsonl => opened(location(&config)?.open_for_reading(LockPolicy::Background)?, output),
    }
}

/// Opens the archive of this machine for writing.
fn open_to_write(output: &Output) -> anyhow::Result<Box<dyn Store>> {
    opened(location(&settings())?.open_for_writing(LockPolicy::Background)?, output)
}

fn opened(opened: OpenedArchive, output: &Output) -> anyhow::Result<Box<dyn Store>> {
    opened.notes().iter().for_each(|note| output.note(note));
    Ok(opened.store)
}

/// Location of this machine's archive.
fn location(config: &Config) -> anyhow::Result<Location> {
    Ok(Location::of(&paths::data_dir()?, &config.archive))
}

/// Loads the settings. Their problems are reported only by commands that depend on more of them.
fn settings() -> Config {
    Config::load(&ConfigSources::of_process(std::env::current_dir().ok().as_deref()))
}

/// Merges turns that were archived in JSON Lines back into the database, and tells the user. A failure is only noted.
fn merge_back(location: &Location, deadline: Option<Instant>, output: &Output) -> Option<MergeReport> {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let folder = location.folder().display();
    let merged = match merge(location, deadline, now_ms, &ctxbridge_claude_flow::supersede_imported_after) {
        Ok(merged) => merged?,
        Err(error) => {
            output.note(&format!("what is in {folder} could not be merged into the database, and waits: {error}"));
            return None;
        }
    };
    for (session, reason) in &merged.failed {
        output.note(&format!("session {session} stays in {folder}: {}", printable(reason)));
    }
    output.note(&match &merged.moved_to {
        Some(aside) => format!(
            "{} of {} merged from {folder}, which is now {}",
            count(merged.turns, "turn"),
            count(merged.sessions as u64, "session"),
            aside.display()
        ),
        None => format!("{} merged from {folder}; the rest of it is, by the next run", count(merged.turns, "turn")),
    });
    Some(merged)
}

/// Finds the session with this id or prefix.
pub(super) fn find(store: &mut dyn SessionReader, prefix: &str) -> anyhow::Result<Option<Session>> {
    const MAX_SHOWN_SESSIONS: usize = 5;
    if let Some(exact) = store.session(prefix)? {
        return Ok(Some(exact));
    }
    anyhow::ensure!(!prefix.is_empty(), "the session's id is empty; `ctxbridge archive sessions` lists them");
    let mut found = store.sessions(prefix, None, MAX_SHOWN_SESSIONS)?;
    match found.len() {
        0 | 1 => Ok(found.pop()),
        // One session that several people have.
        _ if found.iter().all(|other| other.session == found[0].session) => Ok(store.session(&found[0].session)?),
        _ => {
            let ids: Vec<_> = found.iter().map(|session| session.session.as_str()).collect();
            bail!("several sessions begin with {prefix}: {}; give more of the id", ids.join(", "))
        }
    }
}

/// Finds the session with this id or prefix, and the archive that has it: the user's own, else the team server. With `owner`, only
/// that colleague's session on the server.
fn find_anywhere(prefix: &str, owner: Option<&str>, output: &Output) -> anyhow::Result<Option<(Box<dyn Store>, Session)>> {
    if owner.is_none() {
        let mut store = open_to_read(output)?;
        if let Some(session) = find(&mut *store, prefix)? {
            check_sole(&mut *store, &session)?;
            return Ok(Some((store, session)));
        }
    }
    if let Some(mut server) = server::server_for_reading(output)
        && let Some(session) = find_of(&mut *server, prefix, owner)?
    {
        let whose = session.owner.as_ref().map_or_else(String::new, |owner| format!("{}'s, and ", printable(owner)));
        output.note(&format!("session {} is {whose}on the team's server only", session.session));
        return Ok(Some((server, session)));
    }
    output.note(&match owner {
        Some(owner) => format!("no session of {owner} that you may read begins with {prefix}"),
        None => format!("no session begins with {prefix}; `ctxbridge archive sessions` lists them"),
    });
    Ok(None)
}

/// Finds the session with this id or prefix on a server; with `owner`, only that colleague's.
fn find_of(server: &mut dyn SessionReader, prefix: &str, owner: Option<&str>) -> anyhow::Result<Option<Session>> {
    if owner.is_none() {
        let found = find(server, prefix)?;
        found.iter().try_for_each(|session| check_sole(server, session))?;
        return Ok(found);
    }
    let mut found = server.sessions(prefix, None, usize::MAX)?;
    found.retain(|session| session.owner.as_deref() == owner);
    match found.iter().position(|session| session.session == prefix) {
        Some(exact) => Ok(Some(found.swap_remove(exact))),
        None if found.len() > 1 => bail!("several sessions of that owner begin with {prefix}; give more of the id"),
        None => Ok(found.pop()),
    }
}

/// Fails if several people have a session with this id: anybody can send one with any id, so it could be mistaken for another's.
fn check_sole(store: &mut dyn SessionReader, session: &Session) -> anyhow::Result<()> {
    let Some(owner) = &session.owner else { return Ok(()) };
    let mut owners: Vec<String> = store
        .sessions(&session.session, None, usize::MAX)?
        .into_iter()
        .filter(|other| other.session == session.session)
        .filter_map(|other| other.owner)
        .collect();
    owners.retain(|other| other != owner);
    anyhow::ensure!(
        owners.is_empty(),
        "{} and {} have a session {} on the team's server; --owner says whose",
        printable(&owners.join(", ")),
        printable(owner),
        session.session
    );
    Ok(())
}

/// Formats a number of entries, for people.
fn entries(number: u64) -> String {
    if number == 1 { "1 entry".to_owned() } else { format!("{number} entries") }
}

/// Formats local time to the minute.
pub(super) fn time(ms: Option<i64>) -> String {
    let time = ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(String::new, |time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string())
}

/// Formats a time for JSON.
pub(super) fn stamp(ms: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(ms).ok().filter(|_| ms > 0).map(|time| time.to_string())
}
