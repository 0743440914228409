//! Which release of the client knows which event.
//!
//! The numbers stand in `events.toml`, with where they come from; all of them were seen in runs, on both sides of each boundary.
//! `docs/hooks.md` has what else is known of the client's hooks.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use semver::Version;
use serde::Deserialize;

use super::Event;

/// The first release that heeds exit code 2 of a PreCompact hook. 2.1.104, the one published before, compacts all the same.
pub const PRECOMPACT_BLOCKS_SINCE: Version = Version::new(2, 1, 105);

/// The first release that ignores only the event that it does not know. 2.1.100, the one published before, and all older ones
/// ignore the whole settings file, and say nothing.
pub const UNKNOWN_EVENTS_SPARE_THE_REST_SINCE: Version = Version::new(2, 1, 101);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    since: BTreeMap<Event, Version>,
}

static TABLE: LazyLock<Result<Table, toml::de::Error>> = LazyLock::new(|| toml::from_str(include_str!("events.toml")));

/// The events that this version of the client knows, in the order of [`Event::ALL`].
///
/// A pre-release counts as the release that it leads to.
pub fn known(version: &Version) -> Vec<Event> {
    Event::ALL.into_iter().filter(|event| reached(version, since(*event))).collect()
}

/// The first release that is known to know `event`.
pub fn since(event: Event) -> Option<&'static Version> {
    TABLE.as_ref().ok()?.since.get(&event)
}

/// Whether this version of the client heeds exit code 2 of a PreCompact hook.
pub fn precompact_blocks(version: &Version) -> bool {
    reached(version, Some(&PRECOMPACT_BLOCKS_SINCE))
}

/// Whether an event that this version does not know does no harm to the other hooks in the same file.
pub fn unknown_events_spare_the_rest(version: &Version) -> bool {
    reached(version, Some(&UNKNOWN_EVENTS_SPARE_THE_REST_SINCE))
}

fn reached(version: &Version, since: Option<&Version>) -> bool {
    let release = |version: &Version| (version.major, version.minor, version.patch);
    since.is_some_and(|since| release(version) >= release(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(version: &str) -> Vec<Event> {
        let known = known(&Version::parse(version).expect("a version"));
        Event::ALL.into_iter().filter(|event| !known.contains(event)).collect()
    }

    #[test]
    fn every_event_has_a_first_release() {
        for event in Event::ALL {
            assert!(since(event).is_some(), "{event:?}");
        }
    }

    #[test]
    fn boundaries_are_where_the_releases_have_them() {
        use Event::{PostCompact, SessionEnd, SessionStart};
        for (version, missing) in [
            ("1.0.60", vec![SessionStart, PostCompact, SessionEnd]),
            ("1.0.61", vec![SessionStart, PostCompact, SessionEnd]),
            ("1.0.62", vec![PostCompact, SessionEnd]),
            ("1.0.84", vec![PostCompact, SessionEnd]),
            ("1.0.85", vec![PostCompact]),
            ("2.0.76", vec![PostCompact]),
            ("2.1.75", vec![PostCompact]),
            ("2.1.76", vec![]),
            ("2.1.76-beta.1", vec![]),
            ("2.1.330", vec![]),
        ] {
            assert_eq!(unknown(version), missing, "{version}");
        }
        assert_eq!(known(&Version::new(0, 2, 0)), []);
    }

    #[test]
    fn blocking_begins_with_2_1_105() {
        assert!(!precompact_blocks(&Version::new(2, 1, 104)));
        assert!(precompact_blocks(&Version::new(2, 1, 105)));
        assert!(precompact_blocks(&Version::new(2, 1, 330)));
    }
}
