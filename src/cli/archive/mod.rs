//! `ctxbridge archive`

mod diff;
mod export;
mod history;
mod import;
mod optimize;
mod restore;
mod search;
mod sessions;
#[cfg(feature = "team")]
mod share;
mod show;
mod status;
#[cfg(feature = "team")]
mod sync;
mod tag;
mod tiers;
#[cfg(feature = "team")]
mod unsend;

use std::time::Instant;

use anyhow::bail;
use clap::Subcommand;

use super::output::{Output, count};
use super::{Answer, server};
use ctxbridge_archive::merge::{Merged, merge};
use ctxbridge_archive::open::{Location, Opened};
use ctxbridge_archive::store::sqlite::Patience;
use ctxbridge_archive::store::{Session, Store};
use ctxbridge_common::paths;
use ctxbridge_config::{Config, Sources, StoreKind};

pub(super) use ctxbridge_archive::quote::printable;
pub(super) use search::show as show_found;
pub(super) use show::{note_owner, show_handle};

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
    #[cfg(feature = "team")]
    Sync(sync::SyncArgs),
    /// Say who may read a session on the team's server
    #[cfg(feature = "team")]
    Share(share::ShareArgs),
    /// Take a session back from the team's server, or have it never sent
    #[cfg(feature = "team")]
    Unsend(unsend::UnsendArgs),
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
            #[cfg(feature = "team")]
            ArchiveCommand::Sync(args) => args.run(output),
            #[cfg(feature = "team")]
            ArchiveCommand::Share(args) => args.run(output),
            #[cfg(feature = "team")]
            ArchiveCommand::Unsend(args) => args.run(output),
        }
    }
}

/// The archive of this machine; one that is damaged is moved aside, which is said.
pub(super) fn open(output: &Output) -> anyhow::Result<Box<dyn Store>> {
    opened(location(&settings())?.to_read(Patience::Patient)?, output)
}

/// The archive that is read where nothing is written: the team's, where the settings say so.
pub(super) fn open_to_read(output: &Output) -> anyhow::Result<Box<dyn Store>> {
    let config = settings();
    match config.archive.store {
        StoreKind::Postgres => server::open(&config),
        StoreKind::Sqlite | StoreKind::Jsonl => opened(location(&config)?.to_read(Patience::Patient)?, output),
    }
}

/// The archive of this machine, for what is new in it.
fn open_to_write(output: &Output) -> anyhow::Result<Box<dyn Store>> {
    opened(location(&settings())?.to_write(Patience::Patient)?, output)
}

fn opened(opened: Opened, output: &Output) -> anyhow::Result<Box<dyn Store>> {
    opened.notes().iter().for_each(|note| output.note(note));
    Ok(opened.store)
}

/// Where the archive of this machine is.
fn location(config: &Config) -> anyhow::Result<Location> {
    Ok(Location::of(&paths::data_dir()?, &config.archive))
}

/// The settings; what is wrong with them is said by commands that go by more of them.
fn settings() -> Config {
    Config::load(&Sources::of_process(std::env::current_dir().ok().as_deref()))
}

/// Takes what waits in JSON Lines back into the database; what comes of that is said. That it cannot be done now is no reason to do nothing else.
fn merge_back(location: &Location, deadline: Option<Instant>, output: &Output) -> Option<Merged> {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let folder = location.folder().display();
    let merged = match merge(location, deadline, now_ms, &ctxbridge_claude_flow::settle_after) {
        Ok(merged) => merged?,
        Err(error) => {
            output.note(&format!("what is in {folder} could not be merged into the database, and waits: {error}"));
            return None;
        }
    };
    for (session, reason) in &merged.failed {
        output.note(&format!("session {session} stays in {folder}: {}", printable(reason)));
    }
    output.note(&match &merged.aside {
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
        // One session that several people have.
        _ if found.iter().all(|other| other.session == found[0].session) => Ok(store.session(&found[0].session)?),
        _ => {
            let ids: Vec<_> = found.iter().map(|session| session.session.as_str()).collect();
            bail!("several sessions begin with {prefix}: {}; give more of the id", ids.join(", "))
        }
    }
}

/// The session whose id begins so, with the archive that has it: the user's own, or else the team's server. Where an owner is named, it is that
/// colleague's.
fn find_anywhere(prefix: &str, owner: Option<&str>, output: &Output) -> anyhow::Result<Option<(Box<dyn Store>, Session)>> {
    if owner.is_none() {
        let mut store = open_to_read(output)?;
        if let Some(session) = find(&mut *store, prefix)? {
            check_sole(&mut *store, &session)?;
            return Ok(Some((store, session)));
        }
    }
    if let Some(mut server) = server::on_server(output)
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

/// The session on a server whose id begins so; where an owner is named, that one's.
fn find_of(server: &mut dyn Store, prefix: &str, owner: Option<&str>) -> anyhow::Result<Option<Session>> {
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

/// Sees that a colleague's session is not taken for another one's: anybody can send one with any id.
fn check_sole(store: &mut dyn Store, session: &Session) -> anyhow::Result<()> {
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
