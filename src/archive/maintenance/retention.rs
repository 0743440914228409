//! Retention of entries that nobody restores, by the size of the archive and the used part of it.

use serde::{Deserialize, Serialize};

use super::RetentionSettings;

/// Adapted retention is never shorter than a week: the half-life of importance, before which a turn still counts half.
const MIN_ADAPTED_DAYS: u32 = 7;

/// Adapted retention is never longer than a year.
const MAX_ADAPTED_DAYS: u32 = 365;

/// Gain when all of the hot set was restored: three times the retention.
const GAIN_OF_USE: f64 = 2.0;

/// Size of the archive, and use of its hot set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotSetUsage {
    /// Bytes on disk.
    pub bytes: u64,
    /// Entries in the hot set.
    pub hot: u64,
    /// Those of them that were ever restored.
    pub restored: u64,
}

/// Time that an entry that is never restored stays in the hot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Days.
    pub days: u32,
    /// Reason for a number of days other than the setting's.
    pub reason: Reason,
}

/// Reason for the retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It is as set.
    AsSet,
    /// Shorter, since the archive is larger than it should be.
    Size,
    /// Longer, since much of what is hot was needed again.
    Use,
}

/// `days = setting × min(1, target / bytes) × (1 + 2 × restored / hot)`, rounded, and within 7 and 365 unless the setting itself is
/// not.
///
/// An archive grows by about as much every day. So one of twice its target size has twice the days in it, and half the retention
/// leaves about what the target would have: fewer turns to rank, to index and to embed. Use works against that. Restored entries
/// show that old turns matter here, and the next one to be needed is among those that were not needed yet. The larger the restored
/// part of the hot set, the longer the others wait, up to three times as long. If nothing was restored and the archive is small,
/// the days are those of the setting.
pub fn retention(usage: &HotSetUsage, settings: &RetentionSettings) -> Retention {
    let set = settings.retention_days;
    if !settings.is_adaptive {
        return Retention { days: set, reason: Reason::AsSet };
    }
    let size = settings.target_bytes.map_or(1.0, |target| (target as f64 / usage.bytes.max(1) as f64).min(1.0));
    let used = usage.restored.min(usage.hot) as f64 / usage.hot.max(1) as f64;
    let days = (f64::from(set) * size * (1.0 + GAIN_OF_USE * used)).round() as u32;
    let days = days.clamp(MIN_ADAPTED_DAYS.min(set), MAX_ADAPTED_DAYS.max(set));
    let reason = match days.cmp(&set) {
        std::cmp::Ordering::Less => Reason::Size,
        std::cmp::Ordering::Equal => Reason::AsSet,
        std::cmp::Ordering::Greater => Reason::Use,
    };
    Retention { days, reason }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MB: u64 = 1 << 20;

    fn settings(retention_days: u32, target: Option<u64>) -> RetentionSettings {
        RetentionSettings { retention_days, is_adaptive: true, target_bytes: target }
    }

    fn days(bytes: u64, hot: u64, restored: u64, settings: &RetentionSettings) -> (u32, Reason) {
        let Retention { days, reason } = retention(&HotSetUsage { bytes, hot, restored }, settings);
        (days, reason)
    }

    #[test]
    fn in_numbers() {
        let usual = settings(30, Some(2_000 * MB));
        assert_eq!(days(0, 0, 0, &usual), (30, Reason::AsSet));
        assert_eq!(days(2_000 * MB, 10_000, 0, &usual), (30, Reason::AsSet));
        assert_eq!(days(4_000 * MB, 10_000, 0, &usual), (15, Reason::Size));
        assert_eq!(days(100_000 * MB, 10_000, 0, &usual), (7, Reason::Size), "never shorter than a week");
        assert_eq!(days(100 * MB, 10_000, 5_000, &usual), (60, Reason::Use));
        assert_eq!(days(100 * MB, 10_000, 10_000, &usual), (90, Reason::Use));
        assert_eq!(days(4_000 * MB, 10_000, 5_000, &usual), (30, Reason::AsSet), "one makes up for the other");
        assert_eq!(days(100 * MB, 10, 10, &settings(200, None)), (365, Reason::Use), "never longer than a year");
        assert_eq!(days(u64::MAX, 10, 0, &settings(30, None)), (30, Reason::AsSet), "any size will do");
        assert_eq!(days(u64::MAX, 10, 0, &settings(3, Some(1))), (3, Reason::AsSet), "the user's own word counts");
        assert_eq!(days(1, 10, 10, &settings(4_000, None)), (4_000, Reason::AsSet));
        assert_eq!(days(u64::MAX, 10, 10, &RetentionSettings { is_adaptive: false, ..usual }), (30, Reason::AsSet));
    }

    proptest! {
        #[test]
        fn shorter_when_larger_and_longer_when_used(
            set in 1..36_500_u32, target in proptest::option::of(1..u64::MAX), hot in 0..u64::MAX,
            (bytes, more_bytes) in (any::<u64>(), any::<u64>()), (restored, more_restored) in (any::<u64>(), any::<u64>()),
        ) {
            let settings = settings(set, target);
            let now = days(bytes, hot, restored, &settings).0;
            prop_assert!(days(bytes.saturating_add(more_bytes), hot, restored, &settings).0 <= now);
            prop_assert!(days(bytes, hot, restored.saturating_add(more_restored), &settings).0 >= now);
            prop_assert!((7.min(set)..=365.max(set)).contains(&now), "{now}");
            prop_assert!(now <= set || restored > 0);
            prop_assert!(now >= set || target.is_some_and(|target| bytes > target));
        }

        #[test]
        fn never_shorter_for_who_wants_it_longer(set in 1..36_500_u32, more in 0..1_000_u32, bytes in any::<u64>(), restored in 0..100_u64) {
            let day = |set| days(bytes, 100, restored, &settings(set, Some(2_000 * MB))).0;
            prop_assert!(day(set) <= day(set + more));
        }
    }
}
