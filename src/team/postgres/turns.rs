//! Lists of turns.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::LazyLock;

use super::connection::{Connection, Params};
use super::cycle;
use super::error::PostgresError;
use super::line::{Line, limit};
use ctxbridge_archive::store::{Place, Start, StoredTurn, Turns};
use ctxbridge_transcript::Turn;

/// Whether a row of `turns` is one that the asker keeps: an expression.
const IS_KEPT: &str = "EXISTS (SELECT FROM ctxbridge.kept k WHERE k.tenant = $1 AND k.owner = session_user::text
    AND k.uuid = turns.uuid AND k.is_kept)";

/// Where turns come from, with what is known of them elsewhere. Whose they are goes with them everywhere, so that nobody's rows are
/// ever joined with another's.
const AROUND: &str = "
    JOIN ctxbridge.entries ON entries.tenant = turns.tenant AND entries.id = turns.entry AND entries.owner = turns.owner
    JOIN ctxbridge.transcripts ON transcripts.tenant = turns.tenant AND transcripts.id = turns.transcript
        AND transcripts.owner = turns.owner AND transcripts.session = turns.session
    JOIN ctxbridge.sessions ON sessions.tenant = turns.tenant AND sessions.id = turns.session AND sessions.owner = turns.owner";

/// A [`StoredTurn`], of all turns.
static TURNS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT turns.entry, turns.transcript, turns.generation, superseded, sessions.session, transcripts.agent,
            access_count, {}, idx, start, start + turns.bytes, turns.uuid, started_ms, started_ms + took_ms, entries.sha256, chars,
            tools, files, agents, turns.context_tokens, output_tokens, is_answered, open_work,
            coalesce(entries.confidence = 0, false), {IS_KEPT},
            CASE WHEN turns.owner <> session_user::text THEN turns.owner END
         FROM ctxbridge.turns {AROUND} WHERE turns.tenant = $1",
        cycle::confidence(cycle::LOST)
    )
});

/// The [`Place`]s of entries.
static PLACES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT turns.entry, turns.id, turns.transcript, idx, turns.session, folder, started_ms, access_count, {}, richness,
            superseded IS NOT NULL
         FROM ctxbridge.turns {AROUND} WHERE turns.tenant = $1 AND turns.entry = ANY ($2)
         ORDER BY array_position($2, turns.entry), turns.id",
        cycle::confidence(cycle::LOST)
    )
});

/// Turns of a transcript: `$2` is its session, `$3` itself.
fn of_transcript(condition: &str) -> String {
    format!("{} AND turns.session = $2 AND turns.transcript = $3 AND {condition}", *TURNS)
}

fn stored_turn(row: &Line) -> Result<StoredTurn, PostgresError> {
    let superseded: Option<i32> = row.get(3)?;
    Ok(StoredTurn {
        entry: row.get(0)?,
        transcript: row.get(1)?,
        generation: row.small(2)?,
        is_superseded: superseded.is_some(),
        session: row.text(4)?,
        owner: row.get(25)?,
        agent: row.some_text(5)?,
        access_count: row.small(6)?,
        confidence: row.get(7)?,
        is_pruned: row.get(23)?,
        is_kept: row.get(24)?,
        turn: Turn {
            index: row.small(8)?,
            start: row.unsigned(9)?,
            end: row.unsigned(10)?,
            id: row.bytes(11)?,
            started_ms: row.get(12)?,
            ended_ms: row.get(13)?,
            content_sha256: row.bytes(14)?,
            content_chars: row.unsigned(15)?,
            tools: row.names(16)?,
            files: row.names(17)?,
            agents: row.names(18)?,
            context_tokens: row.optional(19)?,
            output_tokens: row.unsigned(20)?,
            is_answered: row.get(21)?,
            open_work: row.names(22)?,
            is_kept: row.get(24)?,
        },
    })
}

fn list(db: &mut Connection, sql: &str, params: Params<'_>) -> Result<Vec<StoredTurn>, PostgresError> {
    db.all(sql, params)?.iter().map(stored_turn).collect()
}

pub(super) fn turns(db: &mut Connection, session: i64, which: Turns) -> Result<Vec<StoredTurn>, PostgresError> {
    let mut found = Vec::new();
    // One transcript at a time, so that the index on its turns gives them in order; most sessions have just one.
    let transcripts = transcripts(db, session)?;
    // They are few, mostly none: to look at all turns for that would take longer than to send them.
    let kept = if which == Turns::Kept { kept_ids(db)? } else { Vec::new() };
    for &Listed { transcript, is_agent, hot_from } in &transcripts {
        match which {
            Turns::Agents | Turns::All if is_agent != (which == Turns::Agents) => {}
            Turns::All | Turns::Agents => {
                let sql = of_transcript("superseded IS NULL ORDER BY idx");
                found.extend(list(db, &sql, &[&session, &transcript])?);
            }
            Turns::Superseded => {
                let sql = of_transcript("superseded IS NOT NULL ORDER BY idx, turns.id");
                found.extend(list(db, &sql, &[&session, &transcript])?);
            }
            Turns::Newest(_) | Turns::Candidates(_) | Turns::Kept if is_agent => {}
            Turns::Newest(count) => {
                let sql = of_transcript("superseded IS NULL ORDER BY idx DESC LIMIT $4");
                found.extend(list(db, &sql, &[&session, &transcript, &limit(count)])?);
            }
            Turns::Candidates(count) => candidates(db, session, transcript, hot_from, count, &mut found)?,
            Turns::Kept if kept.is_empty() => {}
            Turns::Kept => {
                let sql = of_transcript("superseded IS NULL AND turns.uuid = ANY ($4) ORDER BY idx DESC");
                found.extend(list(db, &sql, &[&session, &transcript, &kept])?);
            }
        }
    }
    if has_copies(&transcripts) {
        let mut seen = HashSet::new();
        found.retain(|turn| turn.agent.is_some() || turn.is_superseded || seen.insert(turn.turn.id));
        if let Turns::Newest(count) = which {
            found.sort_by_key(|turn| Reverse(turn.turn.started_ms));
            found.truncate(count);
        }
    }
    Ok(found)
}

/// A copy elsewhere, a folder that was renamed: what several files have is one turn.
fn has_copies(transcripts: &[Listed]) -> bool {
    transcripts.iter().filter(|listed| !listed.is_agent).count() > 1
}

/// Of [`turns`] no more than where they begin: half of what else is known of a turn is in its entry, of which only the server's whole
/// index knows where it is.
pub(super) fn starts(db: &mut Connection, session: i64, of_agents: bool) -> Result<Vec<Start>, PostgresError> {
    let transcripts = transcripts(db, session)?;
    let sql =
        "SELECT start, uuid FROM ctxbridge.turns WHERE tenant = $1 AND session = $2 AND transcript = $3 AND superseded IS NULL
        ORDER BY idx";
    let mut found = Vec::new();
    for &Listed { transcript, .. } in transcripts.iter().filter(|listed| listed.is_agent == of_agents) {
        for row in db.all(sql, &[&session, &transcript])? {
            found.push(Start { transcript, at: row.unsigned(0)?, id: row.bytes(1)? });
        }
    }
    if !of_agents && has_copies(&transcripts) {
        let mut seen = HashSet::new();
        found.retain(|start| seen.insert(start.id));
    }
    Ok(found)
}

/// The ids of all turns that one keeps.
fn kept_ids(db: &mut Connection) -> Result<Vec<Vec<u8>>, PostgresError> {
    let sql = "SELECT uuid FROM ctxbridge.kept WHERE tenant = $1 AND owner = session_user::text AND is_kept";
    db.all(sql, &[])?.iter().map(|row| row.get(0)).collect()
}

/// A file of a session.
struct Listed {
    transcript: i64,
    is_agent: bool,
    /// Turns that began earlier are pruned, or were restored.
    hot_from: i64,
}

/// Files of a session, the one that has most first.
fn transcripts(db: &mut Connection, session: i64) -> Result<Vec<Listed>, PostgresError> {
    let sql = "SELECT id, agent IS NOT NULL, hot_from FROM ctxbridge.transcripts WHERE tenant = $1 AND session = $2
        ORDER BY bytes DESC, id DESC";
    let listed = |row: &Line| {
        let hot_from = row.get::<Option<i64>>(2)?.unwrap_or(i64::MIN);
        Ok(Listed { transcript: row.get(0)?, is_agent: row.get(1)?, hot_from })
    };
    db.all(sql, &[&session])?.iter().map(listed).collect()
}

fn candidates(
    db: &mut Connection,
    session: i64,
    transcript: i64,
    hot_from: i64,
    count: usize,
    found: &mut Vec<StoredTurn>,
) -> Result<(), PostgresError> {
    for richness in 0..4_i16 {
        let sql = of_transcript(
            "superseded IS NULL AND richness = $4 AND started_ms >= $6 AND access_count = 0
             AND entries.confidence IS DISTINCT FROM 0 ORDER BY started_ms DESC LIMIT $5",
        );
        found.extend(list(db, &sql, &[&session, &transcript, &richness, &limit(count), &hot_from])?);
    }
    let sql = of_transcript("superseded IS NULL AND access_count > 0");
    found.extend(list(db, &sql, &[&session, &transcript])?);
    Ok(())
}

/// One that several sessions have is shown once.
pub(super) fn kept(db: &mut Connection, count: usize) -> Result<Vec<StoredTurn>, PostgresError> {
    let sql = format!(
        "{} AND turns.uuid IN (SELECT k.uuid FROM ctxbridge.kept k WHERE k.tenant = $1 AND k.owner = session_user::text AND k.is_kept)
         ORDER BY superseded IS NOT NULL, started_ms DESC, turns.id DESC",
        *TURNS
    );
    let mut found = list(db, &sql, &[])?;
    let mut seen = HashSet::new();
    found.retain(|turn| seen.insert(turn.turn.id));
    found.truncate(count);
    Ok(found)
}

pub(super) fn turns_by_id(db: &mut Connection, prefix: &str) -> Result<Vec<StoredTurn>, PostgresError> {
    const DIGITS: usize = 32;
    let padded = |digit: &str| {
        let digits = prefix.to_owned() + &digit.repeat(DIGITS.saturating_sub(prefix.len()));
        u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
    };
    let (Some(low), Some(high)) = (padded("0"), padded("f")) else { return Ok(Vec::new()) };
    let sql =
        format!("{} AND turns.uuid BETWEEN $2 AND $3 ORDER BY superseded IS NOT NULL, started_ms DESC, turns.id DESC", *TURNS);
    list(db, &sql, &[&&low[..], &&high[..]])
}

pub(super) fn places(db: &mut Connection, entries: &[i64]) -> Result<Vec<Place>, PostgresError> {
    let place = |row: &Line| {
        let richness: i16 = row.get(9)?;
        Ok(Place {
            entry: row.get(0)?,
            key: row.get(1)?,
            transcript: row.get(2)?,
            index: row.small(3)?,
            session: row.get(4)?,
            folder: row.some_text(5)?,
            started_ms: row.get(6)?,
            access_count: row.small(7)?,
            confidence: row.get(8)?,
            richness: (richness & 1 != 0, richness & 2 != 0),
            is_superseded: row.get(10)?,
        })
    };
    db.all(&PLACES, &[&entries])?.iter().map(place).collect()
}

pub(super) fn turn(db: &mut Connection, session: i64, transcript: i64, index: u32) -> Result<Option<StoredTurn>, PostgresError> {
    let sql = of_transcript("superseded IS NULL AND idx = $4");
    Ok(list(db, &sql, &[&session, &transcript, &index.cast_signed()])?.pop())
}

pub(super) fn turn_of(db: &mut Connection, place: &Place) -> Result<Option<StoredTurn>, PostgresError> {
    let sql = format!("{} AND turns.session = $2 AND turns.id = $3", *TURNS);
    Ok(list(db, &sql, &[&place.session, &place.key])?.pop())
}
