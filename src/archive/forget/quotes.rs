//! Quotes of turns that go: what hooks restored and recalled of them, and what tools said of them. Each has the turn's handle beside it.

use std::collections::HashSet;

use super::plan::{ForgetPlan, each_line};
use crate::handle::{TURN_HANDLE_PREFIX, turn_handle};
use crate::store::{Store, StoreError};
use ctxbridge_transcript::{Record, RecordKind};

/// Digits of a handle.
const DIGITS: usize = 8;

impl ForgetPlan {
    /// Adds the lines that quote a turn which goes. In sessions of which nothing goes they stay, and are counted, unless it goes
    /// everywhere.
    pub(super) fn add_quotes(
        &mut self,
        store: &mut dyn Store,
        is_everywhere: bool,
        progress: &mut dyn FnMut(usize),
    ) -> Result<(), StoreError> {
        let turns = self.parts.values().flat_map(|part| part.turns.keys());
        let handles: HashSet<Vec<u8>> = turns.map(|id| turn_handle(id)[TURN_HANDLE_PREFIX.len()..].into()).collect();
        if handles.is_empty() {
            return Ok(());
        }
        let finder = memchr::memmem::Finder::new(TURN_HANDLE_PREFIX);
        for (done, session) in store.sessions("", None, usize::MAX)?.into_iter().enumerate() {
            let id = session.session;
            if !self.is_whole(&id) {
                let mut found = HashSet::new();
                for transcript in store.transcripts(session.key)? {
                    each_line(store, &transcript, &mut |_, line| {
                        if finder.find_iter(line).any(|at| is_one_of(&handles, line, at)) && is_quote(line) {
                            found.insert(line.to_vec());
                        }
                    })?;
                }
                found.retain(|line| !self.has_line(&id, line));
                if is_everywhere && !found.is_empty() {
                    self.part(store, &id)?;
                }
                if self.parts.contains_key(&id) {
                    found.iter().for_each(|line| self.add_line(&id, line));
                } else if !found.is_empty() {
                    *self.quoted_in.entry(id).or_default() += found.len() as u64;
                }
            }
            progress(done + 1);
        }
        Ok(())
    }
}

/// `true` if the handle at a position of a line is one of these, by its digits.
fn is_one_of(handles: &HashSet<Vec<u8>>, line: &[u8], at: usize) -> bool {
    let digits = at + TURN_HANDLE_PREFIX.len();
    line.get(digits..digits + DIGITS).is_some_and(|digits| handles.contains(digits))
}

/// `true` for a line that may quote: what a person, or the model, says of a turn is their own.
fn is_quote(line: &[u8]) -> bool {
    let kind = Record::parse(line).map(|record| record.kind());
    matches!(kind, Ok(RecordKind::ToolResults | RecordKind::Added | RecordKind::Echo | RecordKind::Bookkeeping))
}
