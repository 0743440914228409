//! Decay, pruning and reviving of one's own entries. What is to be done is decided by [`crate::archive::cycle`]; the rows are gone
//! through by the database.

use super::connection::Connection;
use super::error::PostgresError;
use crate::archive::cycle::{Facts, Outcome, PRUNE_CONFIDENCE, Plan, Run, SPARED_NEWEST, TOLERANCE, Usage};
use crate::archive::store::Adopted;
use crate::archive::{CONFIDENCE_BOOST, FIRST_CONFIDENCE, LEAST_CONFIDENCE};

/// The note with the time of the last cycle.
const LAST: &str = "last_optimise_ms";

/// What has been lost in all cycles: an expression.
pub(super) const LOST: &str =
    "coalesce((SELECT d.lost FROM ctxbridge.decays d WHERE d.tenant = $1 AND d.owner = session_user::text
    ORDER BY d.first_entry DESC LIMIT 1), 0::double precision)";

/// What all entries have lost by now.
pub(super) fn lost(db: &mut Connection) -> Result<f64, PostgresError> {
    db.one(&format!("SELECT {LOST} FROM (SELECT $1::text) AS asked"), &[])?.get(0)
}

/// Later than any turn.
const NEVER: i64 = i64::MAX;

/// The confidence of a row of `entries` after these losses: an expression. A pruned one has the least. What another's cycles took from
/// his entries is his own matter: they count as they would without.
pub(super) fn confidence(lost: &str) -> String {
    format!(
        "CASE WHEN entries.owner = session_user::text THEN greatest({least}, coalesce(entries.confidence, {first} + coalesce(
            (SELECT d.lost FROM ctxbridge.decays d WHERE d.tenant = $1 AND d.owner = session_user::text AND d.first_entry <= entries.id
             ORDER BY d.first_entry DESC LIMIT 1), 0)) - {lost})
         ELSE greatest({least}, least(1::double precision, coalesce(entries.confidence, {first}))) END",
        least = float(LEAST_CONFIDENCE),
        first = float(FIRST_CONFIDENCE),
    )
}

fn float(number: f64) -> String {
    format!("{number:?}::double precision")
}

/// Held by whoever adds entries, so that a cycle knows which came before it, and who may read them stays as it is.
pub(super) fn lock_shared(db: &mut Connection) -> Result<(), PostgresError> {
    lock(db, "pg_advisory_xact_lock_shared")
}

/// Held by whoever runs a cycle, or changes who may read what: nobody adds anything meanwhile.
pub(super) fn lock_alone(db: &mut Connection) -> Result<(), PostgresError> {
    lock(db, "pg_advisory_xact_lock")
}

fn lock(db: &mut Connection, function: &str) -> Result<(), PostgresError> {
    let sql = format!("SELECT {function}(hashtextextended('ctxbridge cycle ' || $1 || ' ' || session_user::text, 0))");
    db.one(&sql, &[]).map(drop)
}

/// What a plan is made from. Of the bytes it is those of one's own segments: what the rest takes is not told apart by owner.
pub(super) fn facts(db: &mut Connection) -> Result<Facts, PostgresError> {
    let sql = "SELECT value FROM ctxbridge.notes WHERE tenant = $1 AND owner = session_user::text AND key = $2";
    let last: Option<String> = db.first(sql, &[&LAST])?.map(|row| row.get(0)).transpose()?;
    let row = db.one(
        "SELECT count(*) FILTER (WHERE confidence IS DISTINCT FROM 0), count(*) FILTER (WHERE access_count > 0),
            (SELECT coalesce(sum(packed), 0)::bigint FROM ctxbridge.segments WHERE tenant = $1 AND owner = session_user::text)
         FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text",
        &[],
    )?;
    let usage = Usage { bytes: row.unsigned(2)?, hot: row.unsigned(0)?, restored: row.unsigned(1)? };
    Ok(Facts { last_ms: last.and_then(|last| last.parse().ok()), usage })
}

/// One cycle in a transaction.
pub(super) fn cycle(db: &mut Connection, run: Run, plan: &dyn Fn(&Facts) -> Plan) -> Result<Outcome, PostgresError> {
    if run == Run::Real {
        lock_alone(db)?;
    }
    let facts = facts(db)?;
    self::run(db, run, &facts, plan(&facts))
}

/// Carries a plan out, or says what would be done.
fn run(db: &mut Connection, run: Run, facts: &Facts, plan: Plan) -> Result<Outcome, PostgresError> {
    let before = lost(db)?;
    let lost = before + plan.loss;
    let decayed = if plan.loss > 0.0 { count_above_least(db, before)? } else { 0 };
    if run == Run::Real {
        decay(db, &plan, lost)?;
    }
    let (pruned_by_confidence, pruned_by_age) = match run {
        Run::Real => prune(db, &plan, lost)?,
        Run::Dry => count_prunable(db, &plan, lost)?,
    };
    let now_pruned = pruned_by_confidence + pruned_by_age;
    if run == Run::Real && now_pruned > 0 {
        move_hot_from(db)?;
    }
    let sql = "SELECT count(*) FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text";
    let entries = db.one(sql, &[])?.unsigned(0)?;
    let hot = facts.usage.hot.saturating_sub(now_pruned);
    Ok(Outcome { plan, decayed, pruned_by_confidence, pruned_by_age, hot, pruned: entries - hot })
}

/// Hot entries that have confidence to lose.
fn count_above_least(db: &mut Connection, lost: f64) -> Result<u64, PostgresError> {
    let sql = format!(
        "SELECT count(*) FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text AND confidence IS DISTINCT FROM 0
         AND {} > {} + {}",
        confidence("$2::double precision"),
        float(LEAST_CONFIDENCE),
        float(TOLERANCE)
    );
    db.one(&sql, &[&lost])?.unsigned(0)
}

/// Notes down what is lost, and when this was.
fn decay(db: &mut Connection, plan: &Plan, lost: f64) -> Result<(), PostgresError> {
    if plan.loss > 0.0 {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text";
        let next: i64 = db.one(sql, &[])?.get(0)?;
        db.execute(
            "INSERT INTO ctxbridge.decays (tenant, first_entry, lost) VALUES ($1, $2, $3)
             ON CONFLICT (tenant, owner, first_entry) DO UPDATE SET lost = excluded.lost",
            &[&next, &lost],
        )?;
        // Whatever came as early as that has nothing more to lose, as if it had been there from the begin.
        db.execute(
            "DELETE FROM ctxbridge.decays WHERE tenant = $1 AND owner = session_user::text AND lost <= $2",
            &[&(lost - (FIRST_CONFIDENCE - LEAST_CONFIDENCE))],
        )?;
    }
    db.execute(
        "INSERT INTO ctxbridge.notes (tenant, key, value) VALUES ($1, $2, $3)
         ON CONFLICT (tenant, owner, key) DO UPDATE SET value = excluded.value",
        &[&LAST, &plan.now_ms.to_string()],
    )
    .map(drop)
}

/// A statement on the entries that may be pruned: `spared` lists the others. `$2` is how many are the newest, `$3` since when a session
/// is active.
fn on_prunable(statement: &str, condition: &str) -> String {
    format!(
        "WITH spared (entry) AS MATERIALIZED (
            SELECT newest.entry FROM ctxbridge.transcripts t CROSS JOIN LATERAL
                (SELECT u.entry FROM ctxbridge.turns u WHERE u.tenant = $1 AND u.session = t.session AND u.owner = t.owner
                 AND u.transcript = t.id AND u.superseded IS NULL ORDER BY u.idx DESC LIMIT $2) AS newest
            WHERE t.tenant = $1 AND t.owner = session_user::text AND t.agent IS NULL
            UNION
            SELECT u.entry FROM ctxbridge.sessions s JOIN ctxbridge.turns u ON u.tenant = s.tenant AND u.session = s.id AND u.owner = s.owner
            WHERE s.tenant = $1 AND s.owner = session_user::text AND s.last_ms > $3 AND (s.ended_ms IS NULL OR s.ended_ms < s.last_ms)
            UNION
            SELECT u.entry FROM ctxbridge.kept k JOIN ctxbridge.turns u ON u.tenant = k.tenant AND u.uuid = k.uuid AND u.owner = k.owner
            WHERE k.tenant = $1 AND k.owner = session_user::text AND k.is_kept
         )
         {statement}
         WHERE tenant = $1 AND owner = session_user::text AND access_count = 0 AND summary IS NULL AND confidence IS DISTINCT FROM 0
            AND NOT EXISTS (SELECT FROM spared WHERE spared.entry = entries.id) {condition}"
    )
}

/// Whether an entry is hardly trusted after these losses, and whether it is old before this time: expressions.
fn reasons(lost: &str, old_before: &str) -> (String, String) {
    let is_low = format!("{} <= {} + {}", confidence(lost), float(PRUNE_CONFIDENCE), float(TOLERANCE));
    let is_old = format!(
        "NOT EXISTS (SELECT FROM ctxbridge.turns u WHERE u.tenant = $1 AND u.entry = entries.id AND u.owner = entries.owner
            AND NOT (u.started_ms > 0 AND u.started_ms < {old_before}))"
    );
    (is_low, is_old)
}

/// How many entries a plan prunes by confidence, and how many others by age.
fn count_prunable(db: &mut Connection, plan: &Plan, lost: f64) -> Result<(u64, u64), PostgresError> {
    let (is_low, is_old) = reasons("$4::double precision", "$5");
    let sql = on_prunable(
        &format!(
            "SELECT count(*) FILTER (WHERE {is_low}), count(*) FILTER (WHERE NOT ({is_low}) AND {is_old}) FROM ctxbridge.entries"
        ),
        "",
    );
    let row = db.one(&sql, &[&NEWEST, &plan.active_after_ms, &lost, &plan.old_before_ms])?;
    Ok((row.unsigned(0)?, row.unsigned(1)?))
}

const NEWEST: i64 = SPARED_NEWEST as i64;

/// Prunes them.
fn prune(db: &mut Connection, plan: &Plan, lost: f64) -> Result<(u64, u64), PostgresError> {
    let update = "UPDATE ctxbridge.entries SET confidence = 0";
    let (is_low, is_old) = reasons("$4::double precision", "$4");
    let by_confidence = db.execute(&on_prunable(update, &format!("AND {is_low}")), &[&NEWEST, &plan.active_after_ms, &lost])?;
    let by_age =
        db.execute(&on_prunable(update, &format!("AND {is_old}")), &[&NEWEST, &plan.active_after_ms, &plan.old_before_ms])?;
    Ok((by_confidence, by_age))
}

/// Notes down for each conversation where its hot turns begin, so that looking for the best of them does not lead through all that
/// were pruned.
fn move_hot_from(db: &mut Connection) -> Result<(), PostgresError> {
    db.execute(
        "WITH found AS MATERIALIZED (
            SELECT t.id, coalesce((
                SELECT min(u.started_ms) FROM ctxbridge.turns u
                JOIN ctxbridge.entries e ON e.tenant = u.tenant AND e.id = u.entry AND e.owner = u.owner
                WHERE u.tenant = $1 AND u.session = t.session AND u.transcript = t.id AND u.owner = t.owner AND u.superseded IS NULL
                AND u.started_ms >= coalesce(t.hot_from, $2) AND e.access_count = 0 AND e.confidence IS DISTINCT FROM 0
            ), $3) AS ms
            FROM ctxbridge.transcripts t WHERE t.tenant = $1 AND t.owner = session_user::text AND t.agent IS NULL
         )
         UPDATE ctxbridge.transcripts SET hot_from = found.ms FROM found
         WHERE transcripts.tenant = $1 AND transcripts.owner = session_user::text AND found.id = transcripts.id
            AND hot_from IS DISTINCT FROM found.ms",
        &[&i64::MIN, &NEVER],
    )
    .map(drop)
}

/// Takes note of turns of a transcript that are hot, whenever they began.
pub(super) fn hot_turns(db: &mut Connection, transcript: i64, started_ms: i64) -> Result<(), PostgresError> {
    let sql = "UPDATE ctxbridge.transcripts SET hot_from = $3
        WHERE tenant = $1 AND id = $2 AND owner = session_user::text AND hot_from > $3";
    db.execute(sql, &[&transcript, &started_ms]).map(drop)
}

/// What is said again is hot again, and as old as it is: the next cycle that may prune it looks at it anew.
pub(super) fn revive(db: &mut Connection, entries: &[i64]) -> Result<(), PostgresError> {
    let revived = db.all(
        "UPDATE ctxbridge.entries SET confidence = NULL
         WHERE tenant = $1 AND owner = session_user::text AND id = ANY ($2) AND confidence = 0 RETURNING id",
        &[&entries],
    )?;
    if revived.is_empty() {
        return Ok(());
    }
    let revived: Vec<i64> = revived.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
    db.execute(
        "UPDATE ctxbridge.transcripts SET hot_from = NULL
         WHERE tenant = $1 AND owner = session_user::text AND hot_from IS NOT NULL AND id IN
            (SELECT transcript FROM ctxbridge.turns WHERE tenant = $1 AND owner = session_user::text AND entry = ANY ($2))",
        &[&revived],
    )
    .map(drop)
}

/// Counts a restore of entries and trusts them a little more; an entry that is named twice was restored twice.
pub(super) fn touch(db: &mut Connection, entries: &[i64], now_ms: i64) -> Result<(), PostgresError> {
    let sql = format!(
        "UPDATE ctxbridge.entries SET access_count = access_count + 1, accessed_ms = $3,
            confidence = {LOST} + least(1::double precision, {} + {})
         WHERE tenant = $1 AND id = $2 AND owner = session_user::text",
        confidence(LOST),
        float(CONFIDENCE_BOOST)
    );
    for entry in entries {
        db.execute(&sql, &[entry, &now_ms])?;
    }
    Ok(())
}

/// Raises what is known of one's own entries; those that are new have it as it is said. One that was pruned stays so, unless it was restored
/// elsewhere since.
pub(super) fn adopt(db: &mut Connection, adopted: &[Adopted]) -> Result<usize, PostgresError> {
    let known = confidence(LOST);
    let sql = format!(
        "UPDATE ctxbridge.entries SET access_count = greatest(access_count, $3), accessed_ms = greatest(accessed_ms, $4),
            confidence = {LOST} + CASE WHEN $6 THEN $5 ELSE greatest({known}, $5) END
         WHERE tenant = $1 AND id = $2 AND owner = session_user::text AND summary IS NULL
            AND (access_count < $3 OR confidence IS DISTINCT FROM 0)
            AND (access_count < $3 OR coalesce(accessed_ms, 0) < coalesce($4, 0) OR {known} < $5 - {tolerance}
                OR ($6 AND {known} > $5 + {tolerance}))",
        tolerance = float(TOLERANCE)
    );
    let mut changed = 0;
    for one in adopted {
        let count = i32::try_from(one.access_count).unwrap_or(i32::MAX);
        changed += db.execute(&sql, &[&one.entry, &count, &one.accessed_ms, &one.confidence, &one.is_new])?;
    }
    Ok(changed as usize)
}
