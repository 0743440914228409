//! State of the mod, and the next step if it is not in force.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use memchr::memmem;
use semver::Version;
use serde::{Deserialize, Serialize};

use super::install::{ENABLING_VARIABLE, FIRST_RELEASE, ReleaseSupport, is_enabled};
use crate::hook::mod_state::ModState;
use crate::hook::{Event, HookMetrics};
use ctxbridge_common::files;

/// Age of the newest mark, in milliseconds, from which on a session that left none counts. Sessions without a mark are no proof before:
/// `/clear` begins one in a process that has the module, and other programs run clients of their own.
const MARK_IS_OLD_MS: i64 = 24 * 60 * 60 * 1_000;

/// State of the mod on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ModStatus {
    /// The plugin is installed, and a session has loaded its module.
    Loaded {
        /// Time of the last one, in milliseconds since 1970.
        at_ms: i64,
    },
    /// It is installed, and sessions loaded its module once, but not any more.
    NotLoadedSince {
        /// Time of the last one, in milliseconds since 1970.
        at_ms: i64,
        /// Start of the newest session that did not.
        started_ms: i64,
    },
    /// It is installed, and no session has loaded it yet.
    NotLoaded,
    /// It is installed, and the client is too old.
    ClientTooOld,
    /// It is not installed; the client would ask it.
    NotInstalled,
    /// It is not installed; the client would not ask it.
    NotSupported,
    /// It is not installed, and it is not known whether the client would ask it.
    UnknownClient,
}

/// Returns the state. `version` is that of the client, if it is known.
pub fn mod_status(data: &Path, settings: &Path, version: Option<&Version>) -> ModStatus {
    let status = quick_status(data, settings, version);
    match &status {
        ModStatus::Loaded { at_ms } => match newest_unmarked_start(data) {
            Some(started_ms) if started_ms - at_ms > MARK_IS_OLD_MS => ModStatus::NotLoadedSince { at_ms: *at_ms, started_ms },
            _ => status,
        },
        _ => status,
    }
}

/// Returns the state without a look at later sessions, for whoever has no time.
pub fn quick_status(data: &Path, settings: &Path, version: Option<&Version>) -> ModStatus {
    let support = version.map(ReleaseSupport::of);
    match (is_enabled(settings), support) {
        (true, Some(ReleaseSupport::No)) => ModStatus::ClientTooOld,
        (true, _) => match ModState::in_dir(data).loaded() {
            Some(loaded) => ModStatus::Loaded { at_ms: loaded.at_ms },
            None => ModStatus::NotLoaded,
        },
        (false, Some(ReleaseSupport::No)) => ModStatus::NotSupported,
        (false, Some(_)) => ModStatus::NotInstalled,
        (false, None) => ModStatus::UnknownClient,
    }
}

impl ModStatus {
    /// `true` if compactions are answered.
    pub fn is_in_force(&self) -> bool {
        matches!(self, Self::Loaded { .. })
    }

    /// `true` if the compactions of one of several clients are answered, as far as that is known: the mark does not say which one left
    /// it. One that needs a variable left none, unless it is the one that the user runs.
    pub fn is_in_force_in(&self, support: ReleaseSupport, is_command: bool) -> bool {
        self.is_in_force() && (support == ReleaseSupport::Yes || is_command)
    }

    /// `true` if the plugin is installed.
    pub fn is_installed(&self) -> bool {
        matches!(self, Self::Loaded { .. } | Self::NotLoadedSince { .. } | Self::NotLoaded | Self::ClientTooOld)
    }

    /// Next step for the user, if there is one.
    pub fn next_step(&self) -> Option<String> {
        Some(match self {
            Self::Loaded { .. } => return None,
            Self::NotLoaded => format!(
                "start a session in a folder that the client trusts, then look again; releases before {FIRST_RELEASE} need \
                 {ENABLING_VARIABLE}=1; `ctxbridge mod verify` tries the client without an account"
            ),
            Self::NotLoadedSince { .. } => {
                "`ctxbridge mod verify` tries the client; a folder that is not trusted, a policy, --safe-mode or a flag of its maker \
                 switches modules off"
                    .to_owned()
            }
            Self::ClientTooOld => format!("update Claude Code to {FIRST_RELEASE} or newer, or run `ctxbridge patch apply`"),
            Self::NotSupported => "`ctxbridge patch apply` prunes in this release".to_owned(),
            Self::NotInstalled | Self::UnknownClient => "`ctxbridge mod install` installs it".to_owned(),
        })
    }
}

impl fmt::Display for ModStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loaded { .. } => "the mod is loaded: compactions are answered without a summary",
            Self::NotLoadedSince { .. } => "the mod is installed, but the last sessions have not loaded it",
            Self::NotLoaded => "the mod is installed, but no session has loaded it yet",
            Self::ClientTooOld => "the mod is installed, but this release of the client asks no plugin",
            Self::NotInstalled => "the mod is not installed",
            Self::NotSupported => "the mod is not installed; this release of the client would not ask it",
            Self::UnknownClient => "the mod is not installed; no client was found",
        })
    }
}

/// Start of the newest session that did not load the module, in milliseconds since 1970, as hooks have measured it.
fn newest_unmarked_start(data: &Path) -> Option<i64> {
    #[derive(Deserialize)]
    struct StartLine {
        ts: String,
        event: String,
        session: Option<String>,
    }
    let marked: BTreeSet<String> = ModState::in_dir(data).all_loaded().into_iter().map(|loaded| loaded.session).collect();
    let bytes = files::read(HookMetrics::in_dir(data).path()).ok()?;
    let start = Event::SessionStart.name();
    let lines = bytes.rsplit(|byte| *byte == b'\n').filter(|line| memmem::find(line, start.as_bytes()).is_some());
    let lines = lines.filter_map(|line| serde_json::from_slice::<StartLine>(line).ok());
    let mut unmarked = lines.filter(|line| line.event == start && line.session.as_ref().is_some_and(|id| !marked.contains(id)));
    unmarked.next().and_then(|line| Some(line.ts.parse::<jiff::Timestamp>().ok()?.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use std::time::Duration;

    use super::*;
    use crate::hook::HookMeasurement;
    use crate::hook::mod_state::LoadedModule;

    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
    /// Some day.
    const THEN_MS: i64 = 1_795_000_000_000;

    #[test]
    fn a_mark_counts_until_sessions_begin_without_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let (data, settings) = (folder.path(), folder.path().join("settings.json"));
        let status = |version: &str| mod_status(data, &settings, version.parse().ok().as_ref());
        assert_eq!(status("2.1.330"), ModStatus::NotInstalled);
        assert_eq!(status("2.1.45"), ModStatus::NotSupported);
        assert_eq!(status("?"), ModStatus::UnknownClient);
        fs::write(&settings, r#"{"enabledPlugins": {"ctxbridge@ctxbridge": true}}"#).expect("written");
        assert_eq!(status("2.1.330"), ModStatus::NotLoaded);
        assert_eq!(status("2.1.45"), ModStatus::ClientTooOld);

        ModState::in_dir(data).note_loaded(&LoadedModule { at_ms: THEN_MS, session: "a".to_owned() });
        assert_eq!(status("2.1.330"), ModStatus::Loaded { at_ms: THEN_MS });
        let starts = |session: &str, at_ms: i64| {
            let measured = HookMeasurement::default();
            HookMetrics::in_dir(data)
                .add(Event::SessionStart, Some(session), (at_ms, Duration::ZERO), &measured)
                .expect("written");
        };
        starts("b", THEN_MS + 1_000);
        assert_eq!(status("2.1.330"), ModStatus::Loaded { at_ms: THEN_MS }, "it may be one after /clear");
        starts("a", THEN_MS + 3 * DAY_MS);
        assert_eq!(status("2.1.330"), ModStatus::Loaded { at_ms: THEN_MS }, "it was compacted");
        starts("c", THEN_MS + 2 * DAY_MS);
        let since = ModStatus::NotLoadedSince { at_ms: THEN_MS, started_ms: THEN_MS + 2 * DAY_MS };
        assert_eq!(status("2.1.330"), since);
        assert!(since.is_installed() && !since.is_in_force());
        assert!(quick_status(data, &settings, None).is_in_force(), "it does not look");
    }
}
