//! Compactions. Hooks and transcripts report each of them in their own way and in any order; all reports become one row.

use super::connection::Connection;
use super::error::PostgresError;
use super::folders::folders_in;
use super::row::{PostgresRow, escape_nul, escape_nul_in, row_limit};
use super::search::delete_entry;
use super::session_row::{SessionRow, ensure_session, share_entries};
use super::tsvector::{TsVector, Weight, to_tsquery};
use super::{PostgresStore, changes, maintenance, search};
use ctxbridge_archive::SUMMARY_CONFIDENCE;
use ctxbridge_archive::project::ProjectScope;
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_archive::store::{
    Compaction, CompactionReader, CompactionWriter, Snapshot, StoreError, StoredCompaction, StoredSummary,
};
use ctxbridge_common::digest;
use ctxbridge_transcript::{CompactSummary, FirstContext, summary};

/// Difference in turns up to which two reports are about the same compaction. An automatic
/// one is made while a prompt waits, which the client writes down before or after it.
const TURN_TOLERANCE: i32 = 1;

/// Longest duration of a compaction, in milliseconds. An earlier announcement is about another one.
const MAX_COMPACTION_MS: i64 = 60 * 60 * 1_000;

/// Maximum number of word positions of a snapshot's text.
const MAX_SNAPSHOT_POSITIONS: u16 = 1_000;

/// Maximum number of word positions of a summary.
const MAX_SUMMARY_POSITIONS: u16 = 8_000;

/// Records a summary that replaced the conversation. The hook and the transcript both report it, in their own wrapping and in any
/// order. The longer text is kept, once.
pub(super) fn record_summary(
    db: &mut Connection,
    session: &SessionRow,
    transcript: Option<i64>,
    met: &CompactSummary,
) -> Result<(), PostgresError> {
    let core = summary::of_compaction(&met.text);
    if core.is_empty() {
        return Ok(());
    }
    let start = signed(met.start.filter(|_| transcript.is_some()));
    let turns = met.turns.cast_signed();
    // A hook that tells of the same once more would tell of the same turns; the transcript knows them.
    let apart = if start.is_some() { TURN_TOLERANCE } else { 0 };
    let recent = db.all(
        "SELECT c.id, e.id, e.summary FROM ctxbridge.compactions c
            JOIN ctxbridge.entries e ON e.tenant = c.tenant AND e.id = c.summary AND e.owner = c.owner
         WHERE c.tenant = $1 AND c.session = $2 AND c.owner = session_user::text AND c.turns BETWEEN $3::integer - $4::integer AND $3 + $4
            AND (c.start IS NULL OR $5::bigint IS NULL OR c.start = $5)
         ORDER BY abs(c.turns - $3), c.at_ms DESC LIMIT 8",
        &[&session.id, &turns, &apart, &start],
    )?;
    let mut known: Option<i64> = None;
    let mut replaced: Option<i64> = None;
    for row in &recent {
        let text = row.text(2)?;
        if text.contains(&core) {
            return note(db, session.id, row.get(0)?, transcript, met);
        }
        if core.contains(&text) {
            known = Some(row.get(0)?);
            replaced = Some(row.get(1)?);
        }
    }
    let entry = entry(db, session, &core)?;
    let mut words = TsVector::default();
    words.add(&Tokenizer::default(), &core, Weight::A, MAX_SUMMARY_POSITIONS);
    search::put_summary(db, session.id, (entry, met.at_ms), &words)?;
    if known.is_none() {
        // The compaction may have been announced by a hook.
        let announced = db.first(
            "SELECT id FROM ctxbridge.compactions WHERE tenant = $1 AND session = $2 AND owner = session_user::text
                AND turns BETWEEN $3 AND $4 AND summary IS NULL AND NOT is_blocked ORDER BY at_ms DESC LIMIT 1",
            &[&session.id, &turns.saturating_sub(TURN_TOLERANCE).max(0), &turns],
        )?;
        known = announced.map(|row| row.get(0)).transpose()?;
    }
    let id = match known {
        Some(id) => {
            let sql = "UPDATE ctxbridge.compactions SET summary = $4
                WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND id = $3";
            db.execute(sql, &[&session.id, &id, &entry])?;
            id
        }
        None => {
            let sql = "INSERT INTO ctxbridge.compactions (tenant, session, audience, at_ms, turns, summary)
                VALUES ($1, $2, $3, $4, $5, $6) RETURNING id";
            db.one(sql, &[&session.id, &session.audience, &met.at_ms, &turns, &entry])?.get(0)?
        }
    };
    if let Some(replaced) = replaced.filter(|replaced| *replaced != entry) {
        let sql =
            "SELECT EXISTS (SELECT FROM ctxbridge.compactions WHERE tenant = $1 AND summary = $2 AND owner = session_user::text)";
        if !db.one(sql, &[&replaced])?.get::<bool>(0)? {
            delete_entry(db, replaced)?;
            search::forget_texts(db, session.id, &[replaced])?;
            changes::record_changes(db, &[replaced])?;
        }
    }
    note(db, session.id, id, transcript, met)
}

/// Finds or adds the entry of a summary.
fn entry(db: &mut Connection, session: &SessionRow, core: &str) -> Result<i64, PostgresError> {
    let sha256 = digest_of(core);
    // Asked first: of a call with more than values, a distributed server runs a part elsewhere.
    let confidence = SUMMARY_CONFIDENCE + maintenance::total_loss(db)?;
    let sql = "SELECT ctxbridge.add_summary($1, $2, $3, $4, $5, $6)";
    let chars = core.chars().count() as i64;
    let added = db.one(sql, &[&session.id, &&sha256[..], &chars, &escape_nul(core), &confidence])?;
    if let Some(id) = added.get(0)? {
        changes::record_changes(db, &[id])?;
        return Ok(id);
    }
    let sql = "SELECT id FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text AND sha256 = $2";
    let id = db.one(sql, &[&&sha256[..]])?.get(0)?;
    share_entries(db, session, &[id])?;
    Ok(id)
}

/// Updates everything known about a compaction except its summary. Where the client does not report the duration, it is computed
/// from the hooks before and after. A snapshot of no turns, or of other turns than the transcript has before it, is taken again.
fn note(db: &mut Connection, session: i64, id: i64, transcript: Option<i64>, met: &CompactSummary) -> Result<(), PostgresError> {
    db.execute(
        "UPDATE ctxbridge.compactions SET cause = coalesce(cause, $4), context_tokens = coalesce(context_tokens, $5),
            context_after = coalesce(context_after, $6),
            took_ms = coalesce($7::bigint, took_ms, CASE WHEN $8::bigint - at_ms BETWEEN 1 AND $9 THEN $8 - at_ms END),
            transcript = CASE WHEN $10::bigint IS NULL THEN transcript ELSE $11::bigint END, start = coalesce($10, start),
            turns = CASE WHEN $10 IS NULL THEN turns ELSE $12::integer END,
            messages = CASE WHEN $10 IS NULL OR (turns = $12 AND coalesce(first_message, '') <> '') THEN messages END
         WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND id = $3",
        &[
            &session,
            &id,
            &escape_nul_in(met.noted.cause.as_deref()),
            &signed(met.noted.tokens_before),
            &signed(met.noted.tokens_after),
            &signed(met.noted.took_ms),
            &met.at_ms,
            &MAX_COMPACTION_MS,
            &signed(met.start.filter(|_| transcript.is_some())),
            &transcript,
            &met.turns.cast_signed(),
        ],
    )
    .map(drop)
}

/// Records the context sizes after compactions, as counted by the API. The client's estimate leaves out instructions and tools.
pub(super) fn first_contexts(
    db: &mut Connection,
    session: i64,
    transcript: i64,
    contexts: &[FirstContext],
) -> Result<(), PostgresError> {
    for FirstContext { start, tokens } in contexts {
        let sql = "UPDATE ctxbridge.compactions SET context_after = $5
            WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND transcript = $3 AND start = $4";
        db.execute(sql, &[&session, &transcript, &start.cast_signed(), &tokens.cast_signed()])?;
    }
    Ok(())
}

/// Forgets the locations of compactions at or after a byte of a rewritten transcript. They are set again if they are still there.
pub(super) fn forget_locations(db: &mut Connection, session: i64, transcript: i64, from: u64) -> Result<(), PostgresError> {
    let sql = "UPDATE ctxbridge.compactions SET transcript = NULL, start = NULL
        WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND transcript = $3 AND start >= $4";
    db.execute(sql, &[&session, &transcript, &from.cast_signed()]).map(drop)
}

/// Locates compactions that an earlier version stored with their summaries alone.
pub(super) fn locate_compactions(
    db: &mut Connection,
    transcript: i64,
    summaries: &[CompactSummary],
    contexts: &[FirstContext],
) -> Result<(), PostgresError> {
    let sql = "SELECT s.id, s.audience FROM ctxbridge.transcripts t
            JOIN ctxbridge.sessions s ON s.tenant = t.tenant AND s.id = t.session AND s.owner = t.owner
        WHERE t.tenant = $1 AND t.id = $2 AND t.owner = session_user::text FOR UPDATE OF s";
    let Some(row) = db.first(sql, &[&transcript])? else { return Ok(()) };
    let session = SessionRow { id: row.get(0)?, audience: row.get(1)? };
    for met in summaries {
        record_summary(db, &session, Some(transcript), met)?;
    }
    first_contexts(db, session.id, transcript, contexts)
}

pub(super) fn record_hook_summary(db: &mut Connection, session: &str, text: &str, now_ms: i64) -> Result<(), PostgresError> {
    let session = ensure_session(db, session, now_ms)?;
    let turns = turns_of(db, session.id)?.cast_unsigned();
    let met = CompactSummary { text: text.to_owned(), at_ms: now_ms, turns, ..CompactSummary::default() };
    record_summary(db, &session, None, &met)
}

fn turns_of(db: &mut Connection, session: i64) -> Result<i32, PostgresError> {
    let sql =
        "SELECT count(DISTINCT uuid)::integer FROM ctxbridge.turns WHERE tenant = $1 AND session = $2 AND superseded IS NULL
        AND transcript IN (SELECT id FROM ctxbridge.transcripts WHERE tenant = $1 AND session = $2 AND agent IS NULL)";
    db.one(sql, &[&session])?.get(0)
}

const COMPACTIONS: &str = "
    SELECT c.id, s.session, c.at_ms, c.cause, c.turns, c.context_tokens, c.context_after, c.took_ms, c.is_blocked,
        c.summary, c.transcript, c.start, c.messages, c.first_message, c.last_message, c.topics,
        (SELECT count(DISTINCT l.learning) FROM ctxbridge.learned l WHERE l.tenant = $1 AND l.session = c.session
            AND NOT l.is_rewound AND l.at_ms <= c.at_ms AND l.at_ms > coalesce((SELECT max(earlier.at_ms) FROM ctxbridge.compactions AS earlier
                WHERE earlier.tenant = $1 AND earlier.session = c.session AND earlier.start IS NOT NULL
                AND earlier.summary IS NOT NULL AND NOT earlier.is_rewound AND earlier.at_ms < c.at_ms), -1)),
        c.is_rewound
    FROM ctxbridge.compactions c
    JOIN ctxbridge.sessions s ON s.tenant = c.tenant AND s.id = c.session AND s.owner = c.owner
    WHERE c.tenant = $1";

fn compaction(row: &PostgresRow) -> Result<StoredCompaction, PostgresError> {
    let summary: Option<i64> = row.get(9)?;
    let transcript: Option<i64> = row.get(10)?;
    let snapshot = row.optional_unsigned(12)?.map(|messages| -> Result<_, PostgresError> {
        Ok(Snapshot { messages, first: row.text(13)?, last: row.text(14)?, topics: row.json(15)? })
    });
    Ok(StoredCompaction {
        key: row.get(0)?,
        session: row.text(1)?,
        at_ms: row.get(2)?,
        cause: row.optional_text(3)?,
        turns: row.unsigned_32(4)?,
        context_tokens: row.optional_unsigned(5)?,
        context_after: row.optional_unsigned(6)?,
        took_ms: row.optional_unsigned(7)?,
        learnings: row.unsigned(16)?,
        is_blocked: row.get(8)?,
        is_done: summary.is_some(),
        summary,
        location: transcript.zip(row.optional_unsigned(11)?),
        is_rewound: row.get(17)?,
        snapshot: snapshot.transpose()?,
    })
}

/// Digest of a summary's text. The prefix makes it differ from a turn with the same text.
fn digest_of(text: &str) -> digest::Sha256Digest {
    digest::sha256(&[b"summary\0", text.as_bytes()].concat())
}

fn signed(value: Option<u64>) -> Option<i64> {
    value.map(u64::cast_signed)
}

const SELECT_SUMMARIES: &str = "
    SELECT e.id, e.summary, c.at_ms, c.turns, s.session, CASE WHEN c.owner <> session_user::text THEN c.owner END
    FROM ctxbridge.compactions c
    JOIN ctxbridge.entries e ON e.tenant = c.tenant AND e.id = c.summary AND e.owner = c.owner
    JOIN ctxbridge.sessions s ON s.tenant = c.tenant AND s.id = c.session AND s.owner = c.owner
    WHERE c.tenant = $1";

fn summary_from(row: &PostgresRow) -> Result<StoredSummary, PostgresError> {
    Ok(StoredSummary {
        entry: row.get(0)?,
        text: row.text(1)?,
        at_ms: row.get(2)?,
        turns: row.unsigned_32(3)?,
        owner: row.get(5)?,
    })
}

impl CompactionReader for PostgresStore {
    fn summaries(&mut self, session: i64) -> Result<Vec<StoredSummary>, StoreError> {
        self.read(|db| {
            let sql = format!("{SELECT_SUMMARIES} AND c.session = $2 AND NOT c.is_rewound ORDER BY c.at_ms DESC, c.id DESC");
            db.all(&sql, &[&session])?.iter().map(summary_from).collect()
        })
    }

    /// A summary by its entry, with the id of the session that it was first made of.
    fn summary_of(&mut self, entry: i64) -> Result<Option<(String, StoredSummary)>, StoreError> {
        self.read(|db| {
            let sql = format!("{SELECT_SUMMARIES} AND c.summary = $2 AND e.summary IS NOT NULL ORDER BY c.at_ms LIMIT 1");
            db.first(&sql, &[&entry])?.map(|row| Ok((row.text(4)?, summary_from(&row)?))).transpose()
        })
    }

    fn compactions(&mut self, session: Option<i64>, since_ms: i64) -> Result<Vec<StoredCompaction>, StoreError> {
        self.read(|db| {
            let of_one = if session.is_some() { "c.session = $2" } else { "$2::bigint IS NULL" };
            let sql = format!("{COMPACTIONS} AND {of_one} AND c.at_ms >= $3 ORDER BY c.at_ms, c.id");
            db.all(&sql, &[&session, &since_ms])?.iter().map(compaction).collect()
        })
    }

    fn search_compactions(
        &mut self,
        words: &str,
        project: Option<&ProjectScope>,
        count: usize,
    ) -> Result<Vec<StoredCompaction>, StoreError> {
        self.read(|db| {
            let Some(query) = to_tsquery(words) else { return Ok(Vec::new()) };
            let sql = format!(
                "{COMPACTIONS} AND c.words @@ $2::text::tsquery AND ($3::text[] IS NULL OR s.folder = ANY ($3))
                 ORDER BY ts_rank('{{0.1, 0.4, 0.5, 1.0}}', c.words, $2::text::tsquery, 1) DESC, c.at_ms DESC LIMIT $4"
            );
            let folders = folders_in(db, "sessions", project)?;
            db.all(&sql, &[&query, &folders, &row_limit(count)])?.iter().map(compaction).collect()
        })
    }
}

impl CompactionWriter for PostgresStore {
    fn record_compaction(&mut self, session: &str, compaction: &Compaction) -> Result<(), StoreError> {
        self.write(|db| {
            let session = ensure_session(db, session, compaction.at_ms)?;
            let turns = compaction.turns.map_or_else(|| turns_of(db, session.id), |turns| Ok(turns.cast_signed()))?;
            let known =
                "SELECT id FROM ctxbridge.compactions WHERE tenant = $1 AND session = $2 AND at_ms = $3 AND owner = session_user::text";
            if db.first(known, &[&session.id, &compaction.at_ms])?.is_some() {
                return Ok(());
            }
            db.execute(
                "INSERT INTO ctxbridge.compactions (tenant, session, audience, at_ms, cause, turns, context_tokens, is_blocked)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                &[
                    &session.id,
                    &session.audience,
                    &compaction.at_ms,
                    &escape_nul_in(compaction.cause.as_deref()),
                    &turns,
                    &signed(compaction.context_tokens),
                    &compaction.is_blocked,
                ],
            )
            .map(drop)
        })
    }

    fn locate_compactions(
        &mut self,
        transcript: i64,
        summaries: &[CompactSummary],
        contexts: &[FirstContext],
    ) -> Result<(), StoreError> {
        self.write(|db| {
            maintenance::lock_shared(db)?;
            locate_compactions(db, transcript, summaries, contexts)
        })
    }

    fn add_summary(&mut self, session: &str, text: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| {
            maintenance::lock_shared(db)?;
            record_hook_summary(db, session, text, now_ms)
        })
    }

    fn save_snapshot(&mut self, compaction: i64, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.write(|db| {
            let Snapshot { messages, first, last, topics } = snapshot;
            let topics_text = topics.join(" ");
            let tokenizer = Tokenizer::default();
            let mut words = TsVector::default();
            // The topics count most: they are of all that was said.
            for (text, weight) in [(topics_text.as_str(), Weight::A), (first, Weight::B), (last, Weight::B)] {
                words.add(&tokenizer, text, weight, MAX_SNAPSHOT_POSITIONS);
            }
            db.execute(
                "UPDATE ctxbridge.compactions SET messages = $3, first_message = $4, last_message = $5, topics = $6, words = $7
                 WHERE tenant = $1 AND id = $2 AND owner = session_user::text",
                &[
                    &compaction,
                    &messages.cast_signed(),
                    &escape_nul(first),
                    &escape_nul(last),
                    &serde_json::Value::from(topics.as_slice()).to_string(),
                    &words,
                ],
            )
            .map(drop)
        })
    }
}
