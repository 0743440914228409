//! `ctxbridge archive history`

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::cli::archives;
use crate::cli::output::{BOLD, DIM, Output, count, styled};
use crate::cli::output::{stamp, time};
use crate::cli::{CommandOutcome, UsageError};
use ctxbridge_archive::handle::Reference;
use ctxbridge_archive::quote::{self, cut};
use ctxbridge_archive::search::query::QueryTerms;
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_archive::snapshot;
use ctxbridge_archive::store::{Session, Store, StoreError, StoredCompaction};

/// Maximum number of characters shown of a message.
const MESSAGE_CHARS: usize = 160;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge archive history 0b9e
  ctxbridge archive history --search retry budget
  ctxbridge show 0b9e@2           the window before compaction 2
  ctxbridge diff 0b9e@1 0b9e@2

Messages and learnings are counted since the previous compaction. Exits 1 if there are no compactions.")]
pub(super) struct HistoryArgs {
    /// Session id or prefix
    #[arg(required_unless_present = "search")]
    session: Option<String>,
    /// Search compactions for words in their first or last message or topics; in all sessions unless one is given
    #[arg(long, value_name = "WORD", num_args = 1..)]
    search: Vec<String>,
    /// Only sessions of this folder or below (the end of its path is enough; `.` is the current folder)
    #[arg(long, value_name = "FOLDER", requires = "search")]
    project: Option<String>,
    /// Maximum number of search results
    #[arg(long, value_name = "N", default_value_t = 20, requires = "search", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

impl HistoryArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let mut store = archives::open_to_read(output)?;
        let session = match &self.session {
            // As it is named everywhere else.
            Some(name) => {
                match archives::find(&mut *store, name.split_once('@').map_or(name.as_str(), |(session, _)| session))? {
                    Some(session) => Some(session),
                    None => {
                        archives::note_missing(name, output);
                        return Ok(CommandOutcome::No);
                    }
                }
            }
            None => None,
        };
        let found = match &session {
            Some(session) => {
                match snapshot::take_snapshots(&mut *store, session, None) {
                    // What is known without it is worth showing.
                    Err(error) if error.is_session_local() => output.note(&format!("note: {error}")),
                    passed => drop(passed?),
                }
                self.of_session(&mut *store, session, output)?
            }
            None => {
                snapshot::take_all_snapshots(&mut *store, None, &mut |done| {
                    output.progress(&format!("looking through {done} sessions"))
                })?;
                output.clear_progress();
                self.found(&mut *store, None, output)?
            }
        };
        let numbers = Numbers::of(&mut *store, &found)?;
        if output.json {
            let events: Vec<_> = found.iter().map(|compaction| as_json(compaction, &numbers)).collect();
            output.value(&json!({ "session": session.map(|session| session.session), "compactions": events }))?;
        } else {
            if let Some(session) = session.filter(|_| self.search.is_empty()) {
                let folder = quote::line(session.folder.as_deref().unwrap_or("?"));
                output.prose(8, format!("{} in {folder}", styled(BOLD, quote::line(&session.session))))?;
            }
            for compaction in &found {
                tell(compaction, &numbers, !self.search.is_empty(), output)?;
            }
            if found.is_empty() {
                output.note(if self.search.is_empty() { "it was never compacted" } else { "nothing found" });
            }
        }
        Ok(if found.is_empty() { CommandOutcome::No } else { CommandOutcome::Yes })
    }

    fn of_session(&self, store: &mut dyn Store, session: &Session, output: &Output) -> anyhow::Result<Vec<StoredCompaction>> {
        if self.search.is_empty() {
            return Ok(store.compactions(Some(session.key), i64::MIN)?);
        }
        let mut found = self.found(store, Some(&session.session), output)?;
        found.truncate(self.limit as usize);
        Ok(found)
    }

    fn found(&self, store: &mut dyn Store, session: Option<&str>, output: &Output) -> anyhow::Result<Vec<StoredCompaction>> {
        let Some(words) = QueryTerms::of(&self.search.join(" "), &Tokenizer::default()).expression(&[]) else {
            return Err(UsageError("--search names no word to look for".to_owned()).into());
        };
        let project = archives::project(self.project.as_deref(), store, false, output)?;
        let limit = if session.is_some() { usize::MAX } else { self.limit as usize };
        let mut found = store.search_compactions(&words, project.as_ref(), limit)?;
        found.retain(|compaction| session.is_none_or(|session| compaction.session == session));
        Ok(found)
    }
}

/// Numbers of compactions, as used in `SESSION@2`.
struct Numbers(HashMap<i64, usize>);

impl Numbers {
    fn of(store: &mut dyn Store, found: &[StoredCompaction]) -> Result<Self, StoreError> {
        let mut numbers = HashMap::new();
        for compaction in found {
            if !snapshot::has_number(compaction) || numbers.contains_key(&compaction.key) {
                continue;
            }
            if let Some(session) = store.session(&compaction.session)? {
                let all = snapshot::numbered_compactions(store, &session)?;
                numbers.extend(all.iter().enumerate().map(|(at, compaction)| (compaction.key, at + 1)));
            }
        }
        Ok(Self(numbers))
    }

    fn get(&self, compaction: &StoredCompaction) -> Option<usize> {
        self.0.get(&compaction.key).copied()
    }
}

/// Outcome of a compaction, as a word for people and JSON.
fn outcome(compaction: &StoredCompaction) -> &'static str {
    match compaction {
        StoredCompaction { is_done: true, .. } => "done",
        StoredCompaction { is_blocked: true, .. } => "blocked",
        _ => "announced",
    }
}

fn tell(compaction: &StoredCompaction, numbers: &Numbers, with_session: bool, output: &mut Output) -> anyhow::Result<()> {
    let name = match (numbers.get(compaction), with_session) {
        (Some(number), true) => format!("{}@{number}", compaction.session),
        (Some(number), false) => format!("@{number}"),
        (None, true) => compaction.session.clone(),
        (None, false) => "–".to_owned(),
    };
    let mut facts = vec![time(Some(compaction.at_ms))];
    facts.extend(compaction.cause.as_deref().map(quote::line));
    match outcome(compaction) {
        "done" => {}
        "blocked" => facts.push("held back".to_owned()),
        _ => facts.push("announced, no summary came".to_owned()),
    }
    if let Some(snapshot) = &compaction.snapshot {
        facts.push(count(snapshot.messages, "message"));
    }
    facts.push(format!("{} before it", count(u64::from(compaction.turns), "turn")));
    let tokens = |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), |tokens| format!("{:.1}K", tokens as f64 / 1e3));
    if compaction.context_tokens.or(compaction.context_after).is_some() {
        let after = if compaction.is_done { format!(" → {}", tokens(compaction.context_after)) } else { String::new() };
        facts.push(format!("{}{after} tokens", tokens(compaction.context_tokens)));
    }
    facts.extend(compaction.took_ms.map(|ms| format!("took {:.1} s", ms as f64 / 1e3)));
    if compaction.learnings > 0 {
        facts.push(format!("{} captured", count(compaction.learnings, "learning")));
    }
    output.prose(8, format!("{}  {}", styled(BOLD, quote::line(&name)), facts.join(", ")))?;
    if let Some(snapshot) = &compaction.snapshot {
        let lines = [("first", &snapshot.first), ("last", &snapshot.last), ("topics", &snapshot.topics.join(", "))];
        for (what, text) in lines.iter().filter(|(_, text)| !text.is_empty()) {
            output.prose(8, format!("    {}  {}", styled(DIM, format!("{what:<6}")), cut(&quote::line(text), MESSAGE_CHARS)))?;
        }
    }
    if let Some(entry) = compaction.summary {
        output.prose(8, styled(DIM, format!("    `ctxbridge recall {}` prints the summary", Reference::Summary(entry))))?;
    }
    Ok(())
}

fn as_json(compaction: &StoredCompaction, numbers: &Numbers) -> Value {
    let snapshot = compaction.snapshot.as_ref();
    json!({
        "session": compaction.session, "number": numbers.get(compaction), "timestamp": stamp(compaction.at_ms),
        "trigger": compaction.cause, "outcome": outcome(compaction), "turns_before": compaction.turns,
        "messages_before": snapshot.map(|snapshot| snapshot.messages), "tokens_before": compaction.context_tokens,
        "tokens_after": compaction.context_after, "took_ms": compaction.took_ms, "learnings": compaction.learnings,
        "first_message": snapshot.map(|snapshot| &snapshot.first), "last_message": snapshot.map(|snapshot| &snapshot.last),
        "topics": snapshot.map(|snapshot| &snapshot.topics),
        "summary": compaction.summary.map(|entry| Reference::Summary(entry).to_string()),
    })
}
