//! Regular expressions that the user wrote.

use regex::{Regex, RegexBuilder};

use super::raw::{plain, quote};

/// Bytes that one may take when it is compiled, and while it is looked for: some with counts would take all there are.
const LARGEST: usize = 1 << 20;
const LARGEST_CACHE: usize = 2 << 20;

/// A pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`{}` is no regular expression that can be used: {}", quote(pattern), said(cause))]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// Why.
    pub cause: Box<regex::Error>,
}

/// Compiles a pattern.
///
/// # Errors
/// When it is no regular expression, or one that takes too much.
pub fn compile(pattern: &str) -> Result<Regex, PatternError> {
    let compiled = RegexBuilder::new(pattern).size_limit(LARGEST).dfa_size_limit(LARGEST_CACHE).build();
    compiled.map_err(|cause| PatternError { pattern: pattern.to_owned(), cause: Box::new(cause) })
}

/// On one line, without the picture of where it is.
fn said(cause: &regex::Error) -> String {
    match cause {
        regex::Error::CompiledTooBig(limit) => format!("compiled, it takes more than {limit} bytes"),
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            plain(last.trim().trim_start_matches("error: "))
        }
    }
}
