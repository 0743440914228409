//! Events that each release of the client supports.
//!
//! The versions are in `events.toml`, with their sources; all were verified in runs on both sides of each boundary. `docs/hooks.md`
//! describes the client's hooks.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use semver::Version;
use serde::Deserialize;

use super::Event;

/// First release that respects exit code 2 of a PreCompact hook. 2.1.104, the release before it, compacts anyway.
pub const CAN_BLOCK_COMPACTION_SINCE: Version = Version::new(2, 1, 105);

/// First release that ignores only the unknown event. 2.1.100, the release before it, and all older ones silently ignore the whole
/// settings file.
pub const TOLERATES_UNKNOWN_EVENTS_SINCE: Version = Version::new(2, 1, 101);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventReleases {
    since: BTreeMap<Event, Version>,
}

static TABLE: LazyLock<Result<EventReleases, toml::de::Error>> = LazyLock::new(|| toml::from_str(include_str!("events.toml")));

/// Returns the events that a version of the client supports, in the order of [`Event::ALL`].
///
/// A pre-release counts as its release.
pub fn supported_events(version: &Version) -> Vec<Event> {
    Event::ALL.into_iter().filter(|event| is_at_least(version, since(*event))).collect()
}

/// Returns the first release that is known to support `event`.
pub fn since(event: Event) -> Option<&'static Version> {
    TABLE.as_ref().ok()?.since.get(&event)
}

/// `true` if this version of the client respects exit code 2 of a PreCompact hook.
pub fn can_block_compaction(version: &Version) -> bool {
    is_at_least(version, Some(&CAN_BLOCK_COMPACTION_SINCE))
}

/// `true` if this version ignores only an unknown event, and not the other hooks in the same file.
pub fn tolerates_unknown_events(version: &Version) -> bool {
    is_at_least(version, Some(&TOLERATES_UNKNOWN_EVENTS_SINCE))
}

fn is_at_least(version: &Version, since: Option<&Version>) -> bool {
    let release = |version: &Version| (version.major, version.minor, version.patch);
    since.is_some_and(|since| release(version) >= release(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(version: &str) -> Vec<Event> {
        let known = supported_events(&Version::parse(version).expect("a version"));
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
        assert_eq!(supported_events(&Version::new(0, 2, 0)), []);
    }

    #[test]
    fn blocking_begins_with_2_1_105() {
        assert!(!can_block_compaction(&Version::new(2, 1, 104)));
        assert!(can_block_compaction(&Version::new(2, 1, 105)));
        assert!(can_block_compaction(&Version::new(2, 1, 330)));
    }
}
