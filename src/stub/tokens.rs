//! Counting tokens.

/// A rough token count: one for every 3.5 characters, rounded up.
pub fn estimate_tokens(chars: usize) -> u64 {
    (2 * chars as u64).div_ceil(7)
}

/// Cache reads and writes of one request, in tokens; all other tokens are plain input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUsage {
    /// Tokens that were found, and not computed again.
    pub read: u64,
    /// Tokens that were not found, and are kept from now on.
    pub written: u64,
}
