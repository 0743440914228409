/*!
Which conversation is meant: a session, or a session as it was.

```text
0b9e                 as it is now
0b9e@2               as it was before its second compaction
0b9e@yesterday       as it was then; any time that a search knows
0b9e@2026-05-04T12:00:00Z
```
*/

use std::fmt::{self, Display};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::conversation::{Agent, Body, Conversation, Message};
use super::stamp;
use ctxbridge_archive::search::time;
use ctxbridge_archive::snapshot;
use ctxbridge_archive::store::{Session, Store, StoreError, StoredCompaction, StoredTurn, Turns};
use ctxbridge_transcript::Record;

/// A session by the begin of its id, and which state of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    /// The id, or the begin of it.
    pub session: String,
    /// When.
    pub when: When,
}

/// A state of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// The newest.
    Now,
    /// Before this compaction; the first is 1.
    Before(usize),
    /// At this time, in milliseconds since 1970.
    At(i64),
}

/// Why a conversation cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WhichError {
    /// What stands behind the `@` is neither a number nor a time.
    #[error("{0}; a number is that of a compaction, the first is 1")]
    NoTime(String),
    /// There is no such compaction.
    #[error("session {session} has no compaction {asked}; it has {}", compactions(*has))]
    NoCompaction {
        /// The session.
        session: String,
        /// Which one was asked for.
        asked: usize,
        /// How many there are.
        has: usize,
    },
    /// The session is younger.
    #[error("session {session} had not begun at {asked}; it began at {began}")]
    NotYet {
        /// The session.
        session: String,
        /// When was asked for.
        asked: String,
        /// When its first turn began.
        began: String,
    },
    /// The archive cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn compactions(number: usize) -> String {
    match number {
        0 => "none".to_owned(),
        1 => "1 compaction".to_owned(),
        _ => format!("{number} compactions"),
    }
}

impl Which {
    /// Reads what a user typed; days are those of `zone`.
    ///
    /// # Errors
    /// [`WhichError::NoTime`].
    pub fn parse(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Self, WhichError> {
        let Some((session, when)) = text.rsplit_once('@') else {
            return Ok(Self { session: text.to_owned(), when: When::Now });
        };
        // A year is a number, too, but nobody compacts so often.
        let number = when.parse::<usize>().ok().filter(|_| when.len() < 4 && when.bytes().all(|byte| byte.is_ascii_digit()));
        let when = match number {
            Some(number) => When::Before(number),
            None => When::At(time::moment(when, now, zone).map_err(WhichError::NoTime)?),
        };
        Ok(Self { session: session.to_owned(), when })
    }
}

impl Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::Before(number) => write!(f, "before compaction {number}"),
            Self::At(ms) => write!(f, "at {}", stamp(*ms).unwrap_or_default()),
        }
    }
}

/// Reads a conversation.
///
/// # Errors
/// When there is no such state, or the archive cannot be read.
pub fn read(store: &mut dyn Store, session: &Session, when: &When, thinking: bool) -> Result<Conversation, WhichError> {
    let State { turns, is_cut, at_ms } = state(store, session, when)?;
    let mut conversation = Conversation::of_turns(store, session, &turns, thinking)?;
    let Some(ms) = at_ms else { return Ok(conversation) };
    conversation.state = Some(when.to_string());
    conversation.agents.retain(|agent| began(agent) <= ms);
    conversation.agents.iter_mut().for_each(|agent| until(&mut agent.messages, ms));
    conversation.before.retain(|message| message.at_ms <= ms);
    if let Some(last) = conversation.turns.last_mut() {
        agents_until(&mut last.messages, ms);
        if is_cut {
            // What was known of it as a whole is known no more.
            last.content_sha256 = None;
            last.context_tokens = None;
            last.ended_ms = last.messages.last().map_or(last.started_ms, |message| message.at_ms);
        }
    }
    Ok(conversation)
}

/// A state of a session.
#[derive(Clone, Debug)]
pub struct State {
    /// The last of them may be cut off.
    pub turns: Vec<StoredTurn>,
    /// Whether it is.
    pub is_cut: bool,
    /// When it was, in milliseconds since 1970; nothing for the newest.
    pub at_ms: Option<i64>,
}

/// The turns of a state.
///
/// # Errors
/// As [`read`].
pub fn state(store: &mut dyn Store, session: &Session, when: &When) -> Result<State, WhichError> {
    match *when {
        When::Now => Ok(State { turns: store.turns(session.key, Turns::All)?, is_cut: false, at_ms: None }),
        When::Before(number) => {
            let compactions = snapshot::numbered(store, session)?;
            let compaction = number.checked_sub(1).and_then(|at| compactions.get(at));
            let Some(StoredCompaction { place: Some((transcript, byte)), at_ms, .. }) = compaction else {
                let (session, has) = (session.session.clone(), compactions.len());
                return Err(WhichError::NoCompaction { session, asked: number, has });
            };
            let mut turns = store.turns(session.key, Turns::All)?;
            let is_before = |turn: &StoredTurn| match turn.transcript == *transcript {
                true => turn.turn.start < *byte,
                false => turn.turn.started_ms <= *at_ms,
            };
            turns.retain(is_before);
            let last = turns.last_mut().filter(|last| last.transcript == *transcript && last.turn.end > *byte);
            let is_cut = last.map(|last| last.turn.end = *byte).is_some();
            Ok(State { turns, is_cut, at_ms: Some(*at_ms) })
        }
        When::At(ms) => {
            let mut turns = turns_at(store, session, ms)?;
            let began = turns.first().map(|turn| turn.turn.started_ms).filter(|began| *began > ms);
            turns.retain(|turn| turn.turn.started_ms <= ms);
            if let Some(began) = began.filter(|_| turns.is_empty()) {
                let time = |ms| stamp(ms).unwrap_or_default();
                return Err(WhichError::NotYet { session: session.session.clone(), asked: time(ms), began: time(began) });
            }
            let is_cut = turns.last_mut().map_or(Ok(false), |last| cut_at(store, last, ms))?;
            Ok(State { turns, is_cut, at_ms: Some(ms) })
        }
    }
}

/// Cuts a turn off before the first line that was written later; says whether there is one.
fn cut_at(store: &mut dyn Store, turn: &mut StoredTurn, ms: i64) -> Result<bool, StoreError> {
    let mut bytes = Vec::new();
    store.raw(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end), &mut bytes)?;
    let mut at = turn.turn.start;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let is_later = Record::parse(line).is_ok_and(|record| record.timestamp().is_some_and(|time| time > ms));
        if is_later {
            turn.turn.end = at;
            return Ok(true);
        }
        at += line.len() as u64;
    }
    Ok(false)
}

/// The turns that a session had: where its transcript was rewritten later, those that it lost.
///
/// When it was rewritten is not known, but what stands there now began behind it.
fn turns_at(store: &mut dyn Store, session: &Session, ms: i64) -> Result<Vec<StoredTurn>, StoreError> {
    let mut turns = store.turns(session.key, Turns::All)?;
    let mut lost = store.turns(session.key, Turns::Superseded)?;
    lost.retain(|turn| turn.agent.is_none());
    // The newest generation was lost last.
    lost.sort_by_key(|turn| (turn.transcript, std::cmp::Reverse(turn.generation), turn.turn.index));
    for generation in lost.chunk_by(|a, b| (a.transcript, a.generation) == (b.transcript, b.generation)) {
        let stays = |lost: &StoredTurn| {
            let is_it = |turn: &StoredTurn| turn.transcript == lost.transcript && turn.turn.index == lost.turn.index;
            turns.iter().any(|turn| is_it(turn) && turn.entry == lost.entry)
        };
        // A rewritten transcript is read again from a little before where it differs.
        let same = generation.iter().take_while(|turn| stays(turn)).count();
        let Some(first) = generation.get(same) else { continue };
        let is_behind = |turn: &StoredTurn| turn.transcript == first.transcript && turn.turn.index >= first.turn.index;
        let Some(at) = turns.iter().position(is_behind) else { continue };
        let is_later = turns[at].turn.started_ms > ms;
        if is_later && first.turn.started_ms <= ms {
            turns.retain(|turn| !is_behind(turn));
            turns.splice(at..at, generation[same..].iter().cloned());
        }
    }
    Ok(turns)
}

fn began(agent: &Agent) -> i64 {
    agent.messages.first().map_or(0, |message| message.at_ms)
}

/// What was there at a time.
fn until(messages: &mut Vec<Message>, ms: i64) {
    messages.retain(|message| message.at_ms <= ms);
    for message in messages.iter_mut() {
        if let Body::Call(call) = &mut message.body {
            call.outcome = call.outcome.take().filter(|outcome| outcome.at_ms <= ms);
        }
    }
    agents_until(messages, ms);
}

/// The work of sub-agents that was there at a time: it goes on beside the conversation.
fn agents_until(messages: &mut [Message], ms: i64) {
    for message in messages {
        match &mut message.body {
            Body::Call(call) => {
                call.agents.iter_mut().for_each(|agent| until(&mut agent.messages, ms));
                call.agents.retain(|agent| !agent.messages.is_empty());
            }
            Body::Agent(agent) => until(&mut agent.messages, ms),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed() {
        let now: Timestamp = "2026-06-20T10:00:00Z".parse().expect("a time");
        let parse = |text: &str| Which::parse(text, now, &TimeZone::UTC);
        for (text, session, when) in [
            ("0b9e", "0b9e", "now"),
            ("0b9e@2", "0b9e", "before compaction 2"),
            ("0b9e@2026-05-04", "0b9e", "at 2026-05-04T00:00:00Z"),
            ("0b9e@yesterday", "0b9e", "at 2026-06-19T00:00:00Z"),
            ("0b9e@2025", "0b9e", "at 2025-01-01T00:00:00Z"),
            ("a@b@1", "a@b", "before compaction 1"),
        ] {
            let which = parse(text).expect(text);
            assert_eq!((which.session.as_str(), which.when.to_string().as_str()), (session, when), "{text}");
        }
        for wrong in ["0b9e@", "0b9e@never", "0b9e@-1", "0b9e@+1"] {
            let error = parse(wrong).expect_err(wrong).to_string();
            assert!(error.contains("is no time") && error.contains("compaction"), "{error}");
        }
    }
}
