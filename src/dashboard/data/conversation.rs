/*!
A conversation to read: some turns at a time, so that 100,000 are as fast as ten.

Its turns are those of the conversation, with the ones that were rewound in their places. Behind them are turns that only an
earlier version of the transcript has, and the work of sub-agents that no call names.
*/

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use super::messages::{ShownMessage, TextLimits, shown};
use super::{DashboardService, DataError, SessionListItem, lock, session};
use crate::export::turns;
use crate::export::{conversation::ExportedTurn, session_ref};
use ctxbridge_archive::handle::{Reference, turn_digits};
use ctxbridge_archive::store::{Session, Store, StoreError, StoredTurn, TurnSelection};
use ctxbridge_common::digest;

/// Maximum number of turns of a page.
const PAGE_TURNS: usize = 20;
/// Number of characters of a page after which no other turn is added.
const PAGE_CHARS: usize = 300_000;

/// Some turns of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConversationPage {
    /// The session.
    pub session: SessionListItem,
    /// Number of turns that can be read here.
    pub total: usize,
    /// Number of those that were rewound.
    pub rewound: usize,
    /// Number of those that only an earlier version of the transcript has.
    pub superseded: usize,
    /// Position of the first turn of the page.
    pub from: usize,
    /// Position behind its last turn.
    pub to: usize,
    /// Position of the turn that was asked for, if one was.
    pub target: Option<usize>,
    /// The summary that the conversation begins with, if it continues another one; on the first page.
    pub before: Vec<ShownMessage>,
    /// The turns.
    pub turns: Vec<ReadTurn>,
}

/// A turn of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadTurn {
    /// Its position among all turns, from 0.
    pub position: usize,
    /// The handle, for `ctxbridge recall`.
    pub handle: String,
    /// Start time, in milliseconds since 1970; 0 if it is not known.
    pub at_ms: i64,
    /// `true` if the conversation went back to before it.
    pub is_rewound: bool,
    /// `true` if only an earlier version of the transcript has it.
    pub is_superseded: bool,
    /// `true` if the user pinned it.
    pub is_pinned: bool,
    /// The sub-agent, if it is one's work.
    pub agent: Option<String>,
    /// Size of the context at its last answer, in tokens.
    pub context_tokens: Option<u64>,
    /// The messages, in order.
    pub messages: Vec<ShownMessage>,
    /// Number of messages that are not listed.
    pub omitted: usize,
    /// `true` if texts are cut, or messages omitted.
    pub is_cut: bool,
    /// Reason why it cannot be read.
    pub trouble: Option<String>,
}

/// The turns of a session, and those of its sub-agents.
#[derive(Debug)]
pub(super) struct TurnList {
    turns: Vec<StoredTurn>,
    agents: Vec<StoredTurn>,
}

/// The place in a conversation where a page is.
enum PagePlace {
    From(usize),
    Before(usize),
    Target(usize),
}

impl DashboardService {
    /// Reads turns of a session. `at` is the position of the first one, `before-N` for those before a position, `last` for the
    /// last ones, or the handle of a search hit.
    pub fn conversation(&self, id: &str, at: &str) -> Result<ConversationPage, DataError> {
        let mut store = self.opened()?;
        let found = session(&mut *store, id)?;
        let list = self.turn_list(&mut *store, &found)?;
        let place = place_of(&mut *store, &list, at)?;
        let limits = TextLimits::PAGE;
        let total = list.turns.len();
        let (mut read, mut chars) = (Vec::new(), 0);
        let mut add = |position: usize, read: &mut Vec<ReadTurn>| -> Result<bool, DataError> {
            let turn = read_turn(&mut *store, &list, position, limits)?;
            chars += turn.messages.iter().map(ShownMessage::chars).sum::<usize>();
            read.push(turn);
            Ok(read.len() < PAGE_TURNS && chars < PAGE_CHARS)
        };
        match place {
            PagePlace::From(from) | PagePlace::Target(from) => {
                for position in from..total {
                    if !add(position, &mut read)? {
                        break;
                    }
                }
            }
            PagePlace::Before(end) => {
                for position in (0..end.min(total)).rev() {
                    if !add(position, &mut read)? {
                        break;
                    }
                }
                read.reverse();
            }
        }
        let from = read.first().map_or(total, |turn| turn.position);
        let before = match list.turns.first().filter(|_| from == 0) {
            Some(first) => unless_damaged(turns::read_before(&mut *store, &found, first, false))?.unwrap_or_default(),
            None => Vec::new(),
        };
        let (before, ..) = shown(&before, limits);
        let title = self.titles(&mut *store, std::slice::from_ref(&found))?.pop().flatten();
        Ok(ConversationPage {
            session: self.listed(&mut *store, found, title)?,
            total,
            rewound: list.turns.iter().filter(|turn| turn.is_rewound).count(),
            superseded: list.turns.iter().filter(|turn| turn.is_superseded && !turn.is_rewound).count(),
            from,
            to: from + read.len(),
            target: match place {
                PagePlace::Target(target) => Some(target),
                _ => None,
            },
            before,
            turns: read,
        })
    }

    /// Reads a turn with long texts in full, by its position.
    pub fn whole_turn(&self, id: &str, position: usize) -> Result<ReadTurn, DataError> {
        let mut store = self.opened()?;
        let found = session(&mut *store, id)?;
        let list = self.turn_list(&mut *store, &found)?;
        if position >= list.turns.len() {
            return Err(DataError::UnknownTurn);
        }
        read_turn(&mut *store, &list, position, TextLimits::WHOLE)
    }

    /// The turns of a session, which are kept for the next page.
    fn turn_list(&self, store: &mut dyn Store, session: &Session) -> Result<Arc<TurnList>, DataError> {
        let mark = format!("{} {}", self.data_fingerprint(), session.session);
        if let Some((_, list)) = lock(&self.turns).as_ref().filter(|(of, _)| *of == mark) {
            return Ok(Arc::clone(list));
        }
        let mut turns = store.turns(session.key, TurnSelection::All)?;
        session_ref::add_rewound(store, session, &mut turns)?;
        let superseded = store.turns(session.key, TurnSelection::Superseded)?;
        turns.extend(superseded.into_iter().filter(|turn| !turn.is_rewound && turn.agent.is_none()));
        let agents = store.turns(session.key, TurnSelection::Agents)?;
        let named: HashSet<&str> =
            turns.iter().chain(&agents).flat_map(|turn| turn.turn.agents.iter().map(String::as_str)).collect();
        let is_named = |turn: &&StoredTurn| turn.agent.as_deref().is_some_and(|agent| named.contains(agent));
        let rest: Vec<StoredTurn> = agents.iter().filter(|turn| !is_named(turn)).cloned().collect();
        turns.extend(rest);
        let list = Arc::new(TurnList { turns, agents });
        *lock(&self.turns) = Some((mark, Arc::clone(&list)));
        Ok(list)
    }
}

impl TurnList {
    /// The work of the sub-agents that a turn started, and of those that these started.
    fn agents_of(&self, turn: &StoredTurn) -> Vec<StoredTurn> {
        let mut wanted: Vec<&str> = turn.turn.agents.iter().map(String::as_str).collect();
        let (mut at, mut found) = (0, Vec::new());
        while let Some(id) = wanted.get(at).copied() {
            at += 1;
            for work in self.agents.iter().filter(|work| work.agent.as_deref() == Some(id)) {
                let new = work.turn.agents.iter().map(String::as_str).filter(|agent| !wanted.contains(agent));
                wanted.extend(new.collect::<Vec<_>>());
                found.push(work.clone());
            }
        }
        found
    }

    /// Position of a turn; of a sub-agent's, that of the turn which started it.
    fn position_of(&self, digits: &str) -> Option<usize> {
        let is_it = |turn: &StoredTurn| digest::hex(&turn.turn.id).starts_with(digits);
        if let Some(position) = self.turns.iter().position(is_it) {
            return Some(position);
        }
        let agent = self.agents.iter().find(|turn| is_it(turn))?.agent.clone()?;
        let mut agent = agent.as_str();
        for _ in 0..self.agents.len() {
            if let Some(position) = self.turns.iter().position(|turn| turn.turn.agents.iter().any(|started| started == agent)) {
                return Some(position);
            }
            let starter = self.agents.iter().find(|turn| turn.turn.agents.iter().any(|started| started == agent))?;
            agent = starter.agent.as_deref()?;
        }
        None
    }
}

fn place_of(store: &mut dyn Store, list: &TurnList, at: &str) -> Result<PagePlace, DataError> {
    if at == "last" {
        return Ok(PagePlace::Before(list.turns.len()));
    }
    if let Some(end) = at.strip_prefix("before-").and_then(|end| end.parse().ok()) {
        return Ok(PagePlace::Before(end));
    }
    if let Ok(from) = at.parse() {
        return Ok(PagePlace::From(from));
    }
    let position = match at.parse() {
        Ok(Reference::Summary(entry)) => store.summary_of(entry)?.and_then(|(_, summary)| {
            // The client writes it into the turn that follows.
            let is_behind = |turn: &StoredTurn| turn.turn.ended_ms >= summary.at_ms && !turn.is_superseded;
            list.turns.iter().position(is_behind)
        }),
        _ => turn_digits(at).and_then(|digits| list.position_of(&digits)),
    };
    position.map(PagePlace::Target).ok_or(DataError::UnknownTurn)
}

/// Reads a turn. One that is damaged, or in cold storage that is not here, must not hide the others.
fn read_turn(store: &mut dyn Store, list: &TurnList, position: usize, limits: TextLimits) -> Result<ReadTurn, DataError> {
    let stored = list.turns.get(position).ok_or(DataError::UnknownTurn)?;
    let (main, agents) = match stored.agent {
        None => (std::slice::from_ref(stored), list.agents_of(stored)),
        // It is a turn by itself.
        Some(_) => (&[][..], vec![stored.clone()]),
    };
    let mut trouble = None;
    let turn = match turns::read(store, main, &agents, true) {
        Ok((mut read, work)) => {
            let mut turn = read.pop().unwrap_or_else(|| turns::without_messages(stored));
            turn.messages.extend(work.into_iter().flat_map(|agent| agent.messages));
            turn
        }
        Err(error) if error.is_session_local() => {
            trouble = Some(error.to_string());
            turns::without_messages(stored)
        }
        Err(error) => return Err(error.into()),
    };
    let ExportedTurn { handle, started_ms, context_tokens, messages, .. } = turn;
    let (messages, omitted, is_cut) = shown(&messages, limits);
    Ok(ReadTurn {
        position,
        handle,
        at_ms: started_ms,
        is_rewound: stored.is_rewound,
        is_superseded: stored.is_superseded,
        is_pinned: stored.is_pinned,
        agent: stored.agent.clone(),
        context_tokens,
        messages,
        omitted,
        is_cut,
        trouble,
    })
}

fn unless_damaged<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Err(error) if error.is_session_local() => Ok(None),
        read => read.map(Some),
    }
}
