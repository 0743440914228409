//! Whether the mod is in force, and what to do if it is not.

use std::fmt;
use std::path::Path;

use semver::Version;
use serde::Serialize;

use super::install::{ENABLING_VARIABLE, FIRST_RELEASE, ReleaseSupport, is_enabled};
use super::state::ModState;

/// State of the mod on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ModStatus {
    /// The plugin is installed, and a session has loaded its module.
    Loaded {
        /// When one did so last, in milliseconds since 1970.
        at_ms: i64,
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

    /// What the user can do, if anything.
    pub fn next_step(&self) -> Option<String> {
        Some(match self {
            Self::Loaded { .. } => return None,
            Self::NotLoaded => format!(
                "start a session in a folder that the client trusts, then look again; releases before {FIRST_RELEASE} need \
                 {ENABLING_VARIABLE}=1; `ctxbridge mod verify` tries the client without an account"
            ),
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
            Self::NotLoaded => "the mod is installed, but no session has loaded it yet",
            Self::ClientTooOld => "the mod is installed, but this release of the client asks no plugin",
            Self::NotInstalled => "the mod is not installed",
            Self::NotSupported => "the mod is not installed; this release of the client would not ask it",
            Self::UnknownClient => "the mod is not installed; no client was found",
        })
    }
}
