//! Decision about a session, by its use and the clock. Nothing is read from the store here.

use super::TierSettings;

const DAY_MS: i64 = 86_400_000;

/// Storage of a session's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// In the database, as hooks put them there.
    Hot,
    /// In the database, recompressed.
    Warm,
    /// In a file of their own.
    Cold,
}

impl Tier {
    /// All tiers.
    pub const ALL: [Self; 3] = [Self::Hot, Self::Warm, Self::Cold];

    /// Stable name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

/// Use of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionUsage {
    /// Time of its last use, in milliseconds since 1970: the end of its last turn or, if later, the last restore or recall. `None`
    /// if no line has a time.
    pub used_ms: Option<i64>,
    /// `true` if the user has pinned a turn of it.
    pub has_kept: bool,
    /// Time when it was moved to a file, if it was, in milliseconds since 1970.
    pub moved_ms: Option<i64>,
    /// `true` if it has something that this file does not have.
    pub has_grown: bool,
}

/// Decision about a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierDecision {
    /// It stays where it is.
    Stay,
    /// It is recompressed, as far as it is not yet.
    Warm,
    /// It is moved to a file of its own.
    Cold,
    /// It comes back from there.
    BringBack,
}

/// Decides about a session.
///
/// An active session was used within a day, and the shortest wait is a day, so it is never moved. A session that was used since it
/// was moved comes back, since it will probably be needed again. Changed settings alone do not bring it back.
pub fn decide_tier(known: &SessionUsage, settings: &TierSettings, now_ms: i64) -> TierDecision {
    let is_cold = settings.cold_folder.is_some() && !known.has_kept && is_idle(known, settings.cold_after_days, now_ms);
    match known.moved_ms {
        Some(_) if known.has_kept => TierDecision::BringBack,
        Some(moved) if !is_cold && known.used_ms.is_some_and(|used| used > moved) => TierDecision::BringBack,
        Some(_) if is_cold && known.has_grown => TierDecision::Cold,
        Some(_) => TierDecision::Stay,
        None if is_cold => TierDecision::Cold,
        None if may_be_warm(known, settings, now_ms) => TierDecision::Warm,
        None => TierDecision::Stay,
    }
}

/// `true` if the session's bytes in the database may be recompressed.
pub fn may_be_warm(known: &SessionUsage, settings: &TierSettings, now_ms: i64) -> bool {
    is_idle(known, settings.warm_after_days, now_ms)
}

/// `true` if a session was not used for `days` days; never for 0 days, or if its last use is unknown.
fn is_idle(known: &SessionUsage, days: u32, now_ms: i64) -> bool {
    days > 0 && known.used_ms.is_some_and(|used| now_ms.saturating_sub(used) >= i64::from(days) * DAY_MS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    fn settings(warm_after_days: u32, cold_after_days: u32, has_folder: bool) -> TierSettings {
        TierSettings { warm_after_days, cold_after_days, cold_folder: has_folder.then(|| "/mnt/cold".into()) }
    }

    fn idle(days: i64) -> SessionUsage {
        SessionUsage { used_ms: Some(NOW - days * DAY_MS), ..SessionUsage::default() }
    }

    fn moved(days_ago: i64, known: SessionUsage) -> SessionUsage {
        SessionUsage { moved_ms: Some(NOW - days_ago * DAY_MS), ..known }
    }

    #[test]
    fn in_days() {
        let usual = settings(30, 180, true);
        let of = |known: &SessionUsage| decide_tier(known, &usual, NOW);
        assert_eq!([0, 29, 30, 179, 180, 9_000].map(|days| of(&idle(days))), {
            use TierDecision::{Cold, Stay, Warm};
            [Stay, Stay, Warm, Warm, Cold, Cold]
        });
        assert_eq!(of(&SessionUsage { has_kept: true, ..idle(900) }), TierDecision::Warm, "what is kept stays at hand");
        assert_eq!(of(&SessionUsage::default()), TierDecision::Stay, "nobody knows how old it is");
        assert_eq!(of(&idle(-5)), TierDecision::Stay, "a clock that was wrong");
        assert_eq!(of(&moved(10, idle(200))), TierDecision::Stay);
        assert_eq!(of(&moved(10, idle(2))), TierDecision::BringBack, "it was used since");
        assert_eq!(of(&moved(10, SessionUsage { has_kept: true, ..idle(200) })), TierDecision::BringBack);
        assert_eq!(
            of(&moved(10, SessionUsage { has_grown: true, ..idle(200) })),
            TierDecision::Cold,
            "by old lines, which nobody used"
        );
        assert_eq!(
            of(&moved(300, SessionUsage { has_grown: true, ..idle(200) })),
            TierDecision::Cold,
            "it was used, and that is long ago"
        );
        assert_eq!(decide_tier(&moved(10, idle(200)), &settings(30, 0, false), NOW), TierDecision::Stay, "what is cold stays so");
        assert_eq!(
            decide_tier(&moved(10, idle(100)), &settings(30, 365, true), NOW),
            TierDecision::Stay,
            "other days are no use"
        );
        assert_eq!(decide_tier(&moved(10, idle(2)), &settings(0, 0, false), NOW), TierDecision::BringBack);
        assert_eq!(decide_tier(&idle(900), &settings(30, 180, false), NOW), TierDecision::Warm);
        assert_eq!(decide_tier(&idle(900), &settings(0, 0, true), NOW), TierDecision::Stay, "never");
    }

    proptest! {
        #[test]
        fn for_all_sessions(
            used_ms in proptest::option::of(any::<i64>()), moved_ms in proptest::option::of(any::<i64>()),
            (has_kept, has_grown, has_folder) in any::<(bool, bool, bool)>(), (warm, cold) in (0..36_500_u32, 0..36_500_u32),
            now_ms in any::<i64>(), later in 0..36_500 * DAY_MS,
        ) {
            let known = SessionUsage { used_ms, has_kept, moved_ms, has_grown };
            let settings = settings(warm, cold, has_folder);
            let now = decide_tier(&known, &settings, now_ms);
            prop_assert_eq!(now, decide_tier(&known, &settings, now_ms), "it depends on nothing else");
            let is_recent = used_ms.is_some_and(|used| now_ms.saturating_sub(used) < DAY_MS);
            let goes = matches!(now, TierDecision::Warm | TierDecision::Cold);
            prop_assert!(!goes || used_ms.is_some() && !is_recent, "a session that goes on is never moved");
            prop_assert!(now != TierDecision::Cold || has_folder && cold > 0 && !has_kept);
            prop_assert!(now != TierDecision::Warm || warm > 0);
            prop_assert!(now != TierDecision::BringBack || moved_ms.is_some());
            prop_assert!(moved_ms.is_none() || now != TierDecision::Warm);
            // What is moved now is not brought back by the next look, and what comes back is not moved by it, until it is idle again.
            if now == TierDecision::Cold && used_ms.is_some_and(|used| used <= now_ms) {
                let moved = SessionUsage { moved_ms: Some(now_ms), has_grown: false, ..known };
                prop_assert_eq!(decide_tier(&moved, &settings, now_ms.saturating_add(later)), TierDecision::Stay);
            }
            if now == TierDecision::BringBack && !has_kept {
                let back = SessionUsage { moved_ms: None, ..known };
                prop_assert!(decide_tier(&back, &settings, now_ms) != TierDecision::Cold);
            }
            // Time alone only makes it colder.
            if moved_ms.is_none() {
                let rank = |verdict| match verdict { TierDecision::Cold => 2, TierDecision::Warm => 1, _ => 0 };
                prop_assert!(rank(decide_tier(&known, &settings, now_ms.saturating_add(later))) >= rank(now));
            }
        }
    }
}
