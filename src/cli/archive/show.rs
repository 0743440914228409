//! `ctxbridge archive show`

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::{sessions, stamp, time};
use crate::cli::output::{BOLD, DIM, Output, styled};
use crate::cli::{Answer, Usage, server};
use crate::export::which::{self, When, Which, WhichError};
use ctxbridge_archive::quote::printable;
use ctxbridge_archive::recall::{self, turn_digits};
use ctxbridge_archive::store::{Session, Store, StoredSummary, StoredTurn, Turns};
use ctxbridge_archive::{context, quote, snapshot, words};
use ctxbridge_transcript::summary::MAX_CHARS;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive show 0b9e                 a line for each turn
  ctxbridge archive show 0b9e --turn 12       turn 12 in full
  ctxbridge archive show 0b9e@2               as it was before its second compaction
  ctxbridge archive show 0b9e --before yesterday
  ctxbridge archive show ctx:1a2b3c4d         the same by its handle")]
pub(super) struct ShowArgs {
    /// The session's id or the begin of it, with @N as it was before its N-th compaction; or a turn's handle
    what: String,
    /// As it was then: a day (its begin), a time such as 2026-05-04T14:30:00Z, or words such as `yesterday`
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    /// This turn in full; the first is 0
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// Sub-agents' work and what a rewritten transcript no longer has as well
    #[arg(long, conflicts_with_all = ["turn", "before"])]
    all: bool,
    /// Every turn in full
    #[arg(long, conflicts_with = "turn")]
    full: bool,
    /// The session of this colleague, on the team's server
    #[arg(long, value_name = "ROLE")]
    owner: Option<String>,
}

impl ShowArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<Answer> {
        if self.what.starts_with("ctx:") {
            if self.before.is_some() || self.turn.is_some() || self.all {
                return Err(Usage("a handle names one turn; --before, --turn and --all are for sessions".to_owned()).into());
            }
            return show_handle(&self.what, output);
        }
        let Which { session: prefix, when } = self.which()?;
        let Some((mut store, session)) = super::find_anywhere(&prefix, self.owner.as_deref(), output)? else {
            return Ok(Answer::No);
        };
        let which::State { mut turns, at_ms, .. } = match which::state(&mut *store, &session, &when) {
            Err(error @ (WhichError::NoCompaction { .. } | WhichError::NotYet { .. })) => {
                output.note(&error.to_string());
                return Ok(Answer::No);
            }
            state => state?,
        };
        let state = (when != When::Now).then(|| when.to_string());
        let mut summaries = store.summaries(session.key)?;
        // What took its place is no part of a conversation as it was.
        let is_before = matches!(when, When::Before(_));
        summaries.retain(|summary| at_ms.is_none_or(|ms| summary.at_ms < ms || (summary.at_ms == ms && !is_before)));
        if store.size(session.key)?.rewritten > 0 {
            let lost: Vec<_> = store.compactions(Some(session.key), i64::MIN)?.into_iter().filter(snapshot::is_lost).collect();
            summaries.retain(|summary| lost.iter().all(|lost| lost.summary != Some(summary.entry)));
        }
        if self.all {
            turns.extend(store.turns(session.key, Turns::Superseded)?);
            turns.extend(store.turns(session.key, Turns::Agents)?);
        }
        if let Some(wanted) = self.turn {
            turns.retain(|turn| turn.turn.index == wanted);
            let Some(turn) = turns.first() else {
                output.note(&format!(
                    "session {} has no turn {wanted}; it has {}",
                    session.session,
                    store.size(session.key)?.turns
                ));
                return Ok(Answer::No);
            };
            return in_full(&mut *store, turn, output);
        }
        if output.json {
            return as_json(&mut *store, &session, (&turns, &summaries), state, self.full, output);
        }
        let folder = quote::line(session.folder.as_deref().unwrap_or("?"));
        let as_it_was = state.map(|state| format!(", {state}")).unwrap_or_default();
        output.line(format!("{} in {folder}{as_it_was}", styled(BOLD, &session.session)))?;
        for turn in &turns {
            let handle = context::handle(&turn.turn.id);
            let when = time(Some(turn.turn.started_ms).filter(|ms| *ms > 0));
            let whose = match &turn.agent {
                _ if turn.is_superseded => "superseded  ".to_owned(),
                Some(agent) => format!("agent {}  ", quote::line(agent)),
                None => String::new(),
            };
            let whose = if turn.is_kept { format!("kept  {whose}") } else { whose };
            let summary = quote::line(&words::summary_or_cold(&mut *store, turn)?);
            output.line(format!("{:>5}  {handle}  {}  {}{summary}", turn.turn.index, styled(DIM, when), styled(DIM, whose)))?;
            if self.full {
                output.line(printable(&words::content(&mut *store, turn)?))?;
            }
        }
        for summary in summaries.iter().rev() {
            let text = if self.full { printable(&summary.text) } else { quote::cut(&quote::line(&summary.text), MAX_CHARS) };
            output.line(format!("{} after turn {}: {text}", styled(DIM, "compacted"), summary.turns))?;
        }
        Ok(Answer::Yes)
    }
}

impl ShowArgs {
    /// Which session, and which state of it.
    fn which(&self) -> anyhow::Result<Which> {
        let parse =
            |text: &str| Which::parse(text, Timestamp::now(), &TimeZone::system()).map_err(|error| Usage(error.to_string()));
        let named = parse(&self.what)?;
        let Some(before) = &self.before else { return Ok(named) };
        if named.when != When::Now {
            return Err(Usage("either @ or --before says when, not both".to_owned()).into());
        }
        Ok(Which { when: parse(&format!("@{before}"))?.when, ..named })
    }
}

/// The turn of a handle, in full.
pub(in crate::cli) fn show_handle(handle: &str, output: &mut Output) -> anyhow::Result<Answer> {
    let digits = turn_digits(handle).ok_or_else(|| anyhow::anyhow!("{handle} is no handle; one looks like ctx:1a2b3c4d"))?;
    let mut store = super::open_to_read(output)?;
    let mut found = recall::turn(&mut *store, &digits)?;
    if found.is_none()
        && let Some(server) = server::on_server(output)
    {
        store = server;
        found = recall::turn(&mut *store, &digits)?;
    }
    let Some((turn, is_ambiguous)) = found else {
        output.note(&format!("no turn has the handle ctx:{digits}; `ctxbridge archive import` archives what the client has"));
        return Ok(Answer::No);
    };
    if is_ambiguous {
        output.note(&format!("several turns have the handle ctx:{digits}; this is the newest"));
    }
    in_full(&mut *store, &turn, output)
}

/// What a colleague has archived says only what he lets it say.
pub(in crate::cli) fn note_owner(owner: Option<&str>, output: &Output) {
    if let Some(owner) = owner {
        output.note(&format!("archived by {}", quote::line(owner)));
    }
}

fn in_full(store: &mut dyn Store, turn: &StoredTurn, output: &mut Output) -> anyhow::Result<Answer> {
    let text = words::content(store, turn)?;
    if output.json {
        let mut value = turn_json(store, turn)?;
        value["text"] = json!(text);
        output.value(&value)?;
    } else {
        note_owner(turn.owner.as_deref(), output);
        output.line(printable(&text))?;
    }
    Ok(Answer::Yes)
}

fn as_json(
    store: &mut dyn Store,
    session: &Session,
    (turns, summaries): (&[StoredTurn], &[StoredSummary]),
    state: Option<String>,
    full: bool,
    output: &mut Output,
) -> anyhow::Result<Answer> {
    let mut listed = Vec::new();
    for turn in turns {
        let mut value = turn_json(store, turn)?;
        if full {
            value["text"] = json!(words::content(store, turn)?);
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
    value["summaries"] = json!(summaries);
    output.value(&value)?;
    Ok(Answer::Yes)
}

fn turn_json(store: &mut dyn Store, turn: &StoredTurn) -> anyhow::Result<Value> {
    let StoredTurn { turn: inner, .. } = turn;
    let summary = words::summary_or_cold(store, turn)?;
    Ok(json!({
        "turn": inner.index, "handle": context::handle(&inner.id), "session": turn.session, "owner": turn.owner, "agent": turn.agent,
        "is_superseded": turn.is_superseded, "is_kept": turn.is_kept,
        "timestamp": stamp(inner.started_ms), "ended": stamp(inner.ended_ms), "summary": summary, "tools": inner.tools,
        "files": inner.files, "agents": inner.agents, "open_work": inner.open_work, "is_answered": inner.is_answered,
        "context_tokens": inner.context_tokens, "output_tokens": inner.output_tokens, "chars": inner.content_chars,
        "content_sha256": ctxbridge_common::digest::hex(&inner.content_sha256), "access_count": turn.access_count,
        "confidence": turn.confidence, "is_pruned": turn.is_pruned,
    }))
}
