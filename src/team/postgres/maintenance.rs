//! Decay, pruning and reviving of this user's entries. [`ctxbridge_archive::maintenance`]
//! makes the decisions; the database applies them to the rows.

use std::time::Duration;

use std::collections::{BTreeMap, HashSet};

use super::PostgresStore;
use super::connection::Connection;
use super::error::PostgresError;
use super::row::PostgresRow;
use ctxbridge_archive::maintenance::{
    ArchiveStats, CONFIDENCE_TOLERANCE, HotSetUsage, MaintenanceMode, MaintenancePlan, MaintenanceReport, PRUNE_CONFIDENCE,
    SPARED_NEWEST,
};
use ctxbridge_archive::store::{ImportedUsage, MaintenanceStore, StoreError, UsageWriter};
use ctxbridge_archive::{CONFIDENCE_BOOST, INITIAL_CONFIDENCE, MIN_CONFIDENCE};

/// Longest time for the server to put written rows in order: minutes after millions of rows.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(600);

/// Key of the note with the time of the last cycle.
const LAST_CYCLE_NOTE: &str = "last_optimize_ms";

/// SQL expression: the total loss of confidence in all cycles.
pub(super) const TOTAL_LOSS_SQL: &str =
    "coalesce((SELECT d.lost FROM ctxbridge.decays d WHERE d.tenant = $1 AND d.owner = session_user::text
     ORDER BY d.first_entry DESC LIMIT 1), 0::double precision)";

/// The total loss of confidence so far.
pub(super) fn total_loss(db: &mut Connection) -> Result<f64, PostgresError> {
    db.one(&format!("SELECT {TOTAL_LOSS_SQL} FROM (SELECT $1::text) AS asked"), &[])?.get(0)
}

/// A time later than that of any turn: the transcript has no hot turns.
const NO_HOT_TURN_MS: i64 = i64::MAX;

/// SQL expression: the confidence of a row of `entries` after these losses. A pruned entry has the minimum.
/// Decay of other users' entries applies only to their own view: here, these count as if they had not decayed.
pub(super) fn confidence_sql(lost: &str) -> String {
    format!(
        "CASE WHEN entries.owner = session_user::text THEN greatest({least}, coalesce(entries.confidence, {first} + coalesce(
            (SELECT d.lost FROM ctxbridge.decays d WHERE d.tenant = $1 AND d.owner = session_user::text AND d.first_entry <= entries.id
             ORDER BY d.first_entry DESC LIMIT 1), 0)) - {lost})
         ELSE greatest({least}, least(1::double precision, coalesce(entries.confidence, {first}))) END",
        least = float(MIN_CONFIDENCE),
        first = float(INITIAL_CONFIDENCE),
    )
}

fn float(number: f64) -> String {
    format!("{number:?}::double precision")
}

/// Takes the shared lock, for adding entries: a cycle knows which came before it, and their audience does not change.
pub(super) fn lock_shared(db: &mut Connection) -> Result<(), PostgresError> {
    lock(db, "pg_advisory_xact_lock_shared")
}

/// Takes the exclusive lock, for a cycle or for changing an audience: nobody adds entries meanwhile.
pub(super) fn lock_exclusive(db: &mut Connection) -> Result<(), PostgresError> {
    lock(db, "pg_advisory_xact_lock")
}

fn lock(db: &mut Connection, function: &str) -> Result<(), PostgresError> {
    let sql = format!("SELECT {function}(hashtextextended('ctxbridge cycle ' || $1 || ' ' || session_user::text, 0))");
    db.one(&sql, &[]).map(drop)
}

/// The statistics that a plan is based on. Bytes are those of this user's segments; other tables' sizes are unknown per owner.
pub(super) fn archive_stats(db: &mut Connection) -> Result<ArchiveStats, PostgresError> {
    let sql = "SELECT value FROM ctxbridge.notes WHERE tenant = $1 AND owner = session_user::text AND key = $2";
    let last: Option<String> = db.first(sql, &[&LAST_CYCLE_NOTE])?.map(|row| row.get(0)).transpose()?;
    let row = db.one(
        "SELECT count(*) FILTER (WHERE confidence IS DISTINCT FROM 0), count(*) FILTER (WHERE access_count > 0),
            (SELECT coalesce(sum(packed), 0)::bigint FROM ctxbridge.segments WHERE tenant = $1 AND owner = session_user::text)
         FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text",
        &[],
    )?;
    let usage = HotSetUsage { bytes: row.unsigned(2)?, hot: row.unsigned(0)?, restored: row.unsigned(1)? };
    Ok(ArchiveStats { last_ms: last.and_then(|last| last.parse().ok()), usage })
}

/// Runs one cycle, within a transaction.
pub(super) fn run_maintenance(
    db: &mut Connection,
    run: MaintenanceMode,
    plan: &dyn Fn(&ArchiveStats) -> MaintenancePlan,
) -> Result<MaintenanceReport, PostgresError> {
    if run == MaintenanceMode::Apply {
        lock_exclusive(db)?;
    }
    let facts = archive_stats(db)?;
    self::carry_out(db, run, &facts, plan(&facts))
}

/// Carries a plan out, or reports what would be done.
fn carry_out(
    db: &mut Connection,
    run: MaintenanceMode,
    facts: &ArchiveStats,
    plan: MaintenancePlan,
) -> Result<MaintenanceReport, PostgresError> {
    let before = total_loss(db)?;
    let lost = before + plan.loss;
    let decayed = if plan.loss > 0.0 { count_above_least(db, before)? } else { 0 };
    if run == MaintenanceMode::Apply {
        decay(db, &plan, lost)?;
    }
    let prunable = prunable(db, &plan, lost)?;
    let pruned = if run == MaintenanceMode::Apply { prune(db, prunable)? } else { prunable };
    let is_low = |(_, is_low): &&(i64, bool)| *is_low;
    let pruned_by_confidence = pruned.iter().filter(is_low).count() as u64;
    let pruned_by_age = pruned.len() as u64 - pruned_by_confidence;
    let now_pruned = pruned_by_confidence + pruned_by_age;
    if run == MaintenanceMode::Apply && now_pruned > 0 {
        move_hot_from(db)?;
    }
    let sql = "SELECT count(*) FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text";
    let entries = db.one(sql, &[])?.unsigned(0)?;
    let hot = facts.usage.hot.saturating_sub(now_pruned);
    Ok(MaintenanceReport { plan, decayed, pruned_by_confidence, pruned_by_age, hot, pruned: entries - hot })
}

/// Number of hot entries with more than the minimum confidence.
fn count_above_least(db: &mut Connection, lost: f64) -> Result<u64, PostgresError> {
    let sql = format!(
        "SELECT count(*) FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text AND confidence IS DISTINCT FROM 0
         AND {} > {} + {}",
        confidence_sql("$2::double precision"),
        float(MIN_CONFIDENCE),
        float(CONFIDENCE_TOLERANCE)
    );
    db.one(&sql, &[&lost])?.unsigned(0)
}

/// Records the total loss and the time of this cycle.
fn decay(db: &mut Connection, plan: &MaintenancePlan, lost: f64) -> Result<(), PostgresError> {
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
            &[&(lost - (INITIAL_CONFIDENCE - MIN_CONFIDENCE))],
        )?;
    }
    db.execute(
        "INSERT INTO ctxbridge.notes (tenant, key, value) VALUES ($1, $2, $3)
         ON CONFLICT (tenant, owner, key) DO UPDATE SET value = excluded.value",
        &[&LAST_CYCLE_NOTE, &plan.now_ms.to_string()],
    )
    .map(drop)
}

/// The entries that a plan prunes. The flag is `true` if the reason is low confidence, and `false`
/// if it is age. Entries of the newest turns, of active sessions and of kept turns are spared.
fn prunable(db: &mut Connection, plan: &MaintenancePlan, lost: f64) -> Result<Vec<(i64, bool)>, PostgresError> {
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
        confidence_sql("$4::double precision"),
        float(PRUNE_CONFIDENCE),
        float(CONFIDENCE_TOLERANCE),
    );
    let found = db.all(&sql, &[&SPARED_NEWEST_TURNS, &plan.active_after_ms, &lost, &plan.old_before_ms])?;
    found.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}

const SPARED_NEWEST_TURNS: i64 = SPARED_NEWEST as i64;

/// Prunes entries, except those that were restored meanwhile. Returns the pruned ones.
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

/// Records for each conversation where its hot turns start,
/// so that queries for the best of them skip the pruned ones.
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
        &[&i64::MIN, &NO_HOT_TURN_MS],
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

/// Records that a transcript has hot turns that started at this time.
pub(super) fn hot_turns(db: &mut Connection, transcript: i64, started_ms: i64) -> Result<(), PostgresError> {
    let sql = "UPDATE ctxbridge.transcripts SET hot_from = $3
        WHERE tenant = $1 AND id = $2 AND owner = session_user::text AND hot_from > $3";
    db.execute(sql, &[&transcript, &started_ms]).map(drop)
}

/// Makes entries hot that were said again. They keep their age, so the next cycle judges them again.
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

/// Usage of an entry of this user.
#[derive(Clone, Debug)]
struct StoredUsage {
    access_count: i32,
    accessed_ms: Option<i64>,
    /// After all losses.
    confidence: f64,
    is_pruned: bool,
    is_summary: bool,
}

impl StoredUsage {
    /// `true` if the imported usage adds something.
    fn is_raised_by(&self, one: &ImportedUsage) -> bool {
        let is_restored = self.access_count < count(one);
        let is_other = self.confidence < one.confidence - CONFIDENCE_TOLERANCE
            || (one.is_new && self.confidence > one.confidence + CONFIDENCE_TOLERANCE);
        let is_later = self.accessed_ms.unwrap_or(0) < one.accessed_ms.unwrap_or(0);
        !self.is_summary && (is_restored || !self.is_pruned && (is_later || is_other))
    }

    fn raise(&mut self, one: &ImportedUsage) {
        self.access_count = self.access_count.max(count(one));
        self.accessed_ms = self.accessed_ms.max(one.accessed_ms);
        self.confidence = if one.is_new { one.confidence } else { self.confidence.max(one.confidence) };
        self.is_pruned = false;
    }
}

fn count(one: &ImportedUsage) -> i32 {
    i32::try_from(one.access_count).unwrap_or(i32::MAX)
}

/// Usage of this user's entries, by id. The rows stay locked until the transaction ends. New values are computed here and not in
/// the statement that writes them: a distributed server refuses one whose expressions use the session's user or another table.
fn lock_usage(db: &mut Connection, entries: &[i64]) -> Result<BTreeMap<i64, StoredUsage>, PostgresError> {
    let sql = format!(
        "SELECT id, access_count, accessed_ms, {}, coalesce(entries.confidence = 0, false), summary IS NOT NULL FROM ctxbridge.entries
         WHERE tenant = $1 AND owner = session_user::text AND id = ANY ($2) ORDER BY id FOR UPDATE",
        confidence_sql(TOTAL_LOSS_SQL)
    );
    let found = db.all(&sql, &[&entries])?;
    let known = |row: &PostgresRow| {
        let known = StoredUsage {
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

/// Writes how often entries were restored, when they were last restored, and their confidence.
fn write(db: &mut Connection, known: &[(i64, StoredUsage)]) -> Result<(), PostgresError> {
    if known.is_empty() {
        return Ok(());
    }
    let lost = total_loss(db)?;
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

impl UsageWriter for PostgresStore {
    /// Counts a restore of entries and raises their confidence a little. An entry that is listed twice was restored twice.
    fn touch(&mut self, entries: &[i64], now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| {
            lock_shared(db)?;
            let mut known = lock_usage(db, entries)?;
            for entry in entries {
                if let Some(known) = known.get_mut(entry) {
                    known.access_count = known.access_count.saturating_add(1);
                    known.accessed_ms = Some(now_ms);
                    known.confidence = (known.confidence + CONFIDENCE_BOOST).min(1.0);
                }
            }
            write(db, &known.into_iter().collect::<Vec<_>>())
        })
    }

    /// Raises the usage of this user's entries to the given values; new entries take them as they are. A pruned
    /// entry stays pruned, unless it was restored elsewhere since. Returns the number of changed entries.
    fn merge_usage(&mut self, adopted: &[ImportedUsage]) -> Result<usize, StoreError> {
        self.write(|db| {
            let entries: Vec<i64> = adopted.iter().map(|one| one.entry).collect();
            lock_shared(db)?;
            let mut known = lock_usage(db, &entries)?;
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
        })
    }
}

impl MaintenanceStore for PostgresStore {
    fn run_maintenance(
        &mut self,
        run: MaintenanceMode,
        plan: &dyn Fn(&ArchiveStats) -> MaintenancePlan,
    ) -> Result<MaintenanceReport, StoreError> {
        match run {
            MaintenanceMode::Apply => self.write(|db| run_maintenance(db, run, plan)),
            // All of it as it is now; nothing is written.
            MaintenanceMode::DryRun => self.read(|db| db.snapshot(|db| run_maintenance(db, run, plan))),
        }
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.read(|db| {
            db.transaction(|db| {
                db.extend_timeouts(CHECKPOINT_TIMEOUT)?;
                db.one_without_tenant("SELECT ctxbridge.settle()", &[]).map(drop)
            })
        })
    }

    fn optimize(&mut self) -> Result<(), StoreError> {
        self.write(super::changes::trim_changes)
    }
}
