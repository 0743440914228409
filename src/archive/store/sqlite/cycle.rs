//! Decay, pruning and reviving. [`crate::maintenance`] makes the plan; the database processes the rows.
//!
//! The table `decays` has the confidence lost in all cycles together, so a cycle touches no entry. A pruned entry has confidence 0
//! where a new one has NULL, which takes no room.

use rusqlite::{Connection, OptionalExtension, Result, ToSql, named_params, params};

use super::columns::{PINNED_TURNS, unsigned};
use super::{SqliteQueries, SqliteStore};
use crate::maintenance::{
    ArchiveStats, CONFIDENCE_TOLERANCE, HotSetUsage, MaintenanceMode, MaintenancePlan, MaintenanceReport, PRUNE_CONFIDENCE,
    SPARED_NEWEST,
};
use crate::store::{MaintenanceStore, StoreError};
use crate::{INITIAL_CONFIDENCE, MIN_CONFIDENCE};

/// Key of the note with the time of the last maintenance run.
const LAST_RUN_KEY: &str = "last_optimize_ms";

/// SQL expression: the confidence lost in all maintenance runs together.
pub(super) const TOTAL_LOSS: &str = "coalesce((SELECT lost FROM decays ORDER BY first_entry DESC LIMIT 1), 0.0)";

/// Later than any turn.
const NEVER: i64 = i64::MAX;

/// SQL expression: the confidence of a row of `entries` after these losses. A pruned one has the minimum.
pub(super) fn confidence(lost: &str) -> String {
    format!(
        "max({MIN_CONFIDENCE:?}, coalesce(entries.confidence, {INITIAL_CONFIDENCE:?} + coalesce(
            (SELECT lost FROM decays WHERE first_entry <= entries.id ORDER BY first_entry DESC LIMIT 1), 0.0)) - {lost})"
    )
}

/// Returns the facts that a plan is made from.
fn facts(db: &Connection) -> Result<ArchiveStats> {
    let last: Option<String> =
        db.query_row("SELECT value FROM notes WHERE key = ?1", [LAST_RUN_KEY], |row| row.get(0)).optional()?;
    let bytes =
        db.query_row("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", [], |row| unsigned(row, 0))?;
    let usage = db.query_row(
        "SELECT count(*) FILTER (WHERE confidence IS NOT 0.0), count(*) FILTER (WHERE access_count > 0) FROM entries",
        [],
        |row| Ok(HotSetUsage { bytes, hot: unsigned(row, 0)?, restored: unsigned(row, 1)? }),
    )?;
    Ok(ArchiveStats { last_ms: last.and_then(|last| last.parse().ok()), usage })
}

/// Carries out a plan, or returns its outcome without changes.
fn apply_plan(db: &Connection, mode: MaintenanceMode, facts: &ArchiveStats, plan: MaintenancePlan) -> Result<MaintenanceReport> {
    let before: f64 = db.query_row(&format!("SELECT {TOTAL_LOSS}"), [], |row| row.get(0))?;
    let lost = before + plan.loss;
    let decayed = if plan.loss > 0.0 { count_above_least(db, before)? } else { 0 };
    if mode == MaintenanceMode::Apply {
        decay(db, &plan, lost)?;
    }
    let (pruned_by_confidence, pruned_by_age) = match mode {
        MaintenanceMode::Apply => prune(db, &plan, lost)?,
        MaintenanceMode::DryRun => count_prunable(db, &plan, lost)?,
    };
    let now_pruned = pruned_by_confidence + pruned_by_age;
    if mode == MaintenanceMode::Apply && now_pruned > 0 {
        move_hot_from(db)?;
    }
    let entries: u64 = db.query_row("SELECT count(*) FROM entries", [], |row| unsigned(row, 0))?;
    let hot = facts.usage.hot.saturating_sub(now_pruned);
    Ok(MaintenanceReport { plan, decayed, pruned_by_confidence, pruned_by_age, hot, pruned: entries - hot })
}

/// Counts the hot entries that have confidence to lose.
fn count_above_least(db: &Connection, lost: f64) -> Result<u64> {
    let sql = format!(
        "SELECT count(*) FROM entries WHERE confidence IS NOT 0.0 AND {} > {MIN_CONFIDENCE:?} + {CONFIDENCE_TOLERANCE:?}",
        confidence("?1")
    );
    db.query_row(&sql, [lost], |row| unsigned(row, 0))
}

/// Records the loss and its time.
fn decay(db: &Connection, plan: &MaintenancePlan, lost: f64) -> Result<()> {
    if plan.loss > 0.0 {
        db.execute(
            "INSERT INTO decays (first_entry, lost) VALUES ((SELECT coalesce(max(id), 0) + 1 FROM entries), ?1)
             ON CONFLICT (first_entry) DO UPDATE SET lost = excluded.lost",
            [lost],
        )?;
        // Whatever came as early as that has nothing more to lose, as if it had been there from the begin.
        db.execute("DELETE FROM decays WHERE lost <= ?1", [lost - (INITIAL_CONFIDENCE - MIN_CONFIDENCE)])?;
    }
    db.execute(
        "INSERT INTO notes (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        params![LAST_RUN_KEY, plan.now_ms.to_string()],
    )
    .map(drop)
}

/// Builds a statement on the entries that may be pruned; `spared` lists the others.
fn on_prunable(statement: &str, condition: &str) -> String {
    format!(
        "WITH spared (entry) AS (
            SELECT entry FROM transcripts CROSS JOIN turns ON turns.id IN
                (SELECT id FROM turns AS newest WHERE newest.transcript = transcripts.id AND superseded IS NULL
                 ORDER BY idx DESC LIMIT :newest)
            WHERE agent IS NULL
            UNION ALL
            SELECT entry FROM turns WHERE transcript IN (
                SELECT transcripts.id FROM transcripts JOIN sessions ON sessions.id = transcripts.session
                WHERE last_ms > :active_after AND (ended_ms IS NULL OR ended_ms < last_ms))
            UNION ALL
            SELECT entry FROM {PINNED_TURNS}
         )
         {statement}
         WHERE access_count = 0 AND text IS NULL AND confidence IS NOT 0.0 AND id NOT IN (SELECT entry FROM spared) {condition}"
    )
}

/// SQL expressions: `true` if an entry has a low confidence, and `true` if it is old.
fn reasons() -> (String, String) {
    let is_low = format!("{} <= {PRUNE_CONFIDENCE:?} + {CONFIDENCE_TOLERANCE:?}", confidence(":lost"));
    let is_old = "NOT EXISTS (SELECT 1 FROM turns WHERE turns.entry = entries.id
        AND NOT (started_ms > 0 AND started_ms < :old_before))";
    (is_low, is_old.to_owned())
}

/// Counts the entries that a plan prunes by confidence, and the others that it prunes by age.
fn count_prunable(db: &Connection, plan: &MaintenancePlan, lost: f64) -> Result<(u64, u64)> {
    let (is_low, is_old) = reasons();
    let sql = on_prunable(
        &format!("SELECT count(*) FILTER (WHERE {is_low}), count(*) FILTER (WHERE NOT {is_low} AND {is_old}) FROM entries"),
        "",
    );
    db.query_row(&sql, &parameters(plan, &lost)[..], |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)))
}

/// Prunes these entries.
fn prune(db: &Connection, plan: &MaintenancePlan, lost: f64) -> Result<(u64, u64)> {
    let (is_low, is_old) = reasons();
    let prune = |sql: &str, parameters: &[(&str, &dyn ToSql)]| {
        db.execute(&on_prunable("UPDATE entries SET confidence = 0.0", &format!("AND {sql}")), parameters)
            .map(|count| count as u64)
    };
    let all = parameters(plan, &lost);
    let by_confidence = prune(&is_low, &[all[0], all[1], all[2]])?;
    Ok((by_confidence, prune(&is_old, &[all[0], all[1], all[3]])?))
}

fn parameters<'a>(plan: &'a MaintenancePlan, lost: &'a f64) -> [(&'static str, &'a dyn ToSql); 4] {
    const NEWEST: i64 = SPARED_NEWEST as i64;
    [(":newest", &NEWEST), (":active_after", &plan.active_after_ms), (":lost", lost), (":old_before", &plan.old_before_ms)]
}

/// Records for each conversation the time of its first hot turn, so that ranking does not have to read all the
/// pruned ones.
fn move_hot_from(db: &Connection) -> Result<()> {
    db.execute(
        "UPDATE transcripts SET hot_from = found.ms FROM (
            SELECT id, coalesce((
                SELECT min(started_ms) FROM turns CROSS JOIN entries ON entries.id = entry
                WHERE turns.transcript = transcripts.id AND richness IN (0, 1, 2, 3) AND superseded IS NULL
                AND started_ms >= coalesce(hot_from, :always) AND access_count = 0 AND confidence IS NOT 0.0
            ), :never) AS ms FROM transcripts WHERE agent IS NULL
         ) AS found WHERE found.id = transcripts.id AND hot_from IS NOT found.ms",
        named_params! { ":always": i64::MIN, ":never": NEVER },
    )
    .map(drop)
}

/// Records hot turns of a transcript, starting at this time.
pub(super) fn hot_turns(db: &Connection, transcript: i64, started_ms: i64) -> Result<()> {
    db.prepare_cached("UPDATE transcripts SET hot_from = ?2 WHERE id = ?1 AND hot_from > ?2")?
        .execute([transcript, started_ms])
        .map(drop)
}

/// Makes an entry hot again, since it was said again. Its age stays; the next maintenance run checks it again.
pub(super) fn revive(db: &Connection, entry: i64) -> Result<()> {
    if db.prepare_cached("UPDATE entries SET confidence = NULL WHERE id = ?1 AND confidence = 0.0")?.execute([entry])? > 0 {
        db.prepare_cached(
            "UPDATE transcripts SET hot_from = NULL
             WHERE hot_from IS NOT NULL AND id IN (SELECT transcript FROM turns WHERE entry = ?1)",
        )?
        .execute([entry])?;
    }
    Ok(())
}

impl MaintenanceStore for SqliteStore {
    fn run_maintenance(
        &mut self,
        mode: MaintenanceMode,
        plan: &dyn Fn(&ArchiveStats) -> MaintenancePlan,
    ) -> Result<MaintenanceReport, StoreError> {
        let work = |db: &Connection| {
            let facts = facts(db)?;
            apply_plan(db, mode, &facts, plan(&facts))
        };
        match mode {
            MaintenanceMode::Apply => self.write(work),
            // All of it as it is now; what is begun here is never committed.
            MaintenanceMode::DryRun => self.query(|db| work(&*db.unchecked_transaction()?)),
        }
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        // Readers may be in the way of the last pages: that is no error, and the next time gets them.
        self.query(|db| db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
    }

    fn optimize(&mut self) -> Result<(), StoreError> {
        self.write(super::changes::forget)?;
        self.checkpoint()?;
        self.query(|db| db.execute_batch("PRAGMA optimize"))
    }
}
