//! What becomes of a session, by what is known of it and the clock. Nothing is looked up here.

use super::Settings;

const DAY_MS: i64 = 86_400_000;

/// Where the bytes of a session are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// In the database, as hooks put them there.
    Hot,
    /// In the database, compressed anew.
    Warm,
    /// In a file of their own.
    Cold,
}

impl Tier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hot, Self::Warm, Self::Cold];

    /// A word for it that is stable.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Warm => "warm",
            Self::Cold => "cold",
        }
    }
}

/// What is known of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The end of its last turn or, if that was later, when something of it was restored or recalled last, in milliseconds since 1970;
    /// nothing where no line says.
    pub used_ms: Option<i64>,
    /// Whether the user keeps a turn of it at hand.
    pub has_kept: bool,
    /// When it was moved to a file, if it was, in milliseconds since 1970.
    pub moved_ms: Option<i64>,
    /// Whether it has something that this file does not have.
    pub has_grown: bool,
}

/// What becomes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays where it is.
    Stay,
    /// It is compressed anew, as far as it is not yet.
    Warm,
    /// It is moved to a file of its own.
    Cold,
    /// It comes back from there.
    Back,
}

/// What becomes of a session now.
///
/// A session that goes on was used within a day, and days are the least that can be waited for: so it is never moved. One that was used
/// since it was moved comes back, since what was needed once is needed again; that the days are others now is no reason.
pub fn verdict(known: &Known, settings: &Settings, now_ms: i64) -> Verdict {
    let is_cold = settings.cold_folder.is_some() && !known.has_kept && is_idle(known, settings.cold_after_days, now_ms);
    match known.moved_ms {
        Some(_) if known.has_kept => Verdict::Back,
        Some(moved) if !is_cold && known.used_ms.is_some_and(|used| used > moved) => Verdict::Back,
        Some(_) if is_cold && known.has_grown => Verdict::Cold,
        Some(_) => Verdict::Stay,
        None if is_cold => Verdict::Cold,
        None if may_be_warm(known, settings, now_ms) => Verdict::Warm,
        None => Verdict::Stay,
    }
}

/// Whether what a session has in the database may be compressed anew.
pub fn may_be_warm(known: &Known, settings: &Settings, now_ms: i64) -> bool {
    is_idle(known, settings.warm_after_days, now_ms)
}

/// Whether a session was not used for so many days; never where they are 0, or nobody knows.
fn is_idle(known: &Known, days: u32, now_ms: i64) -> bool {
    days > 0 && known.used_ms.is_some_and(|used| now_ms.saturating_sub(used) >= i64::from(days) * DAY_MS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    fn settings(warm_after_days: u32, cold_after_days: u32, has_folder: bool) -> Settings {
        Settings { warm_after_days, cold_after_days, cold_folder: has_folder.then(|| "/mnt/cold".into()) }
    }

    fn idle(days: i64) -> Known {
        Known { used_ms: Some(NOW - days * DAY_MS), ..Known::default() }
    }

    fn moved(days_ago: i64, known: Known) -> Known {
        Known { moved_ms: Some(NOW - days_ago * DAY_MS), ..known }
    }

    #[test]
    fn in_days() {
        let usual = settings(30, 180, true);
        let of = |known: &Known| verdict(known, &usual, NOW);
        assert_eq!([0, 29, 30, 179, 180, 9_000].map(|days| of(&idle(days))), {
            use Verdict::{Cold, Stay, Warm};
            [Stay, Stay, Warm, Warm, Cold, Cold]
        });
        assert_eq!(of(&Known { has_kept: true, ..idle(900) }), Verdict::Warm, "what is kept stays at hand");
        assert_eq!(of(&Known::default()), Verdict::Stay, "nobody knows how old it is");
        assert_eq!(of(&idle(-5)), Verdict::Stay, "a clock that was wrong");
        assert_eq!(of(&moved(10, idle(200))), Verdict::Stay);
        assert_eq!(of(&moved(10, idle(2))), Verdict::Back, "it was used since");
        assert_eq!(of(&moved(10, Known { has_kept: true, ..idle(200) })), Verdict::Back);
        assert_eq!(of(&moved(10, Known { has_grown: true, ..idle(200) })), Verdict::Cold, "by old lines, which nobody used");
        assert_eq!(of(&moved(300, Known { has_grown: true, ..idle(200) })), Verdict::Cold, "it was used, and that is long ago");
        assert_eq!(verdict(&moved(10, idle(200)), &settings(30, 0, false), NOW), Verdict::Stay, "what is cold stays so");
        assert_eq!(verdict(&moved(10, idle(100)), &settings(30, 365, true), NOW), Verdict::Stay, "other days are no use");
        assert_eq!(verdict(&moved(10, idle(2)), &settings(0, 0, false), NOW), Verdict::Back);
        assert_eq!(verdict(&idle(900), &settings(30, 180, false), NOW), Verdict::Warm);
        assert_eq!(verdict(&idle(900), &settings(0, 0, true), NOW), Verdict::Stay, "never");
    }

    proptest! {
        #[test]
        fn for_all_sessions(
            used_ms in proptest::option::of(any::<i64>()), moved_ms in proptest::option::of(any::<i64>()),
            (has_kept, has_grown, has_folder) in any::<(bool, bool, bool)>(), (warm, cold) in (0..36_500_u32, 0..36_500_u32),
            now_ms in any::<i64>(), later in 0..36_500 * DAY_MS,
        ) {
            let known = Known { used_ms, has_kept, moved_ms, has_grown };
            let settings = settings(warm, cold, has_folder);
            let now = verdict(&known, &settings, now_ms);
            prop_assert_eq!(now, verdict(&known, &settings, now_ms), "it depends on nothing else");
            let is_recent = used_ms.is_some_and(|used| now_ms.saturating_sub(used) < DAY_MS);
            let goes = matches!(now, Verdict::Warm | Verdict::Cold);
            prop_assert!(!goes || used_ms.is_some() && !is_recent, "a session that goes on is never moved");
            prop_assert!(now != Verdict::Cold || has_folder && cold > 0 && !has_kept);
            prop_assert!(now != Verdict::Warm || warm > 0);
            prop_assert!(now != Verdict::Back || moved_ms.is_some());
            prop_assert!(moved_ms.is_none() || now != Verdict::Warm);
            // What is moved now is not brought back by the next look, and what comes back is not moved by it, until it is idle again.
            if now == Verdict::Cold && used_ms.is_some_and(|used| used <= now_ms) {
                let moved = Known { moved_ms: Some(now_ms), has_grown: false, ..known };
                prop_assert_eq!(verdict(&moved, &settings, now_ms.saturating_add(later)), Verdict::Stay);
            }
            if now == Verdict::Back && !has_kept {
                let back = Known { moved_ms: None, ..known };
                prop_assert!(verdict(&back, &settings, now_ms) != Verdict::Cold);
            }
            // Time alone only makes it colder.
            if moved_ms.is_none() {
                let rank = |verdict| match verdict { Verdict::Cold => 2, Verdict::Warm => 1, _ => 0 };
                prop_assert!(rank(verdict(&known, &settings, now_ms.saturating_add(later))) >= rank(now));
            }
        }
    }
}
