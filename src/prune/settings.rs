//! The user's settings, from the environment of the client.

use std::str::FromStr;

use regex::Regex;

use super::window::{ModelWindows, RESERVE_TOKENS};

/// Switches pruning off when it is `0`, `false`, `off` or `no`, in any case of letters.
pub const SWITCH_VAR: &str = "CLAUDE_TEXT_PRUNE";
/// Sets [`PruneSettings::policy`].
pub const POLICY_VAR: &str = "CLAUDE_TEXT_PRUNE_POLICY";
/// Sets [`PruneSettings::keep_turns`].
pub const KEEP_VAR: &str = "CLAUDE_TEXT_PRUNE_KEEP";
/// Sets [`PruneSettings::threshold_tokens`].
pub const THRESHOLD_VAR: &str = "CLAUDE_TEXT_PRUNE_THRESHOLD";
/// Sets [`PruneSettings::max_chars`].
pub const MAX_CHARS_VAR: &str = "CLAUDE_TEXT_PRUNE_MAX_CHARS";
/// Sets [`PruneSettings::keep_tokens`].
pub const KEEP_TOKENS_VAR: &str = "CLAUDE_TEXT_PRUNE_KEEP_TOKENS";
/// Sets [`PruneSettings::window_tokens`].
pub const WINDOW_VAR: &str = "CLAUDE_TEXT_PRUNE_WINDOW";
/// The client's own: sets [`PruneSettings::compact_window_tokens`].
pub const COMPACT_WINDOW_VAR: &str = "CLAUDE_CODE_AUTO_COMPACT_WINDOW";

/// Default of [`PruneSettings::keep_turns`]. This, the threshold and the characters are those of the compaction-bridge design.
pub const DEFAULT_KEEP_TURNS: u64 = 4;
/// Default of [`PruneSettings::threshold_tokens`].
pub const DEFAULT_THRESHOLD_TOKENS: u64 = 20_000;
/// Default of [`PruneSettings::max_chars`].
pub const DEFAULT_MAX_CHARS: u64 = 80;

/// Default of [`PruneSettings::protect_tools`]: what these say, a person has decided.
const PROTECTED_TOOLS: [&str; 2] = ["AskUserQuestion", "ExitPlanMode"];
/// Default of [`PruneSettings::protect_files`]: instructions.
const PROTECTED_FILES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "SKILL.md"];

const SWITCH_OFF: [&str; 4] = ["0", "false", "off", "no"];
const SWITCH_ON: [&str; 4] = ["1", "true", "on", "yes"];

/// JavaScript's `Number.MAX_SAFE_INTEGER`: both twins have to read the same number.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Settings of pruning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneSettings {
    /// `true` if anything is pruned at all.
    pub enabled: bool,
    /// The policy.
    pub policy: PrunePolicy,
    /// Number of the newest human turns whose text stays whole, at least 1.
    pub keep_turns: u64,
    /// Minimum size of a conversation that is pruned, in estimated tokens.
    pub threshold_tokens: u64,
    /// UTF-16 code units that an old text keeps.
    pub max_chars: u64,
    /// Tokens of the conversation that stay whole, if possible; `None` for a number that depends on the window.
    pub keep_tokens: Option<u64>,
    /// Tokens of the model's window, if the user sets it.
    pub window_tokens: Option<u64>,
    /// Tokens of the model's window otherwise; of others it is 200,000, or 1,000,000 once a request was larger than that.
    pub model_windows: ModelWindows,
    /// Tokens of the window by which the client compacts, if the user made it smaller than the model's.
    pub compact_window_tokens: Option<u64>,
    /// Tokens before the end of the window at which the client compacts; see [`reserve_tokens`](crate::window::reserve_tokens).
    pub reserve_tokens: u64,
    /// Tools whose calls and results are never folded.
    pub protect_tools: Vec<String>,
    /// Files whose calls and results are never folded, as globs; see [`glob_expression`].
    pub protect_files: Vec<String>,
}

/// Policy by which old text is pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrunePolicy {
    /// Whole old rounds are [folded](crate::fold), when that pays.
    #[default]
    Fold,
    /// The [reference design](mod@crate::reference): at each request, old text is cut.
    Reference,
}

impl Default for PruneSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            policy: PrunePolicy::Fold,
            keep_turns: DEFAULT_KEEP_TURNS,
            threshold_tokens: DEFAULT_THRESHOLD_TOKENS,
            max_chars: DEFAULT_MAX_CHARS,
            keep_tokens: None,
            window_tokens: None,
            model_windows: ModelWindows::default(),
            compact_window_tokens: None,
            reserve_tokens: RESERVE_TOKENS,
            protect_tools: PROTECTED_TOOLS.map(str::to_owned).into(),
            protect_files: PROTECTED_FILES.map(str::to_owned).into(),
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
        let whole_number =
            |name: &str, least: u64| lookup(name).and_then(|value| parse_whole_number(&value)).filter(|&number| number >= least);
        let is_on = |name: &str, default: bool| match lookup(name) {
            Some(value) => !is_switch_off(&value) && (default || is_switch_on(&value)),
            None => default,
        };
        Self {
            enabled: is_on(SWITCH_VAR, self.enabled),
            policy: lookup(POLICY_VAR).and_then(|value| value.parse().ok()).unwrap_or(self.policy),
            keep_turns: whole_number(KEEP_VAR, 1).unwrap_or(self.keep_turns),
            threshold_tokens: whole_number(THRESHOLD_VAR, 0).unwrap_or(self.threshold_tokens),
            max_chars: whole_number(MAX_CHARS_VAR, 0).unwrap_or(self.max_chars),
            keep_tokens: whole_number(KEEP_TOKENS_VAR, 1).or(self.keep_tokens),
            window_tokens: whole_number(WINDOW_VAR, 1).or(self.window_tokens),
            compact_window_tokens: whole_number(COMPACT_WINDOW_VAR, 1).or(self.compact_window_tokens),
            ..self
        }
    }

    /// The settings of an environment, and the default of every other one.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Self {
        Self::default().with_env(lookup)
    }

    /// Regular expressions of [`Self::protect_files`].
    pub(crate) fn protected_files(&self) -> Vec<Regex> {
        self.protect_files.iter().filter_map(|glob| Regex::new(&glob_expression(glob)).ok()).collect()
    }
}

/// The regular expression of a glob, which Rust and JavaScript read alike. `*` is anything but `/`, `**` anything, `?` one character but `/`. A
/// glob that does not begin with `/` may begin at any `/` of a path.
pub fn glob_expression(glob: &str) -> String {
    let mut expression = String::from(if glob.starts_with('/') { "^" } else { "(?:^|/)" });
    let mut rest = glob.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '*' if rest.next_if_eq(&'*').is_some() => {
                // `**/` may be nothing.
                expression.push_str(if rest.next_if_eq(&'/').is_some() { r"(?:[\s\S]*/)?" } else { r"[\s\S]*" });
            }
            '*' => expression.push_str("[^/]*"),
            '?' => expression.push_str("[^/]"),
            other => {
                if "\\.+()[]{}^$|".contains(other) {
                    expression.push('\\');
                }
                expression.push(other);
            }
        }
    }
    expression.push('$');
    expression
}

/// Error from parsing a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingParseError(&'static str);

impl FromStr for PrunePolicy {
    type Err = SettingParseError;
    fn from_str(value: &str) -> Result<Self, SettingParseError> {
        let found = [Self::Fold, Self::Reference].into_iter().find(|policy| value.eq_ignore_ascii_case(policy.word()));
        found.ok_or(SettingParseError("not one of fold, reference"))
    }
}

impl PrunePolicy {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fold => "fold",
            Self::Reference => "reference",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_of_paths() {
        for (glob, yes, no) in [
            ("CLAUDE.md", vec!["CLAUDE.md", "/p/CLAUDE.md"], vec!["/p/CLAUDE_md", "/p/XCLAUDE.md", "/p/CLAUDE.md/a"]),
            ("docs/*.md", vec!["/p/docs/a.md"], vec!["/p/docs/b/a.md", "/p/xdocs/a.md"]),
            ("/p/**/a?.rs", vec!["/p/ab.rs", "/p/x/y/ab.rs"], vec!["/q/p/ab.rs", "/p/a.rs"]),
            ("src/**", vec!["/p/src/a/b"], vec!["/p/src"]),
            ("a+(b).[c]", vec!["a+(b).[c]"], vec!["aab.c"]),
        ] {
            let expression = Regex::new(&glob_expression(glob)).expect("an expression");
            yes.iter().for_each(|path| assert!(expression.is_match(path), "{glob} {path}"));
            no.iter().for_each(|path| assert!(!expression.is_match(path), "{glob} {path}"));
        }
    }
}
