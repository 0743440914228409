//! `ctxbridge sessions`

use std::path::Path;

use serde_json::json;

use crate::cli::CommandOutcome;
use crate::cli::archives;
use crate::cli::output::{BOLD, DIM, Output, cell, count, fit, relative_time, short, size, stamp, styled};
use ctxbridge_archive::quote;
use ctxbridge_archive::store::{Session, SessionReader, StoreError, StoreReader};
use ctxbridge_archive::tier::Tier;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge sessions --project . --limit 5

`-v` shows whole ids, exact times, sizes and folders. Exits 1 if there is no session.")]
pub(in crate::cli) struct SessionsArgs {
    /// Only sessions of this folder or below (the end of its path is enough; `.` is the current folder)
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
    /// Maximum number to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Columns of a list.
const WHEN_COLUMNS: usize = 14;
const TURNS_COLUMNS: usize = 5;
const PROJECT_COLUMNS: usize = 14;

impl SessionsArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut store = archives::open_to_read(output)?;
        let project = archives::project(self.project.as_deref(), &mut *store, false, output)?;
        let sessions = store.sessions("", project.as_ref(), self.limit as usize)?;
        if output.json {
            let sessions = sessions.iter().map(|session| as_json(&mut *store, session)).collect::<Result<Vec<_>, _>>()?;
            output.value(&json!({ "sessions": sessions }))?;
        } else if sessions.is_empty() {
            let next = match &self.project {
                Some(_) => "`ctxbridge sessions` lists those of all projects",
                None => "`ctxbridge archive import` takes in what Claude Code has, `ctxbridge setup` installs all",
            };
            let of = self.project.as_ref().map(|folder| format!(" of {}", quote::line(folder))).unwrap_or_default();
            output.note(&format!("no sessions{of} are archived; {next}"));
        } else {
            let digits = short_id_digits(&mut *store, &sessions)?;
            output.pages();
            if !output.verbose {
                let names =
                    [cell("ID", digits), cell("WHEN", WHEN_COLUMNS), "TURNS".to_owned(), cell("PROJECT", PROJECT_COLUMNS)];
                output.line(styled(DIM, format!("{}  TITLE", names.join("  "))))?;
            }
            for session in &sessions {
                row(&mut *store, session, digits, output)?;
            }
            let all = store.totals()?.sessions;
            let more = if self.project.is_none() && all > sessions.len() as u64 { format!(" of {all}") } else { String::new() };
            output.hint(&format!(
                "{}{more}; `ctxbridge show {}` shows the newest",
                count(sessions.len() as u64, "session"),
                quote::line(sessions[0].session.get(..digits).unwrap_or(&sessions[0].session))
            ));
        }
        Ok(if sessions.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
    }
}

/// Number of characters by which each listed session can be named: eight, or more where another one begins so as well.
fn short_id_digits(store: &mut dyn SessionReader, sessions: &[Session]) -> anyhow::Result<usize> {
    // Up to each hyphen of an id.
    const LENGTHS: [usize; 4] = [8, 13, 18, 23];
    const WHOLE: usize = 36;
    let mut shortest = 0;
    for session in sessions {
        while let Some(prefix) = LENGTHS.get(shortest).and_then(|length| session.session.get(..*length)) {
            if store.sessions(prefix, None, 2)?.iter().all(|other| other.session == session.session) {
                break;
            }
            shortest += 1;
        }
    }
    Ok(LENGTHS.get(shortest).copied().unwrap_or(WHOLE))
}

fn row(store: &mut dyn StoreReader, session: &Session, digits: usize, output: &mut Output) -> anyhow::Result<()> {
    let stats = store.session_stats(session.key)?;
    let mut remarks = Vec::new();
    match store.tier(session.key)? {
        // Where a session is kept says nothing about it to most.
        tier if tier == Tier::Hot || !output.verbose => {}
        tier => remarks.push(tier.word().to_owned()),
    }
    if stats.bad_lines > 0 {
        remarks.push(count(stats.bad_lines, "bad line"));
    }
    if stats.fuller.is_some() {
        remarks.push(format!("{} now; it was rewritten", count(stats.turns, "turn")));
    }
    let remarks = if remarks.is_empty() { String::new() } else { format!("({}) ", remarks.join(", ")) };
    let folder = session.folder.as_deref().map_or_else(|| "?".to_owned(), |folder| quote::line(&short(Path::new(folder))));
    let title = session.title.as_deref().map(quote::line).unwrap_or_default();
    let when = relative_time(session.last_ms, output.verbose);
    if output.verbose {
        output.line(format!(
            "{}  {when}  {:>6} turns  {:>9}  {folder}  {}{title}",
            styled(BOLD, quote::line(&session.session)),
            stats.most_turns(),
            size(stats.bytes.cast_signed()),
            styled(DIM, remarks)
        ))?;
        return Ok(());
    }
    let id = session.session.get(..digits).unwrap_or(&session.session);
    let before = digits + WHEN_COLUMNS + TURNS_COLUMNS + PROJECT_COLUMNS + 8;
    let title = fit(&format!("{remarks}{title}"), output.columns().saturating_sub(before));
    output.line(
        format!(
            "{}  {}  {:>TURNS_COLUMNS$}  {}  {title}",
            styled(BOLD, cell(&quote::line(id), digits)),
            styled(DIM, cell(&when, WHEN_COLUMNS)),
            stats.most_turns(),
            cell(folder_name(&folder), PROJECT_COLUMNS)
        )
        .trim_end(),
    )?;
    Ok(())
}

/// The name of a folder, by which its owner knows it; `-v` shows the whole path.
fn folder_name(folder: &str) -> &str {
    folder.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().filter(|name| !name.is_empty()).unwrap_or(folder)
}

/// Formats a session as JSON.
pub(super) fn as_json(store: &mut dyn StoreReader, session: &Session) -> Result<serde_json::Value, StoreError> {
    let stats = store.session_stats(session.key)?;
    Ok(json!({
        "session": session.session, "folder": session.folder, "turns": stats.most_turns(), "turns_now": stats.turns, "bytes": stats.bytes,
        "agents": stats.agents, "side_files": stats.side_files, "bad_lines": stats.bad_lines, "rewritten": stats.rewritten,
        "first": session.first_ms.and_then(stamp), "last": session.last_ms.and_then(stamp),
        "model": session.model, "version": session.version, "context_tokens": session.context_tokens,
        "window": session.window, "end_reason": session.end_reason, "title": session.title,
        "tier": store.tier(session.key)?.word(),
    }))
}
