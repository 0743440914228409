//! The window of a model, and where in it the client compacts.

/// Tokens in the window of most models, and of a session that does not say.
pub const DEFAULT_WINDOW_TOKENS: u64 = 200_000;
/// Tokens in the window of the others.
pub const LARGE_WINDOW_TOKENS: u64 = 1_000_000;
/// Tokens before the end of the window at which the client compacts: 20,000 for an answer, and 13,000.
pub const RESERVE_TOKENS: u64 = 33_000;
/// The same up to 2.1.24, which kept 32,000 for an answer.
const OLDER_RESERVE_TOKENS: u64 = 45_000;
const FIRST_WITH_NEWER_RESERVE: [u32; 3] = [2, 1, 25];

/// Models with the larger window by themselves, by the start of their names, as of release 2.1.332 of the client.
const LARGE_WINDOW_MODELS: [&str; 7] = [
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-haiku-5",
    "claude-mythos-",
    "claude-sonnet-5",
    "claude-fable-",
    "claude-opus-5",
];

/// Models that get the larger window on request. That a session had it says nothing of the next one.
const ON_REQUEST_MODELS: [&str; 2] = ["claude-opus-4-6", "claude-sonnet-4"];

/// Mark of such a request in some of the client's names. Transcripts name the same model without it.
const REQUEST_MARK: &str = "[1m]";

/// Maximum length of a model's name that is learned.
const MAX_MODEL_BYTES: usize = 100;

/// Windows of models: those that sessions said or showed, and a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelWindows {
    /// Parts of names, the mark and then longer ones first, and windows in tokens.
    windows: Vec<(String, u64)>,
}

impl Default for ModelWindows {
    /// The table alone.
    fn default() -> Self {
        Self::with([])
    }
}

impl ModelWindows {
    /// The table, and what was learned, which counts more.
    pub fn with(learned: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut windows: Vec<(String, u64)> = learned.into_iter().filter(|(model, _)| is_learnable(model)).collect();
        for name in LARGE_WINDOW_MODELS {
            if !windows.iter().any(|(model, _)| model == name) {
                windows.push((name.to_owned(), LARGE_WINDOW_TOKENS));
            }
        }
        // What was learned of a model says nothing of one whose name goes on.
        windows.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        windows.insert(0, (REQUEST_MARK.to_owned(), LARGE_WINDOW_TOKENS));
        Self { windows }
    }

    /// The window of a model, if it is known.
    pub fn of(&self, model: &str) -> Option<u64> {
        self.windows.iter().find(|(name, _)| model.contains(name.as_str())).map(|(_, tokens)| *tokens)
    }

    /// Parts of names, and windows in tokens: the first part that a model's name contains says its window.
    pub fn as_list(&self) -> &[(String, u64)] {
        &self.windows
    }
}

/// `true` for the name of a model as providers write them, without a request for the larger window. It becomes part of the code that is
/// injected.
pub fn is_learnable(model: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/@".contains(&byte);
    (1..=MAX_MODEL_BYTES).contains(&model.len()) && model.bytes().all(is_plain)
}

/// `true` if a request above the smaller window shows the window of a model, rather than that the user asked for the larger one.
pub fn is_shown_by_requests(model: &str) -> bool {
    !ON_REQUEST_MODELS.iter().any(|name| model.contains(name))
}

/// The window of a session whose largest request has this many tokens: the known one, unless that is too small.
pub fn window_for(known: Option<u64>, largest: u64) -> u64 {
    known.filter(|window| largest <= *window).unwrap_or_else(|| window_needed(largest))
}

/// The window that a request with this many tokens needs.
pub fn window_needed(tokens: u64) -> u64 {
    if tokens > DEFAULT_WINDOW_TOKENS { LARGE_WINDOW_TOKENS } else { DEFAULT_WINDOW_TOKENS }
}

/// Tokens before the end of the window at which a release of the client compacts: of 93 compactions on record, half were at 155,000 of
/// 200,000 tokens up to 2.1.24, and at 167,000 later. An unknown release is a new one. The patch says the same, in `patch.toml`.
pub fn reserve_tokens(version: Option<&str>) -> u64 {
    let is_older = version.is_some_and(|version| numbers(version) < FIRST_WITH_NEWER_RESERVE.to_vec());
    if is_older { OLDER_RESERVE_TOKENS } else { RESERVE_TOKENS }
}

/// `true` if a release of the client clears old tool results by itself before it compacts. A new one does not.
pub fn micro_compacts(version: Option<&str>) -> bool {
    // 2.1.64 looks and does like 2.1.69.
    let has_it = |version: &str| {
        let version = numbers(version);
        (vec![1, 0, 65]..vec![2, 1, 69]).contains(&version) && version != [2, 1, 64]
    };
    version.is_some_and(has_it)
}

fn numbers(version: &str) -> Vec<u32> {
    version.split(['.', '-']).map(|number| number.parse().unwrap_or(0)).take(3).collect()
}

/// The size of the context at which a release of the client compacts.
pub fn compaction_threshold(window_tokens: u64, version: Option<&str>) -> u64 {
    window_tokens.saturating_sub(reserve_tokens(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learned_counts_more_than_the_table() {
        let table = ModelWindows::default();
        for (model, window) in [
            ("claude-opus-5-5", Some(1_000_000)),
            ("us.anthropic.claude-opus-4-8-20260301-v1:0", Some(1_000_000)),
            ("claude-sonnet-4-6[1m]", Some(1_000_000)),
            ("claude-sonnet-4-6", None),
            ("claude-opus-4-5-20251101", None),
            ("", None),
        ] {
            assert_eq!(table.of(model), window, "{model}");
        }
        let learned =
            [("claude-opus-5", 200_000), ("claude-sonnet-4-6", 500_000), ("claude-opus-4", 200_000), ("\u{e9}", 1), ("a[1m]", 1)];
        let known = ModelWindows::with(learned.map(|(model, window)| (model.to_owned(), window)));
        for (model, window) in [
            ("claude-opus-5", Some(200_000)),
            ("claude-sonnet-4-6", Some(500_000)),
            ("claude-sonnet-4-6[1m]", Some(1_000_000)),
            ("claude-opus-4-8", Some(1_000_000)),
            ("claude-opus-4-20250514", Some(200_000)),
            ("\u{e9}", None),
        ] {
            assert_eq!(known.of(model), window, "{model}");
        }
    }

    #[test]
    fn a_window_is_known_or_needed() {
        for (known, largest, window) in [
            (None, 200_000, 200_000),
            (None, 200_001, 1_000_000),
            (Some(500_000), 250_000, 500_000),
            (Some(200_000), 196_000, 200_000),
            (Some(200_000), 210_000, 1_000_000),
        ] {
            assert_eq!(window_for(known, largest), window);
        }
    }

    #[test]
    fn the_threshold_is_that_of_the_release() {
        for (version, threshold) in [
            (None, 167_000),
            (Some("2.0.76"), 155_000),
            (Some("2.1.9"), 155_000),
            (Some("2.1.24"), 155_000),
            (Some("2.1.25"), 167_000),
            (Some("2.1.331"), 167_000),
            (Some("3.0.0-beta"), 167_000),
        ] {
            assert_eq!(compaction_threshold(200_000, version), threshold, "{version:?}");
        }
    }

    #[test]
    fn older_releases_clear_results() {
        for version in ["1.0.65", "2.0.76", "2.1.63", "2.1.65", "2.1.68"] {
            assert!(micro_compacts(Some(version)), "{version}");
        }
        for version in ["1.0.64", "2.1.64", "2.1.69", "2.1.331"] {
            assert!(!micro_compacts(Some(version)), "{version}");
        }
        assert!(!micro_compacts(None));
    }
}
