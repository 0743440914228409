//! Shows what will be forgotten.

use std::collections::BTreeSet;

use serde_json::json;

use super::ForgetArgs;
use crate::cli::output::{BAD, BOLD, DIM, Output, count, short, styled, time};
use ctxbridge_archive::forget::{ForgetPart, ForgetPlan, set_aside};
use ctxbridge_archive::handle::turn_handle;
use ctxbridge_archive::open::Location;
use ctxbridge_archive::quote;
use ctxbridge_archive::store::sqlite::LockPolicy;
use ctxbridge_archive::turn_text;

/// Maximum number of turns of a session that are listed.
const MAX_LISTED_TURNS: usize = 10;

/// Maximum characters of what a turn says.
const SUMMARY_CHARS: usize = 44;

/// Maximum characters of a title.
const TITLE_CHARS: usize = 32;

/// Characters of a session's id, if no other one begins with the same.
const ID_CHARS: usize = 8;
const MAX_ID_CHARS: usize = 36;

pub(super) fn plan(plan: &ForgetPlan, location: &Location, args: &ForgetArgs, output: &mut Output) -> anyhow::Result<()> {
    let aside = set_aside(location);
    let mut store = location.open_for_reading(LockPolicy::Background)?.store;
    if output.json {
        if args.dry_run {
            let parts: Vec<_> = plan.parts.iter().map(|(session, part)| as_json(session, part)).collect();
            output
                .value(&json!({ "sessions": parts, "also_in": plan.also_in, "quoted_in": plan.quoted_in, "removed": aside }))?;
        }
        return Ok(());
    }
    let ids = plan.parts.keys().chain(plan.also_in.keys()).chain(plan.quoted_in.keys());
    let chars = unique_chars(&ids.map(String::as_str).collect());
    for (session, part) in &plan.parts {
        let id = session.get(..chars).unwrap_or(session);
        let title = part.session.title.as_deref().map(|title| quote::cut(&quote::line(title), TITLE_CHARS)).unwrap_or_default();
        let extent = if part.is_whole { "all of it" } else { "a part" };
        let what = format!("{}, {}, {}", extent, count(part.turns.len() as u64, "turn"), count(part.lines, "line"));
        output.prose(2, format!("{}  {what}  {}", styled(BOLD, id), styled(DIM, title)))?;
        if !part.is_whole {
            for turn in part.turns.values().take(MAX_LISTED_TURNS) {
                let when = time(Some(turn.turn.started_ms).filter(|ms| *ms > 0));
                let summary = turn_text::summary_or_reason(&mut *store, turn)?;
                let summary = quote::cut(&quote::line(&summary), SUMMARY_CHARS);
                output.prose(2, format!("  {}  {}  {summary}", turn_handle(&turn.turn.id), styled(DIM, when)))?;
            }
            if part.turns.len() > MAX_LISTED_TURNS {
                output.prose(2, format!("  and {} more; --json --dry-run lists them", part.turns.len() - MAX_LISTED_TURNS))?;
            }
        }
        if !part.files.is_empty() {
            output.prose(2, format!("  with {} beside the transcript", count(part.files.len() as u64, "file")))?;
        }
    }
    for (session, turns) in &plan.also_in {
        let id = session.get(..chars).unwrap_or(session);
        output.prose(2, format!("{} session {id} says {} of it, too", styled(BAD, "stays:"), count(*turns, "turn")))?;
    }
    for (session, lines) in &plan.quoted_in {
        let id = session.get(..chars).unwrap_or(session);
        output.prose(2, format!("{} session {id} quotes it in {}", styled(BAD, "stays:"), count(*lines, "line")))?;
    }
    if !plan.also_in.is_empty() || !plan.quoted_in.is_empty() {
        output.note("--everywhere forgets it there as well");
    }
    for path in aside {
        output.prose(2, format!("{} {} goes as a whole: it was set aside", styled(BAD, "note:"), short(&path)))?;
    }
    if !args.transcripts {
        output.note("Claude Code's own transcripts keep it; --transcripts removes it there as well");
    }
    Ok(())
}

/// Number of characters by which all of these ids differ.
fn unique_chars(ids: &BTreeSet<&str>) -> usize {
    let differ = |chars: &usize| ids.iter().map(|id| id.get(..*chars)).collect::<BTreeSet<_>>().len() == ids.len();
    (ID_CHARS..=MAX_ID_CHARS).find(differ).unwrap_or(MAX_ID_CHARS)
}

/// Commands that take what is forgotten back from a server.
pub(super) fn revoke(plan: &ForgetPlan) -> String {
    let sessions = |is_whole: bool| {
        let ids: Vec<&str> = plan.parts.iter().filter(|(_, part)| part.is_whole == is_whole).map(|(id, _)| id.as_str()).collect();
        ids.join(" ")
    };
    let commands = [("", sessions(true)), (" --resend", sessions(false))];
    let commands = commands.iter().filter(|(_, ids)| !ids.is_empty());
    let commands: Vec<String> = commands.map(|(how, ids)| format!("`ctxbridge archive revoke {ids}{how}`")).collect();
    commands.join(" and ")
}

fn as_json(session: &str, part: &ForgetPart) -> serde_json::Value {
    let turns: Vec<_> = part.turns.keys().map(|id| turn_handle(id).to_string()).collect();
    json!({ "session": session, "is_whole": part.is_whole, "turns": turns, "lines": part.lines, "files": part.files })
}
