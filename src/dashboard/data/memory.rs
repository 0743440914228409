//! Memory that was used: turns that came back into a conversation.

use std::collections::HashMap;

use serde::Serialize;

use super::{DashboardService, DataError, TITLE_CHARS, lock, one_line};
use crate::hook::AlreadyRecalled;
use ctxbridge_archive::store::{Store, StoredTurn};
use ctxbridge_archive::{handle, turn_text};

/// Maximum number of turns that are listed.
const MAX_LISTED_TURNS: usize = 8;
/// Number of turns that are looked at of each source.
const CANDIDATES: usize = 24;
/// Maximum characters of a turn's summary.
const SUMMARY_CHARS: usize = 160;

/// Turns that came back into a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// Number of turns that hooks added to conversations in the last 30 days: to prompts, or after a compaction.
    pub turns: u64,
    /// Number of these conversations.
    pub sessions: u64,
    /// The turns that came back most often, ever.
    pub most: Vec<UsedTurn>,
}

/// A turn that came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsedTurn {
    /// The handle, for `ctxbridge recall`.
    pub handle: String,
    /// The session.
    pub session: String,
    /// Title of the session.
    pub title: Option<String>,
    /// The turn, in one line.
    pub summary: String,
    /// Start time, in milliseconds since 1970.
    pub at_ms: i64,
    /// Number of times that it was used.
    pub times: u64,
}

impl DashboardService {
    /// Returns the memory that was used.
    pub fn memory_use(&self) -> Result<MemoryUse, DataError> {
        let mark = self.data_fingerprint();
        let mut known = lock(&self.memory);
        if let Some((_, used)) = known.as_ref().filter(|(of, _)| *of == mark) {
            return Ok(used.clone());
        }
        let recalled = AlreadyRecalled::turns_by_session(&self.source.data);
        let mut used = MemoryUse {
            turns: recalled.iter().map(Vec::len).sum::<usize>() as u64,
            sessions: recalled.len() as u64,
            most: Vec::new(),
        };
        if let Some(mut store) = self.open()? {
            used.most = most_used(&mut *store, recalled)?;
        }
        *known = Some((mark, used.clone()));
        Ok(used)
    }
}

/// The turns that were used most, by the archive's counts and by what hooks added.
fn most_used(store: &mut dyn Store, recalled: Vec<Vec<String>>) -> Result<Vec<UsedTurn>, DataError> {
    let mut added: HashMap<String, u64> = HashMap::new();
    for handle in recalled.into_iter().flatten() {
        *added.entry(handle).or_default() += 1;
    }
    // A turn that a hook restored is in both.
    let mut turns: Vec<(u64, StoredTurn)> = Vec::new();
    for turn in store.most_used(CANDIDATES)? {
        let times = added.remove(&handle::turn_handle(&turn.turn.id)).unwrap_or(0);
        turns.push((times.max(turn.access_count.into()), turn));
    }
    let mut others: Vec<(String, u64)> = added.into_iter().collect();
    others.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for (handle, times) in others.into_iter().take(CANDIDATES) {
        let Some(digits) = handle::turn_digits(&handle) else { continue };
        if let Some(turn) = store.turns_by_id(&digits)?.into_iter().next() {
            turns.push((times, turn));
        }
    }
    turns.sort_by_key(|(times, turn)| (std::cmp::Reverse(*times), std::cmp::Reverse(turn.turn.started_ms)));
    turns.truncate(MAX_LISTED_TURNS);
    turns.into_iter().map(|(times, turn)| used_turn(store, times, &turn)).collect()
}

fn used_turn(store: &mut dyn Store, times: u64, turn: &StoredTurn) -> Result<UsedTurn, DataError> {
    let title = store.session(&turn.session)?.and_then(|session| session.title);
    Ok(UsedTurn {
        handle: handle::turn_handle(&turn.turn.id),
        session: turn.session.clone(),
        title: title.map(|title| one_line(&title, TITLE_CHARS)),
        summary: one_line(&turn_text::summary_or_reason(store, turn)?, SUMMARY_CHARS),
        at_ms: turn.turn.started_ms,
        times,
    })
}
