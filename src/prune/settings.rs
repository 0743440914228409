//! What the user can set, through the environment of the client.

/// Switches pruning off when it is `0`, `false`, `off` or `no`, in any case of letters.
pub const SWITCH_VAR: &str = "CLAUDE_TEXT_PRUNE";
/// Sets [`Settings::keep_turns`].
pub const KEEP_VAR: &str = "CLAUDE_TEXT_PRUNE_KEEP";
/// Sets [`Settings::threshold_tokens`].
pub const THRESHOLD_VAR: &str = "CLAUDE_TEXT_PRUNE_THRESHOLD";
/// Sets [`Settings::max_chars`].
pub const MAX_CHARS_VAR: &str = "CLAUDE_TEXT_PRUNE_MAX_CHARS";

/// [`Settings::keep_turns`] unless set: the defaults are those of the compaction-bridge design.
pub const DEFAULT_KEEP_TURNS: u64 = 4;
/// [`Settings::threshold_tokens`] unless set.
pub const DEFAULT_THRESHOLD_TOKENS: u64 = 20_000;
/// [`Settings::max_chars`] unless set.
pub const DEFAULT_MAX_CHARS: u64 = 80;

const SWITCH_OFF: [&str; 4] = ["0", "false", "off", "no"];

/// JavaScript's `Number.MAX_SAFE_INTEGER`: both twins have to read the same number.
const LARGEST_WHOLE_NUMBER: u64 = (1 << 53) - 1;

/// The knobs of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Whether anything is pruned at all.
    pub enabled: bool,
    /// Newest human turns that stay whole, at least 1.
    pub keep_turns: u64,
    /// Estimated tokens of the whole conversation from which on it is pruned.
    pub threshold_tokens: u64,
    /// UTF-16 code units that an old text keeps, before the marker.
    pub max_chars: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            keep_turns: DEFAULT_KEEP_TURNS,
            threshold_tokens: DEFAULT_THRESHOLD_TOKENS,
            max_chars: DEFAULT_MAX_CHARS,
        }
    }
}

impl Settings {
    /// Reads the settings from an environment, such as `|name| std::env::var(name).ok()`.
    ///
    /// A value that is no whole decimal number in range counts as unset: a typo must neither stop
    /// the client nor prune more than was meant. A number is ASCII digits only, without sign or
    /// spaces, up to 2^53 - 1.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let whole_number = |name: &str, least: u64, default: u64| {
            lookup(name).and_then(|value| parse_whole_number(&value)).filter(|&number| number >= least).unwrap_or(default)
        };
        Self {
            enabled: !lookup(SWITCH_VAR).is_some_and(|value| is_switch_off(&value)),
            keep_turns: whole_number(KEEP_VAR, 1, DEFAULT_KEEP_TURNS),
            threshold_tokens: whole_number(THRESHOLD_VAR, 0, DEFAULT_THRESHOLD_TOKENS),
            max_chars: whole_number(MAX_CHARS_VAR, 0, DEFAULT_MAX_CHARS),
        }
    }
}

fn is_switch_off(value: &str) -> bool {
    SWITCH_OFF.iter().any(|word| value.eq_ignore_ascii_case(word))
}

fn parse_whole_number(value: &str) -> Option<u64> {
    // `u64::from_str` alone would take a leading `+`.
    let digits_only = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|_| digits_only)?;
    (number <= LARGEST_WHOLE_NUMBER).then_some(number)
}
