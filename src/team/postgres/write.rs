/*!
Writing to the archive.

A batch may have thousands of turns, so each table is written by one statement, from arrays. Only known turns that have grown are
handled one by one; mostly there is one.

Turns and their entries are added and shown to others by SQL functions only. These check once for thousands of rows what a policy
and a foreign key would check for each.
*/

use std::collections::{BTreeSet, HashMap, HashSet};

use super::connection::Connection;
use super::content::{self, BatchBytes, TurnContent};
use super::error::PostgresError;
use super::row::{escape_nul, escape_nul_in, names_to_json};
use super::segments::SegmentCache;
use super::session_row::{SessionRow, ensure_session, share_entries, sharing_of_new};
use super::{PostgresStore, changes, compactions, maintenance, pins, rewinds, search};
use ctxbridge_archive::search::tokens::Tokenizer;
use ctxbridge_archive::store::{AppendOutcome, Batch, SharedPrefix, StoreError, TranscriptAppender, TurnReader};
use ctxbridge_archive::turn_text;
use ctxbridge_common::digest;
use ctxbridge_transcript::Turn;

/// Separator between the tags of an entry in a parameter.
const TAG_SEPARATOR: &str = "\x1f";

/// The row of a stored turn.
struct StoredTurnRow {
    id: i64,
    entry: i64,
    sha256: digest::Sha256Digest,
}

/// Appends a batch, if nobody changed the transcript in between.
pub(super) fn append(db: &mut Connection, batch: &Batch) -> Result<AppendOutcome, StoreError> {
    if find_expected(db, batch, "")?.is_none() {
        return Ok(AppendOutcome::Conflict);
    }
    // What takes time is done before anybody has to wait for us.
    let failed = |start, cause| PostgresError::Segment { server: db.settings().server(), transcript: 0, start, cause };
    let bytes = BatchBytes::of(batch, failed)?;
    let beside = content::side_texts(db, batch, &bytes)?;
    let said = content::turn_contents(batch, &bytes, &beside);
    db.transaction(|db| {
        maintenance::lock_shared(db)?;
        let Some(known) = find_expected(db, batch, "FOR UPDATE")? else { return Ok(AppendOutcome::Conflict) };
        let session = session(db, batch)?;
        let Some(transcript) = transcript(db, batch, &session, known)? else { return Ok(AppendOutcome::Conflict) };
        if let Some(rewritten) = batch.rewritten {
            begin_generation(db, &session, transcript, batch.cursor.generation, rewritten)?;
        }
        segments(db, batch, &session, transcript)?;
        let said = all_said(db, batch, transcript, said)?;
        turns(db, batch, &session, transcript, &said)?;
        for met in &batch.summaries {
            compactions::record_summary(db, &session, Some(transcript), met)?;
        }
        compactions::first_contexts(db, session.id, transcript, &batch.first_contexts)?;
        rewinds::apply(db, session.id, transcript, batch)?;
        Ok(AppendOutcome::Committed)
    })
}

/// The transcript's id, or `Some(None)` if it is new. `None` if it is not at the cursor that the batch expects.
fn find_expected(db: &mut Connection, batch: &Batch, lock: &str) -> Result<Option<Option<i64>>, PostgresError> {
    let sql = format!(
        "SELECT id, generation, bytes FROM ctxbridge.transcripts WHERE tenant = $1 AND owner = session_user::text AND path = $2 {lock}"
    );
    let known = db.first(&sql, &[&escape_nul(&batch.transcript.path)])?;
    let known = known.map(|row| Ok::<_, PostgresError>((row.get(0)?, (row.unsigned_32(1)?, row.unsigned(2)?)))).transpose()?;
    Ok((known.map(|(_, place)| place) == batch.expected_cursor).then_some(known.map(|(id, _)| id)))
}

/// Inserts or updates the session. A sub-agent does not know the conversation's model, window and size.
fn session(db: &mut Connection, batch: &Batch) -> Result<SessionRow, PostgresError> {
    let seen = batch.cursor.interpreter.session_metadata();
    let is_main = batch.transcript.part.is_conversation();
    let turns = || batch.turns.iter().filter(|turn| turn.started_ms > 0);
    let (visibility, audience) = sharing_of_new(db);
    let sql = "INSERT INTO ctxbridge.sessions AS known
            (tenant, session, folder, version, model, context_window, context_tokens, first_ms, last_ms, visibility, audience, title)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
        ON CONFLICT (tenant, owner, session) DO UPDATE SET
            folder = coalesce(known.folder, excluded.folder),
            version = coalesce(excluded.version, known.version),
            model = coalesce(excluded.model, known.model),
            context_window = coalesce(excluded.context_window, known.context_window),
            context_tokens = coalesce(excluded.context_tokens, known.context_tokens),
            first_ms = least(known.first_ms, excluded.first_ms),
            last_ms = greatest(known.last_ms, excluded.last_ms),
            title = coalesce(excluded.title, known.title)
        RETURNING id, audience";
    let row = db.one(
        sql,
        &[
            &escape_nul(&batch.transcript.session),
            &escape_nul_in(seen.folder.as_deref()),
            &escape_nul_in(seen.version.as_deref()),
            &escape_nul_in(seen.model.as_deref().filter(|_| is_main)),
            &seen.window.map(u64::cast_signed),
            &seen.context_tokens.filter(|_| is_main).map(u64::cast_signed),
            &turns().map(|turn| turn.started_ms).min(),
            &turns().map(|turn| turn.ended_ms).max(),
            &visibility,
            &audience,
            &escape_nul_in(seen.title.as_ref().map(|title| title.text.as_str())),
        ],
    )?;
    Ok(SessionRow { id: row.get(0)?, audience: row.get(1)? })
}

/// Inserts or updates the transcript; `None` where another process has just inserted it.
fn transcript(db: &mut Connection, batch: &Batch, session: &SessionRow, known: Option<i64>) -> Result<Option<i64>, StoreError> {
    let cursor = &batch.cursor;
    let cannot = |error: serde_json::Error| StoreError::Sink(error.into());
    let interpreter = serde_json::to_string(&cursor.interpreter).map_err(cannot)?;
    let (generation, bytes) = (cursor.generation.cast_signed(), cursor.bytes.cast_signed());
    let bad_lines = cursor.interpreter.session_metadata().bad_lines.cast_signed();
    let checked = &cursor.check[..];
    if let Some(id) = known {
        let sql = "UPDATE ctxbridge.transcripts SET generation = $3, bytes = $4, bad_lines = $5, checked = $6, interpreter = $7
            WHERE tenant = $1 AND id = $2 AND owner = session_user::text";
        db.execute(sql, &[&id, &generation, &bytes, &bad_lines, &checked, &interpreter])?;
        return Ok(Some(id));
    }
    let sql = "INSERT INTO ctxbridge.transcripts
            (tenant, session, audience, path, agent, generation, bytes, bad_lines, checked, interpreter)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (tenant, owner, path) DO NOTHING RETURNING id";
    let (path, agent) = (escape_nul(&batch.transcript.path), escape_nul_in(batch.transcript.part.to_column().as_deref()));
    let row =
        db.first(sql, &[&session.id, &session.audience, &path, &agent, &generation, &bytes, &bad_lines, &checked, &interpreter])?;
    Ok(row.map(|row| row.get(0)).transpose()?)
}

/// Starts a new generation with the segments and turns that it shares with the previous one.
fn begin_generation(
    db: &mut Connection,
    session: &SessionRow,
    transcript: i64,
    generation: u32,
    rewritten: SharedPrefix,
) -> Result<(), PostgresError> {
    let (generation, shared) = (generation.cast_signed(), rewritten.shared.cast_signed());
    db.execute(
        "INSERT INTO ctxbridge.layout (tenant, session, audience, transcript, generation, start, bytes, sha256)
         SELECT tenant, session, audience, transcript, $4, start, bytes, sha256 FROM ctxbridge.layout
         WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND transcript = $3 AND generation = $4 - 1 AND start < $5",
        &[&session.id, &transcript, &generation, &shared],
    )?;
    db.execute(
        "UPDATE ctxbridge.turns SET superseded = $4 WHERE tenant = $1 AND session = $2 AND owner = session_user::text
         AND transcript = $3 AND (superseded IS NULL OR superseded = -1) AND idx >= $5",
        &[&session.id, &transcript, &generation, &rewritten.turns.cast_signed()],
    )?;
    compactions::forget_locations(db, session.id, transcript, rewritten.shared)
}

fn segments(db: &mut Connection, batch: &Batch, session: &SessionRow, transcript: i64) -> Result<(), PostgresError> {
    let Some(first) = batch.segments.first() else { return Ok(()) };
    let generation = batch.cursor.generation.cast_signed();
    let replaced = db.all(
        "DELETE FROM ctxbridge.layout WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND transcript = $3
            AND generation = $4 AND start >= $5 RETURNING sha256",
        &[&session.id, &transcript, &generation, &first.start.cast_signed()],
    )?;
    let starts: Vec<i64> = batch.segments.iter().map(|piece| piece.start.cast_signed()).collect();
    let hashes: Vec<&[u8]> = batch.segments.iter().map(|piece| &piece.sha256[..]).collect();
    let bytes: Vec<i32> = batch.segments.iter().map(|piece| piece.bytes.cast_signed()).collect();
    let data: Vec<&[u8]> = batch.segments.iter().map(|piece| &piece.data[..]).collect();
    db.execute(
        "INSERT INTO ctxbridge.segments (tenant, session, audience, sha256, bytes, packed, data)
         SELECT $1, $2, $3, piece.sha256, piece.bytes, octet_length(piece.data), piece.data
         FROM unnest($4::bytea[], $5::integer[], $6::bytea[]) AS piece (sha256, bytes, data)
         ON CONFLICT (tenant, session, owner, sha256) DO NOTHING",
        &[&session.id, &session.audience, &hashes, &bytes, &data],
    )?;
    // What returns rows a distributed server passes on as it is. All else would become COPY, which row-level security refuses.
    db.all(
        "INSERT INTO ctxbridge.layout (tenant, session, audience, transcript, generation, start, bytes, sha256)
         SELECT $1, $2, $3, $4, $5, piece.start, piece.bytes, piece.sha256
         FROM unnest($6::bigint[], $7::integer[], $8::bytea[]) AS piece (start, bytes, sha256) RETURNING start",
        &[&session.id, &session.audience, &transcript, &generation, &starts, &bytes, &hashes],
    )?;
    if replaced.is_empty() {
        return Ok(());
    }
    let replaced: Vec<Vec<u8>> = replaced.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
    db.execute(
        "DELETE FROM ctxbridge.segments WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND sha256 = ANY ($3)
         AND NOT EXISTS (SELECT FROM ctxbridge.layout WHERE layout.tenant = $1 AND layout.session = $2
            AND layout.owner = segments.owner AND layout.sha256 = segments.sha256)",
        &[&session.id, &replaced],
    )
    .map(drop)
}

/// The content of all turns. Turns whose start is in the archive already are read from there.
fn all_said(
    db: &mut Connection,
    batch: &Batch,
    transcript: i64,
    said: Vec<Option<TurnContent>>,
) -> Result<Vec<TurnContent>, StoreError> {
    let tokenizer = Tokenizer::default();
    let is_agent = batch.transcript.part.agent().is_some();
    let mut remembered = SegmentCache::default();
    let turns = batch.turns.iter().zip(said);
    turns
        .map(|(turn, said)| match said {
            Some(said) => Ok(said),
            None => {
                let mut bytes = Vec::new();
                remembered.read_bytes(db, transcript, batch.cursor.generation, (turn.start, turn.end), &mut bytes)?;
                let beside = content::side_texts(db, batch, &BatchBytes::of_bytes(turn.start, bytes.clone()))?;
                Ok(TurnContent::of(turn, (&bytes, &beside), is_agent, &tokenizer))
            }
        })
        .collect()
}

/// Writes turns that are new, or have grown since they were stored.
fn turns(
    db: &mut Connection,
    batch: &Batch,
    session: &SessionRow,
    transcript: i64,
    said: &[TurnContent],
) -> Result<(), PostgresError> {
    let Some(first_ms) = batch.turns.iter().map(|turn| turn.started_ms).min() else { return Ok(()) };
    let mut stored = stored(db, batch, session.id, transcript)?;
    // Entries by the place of their turn in the batch; `changed` have another content than before, or none.
    let mut entries: Vec<Option<i64>> = vec![None; batch.turns.len()];
    let mut changed = BTreeSet::new();
    let mut left = BTreeSet::new();
    for (at, turn) in batch.turns.iter().enumerate() {
        let Some(known) = stored.get(&turn.index) else { continue };
        if known.sha256 == turn.content_sha256 {
            entries[at] = Some(known.entry);
            continue;
        }
        let entry = grown_entry(db, batch, session, known, (turn, &said[at]), &mut changed)?;
        if entry != known.entry {
            left.insert(known.entry);
        }
        entries[at] = Some(entry);
    }
    let new: Vec<usize> = (0..batch.turns.len()).filter(|at| entries[*at].is_none()).collect();
    for (at, entry) in new.iter().zip(new_entries(db, batch, session, &new, said, &mut changed)?) {
        entries[*at] = Some(entry);
    }
    let entries: Vec<i64> = entries.into_iter().flatten().collect();
    let mut added = Vec::new();
    for (at, turn) in batch.turns.iter().enumerate() {
        match stored.remove(&turn.index) {
            Some(known) => update_turn(db, session.id, known.id, entries[at], turn)?,
            None => added.push(at),
        }
    }
    add_turns(db, batch, session, transcript, &added, &entries)?;
    maintenance::hot_turns(db, transcript, first_ms)?;
    for turn in batch.turns.iter().filter(|turn| turn.is_kept) {
        pins::pin_by_prompt(db, turn)?;
    }
    // The last of the turns with the same content says when it was said.
    let mut seen = HashSet::new();
    let texts: Vec<usize> = (0..batch.turns.len()).rev().filter(|at| seen.insert(entries[*at])).collect();
    search::put_texts(db, session.id, &texts, &entries, batch, said)?;
    let left: Vec<i64> = left.into_iter().collect();
    search::forget_texts(db, session.id, &left)?;
    changes::record_changes(db, &changed.into_iter().collect::<Vec<_>>())
}

/// The turns of a batch that are stored already, by index.
fn stored(
    db: &mut Connection,
    batch: &Batch,
    session: i64,
    transcript: i64,
) -> Result<HashMap<u32, StoredTurnRow>, PostgresError> {
    let places: Vec<i32> = batch.turns.iter().map(|turn| turn.index.cast_signed()).collect();
    let sql = "SELECT turns.idx, turns.id, turns.entry, entries.sha256 FROM ctxbridge.turns
            JOIN ctxbridge.entries ON entries.tenant = turns.tenant AND entries.id = turns.entry AND entries.owner = turns.owner
        WHERE turns.tenant = $1 AND session = $2 AND turns.owner = session_user::text AND transcript = $3 AND idx = ANY ($4)
            AND (superseded IS NULL OR superseded = -1)";
    let found = db.all(sql, &[&session, &transcript, &places])?;
    found
        .iter()
        .map(|row| Ok((row.unsigned_32(0)?, StoredTurnRow { id: row.get(1)?, entry: row.get(2)?, sha256: row.byte_array(3)? })))
        .collect()
}

/// The entries of new turns, in their order. Known entries are reused, and become hot again.
fn new_entries(
    db: &mut Connection,
    batch: &Batch,
    session: &SessionRow,
    turns: &[usize],
    said: &[TurnContent],
    changed: &mut BTreeSet<i64>,
) -> Result<Vec<i64>, PostgresError> {
    if turns.is_empty() {
        return Ok(Vec::new());
    }
    let mut seen = HashSet::new();
    let different: Vec<usize> = turns.iter().copied().filter(|at| seen.insert(batch.turns[*at].content_sha256)).collect();
    let of = |at: &usize| (&batch.turns[*at], &said[*at]);
    let hashes: Vec<&[u8]> = different.iter().map(|at| &batch.turns[*at].content_sha256[..]).collect();
    let chars: Vec<i64> = different.iter().map(|at| of(at).0.content_chars.cast_signed()).collect();
    let contents: Vec<&str> = different.iter().map(|at| of(at).1.content.as_str()).collect();
    let tools: Vec<Option<String>> = different.iter().map(|at| names_to_json(&of(at).0.tools)).collect();
    let files: Vec<Option<String>> = different.iter().map(|at| names_to_json(&of(at).0.files)).collect();
    let mut keys = Vec::new();
    let mut tags = Vec::new();
    let mut metadata = Vec::new();
    for (turn, said) in different.iter().map(of) {
        let (key, tagged, described) = content::description(&batch.transcript, turn, said);
        keys.push(key);
        tags.push(tag_line(&tagged));
        metadata.push(described);
    }
    let added = db.all(
        "SELECT new_id, new_sha256 FROM ctxbridge.add_entries($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[&session.id, &hashes, &chars, &contents, &tools, &files, &keys, &tags, &metadata],
    )?;
    let mut ids: HashMap<digest::Sha256Digest, i64> = HashMap::new();
    for row in &added {
        let id = row.get(0)?;
        ids.insert(row.byte_array(1)?, id);
        changed.insert(id);
    }
    let known: Vec<&[u8]> = hashes.iter().copied().filter(|hash| !ids.contains_key(*hash)).collect();
    if !known.is_empty() {
        let found = db.all(
            "SELECT id, sha256 FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text AND sha256 = ANY ($2)",
            &[&known],
        )?;
        let mut again = Vec::new();
        for row in &found {
            let id: i64 = row.get(0)?;
            ids.insert(row.byte_array(1)?, id);
            again.push(id);
        }
        maintenance::revive(db, &again)?;
        share_entries(db, session, &again)?;
    }
    let missing = || PostgresError::Unreadable { server: db.settings().server(), cause: "an entry is gone".to_owned() };
    turns.iter().map(|at| ids.get(&batch.turns[*at].content_sha256).copied().ok_or_else(missing)).collect()
}

fn tag_line(tags: &[String]) -> String {
    tags.iter().map(|tag| tag.replace(TAG_SEPARATOR, " ")).collect::<Vec<_>>().join(TAG_SEPARATOR)
}

/// The entry of a turn whose content has changed. It keeps its restore count, unless
/// another turn has the old content as well, or the new content is known already.
fn grown_entry(
    db: &mut Connection,
    batch: &Batch,
    session: &SessionRow,
    known: &StoredTurnRow,
    (turn, said): (&Turn, &TurnContent),
    changed: &mut BTreeSet<i64>,
) -> Result<i64, PostgresError> {
    let is_shared = "SELECT EXISTS (SELECT FROM ctxbridge.turns WHERE tenant = $1 AND entry = $2 AND owner = session_user::text
        AND id <> $3), (SELECT id FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text AND sha256 = $4)";
    let row = db.one(is_shared, &[&known.entry, &known.id, &&turn.content_sha256[..]])?;
    let (is_shared, same): (bool, Option<i64>) = (row.get(0)?, row.get(1)?);
    if is_shared || same.is_some() {
        let at = batch.turns.iter().position(|other| other.index == turn.index).unwrap_or_default();
        let mut all = vec![TurnContent::default(); at];
        all.push(said.clone());
        let entry = new_entries(db, batch, session, &[at], &all, changed)?[0];
        if !is_shared && entry != known.entry {
            // The turn points to it next; nothing else points to the old one.
            db.execute(
                "UPDATE ctxbridge.turns SET entry = $4 WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND id = $3",
                &[&session.id, &known.id, &entry],
            )?;
            search::delete_entry(db, known.entry)?;
            changed.insert(known.entry);
        }
        return Ok(entry);
    }
    let (key, tags, metadata) = content::description(&batch.transcript, turn, said);
    db.one(
        "SELECT ctxbridge.grow_entry($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        &[
            &known.entry,
            &&known.sha256[..],
            &&turn.content_sha256[..],
            &turn.content_chars.cast_signed(),
            &said.content,
            &names_to_json(&turn.tools),
            &names_to_json(&turn.files),
            &key,
            &tag_line(&tags),
            &metadata,
        ],
    )?;
    search::forget_vectors(db, &[known.entry])?;
    maintenance::revive(db, &[known.entry])?;
    changed.insert(known.entry);
    Ok(known.entry)
}

fn update_turn(db: &mut Connection, session: i64, id: i64, entry: i64, turn: &Turn) -> Result<(), PostgresError> {
    db.execute(
        "UPDATE ctxbridge.turns SET entry = $4, bytes = $5, took_ms = $6, richness = $7, context_tokens = $8, output_tokens = $9,
            is_answered = $10, agents = $11, open_work = $12
         WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND id = $3",
        &[
            &session,
            &id,
            &entry,
            &(turn.end - turn.start).cast_signed(),
            &turn.ended_ms.saturating_sub(turn.started_ms),
            &richness(turn),
            &turn.context_tokens.map(u64::cast_signed),
            &turn.output_tokens.cast_signed(),
            &turn.is_answered,
            &names_to_json(&turn.agents),
            &names_to_json(&turn.open_work),
        ],
    )
    .map(drop)
}

fn add_turns(
    db: &mut Connection,
    batch: &Batch,
    session: &SessionRow,
    transcript: i64,
    added: &[usize],
    entries: &[i64],
) -> Result<(), PostgresError> {
    if added.is_empty() {
        return Ok(());
    }
    let turns = || added.iter().map(|at| &batch.turns[*at]);
    let numbers = |of: fn(&Turn) -> i64| turns().map(of).collect::<Vec<i64>>();
    let places: Vec<i32> = turns().map(|turn| turn.index.cast_signed()).collect();
    let entries: Vec<i64> = added.iter().map(|at| entries[*at]).collect();
    let uuids: Vec<&[u8]> = turns().map(|turn| &turn.id[..]).collect();
    let richness: Vec<i16> = turns().map(richness).collect();
    let context_tokens: Vec<Option<i64>> = turns().map(|turn| turn.context_tokens.map(u64::cast_signed)).collect();
    let is_answered: Vec<bool> = turns().map(|turn| turn.is_answered).collect();
    let agents: Vec<Option<String>> = turns().map(|turn| names_to_json(&turn.agents)).collect();
    let open_work: Vec<Option<String>> = turns().map(|turn| names_to_json(&turn.open_work)).collect();
    db.execute(
        "SELECT ctxbridge.add_turns($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
        &[
            &session.id,
            &transcript,
            &batch.cursor.generation.cast_signed(),
            &places,
            &entries,
            &uuids,
            &numbers(|turn| turn.start.cast_signed()),
            &numbers(|turn| (turn.end - turn.start).cast_signed()),
            &numbers(|turn| turn.started_ms),
            &numbers(|turn| turn.ended_ms.saturating_sub(turn.started_ms)),
            &richness,
            &context_tokens,
            &numbers(|turn| turn.output_tokens.cast_signed()),
            &is_answered,
            &agents,
            &open_work,
        ],
    )
    .map(drop)
}

/// Richness of a turn: 1 with tools, plus 2 with files.
fn richness(turn: &Turn) -> i16 {
    i16::from(!turn.tools.is_empty()) | i16::from(!turn.files.is_empty()) << 1
}

impl TranscriptAppender for PostgresStore {
    fn append(&mut self, batch: &Batch) -> Result<AppendOutcome, StoreError> {
        super::store::retry_conflicts(|| self.pool.with(|db| append(db, batch)))
    }

    /// Indexes the words of turns again.
    fn reindex(&mut self, entries: &[i64]) -> Result<(), StoreError> {
        let tokenizer = Tokenizer::default();
        for place in self.turn_locations(entries)? {
            let Some(turn) = self.turn_by_location(&place)?.filter(|turn| turn.owner.is_none()) else { continue };
            let words = content::words_of(&turn.turn, &turn_text::fields(self, &turn)?, &tokenizer);
            self.write(|db| search::put_words(db, place.session, place.entry, &turn.turn, &words))?;
        }
        Ok(())
    }

    fn end_session(&mut self, session: &str, reason: &str, now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| {
            let session = ensure_session(db, session, now_ms)?;
            let sql = "UPDATE ctxbridge.sessions SET ended_ms = $3, end_reason = $4 WHERE tenant = $1 AND id = $2 AND owner = session_user::text";
            db.execute(sql, &[&session.id, &now_ms, &escape_nul(reason)]).map(drop)
        })
    }
}
