//! Windows of models, learned from sessions: a session that does not say its window has that of an earlier one with the same model.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use super::WindowStateStore;
use super::store::read_file;
use ctxbridge_config::{self as config, WINDOW_RANGE};
use ctxbridge_prune::COMPACT_WINDOW_VAR;
use ctxbridge_prune::window::{ModelWindows, is_learnable, window_for};

/// Name of the file, an object of windows in tokens by model. It is beside the states, and no state.
const FILE: &str = "model-windows";

/// Maximum number of models; with more, the file is started anew.
const MAX_MODELS: usize = 100;

impl WindowStateStore {
    /// Returns the windows of models that are known: learned ones, and a table.
    pub fn model_windows(&self) -> ModelWindows {
        ModelWindows::with(self.learned())
    }

    fn learned(&self) -> BTreeMap<String, u64> {
        read_file(&self.folder.join(FILE)).and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Remembers the window of a model. `timeout` limits the wait for another process that holds the lock.
    ///
    /// # Errors
    /// If it cannot be written, or another process held the lock too long ([`io::ErrorKind::WouldBlock`]); nothing is changed then.
    pub fn learn_window(&self, model: &str, window_tokens: u64, timeout: Duration) -> io::Result<()> {
        if !is_learnable(model) || !WINDOW_RANGE.contains(&window_tokens) || self.learned().get(model) == Some(&window_tokens) {
            return Ok(());
        }
        let _lock = self.lock(timeout)?;
        let mut learned = self.learned();
        if learned.len() >= MAX_MODELS {
            learned.clear();
        }
        learned.insert(model.to_owned(), window_tokens);
        self.replace(&self.folder.join(FILE), &serde_json::to_vec(&learned)?)
    }
}

/// The window of a session, in tokens: what the user set, or else what the client said of the session, or what is known of its model,
/// unless the session's context is larger.
pub fn window_of(
    config: &config::AutopilotSettings,
    told: Option<u64>,
    model: Option<&str>,
    known: &ModelWindows,
    context_tokens: u64,
) -> u64 {
    config.window.unwrap_or_else(|| window_for(told.or_else(|| known.of(model?)), context_tokens))
}

/// Window by which the client compacts, in tokens, if the user set one in the environment of the client.
pub fn compact_window_tokens() -> Option<u64> {
    std::env::var(COMPACT_WINDOW_VAR).ok()?.parse().ok()
}
