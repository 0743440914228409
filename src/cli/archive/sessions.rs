//! `ctxbridge archive sessions`

use serde_json::json;

use crate::cli::CommandOutcome;
use crate::cli::archives;
use crate::cli::output::{self, DIM, Output, count, styled};
use crate::cli::output::{stamp, time};
use ctxbridge_archive::store::{Session, StoreError, StoreReader};
use ctxbridge_archive::tier::Tier;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ctxbridge archive sessions --project . --limit 5")]
pub(super) struct SessionsArgs {
    /// Only sessions of this folder or below (the end of its path is enough; `.` is the current folder)
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
    /// Maximum number to list
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

impl SessionsArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut store = archives::open_to_read(output)?;
        let project = archives::project(self.project.as_deref(), &mut *store, false, output)?;
        let sessions = store.sessions("", project.as_ref(), self.limit)?;
        if output.json {
            let sessions = sessions.iter().map(|session| as_json(&mut *store, session)).collect::<Result<Vec<_>, _>>()?;
            output.value(&json!({ "sessions": sessions }))?;
        } else {
            for session in &sessions {
                let size = store.session_stats(session.key)?;
                let tier = match store.tier(session.key)? {
                    Tier::Hot => String::new(),
                    tier => format!("  {}", tier.word()),
                };
                let folder = session.folder.as_deref().unwrap_or("?");
                let title = session.title.as_deref().map(|title| format!("  {}", ctxbridge_archive::quote::line(title)));
                let title = title.unwrap_or_default();
                let title = match size.fuller {
                    Some(_) => format!("  ({} now; it was rewritten){title}", count(size.turns, "turn")),
                    None => title,
                };
                let more = if size.bad_lines > 0 { format!("  {} bad lines", size.bad_lines) } else { String::new() };
                output.line(format!(
                    "{}  {}  {:>6} turns  {:>9}  {}{}{}{}",
                    session.session,
                    time(session.last_ms),
                    size.most_turns(),
                    output::size(size.bytes.cast_signed()),
                    ctxbridge_archive::quote::line(folder),
                    styled(DIM, tier),
                    styled(DIM, more),
                    title
                ))?;
            }
        }
        Ok(if sessions.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
    }
}

/// Formats a session as JSON.
pub(super) fn as_json(store: &mut dyn StoreReader, session: &Session) -> Result<serde_json::Value, StoreError> {
    let size = store.session_stats(session.key)?;
    Ok(json!({
        "session": session.session, "folder": session.folder, "turns": size.most_turns(), "turns_now": size.turns, "bytes": size.bytes,
        "agents": size.agents, "side_files": size.side_files, "bad_lines": size.bad_lines, "rewritten": size.rewritten,
        "first": session.first_ms.and_then(stamp), "last": session.last_ms.and_then(stamp),
        "model": session.model, "version": session.version, "context_tokens": session.context_tokens,
        "window": session.window, "end_reason": session.end_reason, "title": session.title,
        "tier": store.tier(session.key)?.word(),
    }))
}
