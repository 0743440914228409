//! Regular expressions from the user.

use regex::{Regex, RegexBuilder};

use super::raw::{escape_controls, quote};

/// Maximum bytes of a compiled expression, and of its cache while searching. Some expressions with counts would take all memory.
const MAX_COMPILED_BYTES: usize = 1 << 20;
const MAX_CACHE_BYTES: usize = 2 << 20;

/// Error for a pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`{}` is no regular expression that can be used: {}", quote(pattern), short_cause(cause))]
pub struct InvalidPattern {
    /// The pattern.
    pub pattern: String,
    /// The cause.
    pub cause: Box<regex::Error>,
}

/// Compiles a pattern.
///
/// # Errors
/// If it is not a regular expression, or takes too much memory.
pub fn compile_pattern(pattern: &str) -> Result<Regex, InvalidPattern> {
    let compiled = RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_CACHE_BYTES).build();
    compiled.map_err(|cause| InvalidPattern { pattern: pattern.to_owned(), cause: Box::new(cause) })
}

/// The cause on one line, without the drawing of its position.
fn short_cause(cause: &regex::Error) -> String {
    match cause {
        regex::Error::CompiledTooBig(limit) => format!("compiled, it takes more than {limit} bytes"),
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            escape_controls(last.trim().trim_start_matches("error: "))
        }
    }
}
