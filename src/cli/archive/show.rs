//! `ctxbridge show`

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::restore_folder::SessionFiles;
use super::sessions;
use crate::cli::archives;
use crate::cli::output::{BOLD, DIM, Output, cell, count, relative_time, stamp, styled};
use crate::cli::{CommandOutcome, UsageError, server};
use crate::export::session_ref::{self, Revision, RevisionError, SessionRef};
use ctxbridge_archive::quote::printable;
use ctxbridge_archive::store::{SegmentReader, Session, StoreReader, StoredSummary, StoredTurn, TurnSelection};
use ctxbridge_archive::{handle, quote, snapshot, turn_text};
use ctxbridge_archive::{handle::turn_digits, recall};
use ctxbridge_transcript::summary::MAX_CHARS;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge show 0b9e                 one line per turn
  ctxbridge show 0b9e --turn 12       turn 12 in full
  ctxbridge show 0b9e@2               before its second compaction
  ctxbridge show 0b9e --before yesterday
  ctxbridge show ctx:1a2b3c4d         a turn by its handle")]
pub(in crate::cli) struct ShowArgs {
    /// Session id or prefix (add @N for its state before compaction N), or a turn's handle
    what: String,
    /// Show the state at this time: a day (its start), a time such as 2026-05-04T14:30:00Z, or words such as `yesterday`
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    /// Show this turn in full; the first is 0
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// Include sub-agents and turns that a rewritten transcript no longer has
    #[arg(long, conflicts_with_all = ["turn", "before"])]
    all: bool,
    /// Show the turns that were rewound in their places
    #[arg(long, conflicts_with_all = ["turn", "before"])]
    branches: bool,
    /// Show every turn in full
    #[arg(long, conflicts_with = "turn")]
    full: bool,
    /// Show this colleague's session on the team server
    #[arg(long, value_name = "ROLE")]
    owner: Option<String>,
}

impl ShowArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        if self.what.starts_with("ctx:") {
            if self.before.is_some() || self.turn.is_some() || self.all || self.branches {
                let only = "a handle names one turn; --before, --turn, --all and --branches are for sessions";
                return Err(UsageError(only.to_owned()).into());
            }
            return show_handle(&self.what, output);
        }
        let SessionRef { session: prefix, revision: when } = self.which()?;
        let Some((mut store, session)) = archives::find_anywhere(&prefix, self.owner.as_deref(), output)? else {
            return Ok(CommandOutcome::No);
        };
        let session_ref::SessionSnapshot { mut turns, at_ms, .. } =
            match session_ref::session_snapshot(&mut *store, &session, &when) {
                Err(error @ (RevisionError::NoCompaction { .. } | RevisionError::BeforeStart { .. })) => {
                    output.note(&error.to_string());
                    return Ok(CommandOutcome::No);
                }
                state => state?,
            };
        if when == Revision::Latest {
            archives::note_fuller(&mut *store, &session, output)?;
        }
        let state = (when != Revision::Latest).then(|| when.to_string());
        let mut summaries = store.summaries(session.key)?;
        // What took its place is no part of a conversation as it was.
        let is_before = matches!(when, Revision::BeforeCompaction(_));
        summaries.retain(|summary| at_ms.is_none_or(|ms| summary.at_ms < ms || (summary.at_ms == ms && !is_before)));
        if store.session_stats(session.key)?.rewritten > 0 {
            let lost: Vec<_> = store.compactions(Some(session.key), i64::MIN)?.into_iter().filter(snapshot::is_lost).collect();
            summaries.retain(|summary| lost.iter().all(|lost| lost.summary != Some(summary.entry)));
        }
        let mut folded = Vec::new();
        if when == Revision::Latest {
            let mut all = turns.clone();
            session_ref::add_rewound(&mut *store, &session, &mut all)?;
            if self.branches || self.all {
                turns = all;
            } else {
                folded = rewound_before(&all);
            }
        }
        if self.all {
            turns.extend(store.turns(session.key, TurnSelection::Superseded)?.into_iter().filter(|turn| !turn.is_rewound));
            turns.extend(store.turns(session.key, TurnSelection::Agents)?);
        }
        if let Some(wanted) = self.turn {
            turns.retain(|turn| turn.turn.index == wanted);
            let Some(turn) = turns.first() else {
                output.note(&format!(
                    "session {} has no turn {wanted}; it has {}",
                    session.session,
                    store.session_stats(session.key)?.turns
                ));
                return Ok(CommandOutcome::No);
            };
            return in_full(&mut *store, turn, output);
        }
        if output.json {
            let rewound = folded.iter().map(|(_, count)| count).sum();
            return as_json(&mut *store, &session, (&turns, &summaries), (state, rewound), self.full, output);
        }
        output.pages();
        let folder = quote::line(session.folder.as_deref().unwrap_or("?"));
        let as_it_was = state.map(|state| format!(", {state}")).unwrap_or_default();
        output.line(format!("{} in {folder}{as_it_was}", styled(BOLD, quote::line(&session.session))))?;
        if let Some(title) = &session.title {
            output.row(quote::line(title))?;
        }
        let side_files = store.session_stats(session.key)?.side_files;
        if side_files > 0 {
            output.line(styled(DIM, format!("{} beside the transcript", count(side_files, "file"))))?;
        }
        let transcripts = store.transcripts(session.key)?;
        if let Some(own) = transcripts.first() {
            SessionFiles::of(&transcripts, own, &session.session).note_omitted(&mut *store, output)?;
        }
        for (at, turn) in turns.iter().enumerate() {
            note_folded(&folded, at, output)?;
            let handle = handle::turn_handle(&turn.turn.id);
            let when = relative_time(Some(turn.turn.started_ms), output.verbose);
            let whose = match &turn.agent {
                _ if turn.is_rewound => "rewound  ".to_owned(),
                _ if turn.is_superseded => "superseded  ".to_owned(),
                Some(agent) => format!("agent {}  ", quote::line(agent)),
                None => String::new(),
            };
            let whose = if turn.is_pinned { format!("kept  {whose}") } else { whose };
            let summary = quote::line(&turn_text::summary_or_reason(&mut *store, turn)?);
            output.row(format!(
                "{:>5}  {handle}  {}  {}{summary}",
                turn.turn.index,
                styled(DIM, cell(&when, if output.verbose { 16 } else { 14 })),
                styled(DIM, whose)
            ))?;
            if self.full {
                output.line(printable(&turn_text::content(&mut *store, turn)?))?;
            }
        }
        note_folded(&folded, turns.len(), output)?;
        for summary in summaries.iter().rev() {
            let text = if self.full { printable(&summary.text) } else { quote::cut(&quote::line(&summary.text), MAX_CHARS) };
            let told = format!("{} after turn {}: {text}", styled(DIM, "compacted"), summary.turns);
            if self.full { output.line(told)? } else { output.row(told)? }
        }
        if let Some(last) = turns.last() {
            output.hint(&format!(
                "{}; `ctxbridge recall {}` prints the last in full",
                count(turns.len() as u64, "turn"),
                handle::turn_handle(&last.turn.id)
            ));
        }
        Ok(CommandOutcome::Yes)
    }
}

impl ShowArgs {
    /// Parses the session and the state of it to show.
    fn which(&self) -> anyhow::Result<SessionRef> {
        let parse = |text: &str| {
            SessionRef::parse(text, Timestamp::now(), &TimeZone::system()).map_err(|error| UsageError(error.to_string()))
        };
        let named = parse(&self.what)?;
        let Some(before) = &self.before else { return Ok(named) };
        if named.revision != Revision::Latest {
            return Err(UsageError("either @ or --before says when, not both".to_owned()).into());
        }
        Ok(SessionRef { revision: parse(&format!("@{before}"))?.revision, ..named })
    }
}

/// Numbers of turns that were rewound, each with the position among the others that it stands before.
fn rewound_before(all: &[StoredTurn]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut told = 0;
    for turn in all {
        match found.last_mut().filter(|(at, _)| *at == told) {
            _ if !turn.is_rewound => told += 1,
            Some((_, count)) => *count += 1,
            None => found.push((told, 1)),
        }
    }
    found
}

fn note_folded(folded: &[(usize, usize)], at: usize, output: &mut Output) -> anyhow::Result<()> {
    if let Some((_, number)) = folded.iter().find(|(before, _)| *before == at) {
        let were = if *number == 1 { "was" } else { "were" };
        output.line(styled(DIM, format!("       {} {were} rewound; --branches shows them", count(*number as u64, "turn"))))?;
    }
    Ok(())
}

/// Shows the turn with a handle, in full.
pub(in crate::cli) fn show_handle(handle: &str, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let digits = turn_digits(handle).ok_or_else(|| anyhow::anyhow!("{handle} is no handle; one looks like ctx:1a2b3c4d"))?;
    let mut store = archives::open_to_read(output)?;
    let mut found = recall::find_turn(&mut *store, &digits)?;
    if found.is_none()
        && let Some(server) = server::server_for_reading(output)
    {
        store = server;
        found = recall::find_turn(&mut *store, &digits)?;
    }
    let Some((turn, is_ambiguous)) = found else {
        output.note(&format!("no turn has the handle ctx:{digits}; `ctxbridge archive import` archives what the client has"));
        return Ok(CommandOutcome::No);
    };
    if is_ambiguous {
        output.note(&format!("several turns have the handle ctx:{digits}; this is the newest"));
    }
    in_full(&mut *store, &turn, output)
}

/// Notes the owner of a colleague's text.
pub(in crate::cli) fn note_owner(owner: Option<&str>, output: &Output) {
    if let Some(owner) = owner {
        output.note(&format!("archived by {}", quote::line(owner)));
    }
}

fn in_full(store: &mut dyn SegmentReader, turn: &StoredTurn, output: &mut Output) -> anyhow::Result<CommandOutcome> {
    let text = turn_text::content(store, turn)?;
    if output.json {
        let mut value = turn_json(store, turn)?;
        value["text"] = json!(text);
        output.value(&value)?;
    } else {
        note_owner(turn.owner.as_deref(), output);
        if turn.is_rewound {
            output.note("the conversation went back to before this turn, and on without it");
        }
        output.line(printable(&text))?;
    }
    Ok(CommandOutcome::Yes)
}

fn as_json(
    store: &mut dyn StoreReader,
    session: &Session,
    (turns, summaries): (&[StoredTurn], &[StoredSummary]),
    (state, rewound): (Option<String>, usize),
    full: bool,
    output: &mut Output,
) -> anyhow::Result<CommandOutcome> {
    let mut listed = Vec::new();
    for turn in turns {
        let mut value = turn_json(store, turn)?;
        if full {
            value["text"] = json!(turn_text::content(store, turn)?);
        }
        listed.push(value);
    }
    let summaries: Vec<_> = summaries
        .iter()
        .map(|summary| json!({ "timestamp": stamp(summary.at_ms), "turns_before": summary.turns, "text": summary.text }))
        .collect();
    let mut value = sessions::as_json(store, session)?;
    value["state"] = json!(state);
    value["turns"] = json!(listed);
    value["folded_rewound"] = json!(rewound);
    value["summaries"] = json!(summaries);
    output.value(&value)?;
    Ok(CommandOutcome::Yes)
}

fn turn_json(store: &mut dyn SegmentReader, turn: &StoredTurn) -> anyhow::Result<Value> {
    let StoredTurn { turn: inner, .. } = turn;
    let summary = turn_text::summary_or_reason(store, turn)?;
    Ok(json!({
        "turn": inner.index, "handle": handle::turn_handle(&inner.id), "session": turn.session, "owner": turn.owner, "agent": turn.agent,
        "is_superseded": turn.is_superseded, "is_rewound": turn.is_rewound, "is_pinned": turn.is_pinned,
        "timestamp": stamp(inner.started_ms), "ended": stamp(inner.ended_ms), "summary": summary, "tools": inner.tools,
        "files": inner.files, "agents": inner.agents, "open_work": inner.open_work, "is_answered": inner.is_answered,
        "context_tokens": inner.context_tokens, "output_tokens": inner.output_tokens, "chars": inner.content_chars,
        "content_sha256": ctxbridge_common::digest::hex(&inner.content_sha256), "access_count": turn.access_count,
        "confidence": turn.confidence, "is_pruned": turn.is_pruned,
    }))
}
