/*!
The archive learns from use: what is needed again is trusted and kept at hand, what never is leaves the hot set.

A cycle is decided by pure functions: [`plan()`] makes a [`Plan`] of a few [`Facts`], the [`Settings`] and the clock, and
[`Plan::verdict`] says of an entry what becomes of it. A store carries the plan out in one transaction, so that a cycle that is
killed has not happened, and one that is run again at the same time changes nothing.

Pruning deletes nothing. A pruned entry is not ranked after a compaction ([`super::store::Turns::Candidates`]) and need not be
indexed; its bytes stay, so that transcripts come back whole and handles lead to it. It is hot again once it is restored, recalled,
or said again. A tag that keeps an entry is another reason to be [`Known::is_spared`]. Where bytes are is another matter ([`super::tier`]).
*/

mod confidence;
mod retention;

pub use confidence::{boosted, decayed, loss};
pub use retention::{Reason, Retention, Usage, retention};

use serde::{Deserialize, Serialize};

use super::context;
use super::store::{Store, StoreError};
use ctxbridge_config as config;

/// What nobody ever restored is pruned at this confidence or below (archive.md, "Self-learning").
pub const PRUNE_CONFIDENCE: f64 = 0.15;

/// How far apart two confidences are that are the same: sums of small numbers are not exact.
pub const TOLERANCE: f64 = 1e-9;

/// The newest turns of each session that are never pruned: a restore begins with them, whatever they are worth.
pub const SPARED_NEWEST: usize = context::NEWEST;

/// For how long after its last turn a session that was not ended is still going on.
const ACTIVE_MS: i64 = DAY_MS;
const DAY_MS: i64 = 86_400_000;

/// What a cycle depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    /// When the last cycle was, in milliseconds since 1970; nothing before the first.
    pub last_ms: Option<i64>,
    /// Size of the archive on disk and use of the hot set.
    pub usage: Usage,
}

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Days after which an entry that was never restored is pruned.
    pub retention_days: u32,
    /// Whether these days are adapted to size and use.
    pub is_adaptive: bool,
    /// Size on disk from which on they are fewer; nothing where any size will do.
    pub target_bytes: Option<u64>,
}

impl From<&config::Archive> for Settings {
    fn from(config: &config::Archive) -> Self {
        let target = config.size_target_mb;
        Self {
            retention_days: config.retention_days,
            is_adaptive: config.adaptive_retention,
            target_bytes: (target > 0).then(|| target.saturating_mul(1 << 20)),
        }
    }
}

/// What a cycle does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// Time since the last cycle, in milliseconds; 0 for the first one, and when the clock went back.
    pub elapsed_ms: i64,
    /// What every confidence falls by, down to [`super::LEAST_CONFIDENCE`].
    #[serde(with = "ctxbridge_common::exact")]
    pub loss: f64,
    /// For how long entries that nobody restores are kept hot.
    pub retention: Retention,
    /// What was said last before this, in milliseconds since 1970, is old.
    pub old_before_ms: i64,
    /// A session with a turn after this, in milliseconds since 1970, that was not ended since, is going on.
    pub active_after_ms: i64,
}

/// What is known of an entry before a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// How far it is trusted.
    pub confidence: f64,
    /// How often it was restored or recalled.
    pub access_count: u32,
    /// When the newest of its turns began, in milliseconds since 1970; 0 when not all of them say.
    pub newest_ms: i64,
    /// Whether it stays whatever it is worth: summaries of compactions, the newest turns of a session, sessions that go on.
    pub is_spared: bool,
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays where it is.
    Keep,
    /// It is pruned: it is hardly trusted any more.
    PruneByConfidence,
    /// It is pruned: it is older than the retention.
    PruneByAge,
}

/// Plans a cycle.
pub fn plan(facts: &Facts, settings: &Settings, now_ms: i64) -> Plan {
    // A clock that went back takes nothing away, and counts from there.
    let elapsed_ms = facts.last_ms.map_or(0, |last| now_ms.saturating_sub(last).max(0));
    let retention = retention(&facts.usage, settings);
    Plan {
        now_ms,
        elapsed_ms,
        loss: loss(elapsed_ms),
        retention,
        old_before_ms: now_ms.saturating_sub(i64::from(retention.days) * DAY_MS),
        active_after_ms: now_ms.saturating_sub(ACTIVE_MS),
    }
}

impl Plan {
    /// Hours since the last cycle.
    pub fn elapsed_hours(&self) -> f64 {
        confidence::hours(self.elapsed_ms)
    }

    /// What becomes of an entry: the rule for every store. One that keeps its entries in a database says the same in a query.
    pub fn verdict(&self, known: &Known) -> Verdict {
        if known.access_count > 0 || known.is_spared {
            return Verdict::Keep;
        }
        if decayed(known.confidence, self.loss) <= PRUNE_CONFIDENCE + TOLERANCE {
            return Verdict::PruneByConfidence;
        }
        let is_old = known.newest_ms > 0 && known.newest_ms < self.old_before_ms;
        if is_old { Verdict::PruneByAge } else { Verdict::Keep }
    }

    /// Whether a session goes on, from the end of its last turn and when the client ended it, in milliseconds since 1970.
    pub fn is_active(&self, last_ms: Option<i64>, ended_ms: Option<i64>) -> bool {
        last_ms.is_some_and(|last| last > self.active_after_ms && ended_ms.is_none_or(|ended| ended < last))
    }
}

/// Whether a cycle is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// It is.
    Real,
    /// It is only said what it would do.
    Dry,
}

/// What a cycle did, or would do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// What it went by.
    pub plan: Plan,
    /// Entries whose confidence fell.
    pub decayed: u64,
    /// Entries that were pruned because they are hardly trusted.
    pub pruned_by_confidence: u64,
    /// Other entries that were pruned because they are old.
    pub pruned_by_age: u64,
    /// Hot entries afterwards.
    pub hot: u64,
    /// Pruned entries afterwards, of this cycle and earlier ones.
    pub pruned: u64,
}

/// One cycle: decay and pruning in one transaction.
///
/// # Errors
/// When the store cannot be read or written.
pub fn run(store: &mut dyn Store, settings: &Settings, run: Run, now_ms: i64) -> Result<Outcome, StoreError> {
    store.cycle(run, &|facts| plan(facts, settings, now_ms))
}
