//! Decay, pruning and reviving of one's own entries. What is to be done is decided by [`ctxbridge_archive::cycle`]; the rows are gone
//! through by the database.

use std::collections::{BTreeMap, HashSet};

use super::connection::Connection;
use super::error::PostgresError;
use super::line::Line;
use ctxbridge_archive::cycle::{Facts, Outcome, PRUNE_CONFIDENCE, Plan, Run, SPARED_NEWEST, TOLERANCE, Usage};
use ctxbridge_archive::store::Adopted;
use ctxbridge_archive::{CONFIDENCE_BOOST, FIRST_CONFIDENCE, LEAST_CONFIDENCE};

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
    let prunable = prunable(db, &plan, lost)?;
    let pruned = if run == Run::Real { prune(db, prunable)? } else { prunable };
    let is_low = |(_, is_low): &&(i64, bool)| *is_low;
    let pruned_by_confidence = pruned.iter().filter(is_low).count() as u64;
    let pruned_by_age = pruned.len() as u64 - pruned_by_confidence;
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
        // The newest ones may have been taken back since the last cycle.
        let sql = "SELECT greatest(
            (SELECT coalesce(max(id), 0) + 1 FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text),
            (SELECT max(first_entry) FROM ctxbridge.decays WHERE tenant = $1 AND owner = session_user::text))";
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

/// The entries that a plan prunes, each with whether that is because it is hardly trusted any more. Those of the newest turns, of sessions that
/// are active, and those that are kept, it does not.
fn prunable(db: &mut Connection, plan: &Plan, lost: f64) -> Result<Vec<(i64, bool)>, PostgresError> {
    let sql = format!(
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
         ), judged AS (
            SELECT id, {} <= {} + {} AS is_low, NOT EXISTS (
                SELECT FROM ctxbridge.turns u WHERE u.tenant = $1 AND u.entry = entries.id AND u.owner = entries.owner
                AND NOT (u.started_ms > 0 AND u.started_ms < $5)) AS is_old
            FROM ctxbridge.entries
            WHERE tenant = $1 AND owner = session_user::text AND access_count = 0 AND summary IS NULL AND confidence IS DISTINCT FROM 0
                AND NOT EXISTS (SELECT FROM spared WHERE spared.entry = entries.id)
         )
         SELECT id, is_low FROM judged WHERE is_low OR is_old",
        confidence("$4::double precision"),
        float(PRUNE_CONFIDENCE),
        float(TOLERANCE),
    );
    let found = db.all(&sql, &[&NEWEST, &plan.active_after_ms, &lost, &plan.old_before_ms])?;
    found.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

const NEWEST: i64 = SPARED_NEWEST as i64;

/// Prunes entries, but for those that were restored meanwhile; says which it did.
fn prune(db: &mut Connection, prunable: Vec<(i64, bool)>) -> Result<Vec<(i64, bool)>, PostgresError> {
    let entries: Vec<i64> = prunable.iter().map(|(entry, _)| *entry).collect();
    let pruned = db.all(
        "UPDATE ctxbridge.entries SET confidence = 0
         WHERE tenant = $1 AND owner = session_user::text AND id = ANY ($2) AND access_count = 0 RETURNING id",
        &[&entries],
    )?;
    let pruned: HashSet<i64> = pruned.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
    Ok(prunable.into_iter().filter(|(entry, _)| pruned.contains(entry)).collect())
}

/// Notes down for each conversation where its hot turns begin, so that looking for the best of them does not lead through all that
/// were pruned.
fn move_hot_from(db: &mut Connection) -> Result<(), PostgresError> {
    let found = db.all(
        "WITH found AS (
            SELECT t.id, t.hot_from, coalesce((
                SELECT min(u.started_ms) FROM ctxbridge.turns u
                JOIN ctxbridge.entries e ON e.tenant = u.tenant AND e.id = u.entry AND e.owner = u.owner
                WHERE u.tenant = $1 AND u.session = t.session AND u.transcript = t.id AND u.owner = t.owner AND u.superseded IS NULL
                AND u.started_ms >= coalesce(t.hot_from, $2) AND e.access_count = 0 AND e.confidence IS DISTINCT FROM 0
            ), $3) AS ms
            FROM ctxbridge.transcripts t WHERE t.tenant = $1 AND t.owner = session_user::text AND t.agent IS NULL
         )
         SELECT id, ms FROM found WHERE hot_from IS DISTINCT FROM ms",
        &[&i64::MIN, &NEVER],
    )?;
    let moved: Vec<(i64, i64)> = found.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect::<Result<_, PostgresError>>()?;
    let (transcripts, times): (Vec<i64>, Vec<i64>) = moved.into_iter().unzip();
    db.execute(
        "UPDATE ctxbridge.transcripts SET hot_from = moved.ms FROM unnest($2::bigint[], $3::bigint[]) AS moved (id, ms)
         WHERE transcripts.tenant = $1 AND transcripts.owner = session_user::text AND transcripts.id = moved.id",
        &[&transcripts, &times],
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
    lock_shared(db)?;
    let mut known = known(db, entries)?;
    for entry in entries {
        if let Some(known) = known.get_mut(entry) {
            known.access_count = known.access_count.saturating_add(1);
            known.accessed_ms = Some(now_ms);
            known.confidence = (known.confidence + CONFIDENCE_BOOST).min(1.0);
        }
    }
    write(db, &known.into_iter().collect::<Vec<_>>())
}

/// Raises what is known of one's own entries; those that are new have it as it is said. One that was pruned stays so, unless it was restored
/// elsewhere since.
pub(super) fn adopt(db: &mut Connection, adopted: &[Adopted]) -> Result<usize, PostgresError> {
    let entries: Vec<i64> = adopted.iter().map(|one| one.entry).collect();
    lock_shared(db)?;
    let mut known = known(db, &entries)?;
    let mut raised = BTreeMap::new();
    let mut changed = 0;
    for one in adopted {
        if let Some(known) = known.get_mut(&one.entry).filter(|known| known.is_raised_by(one)) {
            known.raise(one);
            raised.insert(one.entry, known.clone());
            changed += 1;
        }
    }
    write(db, &raised.into_iter().collect::<Vec<_>>()).map(|()| changed)
}

/// What is known of an entry of one's own.
#[derive(Clone, Debug)]
struct Known {
    access_count: i32,
    accessed_ms: Option<i64>,
    /// After all losses.
    confidence: f64,
    is_pruned: bool,
    is_summary: bool,
}

impl Known {
    /// Whether that says something of a turn which is not known here.
    fn is_raised_by(&self, one: &Adopted) -> bool {
        let is_restored = self.access_count < count(one);
        let is_other =
            self.confidence < one.confidence - TOLERANCE || (one.is_new && self.confidence > one.confidence + TOLERANCE);
        let is_later = self.accessed_ms.unwrap_or(0) < one.accessed_ms.unwrap_or(0);
        !self.is_summary && (is_restored || !self.is_pruned && (is_later || is_other))
    }

    fn raise(&mut self, one: &Adopted) {
        self.access_count = self.access_count.max(count(one));
        self.accessed_ms = self.accessed_ms.max(one.accessed_ms);
        self.confidence = if one.is_new { one.confidence } else { self.confidence.max(one.confidence) };
        self.is_pruned = false;
    }
}

fn count(one: &Adopted) -> i32 {
    i32::try_from(one.access_count).unwrap_or(i32::MAX)
}

/// What is known of entries of one's own, by their ids; nobody else changes them until the transaction ends. What is written is worked out here and
/// not in the statement that writes: a distributed server refuses one that asks for somebody, or another table, within an expression.
fn known(db: &mut Connection, entries: &[i64]) -> Result<BTreeMap<i64, Known>, PostgresError> {
    let sql = format!(
        "SELECT id, access_count, accessed_ms, {}, coalesce(entries.confidence = 0, false), summary IS NOT NULL FROM ctxbridge.entries
         WHERE tenant = $1 AND owner = session_user::text AND id = ANY ($2) ORDER BY id FOR UPDATE",
        confidence(LOST)
    );
    let found = db.all(&sql, &[&entries])?;
    let known = |row: &Line| {
        let known = Known {
            access_count: row.get(1)?,
            accessed_ms: row.get(2)?,
            confidence: row.get(3)?,
            is_pruned: row.get(4)?,
            is_summary: row.get(5)?,
        };
        Ok((row.get(0)?, known))
    };
    found.iter().map(known).collect()
}

/// Writes down how often entries were restored, when they were last, and how far they are trusted.
fn write(db: &mut Connection, known: &[(i64, Known)]) -> Result<(), PostgresError> {
    if known.is_empty() {
        return Ok(());
    }
    let lost = lost(db)?;
    let entries: Vec<i64> = known.iter().map(|(entry, _)| *entry).collect();
    let counts: Vec<i32> = known.iter().map(|(_, known)| known.access_count).collect();
    let times: Vec<Option<i64>> = known.iter().map(|(_, known)| known.accessed_ms).collect();
    let confidences: Vec<f64> = known.iter().map(|(_, known)| lost + known.confidence).collect();
    db.execute(
        "UPDATE ctxbridge.entries SET access_count = known.access_count, accessed_ms = known.accessed_ms, confidence = known.confidence
         FROM unnest($2::bigint[], $3::integer[], $4::bigint[], $5::double precision[]) AS known (id, access_count, accessed_ms, confidence)
         WHERE entries.tenant = $1 AND entries.owner = session_user::text AND entries.id = known.id",
        &[&entries, &counts, &times, &confidences],
    )
    .map(drop)
}
