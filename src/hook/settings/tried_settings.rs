//! The user's settings, as far as hooks are tried with them.

use serde_json::Value;

use ctxbridge_config::{Config, KEYS};

/// Settings that change what the hooks do on this machine. Those that lead elsewhere, to a server or to another folder, are none
/// of them.
const TRIED: &[&str] = &[
    "archive.enabled",
    "archive.store",
    "archive.restore_budget",
    "archive.instruction_budget",
    "recall.prompts",
    "recall.agents",
    "recall.start",
    "bundle.enabled",
    "autopilot.enabled",
    "autopilot.notify",
];

/// The user's settings, as far as hooks are tried with them.
#[derive(Debug)]
pub struct TriedSettings {
    /// Environment variables, for those that are not the default.
    pub(super) variables: Vec<(&'static str, String)>,
    /// Names of those that switch a feature off.
    off: Vec<&'static str>,
}

impl TriedSettings {
    /// Takes them from a configuration.
    pub fn of(config: &Config) -> Self {
        let keys = KEYS.iter().filter(|key| TRIED.contains(&key.name));
        let changed: Vec<_> = keys.map(|key| (key, (key.get)(config))).filter(|(key, value)| *value != key.default()).collect();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_off = |value: &Value| *value == false || *value == 0;
        Self {
            variables: changed.iter().map(|(key, value)| (key.variable, text(value))).collect(),
            off: changed.iter().filter(|(_, value)| is_off(value)).map(|(key, _)| key.name).collect(),
        }
    }

    /// `true` if a setting switches its feature off.
    pub fn is_off(&self, name: &str) -> bool {
        self.off.contains(&name)
    }
}
