//! The values and their defaults, which are those of the compaction-bridge design unless said otherwise.

use std::path::PathBuf;

use super::server::StoreKind;

/// How turns are kept and brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// Where commands read; hooks write to a file here in any case.
    pub store: StoreKind,
    /// The folder of the JSON lines, where it is not the usual one.
    pub jsonl_folder: Option<PathBuf>,
    /// Characters that a restore may add to the context.
    pub restore_budget: usize,
    /// Characters of instructions for a compaction.
    pub instruction_budget: usize,
    /// Whether the end of a session starts an optimise cycle.
    pub auto_optimize: bool,
    /// Days after which a turn that was never used leaves the hot archive.
    pub retention_days: u32,
    /// Whether these days are adapted to the archive's size and use.
    pub adaptive_retention: bool,
    /// Size of the archive from which on they are fewer, in MiB; 0 where any size will do.
    pub size_target_mb: u64,
    /// Days without use after which a session is compressed anew; 0 for never.
    pub warm_after_days: u32,
    /// Days without use after which a session is moved to the cold folder; 0 for never.
    pub cold_after_days: u32,
    /// Where cold sessions are moved to; none of them where there is no such folder.
    pub cold_folder: Option<PathBuf>,
}

/// How full the window is, and who is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Autopilot {
    /// Whether hooks watch the window at all.
    pub enabled: bool,
    /// Tokens in the window where the client says nothing.
    pub window: Option<u64>,
    /// Share of the window from which on the phase is `warn`.
    pub warn: f64,
    /// Share of the window from which on the phase is `optimise`; never below `warn`.
    pub optimise: f64,
    /// When the prompt hook says something.
    pub say: Say,
}

/// What is added to the context unasked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recall {
    /// Whether the prompt hook looks for what was said and done before that has to do with the prompt.
    pub prompts: bool,
    /// Whether sub-agents are given that as well.
    pub agents: bool,
}

/// What is written down in the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Whether hooks write it.
    pub enabled: bool,
}

/// What hooks may do besides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hooks {
    /// Whether compactions are blocked.
    pub gate: Gate,
}

/// What is written down besides the archive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Events {
    /// Whether what the client tells hooks is kept.
    pub log: bool,
}

/// When the prompt hook reports on the window. What it says costs tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Say {
    /// Never.
    Off,
    /// When the phase changes.
    Change,
    /// When the phase changes, and on each prompt from the phase `warn` on.
    #[default]
    Warn,
    /// On each prompt.
    Always,
}

/// Which compactions the pre-compact hook blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gate {
    /// None.
    #[default]
    Off,
    /// Automatic ones, as long as that is safe.
    BlockAuto,
}

/// Tokens in the window when neither the client nor the user says: that of most models (claude-code-facts, section 5).
pub(super) const DEFAULT_WINDOW: u64 = 200_000;

impl Autopilot {
    /// Tokens in the window: what the client told, else what the user set, else 200,000.
    pub fn window_or(&self, told: Option<u64>) -> u64 {
        told.or(self.window).unwrap_or(DEFAULT_WINDOW)
    }
}

impl Default for Archive {
    fn default() -> Self {
        Self {
            store: StoreKind::Sqlite,
            jsonl_folder: None,
            restore_budget: 4_000,
            instruction_budget: 2_000,
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

impl Default for Recall {
    fn default() -> Self {
        Self { prompts: true, agents: true }
    }
}

impl Default for Bundle {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl Default for Autopilot {
    fn default() -> Self {
        Self { enabled: true, window: None, warn: 0.70, optimise: 0.85, say: Say::Warn }
    }
}

/// A setting that is one of a few words.
pub(super) trait Choice: Copy + PartialEq + 'static {
    /// The words, with what they mean.
    const WORDS: &'static [(&'static str, Self)];

    /// The word for a value.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }
}

impl Choice for Say {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("change", Self::Change), ("warn", Self::Warn), ("always", Self::Always)];
}

impl Choice for Gate {
    const WORDS: &'static [(&'static str, Self)] = &[("off", Self::Off), ("block-auto", Self::BlockAuto)];
}
