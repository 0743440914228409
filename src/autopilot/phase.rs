//! Phases of a window that fills up.

use serde::Serialize;

use ctxbridge_config as config;

/// Phase of the window, by the thresholds of the settings: `ok < autopilot.warn <= warn < autopilot.optimize <= optimize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// There is room.
    #[default]
    Ok,
    /// The window is getting full.
    Warn,
    /// It is time to make room.
    Optimize,
}

impl Phase {
    /// Returns the phase at a share of the window, where 1 is all of it.
    pub fn at(share: f64, config: &config::AutopilotSettings) -> Self {
        if share >= config.critical {
            Self::Optimize
        } else if share >= config.warn {
            Self::Warn
        } else {
            Self::Ok
        }
    }

    /// Returns its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Optimize => "optimize",
        }
    }

    /// Returns its name in a report, as in the design.
    pub fn status(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warn => "WARNING",
            Self::Optimize => "OPTIMIZING",
        }
    }
}
