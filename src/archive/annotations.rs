//! Facts about a session that are not in its transcripts: those recorded by hooks and by the user.

use serde::Serialize;

use crate::store::{Compaction, Session, SessionMove, Store, StoreError, StoreReader, StoredCompaction, TurnSelection};
use ctxbridge_common::digest;
use ctxbridge_redact::{RedactionCounts, Redactor};
use ctxbridge_transcript::{CompactSummary, CompactionDetails};

/// Maximum duration of a compaction, in milliseconds: records further apart are different compactions.
const MAX_SAME_COMPACTION_MS: i64 = 60 * 60 * 1_000;

/// Facts about one session.
#[derive(Debug, Default, Serialize)]
pub struct SessionAnnotations {
    /// Reason and time of the end, as given by the client.
    end: Option<(String, i64)>,
    /// Its compactions.
    compactions: Vec<CompactionRecord>,
    /// Ids of pinned turns.
    kept: Vec<[u8; 16]>,
    /// The folder that its project was moved to.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_to: Option<String>,
}

/// Treatment of turns that are pinned in the other store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinPolicy {
    /// Pin the same turns as here, and no others: the other store is a copy of this one.
    Mirror,
    /// Pin those of this store too and keep the other store's own pins: it has a history of its own.
    Merge,
}

/// A compaction, with its summary where there is one.
#[derive(Debug, Serialize)]
struct CompactionRecord {
    at_ms: i64,
    turns: u32,
    cause: Option<String>,
    context_tokens: Option<u64>,
    context_after: Option<u64>,
    took_ms: Option<u64>,
    is_blocked: bool,
    start: Option<u64>,
    summary: Option<String>,
}

impl SessionAnnotations {
    /// Reads the facts about a session from a store. With a redactor, secrets are removed and counted.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(
        store: &mut dyn StoreReader,
        session: &Session,
        redactor: Option<&Redactor>,
        found: &mut RedactionCounts,
    ) -> Result<Self, StoreError> {
        let summaries = store.summaries(session.key)?;
        let said = |entry: i64| summaries.iter().find(|summary| summary.entry == entry).map(|summary| summary.text.as_str());
        let compactions = store.compactions(Some(session.key), i64::MIN)?;
        let compactions = compactions.iter().map(|told| {
            let StoredCompaction { at_ms, turns, context_tokens, context_after, took_ms, is_blocked, .. } = *told;
            let summary = told.summary.and_then(said).map(|text| {
                let Some(redactor) = redactor else { return text.to_owned() };
                let redacted = redactor.redact(text);
                redacted.found.iter().for_each(|(rule, count)| *found.entry(rule).or_default() += count);
                redacted.text.into_owned()
            });
            let (cause, start) = (told.cause.clone(), told.location.map(|(_, start)| start));
            CompactionRecord { at_ms, turns, cause, context_tokens, context_after, took_ms, is_blocked, start, summary }
        });
        let mut kept: Vec<_> = store.turns(session.key, TurnSelection::Pinned)?.iter().map(|turn| turn.turn.id).collect();
        kept.sort_unstable();
        kept.dedup();
        let end = session.end_reason.clone().zip(session.last_ms);
        let compactions = compactions.collect();
        let mut redacted = |text: &String| {
            let Some(redactor) = redactor else { return text.clone() };
            let redacted = redactor.redact(text);
            redacted.found.iter().for_each(|(rule, count)| *found.entry(rule).or_default() += count);
            redacted.text.into_owned()
        };
        let moved_to = session.folder.as_ref().filter(|_| session.moved_from.is_some()).map(&mut redacted);
        Ok(Self { end, compactions, kept, moved_to })
    }

    /// Drops the summaries of compactions that are not to be kept; the compactions stay.
    pub(crate) fn retain_summaries(&mut self, mut keeps: impl FnMut(&str) -> bool) {
        for compaction in &mut self.compactions {
            compaction.summary = compaction.summary.take().filter(|text| keeps(text));
        }
    }

    /// Lowers the number of turns before each compaction by those that are not there any more.
    pub(crate) fn lower_turns(&mut self, gone_before: impl Fn(i64) -> u32) {
        for compaction in &mut self.compactions {
            compaction.turns = compaction.turns.saturating_sub(gone_before(compaction.at_ms));
        }
    }

    /// Hash that is equal for equal facts.
    pub fn hash(&self) -> String {
        digest::hex(&digest::sha256(&serde_json::to_vec(self).unwrap_or_default())[..8])
    }

    /// Records compactions in the other store before their summaries are met in transcripts. Hooks do so first as well, and both
    /// records become one.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn record_compactions(&self, store: &mut dyn Store, session: &str) -> Result<(), StoreError> {
        if self.compactions.is_empty() {
            return Ok(());
        }
        let known = match store.session(session)? {
            Some(known) => store.compactions(Some(known.key), i64::MIN)?,
            None => Vec::new(),
        };
        for fact in self.compactions.iter().filter(|fact| !known.iter().any(|known| fact.matches_stored(known))) {
            let CompactionRecord { at_ms, context_tokens, is_blocked, turns, .. } = *fact;
            let cause = fact.cause.clone();
            store.record_compaction(session, &Compaction { at_ms, cause, context_tokens, is_blocked, turns: Some(turns) })?;
        }
        Ok(())
    }

    /// Applies all other facts, once the transcripts are there.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn apply_to(&self, store: &mut dyn Store, session: &str, now_ms: i64, keeps: PinPolicy) -> Result<(), StoreError> {
        let Some(known) = store.session(session)? else { return Ok(()) };
        let is_newer = |at_ms: i64| known.end_reason.is_none() || known.last_ms.is_none_or(|last_ms| last_ms <= at_ms);
        let is_told = |(reason, at_ms): &&(String, i64)| {
            known.end_reason.as_ref() != Some(reason) && (keeps == PinPolicy::Mirror || is_newer(*at_ms))
        };
        if let Some((reason, at_ms)) = self.end.as_ref().filter(is_told) {
            store.end_session(session, reason, *at_ms)?;
        }
        let own = store.transcripts(known.key)?.into_iter().find(|transcript| transcript.part.is_conversation());
        let summaries: Vec<CompactSummary> = self.compactions.iter().filter_map(CompactionRecord::as_met).collect();
        if let Some(own) = own.filter(|_| !summaries.is_empty()) {
            store.locate_compactions(own.key, &summaries, &[])?;
        }
        let kept: Vec<_> = store.turns(known.key, TurnSelection::Pinned)?.iter().map(|turn| turn.turn.id).collect();
        for new in self.kept.iter().filter(|turn| !kept.contains(turn)) {
            store.set_pinned(new, true, now_ms)?;
        }
        for gone in kept.iter().filter(|turn| keeps == PinPolicy::Mirror && !self.kept.contains(turn)) {
            store.set_pinned(gone, false, now_ms)?;
        }
        let back = known.moved_from.filter(|_| keeps == PinPolicy::Mirror && known.owner.is_none());
        if let Some(folder) = self.moved_to.clone().or(back) {
            store.move_sessions(&[SessionMove { session: session.to_owned(), folder }])?;
        }
        Ok(())
    }
}

impl CompactionRecord {
    /// `true` if the other store's compaction is this one.
    fn matches_stored(&self, known: &StoredCompaction) -> bool {
        let is_one_summary = self.summary.is_some()
            && known.is_done
            && known.turns.abs_diff(self.turns) <= 1
            && known.at_ms.abs_diff(self.at_ms) <= MAX_SAME_COMPACTION_MS.unsigned_abs();
        known.at_ms == self.at_ms || is_one_summary
    }

    /// Converts it to a summary as found in a transcript. The position is left to the transcript there, since not every byte is the
    /// same.
    fn as_met(&self) -> Option<CompactSummary> {
        let text = self.summary.clone()?;
        let noted = CompactionDetails {
            cause: self.cause.clone(),
            tokens_before: self.context_tokens,
            tokens_after: self.context_after,
            took_ms: self.took_ms,
        };
        Some(CompactSummary { text, at_ms: self.at_ms, turns: self.turns, start: None, noted })
    }
}
