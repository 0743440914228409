//! `ctxbridge archive revoke`

use std::io;
use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

use super::sync::audience_text;
use crate::cli::archives;
use crate::cli::config::load;
use crate::cli::output::{BAD, GOOD, Output, count, styled};
use crate::cli::{CommandOutcome, UsageError};
use ctxbridge_archive::quote::printable;
use ctxbridge_archive::store::{RemovalReport, SessionReader, StoreError};
use ctxbridge_common::paths;
use ctxbridge_redact::Redactor;
use ctxbridge_team::postgres::PostgresStore;
use ctxbridge_team::server::{ServerError, TeamServer};
use ctxbridge_team::sync::{RemoteDelete, SyncExclusions};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive revoke 0b9e5a11             delete it there, exclude it
  ctxbridge archive revoke 0b9e5a11 --resend    delete it, then send it again
  ctxbridge archive revoke                      list excluded sessions

The local archive is not changed. A session that was never sent is only excluded; --resend includes it again.

If a secret was sent, add it to redact.patterns, then use --resend: the next sync sends the session with today's redaction and the \
same visibility. Also change the secret itself: others may have seen it, and backups of the server may still have it.

Exits 1 if there is no such session, or none is excluded.")]
pub(super) struct RevokeArgs {
    /// Session ids or prefixes; without any, list the excluded sessions
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Delete all of your sessions on the server
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    /// Let the next sync send it again
    #[arg(long)]
    resend: bool,
    /// Delete even if this machine has no copy (the session is then lost)
    #[arg(long)]
    force: bool,
}

/// Session that was deleted from the server.
struct RemovedSession {
    session: String,
    taken: Option<RemovalReport>,
}

impl RevokeArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        output.reports();
        if self.sessions.is_empty() && !self.all && (self.resend || self.force) {
            return Err(UsageError("--resend and --force need sessions: name them, or use --all".to_owned()).into());
        }
        let data = paths::data_dir()?;
        if self.sessions.is_empty() && !self.all {
            return list(&SyncExclusions::of(&data)?, output);
        }
        let mut here = archives::open(output)?;
        let withheld = SyncExclusions::of(&data)?;
        let config = load(output);
        let redactor = Redactor::strict(&config.redact).context("nothing was deleted: redact.patterns or redact.allow")?;
        let server = match TeamServer::of(&config) {
            Ok(server) => server,
            // Who is about to set one up can say before what is not to go there.
            Err(ServerError::None) if !self.all => {
                let Some(sessions) = self.meant(&mut *here, None, &withheld, output)? else { return Ok(CommandOutcome::No) };
                self.withhold(&data, &sessions)?;
                let done: Vec<_> = sessions.into_iter().map(|session| RemovedSession { session, taken: None }).collect();
                return self.tell(&done, None, output);
            }
            Err(error) => return Err(error.into()),
        };
        let mut there = match server.open() {
            Ok(there) => there,
            // It need not be reached for nothing more to be sent to it.
            Err(error) if !self.all && !self.resend => {
                let Some(sessions) = self.meant(&mut *here, None, &withheld, output)? else { return Err(error.into()) };
                self.withhold(&data, &sessions)?;
                return Err(error).context("nothing more is sent of it; what was sent is still there: run this again");
            }
            Err(error) => return Err(error.into()),
        };
        // All of them or none: who mistypes one should not have to find out which were taken.
        let Some(sessions) = self.meant(&mut *here, Some(&mut there), &withheld, output)? else { return Ok(CommandOutcome::No) };
        let name = there.identity().map_err(StoreError::from)?;
        let mut removal =
            RemoteDelete { data: &data, from: &mut *here, name: &name, redactor: &redactor, is_resent: self.resend };
        for session in &sessions {
            let only_there = removal.only_on_server(session, &mut there)?;
            let is_sendable = !self.resend || only_there.is_empty() || removal.from.session(session)?.is_some();
            anyhow::ensure!(is_sendable, "the archive here has nothing of session {session} to send again; leave out --resend");
            if self.force {
                continue;
            }
            anyhow::ensure!(
                only_there.is_empty(),
                "the archive here does not have all that {} has of session {session}: taken back, it would be gone. That is {}. \
                 --force takes it back all the same; `ctxbridge archive restore {session}` writes it to a file before (see --path, --agent, --generation)",
                server.address(),
                printable(&only_there.join(", "))
            );
        }
        let mut done = Vec::new();
        let mut failed = None;
        for session in sessions {
            output.progress(&format!("{} taken back", count(done.len() as u64, "session")));
            match removal.run(&session, &mut there) {
                Ok(taken) => done.push(RemovedSession { session, taken }),
                Err(error) => {
                    failed = Some(anyhow::Error::from(error).context(format!("session {session}")));
                    break;
                }
            }
        }
        output.clear_progress();
        // What was done before something failed is said all the same.
        match failed {
            Some(error) if done.is_empty() => Err(error),
            Some(error) => self.tell(&done, Some(&server), output).and(Err(error)),
            None => self.tell(&done, Some(&server), output),
        }
    }

    fn withhold(&self, data: &Path, sessions: &[String]) -> io::Result<()> {
        let one = |session: &String| {
            if self.resend { SyncExclusions::remove(data, session) } else { SyncExclusions::add(data, session) }
        };
        sessions.iter().try_for_each(one)
    }

    /// Resolves the ids that the user named; `None` if one of them matches no session.
    fn meant(
        &self,
        here: &mut dyn SessionReader,
        mut there: Option<&mut PostgresStore>,
        withheld: &SyncExclusions,
        output: &Output,
    ) -> anyhow::Result<Option<Vec<String>>> {
        let there = match there.as_mut() {
            Some(there) => there.own_sessions()?,
            None => Vec::new(),
        };
        if self.all {
            return Ok(Some(there));
        }
        let mut meant = Vec::new();
        for prefix in &self.sessions {
            let found = match archives::find(here, prefix)? {
                Some(found) => Some(found.session),
                None => sole(prefix, there.iter().map(String::as_str).chain(withheld.sessions()))?,
            };
            let Some(found) = found else {
                output.note(&format!("no session of yours begins with {prefix}; `ctxbridge sessions` lists them"));
                return Ok(None);
            };
            if !meant.contains(&found) {
                meant.push(found);
            }
        }
        Ok(Some(meant))
    }

    fn tell(&self, all: &[RemovedSession], server: Option<&TeamServer>, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let address = server.map(TeamServer::address);
        for RemovedSession { session, taken } in all {
            let also_in = others(taken.as_ref(), all);
            if !also_in.is_empty() {
                output.note(&format!(
                    "{} some of what session {session} says is in {}, too; take {} back as well",
                    styled(BAD, "still there:"),
                    also_in.join(", "),
                    if also_in.len() == 1 { "it" } else { "them" }
                ));
            }
            if output.json {
                continue;
            }
            let what = match (taken, &address) {
                (Some(taken), Some(address)) => format!("{} taken back from {address}; ", count(taken.turns, "turn")),
                (None, Some(address)) => format!("{address} has nothing of it; "),
                (_, None) => String::new(),
            };
            let next = match (self.resend, taken) {
                (false, _) => "it is not sent any more".to_owned(),
                (true, Some(taken)) if taken.is_hidden => {
                    "the next `ctxbridge archive sync` sends it, to be seen by you alone: you are no member of its project, or what that is called is a secret"
                        .to_owned()
                }
                (true, Some(_)) => "the next `ctxbridge archive sync` sends it, to those who could read it".to_owned(),
                (true, None) => match server {
                    Some(server) => {
                        format!("the next `ctxbridge archive sync` sends it, to be seen by {}", audience_text(server.visibility()))
                    }
                    None => "it is sent where others are".to_owned(),
                },
            };
            output.prose(2, format!("session {session}: {what}{next}"))?;
        }
        if output.json {
            let sessions: Vec<_> = all
                .iter()
                .map(|RemovedSession { session, taken }| {
                    json!({
                        "session": session, "was_there": taken.is_some(), "is_withheld": !self.resend,
                        "turns": taken.as_ref().map_or(0, |taken| taken.turns),
                        "also_in": others(taken.as_ref(), all), "is_hidden": taken.as_ref().is_some_and(|taken| taken.is_hidden),
                    })
                })
                .collect();
            output.value(&json!({ "server": address, "sessions": sessions }))?;
        } else if all.is_empty() {
            output.note(&format!("{} has no session of yours", address.unwrap_or_default()));
        } else {
            output.prose(2, styled(GOOD, "done"))?;
        }
        Ok(if all.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
    }
}

/// Finds the only id with this prefix.
fn sole<'s>(prefix: &str, ids: impl Iterator<Item = &'s str>) -> anyhow::Result<Option<String>> {
    let mut found: Vec<&str> = ids.filter(|id| id.starts_with(prefix)).collect();
    found.sort_unstable();
    found.dedup();
    match found.iter().find(|id| **id == prefix).or(found.first()) {
        Some(id) if found.len() == 1 || *id == prefix => Ok(Some((*id).to_owned())),
        Some(_) => anyhow::bail!("several sessions begin with {prefix}: {}; give more of the id", found.join(", ")),
        None => Ok(None),
    }
}

/// Other sessions that contain the same text, except those that are deleted as well.
fn others<'t>(taken: Option<&'t RemovalReport>, all: &[RemovedSession]) -> Vec<&'t str> {
    let also_in = taken.iter().flat_map(|taken| &taken.also_in).map(String::as_str);
    also_in.filter(|other| !all.iter().any(|done| done.session == *other)).collect()
}

/// Lists the sessions that are excluded from sync.
fn list(withheld: &SyncExclusions, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let sessions: Vec<_> = withheld.sessions().collect();
    if output.json {
        output.value(&json!({ "withheld": sessions }))?;
    } else if sessions.is_empty() {
        output.note("every session is sent; `ctxbridge archive revoke SESSION` takes one back, and sends it no more");
    } else {
        sessions.iter().try_for_each(|session| output.prose(2, *session))?;
    }
    Ok(if sessions.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
}
