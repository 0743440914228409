//! Changes of the archive. Every function runs inside one transaction.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Result, named_params, params};

use super::columns::names_json;
use super::segments::is_sound;
use super::{SqliteStore, compactions, cycle, pins, rewinds, segment_check, session_list, sessions};
use crate::store::{AppendOutcome, Batch, Segment, SharedPrefix, StoreError, TranscriptAppender};
use ctxbridge_common::digest;
use ctxbridge_transcript::Turn;

/// Adds or updates the session. A sub-agent's transcript does not set the model, window and size of the conversation.
fn session(db: &Connection, batch: &Batch) -> Result<i64> {
    let seen = batch.cursor.interpreter.session_metadata();
    let is_main = batch.transcript.part.is_conversation();
    let turns = || batch.turns.iter().filter(|turn| turn.started_ms > 0);
    db.prepare_cached(
        "INSERT INTO sessions (session, folder, version, model, window, context_tokens, first_ms, last_ms, title)
         VALUES (:session, :folder, :version, :model, :window, :context_tokens, :first_ms, :last_ms, :title)
         ON CONFLICT (session) DO UPDATE SET
            folder = coalesce(sessions.folder, excluded.folder),
            version = coalesce(excluded.version, sessions.version),
            model = coalesce(excluded.model, sessions.model),
            window = coalesce(excluded.window, sessions.window),
            context_tokens = coalesce(excluded.context_tokens, sessions.context_tokens),
            first_ms = min(coalesce(sessions.first_ms, excluded.first_ms), coalesce(excluded.first_ms, sessions.first_ms)),
            last_ms = max(coalesce(sessions.last_ms, excluded.last_ms), coalesce(excluded.last_ms, sessions.last_ms)),
            title = coalesce(excluded.title, sessions.title)
         RETURNING id",
    )?
    .query_row(
        named_params! {
            ":session": batch.transcript.session,
            ":folder": seen.folder,
            ":version": seen.version,
            ":model": seen.model.as_ref().filter(|_| is_main),
            ":window": seen.window.map(u64::cast_signed),
            ":context_tokens": seen.context_tokens.filter(|_| is_main).map(u64::cast_signed),
            ":first_ms": turns().map(|turn| turn.started_ms).min(),
            ":last_ms": turns().map(|turn| turn.ended_ms).max(),
            ":title": seen.title.as_ref().map(|title| &title.text),
        },
        |row| row.get(0),
    )
}

fn transcript(db: &Connection, batch: &Batch, session: i64) -> Result<i64> {
    let cursor = &batch.cursor;
    let interpreter =
        serde_json::to_string(&cursor.interpreter).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    db.prepare_cached(
        "INSERT INTO transcripts (session, path, agent, generation, bytes, bad_lines, checked, interpreter)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (path) DO UPDATE SET generation = excluded.generation, bytes = excluded.bytes,
            bad_lines = excluded.bad_lines, checked = excluded.checked, interpreter = excluded.interpreter
         RETURNING id",
    )?
    .query_row(
        params![
            session,
            batch.transcript.path,
            batch.transcript.part.to_column(),
            cursor.generation,
            cursor.bytes.cast_signed(),
            cursor.interpreter.session_metadata().bad_lines.cast_signed(),
            cursor.check,
            interpreter,
        ],
        |row| row.get(0),
    )
}

/// Starts a generation with the segments and turns that it shares with the previous one.
fn begin_generation(db: &Connection, transcript: i64, generation: u32, rewritten: SharedPrefix) -> Result<()> {
    db.execute(
        "INSERT INTO layout (transcript, generation, start, segment)
         SELECT transcript, ?2, start, segment FROM layout WHERE transcript = ?1 AND generation = ?2 - 1 AND start < ?3",
        params![transcript, generation, rewritten.shared.cast_signed()],
    )?;
    db.execute(
        "UPDATE turns SET superseded = ?2 WHERE transcript = ?1 AND (superseded IS NULL OR superseded = -1) AND idx >= ?3",
        params![transcript, generation, rewritten.turns],
    )?;
    compactions::forget_places(db, transcript, rewritten.shared)
}

fn segments(db: &Connection, batch: &Batch, transcript: i64) -> Result<()> {
    let Some(first) = batch.segments.first() else { return Ok(()) };
    let generation = batch.cursor.generation;
    let replaced: Option<i64> = db
        .prepare_cached("DELETE FROM layout WHERE transcript = ?1 AND generation = ?2 AND start >= ?3 RETURNING segment")?
        .query_row(params![transcript, generation, first.start.cast_signed()], |row| row.get(0))
        .optional()?;
    for segment in &batch.segments {
        let id = shared_segment(db, segment)?;
        db.prepare_cached("INSERT INTO layout (transcript, generation, start, segment) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![transcript, generation, segment.start.cast_signed(), id])?;
    }
    if let Some(replaced) = replaced {
        db.prepare_cached("DELETE FROM segments WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM layout WHERE segment = ?1)")?
            .execute([replaced])?;
    }
    Ok(())
}

/// Returns the id of a segment. An equal one is kept once; it is here again if it was moved away, and whole again if it was damaged.
fn shared_segment(db: &Connection, segment: &Segment) -> Result<i64> {
    let known: Option<i64> = db
        .prepare_cached("SELECT id FROM segments WHERE sha256 = ?1")?
        .query_row([segment.sha256], |row| row.get(0))
        .optional()?;
    let Some(id) = known else {
        return db
            .prepare_cached("INSERT INTO segments (sha256, bytes, data) VALUES (?1, ?2, ?3) RETURNING id")?
            .query_row(params![segment.sha256, segment.bytes, segment.data], |row| row.get(0));
    };
    if !is_sound(db, id)? {
        db.prepare_cached("DELETE FROM warm WHERE segment = ?1")?.execute([id])?;
        db.prepare_cached("UPDATE segments SET data = ?2 WHERE id = ?1")?.execute(params![id, segment.data])?;
    }
    Ok(id)
}

/// Adds a turn, or updates one that has grown since it was stored.
fn turn(db: &Connection, transcript: i64, generation: u32, turn: &Turn, may_be_rewound: bool) -> Result<()> {
    let stored = |state: &str| -> Result<Option<(i64, i64, digest::Sha256Digest)>> {
        db.prepare_cached(&format!(
            "SELECT turns.id, entry, sha256 FROM turns JOIN entries ON entries.id = entry
             WHERE transcript = ?1 AND idx = ?2 AND superseded {state}"
        ))?
        .query_row(params![transcript, turn.index], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
    };
    let mut stored_turn = stored("IS NULL")?;
    if stored_turn.is_none() && may_be_rewound {
        stored_turn = stored("= -1")?;
    }
    let stored = stored_turn;
    let entry = match stored {
        Some((_, entry, sha256)) if sha256 == turn.content_sha256 => entry,
        Some((id, entry, _)) => grown_entry(db, id, entry, turn)?,
        None => new_entry(db, turn)?,
    };
    db.prepare_cached(
        "INSERT INTO turns (id, transcript, generation, idx, entry, uuid, start, bytes, started_ms, took_ms, richness,
            context_tokens, output_tokens, is_answered, agents, open_work)
         VALUES (:id, :transcript, :generation, :idx, :entry, :uuid, :start, :bytes, :started_ms, :took_ms, :richness,
            :context_tokens, :output_tokens, :is_answered, :agents, :open_work)
         ON CONFLICT (id) DO UPDATE SET entry = excluded.entry, bytes = excluded.bytes, took_ms = excluded.took_ms,
            richness = excluded.richness, context_tokens = excluded.context_tokens, output_tokens = excluded.output_tokens,
            is_answered = excluded.is_answered, agents = excluded.agents, open_work = excluded.open_work",
    )?
    .execute(named_params! {
        ":id": stored.map(|(id, ..)| id),
        ":transcript": transcript,
        ":generation": generation,
        ":idx": turn.index,
        ":entry": entry,
        ":uuid": turn.id,
        ":start": turn.start.cast_signed(),
        ":bytes": (turn.end - turn.start).cast_signed(),
        ":started_ms": turn.started_ms,
        ":took_ms": turn.ended_ms.saturating_sub(turn.started_ms),
        ":richness": u8::from(!turn.tools.is_empty()) | u8::from(!turn.files.is_empty()) << 1,
        ":context_tokens": turn.context_tokens.map(u64::cast_signed),
        ":output_tokens": turn.output_tokens.cast_signed(),
        ":is_answered": turn.is_answered,
        ":agents": names_json(&turn.agents),
        ":open_work": names_json(&turn.open_work),
    })?;
    if turn.is_kept { pins::pin_from_prompt(db, turn) } else { Ok(()) }
}

fn new_entry(db: &Connection, turn: &Turn) -> Result<i64> {
    let entry = db
        .prepare_cached(
            "INSERT INTO entries (sha256, chars, tools, files) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (sha256) DO UPDATE SET chars = excluded.chars RETURNING id",
        )?
        .query_row(
            params![turn.content_sha256, turn.content_chars.cast_signed(), names_json(&turn.tools), names_json(&turn.files)],
            |row| row.get(0),
        )?;
    cycle::revive(db, entry)?;
    Ok(entry)
}

/// Returns the entry of a turn whose content has changed. Its restores stay counted, unless another turn has the old content as
/// well, or the new content is known already.
fn grown_entry(db: &Connection, id: i64, entry: i64, turn: &Turn) -> Result<i64> {
    let exists = |sql: &str, params: &[&dyn rusqlite::ToSql]| db.prepare_cached(sql)?.exists(params);
    if exists("SELECT 1 FROM turns WHERE entry = ?1 AND id <> ?2", &[&entry, &id])? {
        return new_entry(db, turn);
    }
    if exists("SELECT 1 FROM entries WHERE sha256 = ?1", &[&turn.content_sha256])? {
        let known = new_entry(db, turn)?;
        // The turn points to it next; nothing else points to the old one.
        db.prepare_cached("UPDATE turns SET entry = ?1 WHERE id = ?2")?.execute([known, id])?;
        db.prepare_cached("UPDATE imported SET entry = ?1 WHERE entry = ?2")?.execute([known, entry])?;
        db.prepare_cached("DELETE FROM entries WHERE id = ?1")?.execute([entry])?;
        return Ok(known);
    }
    db.prepare_cached("UPDATE entries SET sha256 = ?2, chars = ?3, tools = ?4, files = ?5 WHERE id = ?1")?.execute(params![
        entry,
        turn.content_sha256,
        turn.content_chars.cast_signed(),
        names_json(&turn.tools),
        names_json(&turn.files)
    ])?;
    cycle::revive(db, entry)?;
    Ok(entry)
}

fn append(db: &Connection, batch: &Batch) -> Result<AppendOutcome> {
    let known: Option<(i64, u32, u64)> = db
        .prepare_cached("SELECT id, generation, bytes FROM transcripts WHERE path = ?1")?
        .query_row([&batch.transcript.path], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?.cast_unsigned())))
        .optional()?;
    if known.map(|(_, generation, bytes)| (generation, bytes)) != batch.expected_cursor {
        return Ok(AppendOutcome::Conflict);
    }
    let session = session(db, batch)?;
    let transcript = transcript(db, batch, session)?;
    if let Some(rewritten) = batch.rewritten {
        begin_generation(db, transcript, batch.cursor.generation, rewritten)?;
    }
    segments(db, batch, transcript)?;
    let may_be_rewound = !batch.path_changes.is_empty() || !batch.cursor.interpreter.rewound().is_empty();
    for turn in &batch.turns {
        self::turn(db, transcript, batch.cursor.generation, turn, may_be_rewound)?;
    }
    if let Some(first_ms) = batch.turns.iter().map(|turn| turn.started_ms).min() {
        cycle::hot_turns(db, transcript, first_ms)?;
    }
    for met in &batch.summaries {
        compactions::summary(db, session, Some(transcript), met)?;
    }
    compactions::first_contexts(db, transcript, &batch.first_contexts)?;
    if !batch.path_changes.is_empty() {
        rewinds::apply(db, session, transcript, batch)?;
    }
    Ok(AppendOutcome::Committed)
}

impl TranscriptAppender for SqliteStore {
    fn heal_from_file(&mut self, transcript: &str, file: &Path) -> std::result::Result<u64, StoreError> {
        segment_check::heal_from_file(self, transcript, file)
    }

    /// Adds a batch, if no other process was first.
    fn append(&mut self, batch: &Batch) -> Result<AppendOutcome, StoreError> {
        let outcomes = self.append_all(&[batch])?;
        Ok(outcomes.into_iter().next().unwrap_or(AppendOutcome::Conflict))
    }

    fn append_all(&mut self, batches: &[&Batch]) -> Result<Vec<AppendOutcome>, StoreError> {
        let data = self.path.parent().filter(|_| self.is_in_file()).map(Path::to_owned);
        let watch = std::mem::take(&mut self.watch);
        // Once nobody else writes: who forgets may have done so just then.
        let has_changed = || data.as_ref().is_some_and(|data| watch.has_changed(data));
        let outcomes = self.write(|db| {
            let is_current = !has_changed();
            let append = |batch: &&Batch| if is_current { append(db, batch) } else { Ok(AppendOutcome::Conflict) };
            batches.iter().map(append).collect::<Result<Vec<_>>>()
        })?;
        if !has_changed() {
            self.watch = watch;
        }
        if self.is_in_file() {
            let is_new = |(batch, outcome): &(&&Batch, &AppendOutcome)| {
                let is_first = batch.expected_cursor.is_none() && batch.transcript.part.is_conversation();
                is_first && **outcome == AppendOutcome::Committed
            };
            session_list::note(&self.path, batches.iter().zip(&outcomes).filter(is_new).map(|(batch, _)| &batch.transcript));
        }
        Ok(outcomes)
    }

    fn reindex(&mut self, entries: &[i64]) -> Result<(), StoreError> {
        self.write(|db| {
            let mut update = db.prepare_cached("UPDATE entries SET side_revision = side_revision + 1 WHERE id = ?1")?;
            entries.iter().try_for_each(|entry| update.execute([entry]).map(drop))
        })
    }

    fn end_session(&mut self, session: &str, reason: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| {
            let id = sessions::ensure_session(db, session, now_ms)?;
            db.execute("UPDATE sessions SET ended_ms = ?2, end_reason = ?3 WHERE id = ?1", params![id, now_ms, reason]).map(drop)
        })
    }
}
