//! The user's settings, from the environment of the client.

use std::fmt::{self, Display};
use std::str::FromStr;

/// Switches pruning off when it is `0`, `false`, `off` or `no`, in any case of letters.
pub const SWITCH_VAR: &str = "CLAUDE_TEXT_PRUNE";
/// Sets [`PruneSettings::keep_turns`].
pub const KEEP_VAR: &str = "CLAUDE_TEXT_PRUNE_KEEP";
/// Sets [`PruneSettings::threshold_tokens`].
pub const THRESHOLD_VAR: &str = "CLAUDE_TEXT_PRUNE_THRESHOLD";
/// Sets [`PruneSettings::max_chars`].
pub const MAX_CHARS_VAR: &str = "CLAUDE_TEXT_PRUNE_MAX_CHARS";

/// Sets [`PruneSettings::tail_tokens`].
pub const TAIL_VAR: &str = "CLAUDE_TEXT_PRUNE_TAIL_TOKENS";
/// Sets [`PruneSettings::step`].
pub const STEP_VAR: &str = "CLAUDE_TEXT_PRUNE_STEP";
/// Sets [`PruneSettings::scope`].
pub const SCOPE_VAR: &str = "CLAUDE_TEXT_PRUNE_SCOPE";
/// Sets [`PruneSettings::handles`], by the words that [`SWITCH_VAR`] takes.
pub const HANDLES_VAR: &str = "CLAUDE_TEXT_PRUNE_HANDLES";

/// Default of [`PruneSettings::keep_turns`]. This, the threshold and the characters are those of the compaction-bridge design.
pub const DEFAULT_KEEP_TURNS: u64 = 4;
/// Default of [`PruneSettings::threshold_tokens`].
pub const DEFAULT_THRESHOLD_TOKENS: u64 = 20_000;
/// Default of [`PruneSettings::max_chars`].
pub const DEFAULT_MAX_CHARS: u64 = 80;
/// Default of [`PruneSettings::tail_tokens`], chosen by simulation, see BENCHMARKS.md.
pub const DEFAULT_TAIL_TOKENS: u64 = 10_000;
/// Default of [`PruneSettings::step`], chosen by simulation, see BENCHMARKS.md.
pub const DEFAULT_STEP: Step = Step::Tokens(40_000);

const SWITCH_OFF: [&str; 4] = ["0", "false", "off", "no"];
const SWITCH_ON: [&str; 4] = ["1", "true", "on", "yes"];

/// The unit of a step in turns.
const TURNS_UNIT: &str = "turns";

/// JavaScript's `Number.MAX_SAFE_INTEGER`: both twins have to read the same number.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Settings of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneSettings {
    /// `true` if anything is pruned at all.
    pub enabled: bool,
    /// Number of the newest human turns whose text stays whole, at least 1.
    pub keep_turns: u64,
    /// Minimum size of a conversation that is pruned, in estimated tokens.
    pub threshold_tokens: u64,
    /// UTF-16 code units that an old text keeps, before the marker.
    pub max_chars: u64,
    /// Estimated tokens at the end of the conversation that are never touched.
    pub tail_tokens: u64,
    /// Distance that the boundary moves at once.
    pub step: Step,
    /// The texts that are cut.
    pub scope: PruneScope,
    /// `true` if markers have handles to recall the whole text.
    pub handles: bool,
}

/// A distance in a conversation, at least 1 of its unit. Written as a number of tokens, `40000`, or of turns, `8turns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Estimated tokens.
    Tokens(u64),
    /// Human turns.
    Turns(u64),
}

/// Kinds of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PruneScope {
    /// Texts of people and the model.
    Text,
    /// Results of tools, and large inputs of tools that write.
    Tools,
    /// Both.
    #[default]
    All,
}

impl Default for PruneSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            keep_turns: DEFAULT_KEEP_TURNS,
            threshold_tokens: DEFAULT_THRESHOLD_TOKENS,
            max_chars: DEFAULT_MAX_CHARS,
            tail_tokens: DEFAULT_TAIL_TOKENS,
            step: DEFAULT_STEP,
            scope: PruneScope::All,
            handles: true,
        }
    }
}

impl PruneSettings {
    /// Applies the settings of an environment, such as `|name| std::env::var(name).ok()`. Others stay as they are.
    ///
    /// A value that cannot be read counts as unset: a typo must neither stop
    /// the client nor prune more than was meant. A number is ASCII digits only, without sign or
    /// spaces, up to 2^53 - 1.
    pub fn with_env(self, lookup: impl Fn(&str) -> Option<String>) -> Self {
        let whole_number = |name: &str, least: u64, default: u64| {
            lookup(name).and_then(|value| parse_whole_number(&value)).filter(|&number| number >= least).unwrap_or(default)
        };
        let is_on = |name: &str, default: bool| match lookup(name) {
            Some(value) => !is_switch_off(&value) && (default || is_switch_on(&value)),
            None => default,
        };
        Self {
            enabled: is_on(SWITCH_VAR, self.enabled),
            keep_turns: whole_number(KEEP_VAR, 1, self.keep_turns),
            threshold_tokens: whole_number(THRESHOLD_VAR, 0, self.threshold_tokens),
            max_chars: whole_number(MAX_CHARS_VAR, 0, self.max_chars),
            tail_tokens: whole_number(TAIL_VAR, 0, self.tail_tokens),
            step: lookup(STEP_VAR).and_then(|value| value.parse().ok()).unwrap_or(self.step),
            scope: lookup(SCOPE_VAR).and_then(|value| value.parse().ok()).unwrap_or(self.scope),
            handles: is_on(HANDLES_VAR, self.handles),
        }
    }

    /// The defaults, with the settings of an environment.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Self {
        Self::default().with_env(lookup)
    }
}

/// Error from parsing a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingParseError(&'static str);

impl FromStr for Step {
    type Err = SettingParseError;
    fn from_str(value: &str) -> Result<Self, SettingParseError> {
        let at = value.len().saturating_sub(TURNS_UNIT.len());
        let (number, unit): (_, fn(u64) -> Self) = match (value.get(..at), value.get(at..)) {
            (Some(number), Some(unit)) if unit.eq_ignore_ascii_case(TURNS_UNIT) => (number, Self::Turns),
            _ => (value, Self::Tokens),
        };
        let number = parse_whole_number(number).filter(|number| *number >= 1);
        number.map(unit).ok_or(SettingParseError("not a number of tokens, such as 40000, or of turns, such as 8turns"))
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(number) => write!(f, "{number}"),
            Self::Turns(number) => write!(f, "{number}{TURNS_UNIT}"),
        }
    }
}

impl FromStr for PruneScope {
    type Err = SettingParseError;
    fn from_str(value: &str) -> Result<Self, SettingParseError> {
        let found = [Self::Text, Self::Tools, Self::All].into_iter().find(|scope| value.eq_ignore_ascii_case(scope.word()));
        found.ok_or(SettingParseError("not one of text, tools, all"))
    }
}

impl PruneScope {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Tools => "tools",
            Self::All => "all",
        }
    }
}

fn is_switch_off(value: &str) -> bool {
    SWITCH_OFF.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// `true` if the value switches something on. It counts only if the default is off; otherwise everything but "off" means on.
fn is_switch_on(value: &str) -> bool {
    SWITCH_ON.iter().any(|word| value.eq_ignore_ascii_case(word))
}

fn parse_whole_number(value: &str) -> Option<u64> {
    // `u64::from_str` alone would take a leading `+`.
    let digits_only = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|_| digits_only)?;
    (number <= MAX_SAFE_INTEGER).then_some(number)
}
