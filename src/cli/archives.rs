//! Opening archives, and finding the sessions that the user named in them.

use std::path::Path;

use anyhow::bail;

use super::output::{Output, count};
use super::{UsageError, server};
use ctxbridge_archive::open::{Location, OpenedArchive};
use ctxbridge_archive::project::{KnownFolders, ProjectError, ProjectScope};
use ctxbridge_archive::project_moves::follow_project;
use ctxbridge_archive::quote::printable;
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_archive::store::{Session, SessionReader, Store, StoreError};
use ctxbridge_common::paths;
use ctxbridge_config::{Config, ConfigSources, StoreKind};

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
pub(super) fn open_to_write(output: &Output) -> anyhow::Result<Box<dyn Store>> {
    opened(location(&settings())?.open_for_writing(LockPolicy::Background)?, output)
}

fn opened(opened: OpenedArchive, output: &Output) -> anyhow::Result<Box<dyn Store>> {
    opened.notes().iter().for_each(|note| output.note(note));
    Ok(opened.store)
}

/// Location of this machine's archive.
pub(super) fn location(config: &Config) -> anyhow::Result<Location> {
    Ok(Location::of(&paths::data_dir()?, &config.archive))
}

/// Loads the settings. Their problems are reported only by commands that depend on more of them.
pub(super) fn settings() -> Config {
    Config::load(&ConfigSources::of_process(std::env::current_dir().ok().as_deref()))
}

/// Finds the session with this id or prefix.
pub(super) fn find(store: &mut dyn SessionReader, prefix: &str) -> anyhow::Result<Option<Session>> {
    const MAX_SHOWN_SESSIONS: usize = 5;
    if let Some(exact) = store.session(prefix)? {
        return Ok(Some(exact));
    }
    anyhow::ensure!(!prefix.is_empty(), "the session's id is empty; `ctxbridge sessions` lists them");
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

/// Tells the user that there is no such session.
pub(super) fn note_missing(prefix: &str, output: &Output) {
    output.note(&format!("no session begins with {prefix}; `ctxbridge sessions` lists them"));
}

/// Finds the session with this id or prefix, and the archive that has it: the user's own, else the team server. With `owner`, only
/// that colleague's session on the server.
pub(super) fn find_anywhere(
    prefix: &str,
    owner: Option<&str>,
    output: &Output,
) -> anyhow::Result<Option<(Box<dyn Store>, Session)>> {
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
    match owner {
        Some(owner) => output.note(&format!("no session of {owner} that you may read begins with {prefix}")),
        None => note_missing(prefix, output),
    }
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
        "{} and {} have a session {} on the team's server; choose one with --owner",
        printable(&owners.join(", ")),
        printable(owner),
        session.session
    );
    Ok(())
}

/// Has the sessions of a project follow it, if its folder was renamed. What cannot be written now is done another time.
fn follow(folder: &Path, output: &Output) {
    let Ok(location) = location(&settings()) else { return };
    if !folder.is_dir() || !location.is_begun() {
        return;
    }
    let folder = paths::real(folder).unwrap_or_else(|_| folder.to_owned());
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let followed = location
        .open_for_reading(LockPolicy::Interactive)
        .and_then(|mut opened| follow_project(&mut *opened.store, &folder, now_ms));
    match followed {
        Ok(Some(moved)) => output.note(&moved.to_string()),
        Ok(None) => {}
        Err(error) if output.verbose => {
            output.note(&format!("could not look whether {} was renamed: {error}", folder.display()));
        }
        Err(_) => {}
    }
}

/// Resolves the project that the user named, by the folders that an archive knows. `asks_server`: a team's server is asked as well.
pub(super) fn project(
    named: Option<&str>,
    store: &mut dyn Store,
    asks_server: bool,
    output: &Output,
) -> anyhow::Result<Option<ProjectScope>> {
    let Some(named) = named else { return Ok(None) };
    let from = std::env::current_dir().unwrap_or_default();
    follow(&from.join(named), output);
    let resolve = |known: &KnownFolders| ProjectScope::resolve(named, &from, known);
    let scope = match KnownFolders::of(store, asks_server).map_err(ProjectError::from).and_then(|known| resolve(&known)) {
        Err(ProjectError::Store(error)) => return Err(error.into()),
        resolved => resolved.map_err(|why| UsageError(format!("--project: {why}")))?,
    };
    Ok(Some(scope))
}

/// Says that an older generation of a session has more than the newest.
pub(super) fn note_fuller(store: &mut dyn SessionReader, session: &Session, output: &Output) -> Result<(), StoreError> {
    let stats = store.session_stats(session.key)?;
    if let Some(fuller) = stats.fuller {
        output.note(&format!(
            "the transcript was rewritten, and had {} before ({} now); `ctxbridge archive restore {} --generation {}` gets that state",
            count(fuller.turns, "turn"),
            stats.turns,
            session.session.get(..8).unwrap_or(&session.session),
            fuller.generation,
        ));
    }
    Ok(())
}
