//! Compactions: reports from hooks and transcripts, in any order, become one row, with the location in the transcript.

use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};

use super::columns::{folders_in, from_json, optional, to_json, unsigned};
use super::sessions::ensure_session;
use super::{SqliteQueries, SqliteStore, cycle};
use crate::SUMMARY_CONFIDENCE;
use crate::project_scope::ProjectScope;
use crate::search::tokens::Tokenizer;
use crate::store::{Compaction, CompactionReader, CompactionWriter, Snapshot, StoreError, StoredCompaction, StoredSummary};
use ctxbridge_common::digest;
use ctxbridge_transcript::{CompactSummary, FirstContext, summary};

/// Maximum difference in turns between two reports of the same compaction: an automatic one is made while a prompt waits, which
/// the client writes before or after it.
const MAX_TURN_DIFFERENCE: u32 = 1;

/// Maximum duration of a compaction, in milliseconds: one announced earlier is another one.
const MAX_DURATION_MS: i64 = 60 * 60 * 1_000;

/// Adds a summary that replaced the conversation. The hook and the transcript both report it, in their own wrapping and in any
/// order: the longer text is kept, once.
pub(super) fn summary(db: &Connection, session: i64, transcript: Option<i64>, met: &CompactSummary) -> Result<()> {
    let core = summary::of_compaction(&met.text);
    if core.is_empty() {
        return Ok(());
    }
    let start = signed(met.start.filter(|_| transcript.is_some()));
    let mut recent = db.prepare_cached(
        "SELECT compactions.id, entries.id, text FROM compactions JOIN entries ON entries.id = compactions.summary
         WHERE session = ?1 AND turns BETWEEN ?2 - ?3 AND ?2 + ?3 AND (start IS NULL OR ?4 IS NULL OR start = ?4)
         ORDER BY abs(turns - ?2), at_ms DESC LIMIT 8",
    )?;
    // A hook that tells of the same once more would tell of the same turns; the transcript knows them.
    let apart = if start.is_some() { MAX_TURN_DIFFERENCE } else { 0 };
    let recent =
        recent.query_map(params![session, met.turns, apart, start], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut known: Option<i64> = None;
    let mut replaced: Option<i64> = None;
    for compaction in recent {
        let (id, entry, text): (i64, i64, String) = compaction?;
        if text.contains(&core) {
            return note(db, id, transcript, met);
        }
        if core.contains(&text) {
            known = Some(id);
            replaced = Some(entry);
        }
    }
    let entry: i64 = db
        .prepare_cached(&format!(
            "INSERT INTO entries (sha256, chars, text, confidence) VALUES (?1, ?2, ?3, ?4 + {})
                 ON CONFLICT (sha256) DO UPDATE SET chars = excluded.chars RETURNING id",
            cycle::TOTAL_LOSS
        ))?
        .query_row(params![digest_of(&core), core.chars().count() as i64, core, SUMMARY_CONFIDENCE], |row| row.get(0))?;
    if known.is_none() {
        // The compaction may have been announced by a hook.
        known = db
            .prepare_cached(
                "SELECT id FROM compactions WHERE session = ?1 AND turns BETWEEN ?2 AND ?3 AND summary IS NULL AND is_blocked = 0
                 ORDER BY at_ms DESC LIMIT 1",
            )?
            .query_row(params![session, met.turns.saturating_sub(MAX_TURN_DIFFERENCE), met.turns], |row| row.get(0))
            .optional()?;
    }
    let id = match known {
        Some(id) => {
            db.prepare_cached("UPDATE compactions SET summary = ?1 WHERE id = ?2")?.execute([entry, id])?;
            id
        }
        None => db
            .prepare_cached("INSERT INTO compactions (session, at_ms, turns, summary) VALUES (?1, ?2, ?3, ?4) RETURNING id")?
            .query_row(params![session, met.at_ms, met.turns, entry], |row| row.get(0))?,
    };
    if let Some(replaced) = replaced {
        db.prepare_cached("DELETE FROM entries WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM compactions WHERE summary = ?1)")?
            .execute([replaced])?;
    }
    note(db, id, transcript, met)
}

/// Adds the details of a compaction. If the client gives no duration, the hooks before and after it do. A snapshot of other turns
/// than the transcript has before it, or of none, is taken again.
fn note(db: &Connection, id: i64, transcript: Option<i64>, met: &CompactSummary) -> Result<()> {
    db.prepare_cached(
        "UPDATE compactions SET cause = coalesce(cause, :cause), context_tokens = coalesce(context_tokens, :before),
            context_after = coalesce(context_after, :after),
            took_ms = coalesce(:took, took_ms, iif(:at - at_ms BETWEEN 1 AND :longest, :at - at_ms, NULL)),
            transcript = iif(:start IS NULL, transcript, :transcript), start = coalesce(:start, start),
            turns = iif(:start IS NULL, turns, :turns), messages = iif(:start IS NULL OR (turns = :turns AND coalesce(first_message, '') <> ''), messages, NULL)
         WHERE id = :id",
    )?
    .execute(named_params! {
        ":id": id, ":cause": met.noted.cause, ":before": signed(met.noted.tokens_before), ":after": signed(met.noted.tokens_after),
        ":took": signed(met.noted.took_ms), ":at": met.at_ms, ":turns": met.turns, ":longest": MAX_DURATION_MS, ":transcript": transcript,
        ":start": signed(met.start.filter(|_| transcript.is_some())),
    })
    .map(drop)
}

/// Saves the context sizes after compactions, as the API counted them: the client's own number is an estimate without
/// instructions and tools.
pub(super) fn first_contexts(db: &Connection, transcript: i64, contexts: &[FirstContext]) -> Result<()> {
    for FirstContext { start, tokens } in contexts {
        db.prepare_cached("UPDATE compactions SET context_after = ?3 WHERE transcript = ?1 AND start = ?2")?.execute(params![
            transcript,
            start.cast_signed(),
            tokens.cast_signed()
        ])?;
    }
    Ok(())
}

/// Clears the positions of compactions from a byte on: a rewritten transcript no longer has them, unless they are read again.
pub(super) fn forget_places(db: &Connection, transcript: i64, from: u64) -> Result<()> {
    db.execute(
        "UPDATE compactions SET transcript = NULL, start = NULL WHERE transcript = ?1 AND start >= ?2",
        params![transcript, from.cast_signed()],
    )
    .map(drop)
}

fn turns_of(db: &Connection, session: i64) -> Result<u32> {
    db.prepare_cached(
        "SELECT count(DISTINCT uuid) FROM turns JOIN transcripts ON transcripts.id = transcript
         WHERE session = ?1 AND agent IS NULL AND superseded IS NULL",
    )?
    .query_row([session], |row| row.get(0))
}

const COMPACTIONS: &str = "
    SELECT compactions.id, sessions.session, at_ms, cause, turns, compactions.context_tokens, context_after, took_ms, is_blocked,
        summary, transcript, start, messages, first_message, last_message, compactions.topics,
        (SELECT count(DISTINCT learning) FROM learned WHERE learned.session = compactions.session AND NOT learned.is_rewound AND learned.at_ms <= compactions.at_ms
            AND learned.at_ms > coalesce((SELECT max(earlier.at_ms) FROM compactions AS earlier
                WHERE earlier.session = compactions.session AND earlier.start IS NOT NULL AND earlier.summary IS NOT NULL AND NOT earlier.is_rewound AND earlier.at_ms < compactions.at_ms), -1)),
        compactions.is_rewound
    FROM compactions JOIN sessions ON sessions.id = compactions.session";

fn compaction(row: &Row<'_>) -> Result<StoredCompaction> {
    let summary: Option<i64> = row.get(9)?;
    let transcript: Option<i64> = row.get(10)?;
    let snapshot = optional(row, 12)?.map(|messages| -> Result<_> {
        let topics = from_json(15, &row.get::<_, String>(15)?)?;
        Ok(Snapshot { messages, first: row.get(13)?, last: row.get(14)?, topics })
    });
    Ok(StoredCompaction {
        key: row.get(0)?,
        session: row.get(1)?,
        at_ms: row.get(2)?,
        cause: row.get(3)?,
        turns: row.get(4)?,
        context_tokens: optional(row, 5)?,
        context_after: optional(row, 6)?,
        took_ms: optional(row, 7)?,
        learnings: unsigned(row, 16)?,
        is_blocked: row.get(8)?,
        is_done: summary.is_some(),
        summary,
        location: transcript.zip(optional(row, 11)?),
        is_rewound: row.get(17)?,
        snapshot: snapshot.transpose()?,
    })
}

/// Hash of a summary. A turn with the same text is another entry.
fn digest_of(text: &str) -> digest::Sha256Digest {
    digest::sha256(&[b"summary\0", text.as_bytes()].concat())
}

fn signed(value: Option<u64>) -> Option<i64> {
    value.map(u64::cast_signed)
}

impl<S: SqliteQueries> CompactionReader for S {
    fn summaries(&mut self, session: i64) -> Result<Vec<StoredSummary>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT entries.id, text, at_ms, turns FROM compactions JOIN entries ON entries.id = compactions.summary
                 WHERE session = ?1 AND NOT is_rewound ORDER BY at_ms DESC, compactions.id DESC",
            )?
            .query_map([session], |row| {
                Ok(StoredSummary { entry: row.get(0)?, text: row.get(1)?, at_ms: row.get(2)?, turns: row.get(3)?, owner: None })
            })?
            .collect()
        })
    }

    /// A summary by its entry, with the id of the session that it was first made of.
    fn summary_of(&mut self, entry: i64) -> Result<Option<(String, StoredSummary)>, StoreError> {
        self.query(|db| {
            db.prepare_cached(
                "SELECT sessions.session, entries.id, text, at_ms, turns FROM entries JOIN compactions ON compactions.summary = entries.id
                    JOIN sessions ON sessions.id = compactions.session
                 WHERE entries.id = ?1 AND text IS NOT NULL ORDER BY at_ms LIMIT 1",
            )?
            .query_row([entry], |row| {
                let summary = StoredSummary { entry: row.get(1)?, text: row.get(2)?, at_ms: row.get(3)?, turns: row.get(4)?, owner: None };
                Ok((row.get(0)?, summary))
            })
            .optional()
        })
    }

    fn compactions(&mut self, session: Option<i64>, since_ms: i64) -> Result<Vec<StoredCompaction>, StoreError> {
        self.query(|db| {
            let sql = format!(
                "{COMPACTIONS} WHERE (?1 IS NULL OR compactions.session = ?1) AND at_ms >= ?2 ORDER BY at_ms, compactions.id"
            );
            db.prepare_cached(&sql)?.query_map(params![session, since_ms], compaction)?.collect()
        })
    }

    /// The topics count most, since they cover all messages.
    fn search_compactions(
        &mut self,
        words: &str,
        project: Option<&ProjectScope>,
        limit: usize,
    ) -> Result<Vec<StoredCompaction>, StoreError> {
        self.query(|db| {
            let sql = format!(
                "{COMPACTIONS} JOIN snapshot_words ON snapshot_words.rowid = compactions.id
                 WHERE snapshot_words MATCH :words
                    AND (:folders IS NULL OR folder IN (SELECT value FROM json_each(:folders)))
                 ORDER BY bm25(snapshot_words, 1.0, 1.0, 2.0), at_ms DESC LIMIT :limit"
            );
            let (folders, limit) = (folders_in(db, "sessions", project)?, i64::try_from(limit).unwrap_or(i64::MAX));
            db.prepare_cached(&sql)?
                .query_map(named_params! { ":words": words, ":folders": folders, ":limit": limit }, compaction)?
                .collect()
        })
    }
}

impl CompactionWriter for SqliteStore {
    fn record_compaction(&mut self, session: &str, compaction: &Compaction) -> Result<(), StoreError> {
        self.write(|db| {
            let id = ensure_session(db, session, compaction.at_ms)?;
            db.execute(
                "INSERT INTO compactions (session, at_ms, cause, turns, context_tokens, is_blocked) SELECT ?1, ?2, ?3, ?4, ?5, ?6
                 WHERE NOT EXISTS (SELECT 1 FROM compactions WHERE session = ?1 AND at_ms = ?2)",
                params![
                    id,
                    compaction.at_ms,
                    compaction.cause,
                    compaction.turns.map_or_else(|| turns_of(db, id), Ok)?,
                    signed(compaction.context_tokens),
                    compaction.is_blocked
                ],
            )
            .map(drop)
        })
    }

    /// Adds the positions of compactions of which an earlier version stored only the summaries.
    fn locate_compactions(
        &mut self,
        transcript: i64,
        summaries: &[CompactSummary],
        contexts: &[FirstContext],
    ) -> Result<(), StoreError> {
        self.write(|db| {
            let session = db.query_row("SELECT session FROM transcripts WHERE id = ?1", [transcript], |row| row.get(0))?;
            for met in summaries {
                summary(db, session, Some(transcript), met)?;
            }
            first_contexts(db, transcript, contexts)
        })
    }

    fn add_summary(&mut self, session: &str, text: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| {
            let id = ensure_session(db, session, now_ms)?;
            let met =
                CompactSummary { text: text.to_owned(), at_ms: now_ms, turns: turns_of(db, id)?, ..CompactSummary::default() };
            summary(db, id, None, &met)
        })
    }

    fn save_snapshot(&mut self, compaction: i64, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.write(|db| {
            let Snapshot { messages, first, last, topics } = snapshot;
            db.prepare_cached(
                "UPDATE compactions SET messages = ?2, first_message = ?3, last_message = ?4, topics = ?5 WHERE id = ?1",
            )?
            .execute(params![compaction, messages.cast_signed(), first, last, to_json(topics)])?;
            let tokenizer = Tokenizer::default();
            db.prepare_cached("DELETE FROM snapshot_words WHERE rowid = ?1")?.execute([compaction])?;
            db.prepare_cached("INSERT INTO snapshot_words (rowid, first, last, topics) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![compaction, tokenizer.join(first), tokenizer.join(last), tokenizer.join(&topics.join(" "))])
                .map(drop)
        })
    }
}
