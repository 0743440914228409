/*!
The archive learns from use: entries that are needed again gain confidence and stay hot, those that never are leave the hot set.

Pure functions decide a cycle: [`plan()`] makes a [`MaintenancePlan`] of a few [`ArchiveStats`], the [`RetentionSettings`] and the
clock, and [`MaintenancePlan::decide`] decides about each entry. A store carries the plan out in one transaction. So a cycle that is
killed has not happened, and one that is run again at the same time changes nothing.

Pruning deletes nothing. A pruned entry is not ranked after a compaction ([`TurnSelection::Candidates`]) and need not be indexed.
Its bytes stay, so that transcripts can be rebuilt and handles still work. The entry is hot again once it is restored, recalled, or
said again. A pinned entry is [`EntryUsage::is_spared`] as well. Storage of the bytes is a separate matter ([`super::tier`]).

[`TurnSelection::Candidates`]: super::store::TurnSelection::Candidates
*/

mod confidence;
mod retention;

pub use confidence::{boosted, decayed, loss};
pub use retention::{HotSetUsage, Reason, Retention, retention};

use serde::{Deserialize, Serialize};

use ctxbridge_config as config;

/// Entries that were never restored are pruned at this confidence or below.
pub const PRUNE_CONFIDENCE: f64 = 0.15;

/// Maximum difference of two confidences that count as equal: sums of small numbers are not exact.
pub const CONFIDENCE_TOLERANCE: f64 = 1e-9;

/// Number of newest turns of each session that are never pruned: a restore begins with them, whatever they are worth.
pub const SPARED_NEWEST: usize = 3;

/// Time after its last turn for which a session that was not ended counts as active.
const ACTIVE_MS: i64 = DAY_MS;
const DAY_MS: i64 = 86_400_000;

/// State of the archive that a cycle depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArchiveStats {
    /// Time of the last cycle, in milliseconds since 1970; `None` before the first.
    pub last_ms: Option<i64>,
    /// Size of the archive on disk and use of the hot set.
    pub usage: HotSetUsage,
}

/// The user's settings for retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionSettings {
    /// Days after which an entry that was never restored is pruned.
    pub retention_days: u32,
    /// `true` if these days are adapted to size and use.
    pub is_adaptive: bool,
    /// Size on disk above which retention gets shorter; `None` for no limit.
    pub target_bytes: Option<u64>,
}

impl From<&config::ArchiveSettings> for RetentionSettings {
    fn from(config: &config::ArchiveSettings) -> Self {
        let target = config.size_target_mb;
        Self {
            retention_days: config.retention_days,
            is_adaptive: config.adaptive_retention,
            target_bytes: (target > 0).then(|| target.saturating_mul(1 << 20)),
        }
    }
}

/// Plan of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaintenancePlan {
    /// The clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// Time since the last cycle, in milliseconds; 0 for the first one, and when the clock went back.
    pub elapsed_ms: i64,
    /// Loss of every confidence, down to [`super::MIN_CONFIDENCE`].
    #[serde(with = "ctxbridge_common::serde_f64_bits")]
    pub loss: f64,
    /// Retention of entries that nobody restores.
    pub retention: Retention,
    /// Entries last said before this time, in milliseconds since 1970, are old.
    pub old_before_ms: i64,
    /// A session with a turn after this time, in milliseconds since 1970, that was not ended since, is active.
    pub active_after_ms: i64,
}

/// Use of an entry, as known before a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EntryUsage {
    /// Confidence of the entry.
    pub confidence: f64,
    /// Number of times that it was restored or recalled.
    pub access_count: u32,
    /// Start of its newest turn, in milliseconds since 1970; 0 if not all of its turns have a time.
    pub newest_ms: i64,
    /// `true` if it is never pruned: summaries of compactions, the newest turns of a session, active sessions.
    pub is_spared: bool,
}

/// Decision about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneDecision {
    /// It stays where it is.
    Keep,
    /// It is pruned: its confidence is too low.
    PruneByConfidence,
    /// It is pruned: it is older than the retention.
    PruneByAge,
}

/// Plans a cycle.
pub fn plan(facts: &ArchiveStats, settings: &RetentionSettings, now_ms: i64) -> MaintenancePlan {
    // A clock that went back takes nothing away, and counts from there.
    let elapsed_ms = facts.last_ms.map_or(0, |last| now_ms.saturating_sub(last).max(0));
    let retention = retention(&facts.usage, settings);
    MaintenancePlan {
        now_ms,
        elapsed_ms,
        loss: loss(elapsed_ms),
        retention,
        old_before_ms: now_ms.saturating_sub(i64::from(retention.days) * DAY_MS),
        active_after_ms: now_ms.saturating_sub(ACTIVE_MS),
    }
}

impl MaintenancePlan {
    /// Hours since the last cycle.
    pub fn elapsed_hours(&self) -> f64 {
        confidence::hours(self.elapsed_ms)
    }

    /// Decides whether to prune an entry: the rule for every store. A store with a database expresses the same rule as a query.
    pub fn decide(&self, known: &EntryUsage) -> PruneDecision {
        if known.access_count > 0 || known.is_spared {
            return PruneDecision::Keep;
        }
        if decayed(known.confidence, self.loss) <= PRUNE_CONFIDENCE + CONFIDENCE_TOLERANCE {
            return PruneDecision::PruneByConfidence;
        }
        let is_old = known.newest_ms > 0 && known.newest_ms < self.old_before_ms;
        if is_old { PruneDecision::PruneByAge } else { PruneDecision::Keep }
    }

    /// `true` if a session is active, by the end of its last turn and the time when the client ended it, in milliseconds since
    /// 1970.
    pub fn is_active(&self, last_ms: Option<i64>, ended_ms: Option<i64>) -> bool {
        last_ms.is_some_and(|last| last > self.active_after_ms && ended_ms.is_none_or(|ended| ended < last))
    }
}

/// Mode of a cycle: carry it out, or only report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintenanceMode {
    /// Carry it out.
    Apply,
    /// Only report the changes it would make.
    DryRun,
}

/// Changes that a cycle made, or would make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaintenanceReport {
    /// Plan that was followed.
    pub plan: MaintenancePlan,
    /// Entries whose confidence fell.
    pub decayed: u64,
    /// Entries that were pruned because of their low confidence.
    pub pruned_by_confidence: u64,
    /// Other entries that were pruned because they are old.
    pub pruned_by_age: u64,
    /// Hot entries afterwards.
    pub hot: u64,
    /// Pruned entries afterwards, of this cycle and earlier ones.
    pub pruned: u64,
}
