//! The phases of a window that fills up.

use serde::Serialize;

use ctxbridge_config as config;

/// How full the window is, by the thresholds of the settings: `ok < autopilot.warn <= warn < autopilot.optimise <= optimise`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// There is room.
    #[default]
    Ok,
    /// It gets full.
    Warn,
    /// It is time to make room.
    Optimise,
}

impl Phase {
    /// The phase at a share of the window, 1 being all of it.
    pub fn at(share: f64, config: &config::Autopilot) -> Self {
        if share >= config.optimise {
            Self::Optimise
        } else if share >= config.warn {
            Self::Warn
        } else {
            Self::Ok
        }
    }

    /// Its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Optimise => "optimise",
        }
    }

    /// Its name in a report, as the design has it.
    pub fn status(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warn => "WARNING",
            Self::Optimise => "OPTIMIZING",
        }
    }
}
