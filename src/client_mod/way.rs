//! The way in which contexts are kept small: the patch prunes each request, the mod answers compactions; both may be in force, or neither.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use semver::Version;
use serde::Serialize;

use super::status::quick_status;
use crate::hook::mod_state::ModState;
use ctxbridge_patch::notice::quick_state;

/// State in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PruningWay {
    /// The patch prunes, and the mod answers what still compacts.
    Both,
    /// The client is patched.
    Patch,
    /// The mod answers compactions.
    Mod,
    /// Compactions are the client's.
    Neither,
}

impl PruningWay {
    /// The way, from what is known of both. `None` if it is not known whether the client is patched, and the mod is not in force.
    pub fn of(patched: Option<bool>, has_mod: bool) -> Option<Self> {
        Some(match (patched, has_mod) {
            (Some(true), true) => Self::Both,
            (Some(true), false) => Self::Patch,
            (_, true) => Self::Mod,
            (Some(false), false) => Self::Neither,
            (None, false) => return None,
        })
    }

    /// The way of the client that runs, in a few milliseconds: for the statusline. `settings` are the client's of the user.
    pub fn quick(data: &Path, settings: Option<&Path>, path_variable: Option<&OsStr>, running: Option<&str>) -> Option<Self> {
        // Most have no mark, and the settings need not be parsed.
        let is_loaded = || ModState::in_dir(data).loaded().is_some();
        let version: Option<Version> = running.and_then(|version| version.parse().ok());
        let has_mod =
            settings.is_some_and(|settings| is_loaded() && quick_status(data, settings, version.as_ref()).is_in_force());
        Self::of(quick_state(data, path_variable, running), has_mod)
    }

    /// `true` if the client is patched.
    pub fn is_patched(self) -> bool {
        matches!(self, Self::Both | Self::Patch)
    }

    /// `true` if the mod answers compactions.
    pub fn has_mod(self) -> bool {
        matches!(self, Self::Both | Self::Mod)
    }

    /// The shortest text for it.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Both => "patched + mod",
            Self::Patch => "patched",
            Self::Mod => "mod",
            Self::Neither => "unpatched",
        }
    }
}

impl fmt::Display for PruningWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both => "both: patched (each request), mod (what still compacts)",
            Self::Patch => "patched (each request)",
            Self::Mod => "mod (at compaction)",
            Self::Neither => "none: compactions are the client's",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_follows_from_both() {
        let text = |patched, has_mod| PruningWay::of(patched, has_mod).map(PruningWay::mark);
        assert_eq!(text(Some(true), true), Some("patched + mod"));
        assert_eq!(text(Some(true), false), Some("patched"));
        assert_eq!(text(Some(false), true), Some("mod"));
        assert_eq!(text(None, true), Some("mod"));
        assert_eq!(text(Some(false), false), Some("unpatched"));
        assert_eq!(text(None, false), None);
        for way in [PruningWay::Both, PruningWay::Patch, PruningWay::Mod, PruningWay::Neither] {
            assert_eq!(PruningWay::of(Some(way.is_patched()), way.has_mod()), Some(way));
        }
    }
}
