//! The mod, and the way in which contexts are kept small.

use super::checks::CommandClient;
use super::{Environment, HealthCheck, HealthStatus};
use crate::client_mod::install::ReleaseSupport;
use crate::client_mod::status::{ModStatus, mod_status};
use crate::client_mod::way::PruningWay;
use crate::hook::mod_state::ModState;
use crate::hook::settings::scope::SettingsScope;
use ctxbridge_picker::text::count;

/// The mod, beside the patch.
pub struct ModOnThisMachine {
    status: ModStatus,
    /// Compactions that were answered, and those that were left to the client.
    answers: (usize, usize),
    version: Option<semver::Version>,
    /// `true` if the client prunes; `None` if it cannot be told.
    prunes: Option<bool>,
    is_pruning_on: bool,
    is_client_known: bool,
}

impl ModOnThisMachine {
    /// Looks at it. `command` is the client that the user runs.
    pub fn of(at: &Environment, command: Option<&CommandClient>) -> Self {
        let version = command.and_then(|client| client.version.clone());
        let status = match at.settings_paths().file(SettingsScope::User) {
            Ok(settings) => mod_status(&at.data, &settings, version.as_ref()),
            Err(_) => ModStatus::UnknownClient,
        };
        Self {
            status,
            answers: ModState::in_dir(&at.data).answer_counts(),
            version,
            prunes: command.and_then(|client| client.prunes),
            is_pruning_on: at.is_pruning_on,
            is_client_known: command.is_some(),
        }
    }

    /// Says whether the client loads the mod. `None` if nothing is known of the client.
    pub fn check(&self) -> Option<HealthCheck> {
        let check = |status, detail: String, next: Option<&str>| Some(HealthCheck::new("mod", status, detail, next));
        let next = self.status.next_step();
        let next = next.as_deref();
        let release = self.version.as_ref().map(ToString::to_string).unwrap_or_default();
        match self.status {
            ModStatus::Loaded { at_ms } => {
                check(HealthStatus::Ok, format!("loaded, last on {}{}", day_and_time(at_ms), self.answered()), None)
            }
            ModStatus::NotLoadedSince { at_ms, started_ms } => {
                let (last, start) = (day_and_time(at_ms), day_and_time(started_ms));
                let told = format!("last loaded on {last}, not in the session of {start}; meanwhile {}", self.instead());
                check(HealthStatus::Warning, told, next)
            }
            ModStatus::NotLoaded => {
                let told = format!("installed, but no session has loaded it yet; until then {}", self.instead());
                check(HealthStatus::Warning, told, next)
            }
            ModStatus::ClientTooOld => {
                let status = if self.prunes == Some(true) { HealthStatus::Ok } else { HealthStatus::Warning };
                let told = format!("installed, but Claude Code {release} asks no plugin; {}", self.instead());
                check(status, told, next.filter(|_| status != HealthStatus::Ok))
            }
            ModStatus::NotSupported => {
                check(HealthStatus::Ok, format!("Claude Code {release} asks no plugin; the patch works there"), None)
            }
            // It would add little: few conversations still compact.
            ModStatus::NotInstalled if self.prunes == Some(true) => {
                check(HealthStatus::Ok, "not installed; the patch prunes".to_owned(), None)
            }
            ModStatus::NotInstalled => {
                let told = match self.version.as_ref().map(ReleaseSupport::of) {
                    Some(ReleaseSupport::WithVariable) => "not installed; this release loads it with a variable",
                    _ => "not installed; this client would load it",
                };
                check(HealthStatus::Warning, told.to_owned(), next)
            }
            ModStatus::UnknownClient => None,
        }
    }

    /// Says which way is in force. `has_hooks` if nothing is wrong with those. `None` if it is not known.
    pub fn way(&self, has_hooks: bool) -> Option<HealthCheck> {
        if !self.is_client_known && !self.status.is_installed() {
            return None;
        }
        let way = PruningWay::of(self.prunes, self.status.is_in_force())?;
        let check = |status, detail: String, next: Option<&str>| Some(HealthCheck::new("pruning", status, detail, next));
        if !self.is_pruning_on {
            let next = Some("`ctxbridge config show` says what `prune.enabled` is; CLAUDE_TEXT_PRUNE overrides it");
            return check(HealthStatus::Warning, "switched off: compactions are the client's".to_owned(), next);
        }
        if way != PruningWay::Neither {
            return check(HealthStatus::Ok, way.to_string(), None);
        }
        // The lines of the patch, the mod and the hooks say what to do.
        let hooks = if has_hooks { "; hooks archive before and restore after" } else { "" };
        check(HealthStatus::Warning, format!("{way}{hooks}"), None)
    }

    fn answered(&self) -> String {
        match self.answers {
            (0, 0) => String::new(),
            (answered, left) => format!("; {} answered, {left} left to the client", count(answered as u64, "compaction")),
        }
    }

    /// The way that works without the mod.
    fn instead(&self) -> &'static str {
        match self.prunes {
            Some(true) => "the patch prunes",
            _ => "compactions are the client's",
        }
    }
}

/// Local time, to the minute.
fn day_and_time(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}
