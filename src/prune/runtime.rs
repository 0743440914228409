//! The injected twin of this policy. `patch apply` writes the configured settings into it ([`PruneSettings::constants`]).

use serde_json::{Value, json};

use super::settings::{PruneSettings, glob_expression};

/// The patch that injects it.
pub const PATCH: &str = "aggressive-text-prune";

/// JavaScript source of the function that is injected into the client: one ASCII function
/// declaration that depends on nothing but the language and `process.env`, fit for an ES module and
/// for a CommonJS wrapper.
pub const RUNTIME: &str = include_str!("../../patches/aggressive-text-prune/runtime.js");

/// Name that [`RUNTIME`] declares. It takes the message array and returns the array to send in its
/// place. A second argument makes it tell the client what was cut: with `"usage"` the newest usage
/// in the array is lower by that, with `"freed"` the answer is the number of tokens.
pub const RUNTIME_FUNCTION: &str = "ctxbridgeAggressiveTextPrune";

impl PruneSettings {
    /// The constants of [`RUNTIME`] with the defaults of settings that the environment does not set.
    pub fn constants(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("DEFAULT_ENABLED", json!(self.enabled)),
            ("DEFAULT_KEEP_TURNS", json!(self.keep_turns)),
            ("DEFAULT_THRESHOLD_TOKENS", json!(self.threshold_tokens)),
            ("DEFAULT_MAX_CHARS", json!(self.max_chars)),
            ("DEFAULT_POLICY", json!(self.policy.word())),
            ("DEFAULT_KEEP_TOKENS", json!(self.keep_tokens.unwrap_or(0))),
            ("DEFAULT_WINDOW", json!(self.window_tokens.unwrap_or(0))),
            ("MODEL_WINDOWS", json!(self.model_windows.as_list())),
            ("PROTECTED_TOOLS", json!(self.protect_tools)),
            ("PROTECTED_FILES", json!(self.protect_files.iter().map(|glob| glob_expression(glob)).collect::<Vec<_>>())),
        ]
    }
}
