/*!
References to a conversation: a session, or an earlier state of it.

```text
0b9e                 the newest state
0b9e@2               the state before its second compaction
0b9e@yesterday       the state at a time; any time that a search knows
0b9e@2026-05-04T12:00:00Z
```

A state is a list of turns. The last of them may be cut off at a byte: at the compaction, or at the first later line.
*/

use std::fmt::{self, Display};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::conversation::{Agent, ExportedConversation, ExportedMessage, MessageBody};
use super::format_timestamp;
use ctxbridge_archive::search::time;
use ctxbridge_archive::snapshot;
use ctxbridge_archive::store::{
    SegmentReader, Session, Store, StoreError, StoredCompaction, StoredTurn, TurnReader, TurnSelection,
};
use ctxbridge_transcript::{RepeatedRows, records_from};

/// A session by a prefix of its id, and a state of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRef {
    /// The id, or a prefix of it.
    pub session: String,
    /// The state.
    pub revision: Revision,
}

/// A state of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revision {
    /// The newest state.
    Latest,
    /// The state before this compaction; the first is 1.
    BeforeCompaction(usize),
    /// The state at this time, in milliseconds since 1970.
    At(i64),
}

/// Errors from reading a conversation.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    /// The text behind the `@` is neither a number nor a time.
    #[error("{0}; a number is that of a compaction, the first is 1")]
    InvalidTime(String),
    /// There is no such compaction.
    #[error("session {session} has no compaction {asked}; it has {}", compactions(*has))]
    NoCompaction {
        /// The session.
        session: String,
        /// The compaction that was asked for.
        asked: usize,
        /// Number of compactions.
        has: usize,
    },
    /// The session started later.
    #[error("session {session} had not begun at {asked}; it began at {began}")]
    BeforeStart {
        /// The session.
        session: String,
        /// The time that was asked for.
        asked: String,
        /// Start of its first turn.
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

impl SessionRef {
    /// Parses a reference that a user typed; days are those of `zone`.
    ///
    /// # Errors
    /// [`RevisionError::InvalidTime`].
    pub fn parse(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Self, RevisionError> {
        let Some((session, when)) = text.rsplit_once('@') else {
            return Ok(Self { session: text.to_owned(), revision: Revision::Latest });
        };
        // A year is a number, too, but nobody compacts so often.
        let number = when.parse::<usize>().ok().filter(|_| when.len() < 4 && when.bytes().all(|byte| byte.is_ascii_digit()));
        let when = match number {
            Some(number) => Revision::BeforeCompaction(number),
            None => Revision::At(time::parse_moment(when, now, zone).map_err(RevisionError::InvalidTime)?),
        };
        Ok(Self { session: session.to_owned(), revision: when })
    }
}

impl Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("now"),
            Self::BeforeCompaction(number) => write!(f, "before compaction {number}"),
            Self::At(ms) => write!(f, "at {}", format_timestamp(*ms).unwrap_or_default()),
        }
    }
}

/// Reads a conversation in a state; `with_rewound`: the newest state with the turns that were rewound, in their places.
///
/// # Errors
/// If there is no such state, or the archive cannot be read.
pub fn read(
    store: &mut dyn Store,
    session: &Session,
    when: &Revision,
    thinking: bool,
    with_rewound: bool,
) -> Result<ExportedConversation, RevisionError> {
    let SessionSnapshot { mut turns, is_cut, at_ms } = session_snapshot(store, session, when)?;
    if with_rewound && *when == Revision::Latest {
        add_rewound(store, session, &mut turns)?;
    }
    let mut conversation = ExportedConversation::of_turns(store, session, &turns, thinking)?;
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

/// Adds the turns that were rewound to those of the conversation, in the order of the transcript.
///
/// # Errors
/// If the archive cannot be read.
pub fn add_rewound(store: &mut dyn TurnReader, session: &Session, turns: &mut Vec<StoredTurn>) -> Result<(), StoreError> {
    let rewound = store.turns(session.key, TurnSelection::Superseded)?.into_iter().filter(|turn| turn.is_rewound);
    for turn in rewound {
        let is_behind = |other: &StoredTurn| other.transcript == turn.transcript && other.turn.start > turn.turn.start;
        let at = turns.iter().position(is_behind).unwrap_or(turns.len());
        turns.insert(at, turn);
    }
    Ok(())
}

/// The turns of a session in a state.
#[derive(Clone, Debug)]
pub struct SessionSnapshot {
    /// The turns; the last may be cut off.
    pub turns: Vec<StoredTurn>,
    /// `true` if the last turn is cut off.
    pub is_cut: bool,
    /// Time of the state, in milliseconds since 1970; none for the newest.
    pub at_ms: Option<i64>,
}

/// Reads the turns of a state.
///
/// # Errors
/// As [`read`].
pub fn session_snapshot(store: &mut dyn Store, session: &Session, when: &Revision) -> Result<SessionSnapshot, RevisionError> {
    match *when {
        Revision::Latest => {
            Ok(SessionSnapshot { turns: store.turns(session.key, TurnSelection::All)?, is_cut: false, at_ms: None })
        }
        Revision::BeforeCompaction(number) => {
            let compactions = snapshot::numbered_compactions(store, session)?;
            let compaction = number.checked_sub(1).and_then(|at| compactions.get(at));
            let Some(StoredCompaction { location: Some((transcript, byte)), at_ms, .. }) = compaction else {
                let (session, has) = (session.session.clone(), compactions.len());
                return Err(RevisionError::NoCompaction { session, asked: number, has });
            };
            let mut turns = store.turns(session.key, TurnSelection::All)?;
            let is_before = |turn: &StoredTurn| match turn.transcript == *transcript {
                true => turn.turn.start < *byte,
                false => turn.turn.started_ms <= *at_ms,
            };
            turns.retain(is_before);
            let last = turns.last_mut().filter(|last| last.transcript == *transcript && last.turn.end > *byte);
            let is_cut = last.map(|last| last.turn.end = *byte).is_some();
            Ok(SessionSnapshot { turns, is_cut, at_ms: Some(*at_ms) })
        }
        Revision::At(ms) => {
            let mut turns = turns_at(store, session, ms)?;
            let began = turns.first().map(|turn| turn.turn.started_ms).filter(|began| *began > ms);
            turns.retain(|turn| turn.turn.started_ms <= ms);
            if let Some(began) = began.filter(|_| turns.is_empty()) {
                let time = |ms| format_timestamp(ms).unwrap_or_default();
                return Err(RevisionError::BeforeStart { session: session.session.clone(), asked: time(ms), began: time(began) });
            }
            let is_cut = turns.last_mut().map_or(Ok(false), |last| cut_at(store, last, ms))?;
            Ok(SessionSnapshot { turns, is_cut, at_ms: Some(ms) })
        }
    }
}

/// Cuts a turn off before the first line that was written later. Returns `true` if there is one.
fn cut_at(store: &mut dyn SegmentReader, turn: &mut StoredTurn, ms: i64) -> Result<bool, StoreError> {
    let mut bytes = Vec::new();
    store.read_bytes(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end), &mut bytes)?;
    let mut later = None;
    records_from(&bytes, turn.turn.start, &mut RepeatedRows::default(), &mut |start, _, record| {
        if record.timestamp().is_some_and(|time| time > ms) {
            later.get_or_insert(start);
        }
    });
    turn.turn.end = later.unwrap_or(turn.turn.end);
    Ok(later.is_some())
}

/// The turns that a session had at a time. If its transcript was rewritten later, these include turns that it lost.
///
/// The time of the rewrite is not known, but the turns that are there now started after it.
fn turns_at(store: &mut dyn TurnReader, session: &Session, ms: i64) -> Result<Vec<StoredTurn>, StoreError> {
    let mut turns = store.turns(session.key, TurnSelection::All)?;
    let mut lost = store.turns(session.key, TurnSelection::Superseded)?;
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

/// Removes messages and results that came after a time.
fn until(messages: &mut Vec<ExportedMessage>, ms: i64) {
    messages.retain(|message| message.at_ms <= ms);
    for message in messages.iter_mut() {
        if let MessageBody::Call(call) = &mut message.body {
            call.outcome = call.outcome.take().filter(|outcome| outcome.at_ms <= ms);
        }
    }
    agents_until(messages, ms);
}

/// Removes work of sub-agents that was done after a time, since they work in parallel to the conversation.
fn agents_until(messages: &mut [ExportedMessage], ms: i64) {
    for message in messages {
        match &mut message.body {
            MessageBody::Call(call) => {
                call.agents.iter_mut().for_each(|agent| until(&mut agent.messages, ms));
                call.agents.retain(|agent| !agent.messages.is_empty());
            }
            MessageBody::Agent(agent) => until(&mut agent.messages, ms),
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
        let parse = |text: &str| SessionRef::parse(text, now, &TimeZone::UTC);
        for (text, session, when) in [
            ("0b9e", "0b9e", "now"),
            ("0b9e@2", "0b9e", "before compaction 2"),
            ("0b9e@2026-05-04", "0b9e", "at 2026-05-04T00:00:00Z"),
            ("0b9e@yesterday", "0b9e", "at 2026-06-19T00:00:00Z"),
            ("0b9e@2025", "0b9e", "at 2025-01-01T00:00:00Z"),
            ("a@b@1", "a@b", "before compaction 1"),
        ] {
            let which = parse(text).expect(text);
            assert_eq!((which.session.as_str(), which.revision.to_string().as_str()), (session, when), "{text}");
        }
        for wrong in ["0b9e@", "0b9e@never", "0b9e@-1", "0b9e@+1"] {
            let error = parse(wrong).expect_err(wrong).to_string();
            assert!(error.contains("is no time") && error.contains("compaction"), "{error}");
        }
    }
}
