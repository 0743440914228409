/*!
Secrets in text: found by their form, by the name they are assigned to, or by their position, and replaced by
`[redacted:RULE]`.

Everything that leaves this machine, or is stored outside of the archive, goes through here. A text is looked at as its reader sees
it (`view`): without colors, with its escapes decoded. A single pass (`scan`) searches it for keywords that every secret has near
it (`keywords`); more work is done only where one is. Secrets with a known form are in `rules.toml` (`rules`), with a regex that is
compiled when needed, since hooks have no time for all of them. Hand-written parsers handle secrets known by name (`names`,
`assignment`, `authorization`, `blocks`) or by position (`address`, `commands`, `calls`), and those that a sentence tells of
(`prose`), which have to look like one (`strength`). Text in base64 is looked through as well (`base64`). `value` recognizes
placeholders, and `private_key` finds the extent of a private key.

Time is linear in the length of a text, whoever wrote it.

Redaction is idempotent. A JSON text stays valid JSON; [`Redactor::redact_json`] is better for it, since it sees decoded
strings, and keys. [`Redactor::redact_line`] does that to the bytes of a transcript's line, and leaves all other bytes.
*/

mod address;
mod assignment;
mod authorization;
mod base64;
mod blocks;
mod calls;
mod commands;
mod findings;
mod json;
mod keywords;
mod line;
mod names;
mod private_key;
mod prose;
mod rules;
mod scan;
mod strength;
mod value;
mod view;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use regex::Regex;

use ctxbridge_config::{self as config, InvalidPattern};
pub use findings::Finding;
use scan::KeywordIndex;
use view::View;

/// Start of every replacement.
const MARKER_PREFIX: &str = "[redacted:";

/// Name of the rule for the user's patterns.
const CUSTOM_RULE: &str = "pattern";

/// Maximum number of passes over a text. Only a text made to keep us busy needs more.
const MAX_PASSES: usize = 8;

/// The user's patterns.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedactionPatterns<'p> {
    /// Regular expressions of more secrets. Group 1, if there is one, is the secret.
    pub extra: &'p [String],
    /// Regular expressions of text that is no secret. A secret with a match anywhere in it stays, unless anchors say otherwise.
    pub allow: &'p [String],
}

/// A text without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted<'t> {
    /// The text; borrowed where it had no secrets.
    pub text: Cow<'t, str>,
    /// Number of secrets that were found, by rule.
    pub found: RedactionCounts,
}

/// Number of secrets that were found, by rule.
pub type RedactionCounts = BTreeMap<&'static str, usize>;

/// Finds secrets.
#[derive(Debug)]
pub struct Redactor {
    words: &'static KeywordIndex,
    extra: Vec<Regex>,
    allow: Vec<Regex>,
}

/// A secret that was found.
struct SecretSpan {
    rule: &'static str,
    range: Range<usize>,
}

impl Redactor {
    /// A redactor with the user's patterns.
    ///
    /// # Errors
    /// If a pattern is not a regular expression, or takes too much memory.
    pub fn new(patterns: &RedactionPatterns<'_>) -> Result<Self, InvalidPattern> {
        let (redactor, problems) = Self::of_patterns(patterns);
        problems.into_iter().next().map_or(Ok(redactor), Err)
    }

    /// A redactor with the user's settings. Invalid patterns are skipped, and returned. Callers that must not go on without them
    /// use [`Self::strict`].
    pub fn of(settings: &config::RedactSettings) -> (Self, Vec<InvalidPattern>) {
        Self::of_patterns(&RedactionPatterns { extra: &settings.patterns, allow: &settings.allow })
    }

    /// A redactor with all of the user's settings: for data that leaves this machine.
    ///
    /// # Errors
    /// If a pattern is not a regular expression, or takes too much memory.
    pub fn strict(settings: &config::RedactSettings) -> Result<Self, InvalidPattern> {
        Self::new(&RedactionPatterns { extra: &settings.patterns, allow: &settings.allow })
    }

    fn of_patterns(patterns: &RedactionPatterns<'_>) -> (Self, Vec<InvalidPattern>) {
        let mut problems = Vec::new();
        let mut compile = |patterns: &[String]| {
            let one = |pattern: &String| config::compile_pattern(pattern).map_err(|problem| problems.push(problem)).ok();
            patterns.iter().filter_map(one).collect::<Vec<_>>()
        };
        let redactor = Self { words: KeywordIndex::all(), extra: compile(patterns.extra), allow: compile(patterns.allow) };
        (redactor, problems)
    }

    /// The redactor without the user's patterns.
    pub fn standard() -> &'static Self {
        static STANDARD: OnceLock<Redactor> = OnceLock::new();
        STANDARD.get_or_init(|| Self { words: KeywordIndex::all(), extra: Vec::new(), allow: Vec::new() })
    }

    /// `true` if a text has a secret.
    pub fn has_secret(&self, text: &str) -> bool {
        matches!(self.redact(text).text, Cow::Owned(_))
    }

    /// Replaces each secret in a text by `[redacted:RULE]`.
    pub fn redact<'t>(&self, text: &'t str) -> Redacted<'t> {
        let mut redacted = Redacted { text: Cow::Borrowed(text), found: RedactionCounts::new() };
        // What was beside a secret may be seen as one when that is gone.
        for _ in 0..MAX_PASSES {
            let secrets = self.secrets(&redacted.text);
            if secrets.is_empty() {
                break;
            }
            let mut clean = String::with_capacity(redacted.text.len());
            let mut done = 0;
            for SecretSpan { rule, range } in secrets {
                clean.push_str(&redacted.text[done..range.start]);
                clean.push_str(&marker(rule));
                done = range.end;
                *redacted.found.entry(rule).or_default() += 1;
            }
            clean.push_str(&redacted.text[done..]);
            redacted.text = Cow::Owned(clean);
        }
        redacted
    }

    /// The secrets of a text, in order and without overlaps.
    fn secrets(&self, text: &str) -> Vec<SecretSpan> {
        let mut found = match View::of(text) {
            None => scan::secrets(self.words, text),
            Some(view) => {
                let mut found = scan::secrets(self.words, &view.text);
                found.iter_mut().for_each(|secret| secret.range = view.original(&secret.range));
                found
            }
        };
        for (_, range) in self.extra.iter().flat_map(|regex| scan::matches(regex, text, &(0..text.len()), 0)) {
            found.push(SecretSpan { rule: CUSTOM_RULE, range });
        }
        if found.is_empty() {
            return found;
        }
        let marks = marks(text);
        let is_old = |range: &Range<usize>| {
            let next = marks.partition_point(|mark| mark.end <= range.start);
            marks.get(next).is_some_and(|mark| mark.start < range.end)
        };
        let is_allowed = |range: &Range<usize>| self.allow.iter().any(|allowed| allowed.is_match(&text[range.clone()]));
        found.retain(|secret| !secret.range.is_empty() && !is_old(&secret.range) && !is_allowed(&secret.range));
        merge_overlapping(found)
    }
}

fn marker(rule: &str) -> String {
    format!("{MARKER_PREFIX}{rule}]")
}

/// Ranges of replacements in a text, in order.
fn marks(text: &str) -> Vec<Range<usize>> {
    /// Maximum bytes of the name of a rule.
    const LONGEST: usize = 64;
    let end = |start: usize| {
        let name = &text.as_bytes()[start + MARKER_PREFIX.len()..];
        let length = name.iter().take(LONGEST).take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
        // A mark that was cut off goes up to there.
        start + MARKER_PREFIX.len() + length + usize::from(name.get(length) == Some(&b']'))
    };
    memchr::memmem::find_iter(text.as_bytes(), MARKER_PREFIX).map(|start| start..end(start)).collect()
}

/// Merges overlapping secrets. The result has the rule of the one that starts first, or of the longest.
fn merge_overlapping(mut found: Vec<SecretSpan>) -> Vec<SecretSpan> {
    found.sort_by_key(|secret| (secret.range.start, std::cmp::Reverse(secret.range.end)));
    let mut apart: Vec<SecretSpan> = Vec::with_capacity(found.len());
    for secret in found {
        match apart.last_mut().filter(|last| secret.range.start < last.range.end) {
            Some(last) => {
                // The form says more than the name.
                if last.rule == assignment::NAMED_SECRET_RULE && last.range == secret.range {
                    last.rule = secret.rule;
                }
                last.range.end = last.range.end.max(secret.range.end);
            }
            None => apart.push(secret),
        }
    }
    apart
}
