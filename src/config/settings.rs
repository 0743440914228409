//! The values and their defaults, which are those of the compaction-bridge design unless noted otherwise.

use std::path::PathBuf;

use super::choice::Choice;
use super::server::StoreKind;

/// Settings of the archive and of restores (`archive.*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// `false` if nothing is archived.
    pub enabled: bool,
    /// Globs of folders whose sessions are left out.
    pub exclude: Vec<String>,
    /// Treatment of text that the user marked as private.
    pub private: PrivateText,
    /// The store that commands read; hooks write to a local file in any case.
    pub store: StoreKind,
    /// The folder of the JSON lines, if it is not the default.
    pub jsonl_folder: Option<PathBuf>,
    /// Characters that a restore may add to the context.
    pub restore_budget: usize,
    /// Characters of instructions for a compaction.
    pub instruction_budget: usize,
    /// `true` if the end of a session starts an optimize cycle.
    pub auto_optimize: bool,
    /// Days after which a turn that was never restored leaves the hot archive.
    pub retention_days: u32,
    /// `true` to adapt these days to the archive's size and use.
    pub adaptive_retention: bool,
    /// Size of the archive above which they are fewer, in MiB; 0 for no limit.
    pub size_target_mb: u64,
    /// Days without use after which a session is recompressed; 0 for never.
    pub warm_after_days: u32,
    /// Days without use after which a session is moved to the cold folder; 0 for never.
    pub cold_after_days: u32,
    /// The folder that cold sessions are moved to; `None` moves none.
    pub cold_folder: Option<PathBuf>,
}

/// Settings for watching the context window (`autopilot.*`).
#[derive(Debug, Clone, PartialEq)]
pub struct AutopilotSettings {
    /// `true` if hooks watch the window at all.
    pub enabled: bool,
    /// Tokens in the window where the client does not report them.
    pub window: Option<u64>,
    /// Share of the window at which the phase `warn` starts.
    pub warn: f64,
    /// Share of the window at which the phase `optimize` starts; never below `warn`.
    pub critical: f64,
    /// Conditions under which the prompt hook reports.
    pub notify: NotifyLevel,
}

/// Settings of the plugin that answers compactions (`mod.*`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModSettings {
    /// Tokens in the context from which on it folds between turns; `None` for never.
    pub threshold_tokens: Option<u64>,
}

/// Settings of the patch (`patch.*`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchSettings {
    /// `true` if hooks patch what `claude` runs next, where that is an upgrade of a patched client.
    pub keep: bool,
}

/// Settings for recalling past turns automatically (`recall.*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallSettings {
    /// `true` if the prompt hook adds related past turns to prompts.
    pub prompts: bool,
    /// `true` if sub-agent prompts get related past turns as well.
    pub agents: bool,
    /// `true` if a new session gets the project's last sessions, open work and decisions.
    pub start: bool,
    /// Globs of folders whose sessions recall nothing.
    pub exclude: Vec<String>,
}

/// Settings of the project's work log (`bundle.*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleSettings {
    /// `true` if hooks write it.
    pub enabled: bool,
}

/// Settings of hooks (`hooks.*`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HookSettings {
    /// Compactions that are blocked.
    pub gate: Gate,
    /// `true` to log the input of hooks.
    pub event_log: bool,
}

/// The user's additions to the rules for secrets (`redact.*`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedactSettings {
    /// Regular expressions of more secrets, as they were written. Group 1, if there is one, is the secret.
    pub patterns: Vec<String>,
    /// Regular expressions of text that is no secret.
    pub allow: Vec<String>,
}

/// Conditions under which the prompt hook reports on the window. A report costs tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NotifyLevel {
    /// Never.
    Off,
    /// On each change of the phase.
    Change,
    /// On each change of the phase, and on each prompt from the phase `warn` on.
    #[default]
    Warn,
    /// On each prompt.
    Always,
}

/// Compactions that the pre-compact hook blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gate {
    /// None.
    #[default]
    Off,
    /// Automatic ones, as long as that is safe.
    BlockAuto,
}

/// Treatment of text between `<private>` and `</private>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrivateText {
    /// It is not archived.
    #[default]
    Omit,
    /// It is archived, never shown or sent, and only a restored transcript has it.
    Keep,
}

impl Choice for PrivateText {
    const WORDS: &'static [(&'static str, Self)] = &[("omit", Self::Omit), ("keep", Self::Keep)];
}

impl PrivateText {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            exclude: Vec::new(),
            private: PrivateText::Omit,
            store: StoreKind::Sqlite,
            jsonl_folder: None,
            restore_budget: 4_000,
            instruction_budget: 1_200,
            auto_optimize: true,
            retention_days: 30,
            adaptive_retention: true,
            size_target_mb: 2_000,
            warm_after_days: 30,
            cold_after_days: 180,
            cold_folder: None,
        }
    }
}

impl Default for RecallSettings {
    fn default() -> Self {
        Self { prompts: true, agents: true, start: false, exclude: Vec::new() }
    }
}

impl Default for BundleSettings {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl Default for AutopilotSettings {
    fn default() -> Self {
        Self { enabled: true, window: None, warn: 0.70, critical: 0.85, notify: NotifyLevel::Change }
    }
}

impl Choice for NotifyLevel {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("change", Self::Change), ("warn", Self::Warn), ("always", Self::Always)];
}

impl Choice for Gate {
    const WORDS: &'static [(&'static str, Self)] = &[("off", Self::Off), ("block-auto", Self::BlockAuto)];
}
