//! `ctxbridge archive unsend`

use std::io;
use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

use super::sync::who;
use crate::cli::config::load;
use crate::cli::output::{BAD, GOOD, Output, count, styled};
use crate::cli::{Answer, Usage};
use ctxbridge_archive::store::{Store, StoreError, TakenBack};
use ctxbridge_common::paths;
use ctxbridge_redact::Redactor;
use ctxbridge_team::postgres::PostgresStore;
use ctxbridge_team::server::{Server, ServerError};
use ctxbridge_team::sync::{Unsending, Withheld};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive unsend 0b9e5a11             take it off the server, and send it no more
  ctxbridge archive unsend 0b9e5a11 --resend    take it off, and have the next sync send it, cleaned by today's settings
  ctxbridge archive unsend                      which sessions are not sent

The archive here stays as it is. --resend is for a secret that was sent: add it to redact.patterns first. Who may read the session stays
as it was. A session that was never sent can be kept from being sent, and --resend sends it after all. A secret that was on a server has been seen:
change it, too; backups of the server may still have it. Exit code 1 when there is no such session, or none is withheld.")]
pub(super) struct UnsendArgs {
    /// Sessions, by the begin of their ids; without any, those that are not sent are listed
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// All of yours that are on the server
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    /// Have the next sync send it again
    #[arg(long)]
    resend: bool,
    /// Also where the archive here does not have it, and so it is gone
    #[arg(long)]
    force: bool,
}

/// A session that is taken back.
struct Done {
    session: String,
    taken: Option<TakenBack>,
}

impl UnsendArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        if self.sessions.is_empty() && !self.all && (self.resend || self.force) {
            return Err(Usage("--resend and --force need to know which sessions: name them, or say --all".to_owned()).into());
        }
        let data = paths::data_dir()?;
        if self.sessions.is_empty() && !self.all {
            return list(&Withheld::of(&data)?, output);
        }
        let mut here = super::open(output)?;
        let withheld = Withheld::of(&data)?;
        let config = load(output);
        let redactor = Redactor::strict(&config.redact).context("nothing was taken back: redact.patterns or redact.allow")?;
        let server = match Server::of(&config) {
            Ok(server) => server,
            // Who is about to set one up can say before what is not to go there.
            Err(ServerError::None) if !self.all => {
                let Some(sessions) = self.meant(&mut *here, None, &withheld, output)? else { return Ok(Answer::No) };
                self.withhold(&data, &sessions)?;
                let done: Vec<_> = sessions.into_iter().map(|session| Done { session, taken: None }).collect();
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
        let Some(sessions) = self.meant(&mut *here, Some(&mut there), &withheld, output)? else { return Ok(Answer::No) };
        let name = there.identity().map_err(StoreError::from)?;
        let mut unsending =
            Unsending { data: &data, from: &mut *here, name: &name, redactor: &redactor, is_sent_again: self.resend };
        for session in &sessions {
            let only_there = unsending.only_there(session, &mut there)?;
            let is_sendable = !self.resend || only_there.is_empty() || unsending.from.session(session)?.is_some();
            anyhow::ensure!(is_sendable, "the archive here has nothing of session {session} to send again; leave out --resend");
            if self.force {
                continue;
            }
            anyhow::ensure!(
                only_there.is_empty(),
                "the archive here does not have all that {} has of session {session}: taken back, it would be gone. That is {}. \
                 --force takes it back all the same; `ctxbridge archive restore {session}` writes it to a file before (see --path, --agent, --generation)",
                server.address(),
                super::printable(&only_there.join(", "))
            );
        }
        let mut done = Vec::new();
        let mut failed = None;
        for session in sessions {
            output.progress(&format!("{} taken back", count(done.len() as u64, "session")));
            match unsending.run(&session, &mut there) {
                Ok(taken) => done.push(Done { session, taken }),
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
        let one = |session: &String| if self.resend { Withheld::remove(data, session) } else { Withheld::add(data, session) };
        sessions.iter().try_for_each(one)
    }

    /// The ids that are meant; nothing where there is no session of one.
    fn meant(
        &self,
        here: &mut dyn Store,
        mut there: Option<&mut PostgresStore>,
        withheld: &Withheld,
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
            let found = match super::find(here, prefix)? {
                Some(found) => Some(found.session),
                None => sole(prefix, there.iter().map(String::as_str).chain(withheld.sessions()))?,
            };
            let Some(found) = found else {
                output.note(&format!("no session of yours begins with {prefix}; `ctxbridge archive sessions` lists them"));
                return Ok(None);
            };
            if !meant.contains(&found) {
                meant.push(found);
            }
        }
        Ok(Some(meant))
    }

    fn tell(&self, all: &[Done], server: Option<&Server>, output: &mut Output) -> anyhow::Result<Answer> {
        let address = server.map(Server::address);
        for Done { session, taken } in all {
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
                        format!("the next `ctxbridge archive sync` sends it, to be seen by {}", who(server.visibility()))
                    }
                    None => "it is sent where others are".to_owned(),
                },
            };
            output.line(format!("session {session}: {what}{next}"))?;
        }
        if output.json {
            let sessions: Vec<_> = all
                .iter()
                .map(|Done { session, taken }| {
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
            output.line(styled(GOOD, "done"))?;
        }
        Ok(if all.is_empty() { Answer::No } else { Answer::Yes })
    }
}

/// The id that begins so.
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

/// Where else it is said, but for what is taken back as well.
fn others<'t>(taken: Option<&'t TakenBack>, all: &[Done]) -> Vec<&'t str> {
    let also_in = taken.iter().flat_map(|taken| &taken.also_in).map(String::as_str);
    also_in.filter(|other| !all.iter().any(|done| done.session == *other)).collect()
}

/// The sessions that are not sent.
fn list(withheld: &Withheld, output: &mut Output) -> anyhow::Result<Answer> {
    let sessions: Vec<_> = withheld.sessions().collect();
    if output.json {
        output.value(&json!({ "withheld": sessions }))?;
    } else if sessions.is_empty() {
        output.note("every session is sent; `ctxbridge archive unsend SESSION` takes one back, and sends it no more");
    } else {
        sessions.iter().try_for_each(|session| output.line(*session))?;
    }
    Ok(if sessions.is_empty() { Answer::No } else { Answer::Yes })
}
