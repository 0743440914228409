//! What an archive knows of a session besides its transcripts: what hooks and the user told it.

use serde::Serialize;

use crate::store::{Compaction, Session, Store, StoreError, StoredCompaction, Turns};
use ctxbridge_common::digest;
use ctxbridge_redact::{Found, Redactor};
use ctxbridge_transcript::{CompactSummary, Compacted};

/// A compaction took no longer than that, in milliseconds: what is told of at other times is another one.
const LONGEST_MS: i64 = 60 * 60 * 1_000;

/// A session's.
#[derive(Debug, Default, Serialize)]
pub struct Facts {
    /// Why the client ended it, and when.
    end: Option<(String, i64)>,
    /// Its compactions.
    compactions: Vec<Fact>,
    /// Ids of turns that are to be kept.
    kept: Vec<[u8; 16]>,
}

/// What becomes of turns that the other store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// The same as here, and no others: the other store is a copy of this one.
    Same,
    /// Those here besides, and what it knows itself stays: it was told other things.
    Added,
}

/// A compaction, with its summary where there is one.
#[derive(Debug, Serialize)]
struct Fact {
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

impl Facts {
    /// What a store knows; without secrets, where somebody looks for them, and they are counted.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(
        store: &mut dyn Store,
        session: &Session,
        redactor: Option<&Redactor>,
        found: &mut Found,
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
            let (cause, start) = (told.cause.clone(), told.place.map(|(_, start)| start));
            Fact { at_ms, turns, cause, context_tokens, context_after, took_ms, is_blocked, start, summary }
        });
        let mut kept: Vec<_> = store.turns(session.key, Turns::Kept)?.iter().map(|turn| turn.turn.id).collect();
        kept.sort_unstable();
        kept.dedup();
        let end = session.end_reason.clone().zip(session.last_ms);
        Ok(Self { end, compactions: compactions.collect(), kept })
    }

    /// What is the same for the same facts.
    pub fn hash(&self) -> String {
        digest::hex(&digest::sha256(&serde_json::to_vec(self).unwrap_or_default())[..8])
    }

    /// Has the other store know of compactions before their summaries are met in transcripts, as hooks tell of them before: both come to one.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn announce(&self, store: &mut dyn Store, session: &str) -> Result<(), StoreError> {
        if self.compactions.is_empty() {
            return Ok(());
        }
        let known = match store.session(session)? {
            Some(known) => store.compactions(Some(known.key), i64::MIN)?,
            None => Vec::new(),
        };
        for fact in self.compactions.iter().filter(|fact| !known.iter().any(|known| fact.is(known))) {
            let Fact { at_ms, context_tokens, is_blocked, turns, .. } = *fact;
            let cause = fact.cause.clone();
            store.announce(session, &Compaction { at_ms, cause, context_tokens, is_blocked, turns: Some(turns) })?;
        }
        Ok(())
    }

    /// Everything else, once the transcripts are there.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn tell(&self, store: &mut dyn Store, session: &str, now_ms: i64, keeps: Keeps) -> Result<(), StoreError> {
        let Some(known) = store.session(session)? else { return Ok(()) };
        let is_newer = |at_ms: i64| known.end_reason.is_none() || known.last_ms.is_none_or(|last_ms| last_ms <= at_ms);
        let is_told = |(reason, at_ms): &&(String, i64)| {
            known.end_reason.as_ref() != Some(reason) && (keeps == Keeps::Same || is_newer(*at_ms))
        };
        if let Some((reason, at_ms)) = self.end.as_ref().filter(is_told) {
            store.end_session(session, reason, *at_ms)?;
        }
        let own = store.transcripts(known.key)?.into_iter().find(|transcript| transcript.agent.is_none());
        let summaries: Vec<CompactSummary> = self.compactions.iter().filter_map(Fact::as_met).collect();
        if let Some(own) = own.filter(|_| !summaries.is_empty()) {
            store.place_compactions(own.key, &summaries, &[])?;
        }
        let kept: Vec<_> = store.turns(known.key, Turns::Kept)?.iter().map(|turn| turn.turn.id).collect();
        for new in self.kept.iter().filter(|turn| !kept.contains(turn)) {
            store.keep(new, true, now_ms)?;
        }
        for gone in kept.iter().filter(|turn| keeps == Keeps::Same && !self.kept.contains(turn)) {
            store.keep(gone, false, now_ms)?;
        }
        Ok(())
    }
}

impl Fact {
    /// Whether another store knows it.
    fn is(&self, known: &StoredCompaction) -> bool {
        let is_one_summary = self.summary.is_some()
            && known.is_done
            && known.turns.abs_diff(self.turns) <= 1
            && known.at_ms.abs_diff(self.at_ms) <= LONGEST_MS.unsigned_abs();
        known.at_ms == self.at_ms || is_one_summary
    }

    /// As a transcript tells of it. Where it was is left to the transcript, of which not every byte is the same there.
    fn as_met(&self) -> Option<CompactSummary> {
        let text = self.summary.clone()?;
        let noted = Compacted {
            cause: self.cause.clone(),
            tokens_before: self.context_tokens,
            tokens_after: self.context_after,
            took_ms: self.took_ms,
        };
        Some(CompactSummary { text, at_ms: self.at_ms, turns: self.turns, start: None, noted })
    }
}
