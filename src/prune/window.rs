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

/// The window that a request with this many tokens needs.
pub fn window_needed(tokens: u64) -> u64 {
    if tokens > DEFAULT_WINDOW_TOKENS { LARGE_WINDOW_TOKENS } else { DEFAULT_WINDOW_TOKENS }
}

/// Tokens before the end of the window at which a release of the client compacts: of 93 compactions on record, half were at 155,000 of
/// 200,000 tokens up to 2.1.24, and at 167,000 later. An unknown release is a new one. The patch says the same, in `patch.toml`.
pub fn reserve_tokens(version: Option<&str>) -> u64 {
    let numbers =
        |version: &str| version.split(['.', '-']).map(|number| number.parse().unwrap_or(0)).take(3).collect::<Vec<u32>>();
    let is_older = version.is_some_and(|version| numbers(version) < FIRST_WITH_NEWER_RESERVE.to_vec());
    if is_older { OLDER_RESERVE_TOKENS } else { RESERVE_TOKENS }
}

/// The size of the context at which a release of the client compacts.
pub fn compaction_threshold(window_tokens: u64, version: Option<&str>) -> u64 {
    window_tokens.saturating_sub(reserve_tokens(version))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
