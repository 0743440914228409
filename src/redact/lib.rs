/*!
Secrets in text: found by their form, by the name they are assigned to, or by their position, and replaced by
`[redacted:RULE]`.

Everything that leaves this machine, or is stored outside of the archive, goes through here. A single pass ([`Redactor`])
searches for keywords that every secret has near it; more work is done only where one is. Secrets with a known form are in
`rules.toml` (`rules`), with a regex that is compiled when needed, since hooks have no time for all of them. Hand-written
parsers handle secrets known by name (`names`, `assignment`) or by position (`address`). `value` recognizes placeholders,
and `private_key` finds the extent of a private key.

Redaction is idempotent. A JSON text stays valid JSON; [`Redactor::redact_json`] is better for it, since it sees decoded
strings, and keys. [`Redactor::redact_line`] does that to the bytes of a transcript's line, and leaves all other bytes.
*/

mod address;
mod assignment;
mod json;
mod line;
mod names;
mod private_key;
mod rules;
mod value;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;

use ctxbridge_config::{self as config, InvalidPattern};
use rules::Rule;
use value::ScannedText;

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

/// The keywords, one of which every secret has near it.
#[derive(Debug)]
struct KeywordIndex {
    automaton: AhoCorasick,
    /// The same automaton, three times as fast but with twice the time to build: for whole transcripts, not for hooks.
    fast: OnceLock<AhoCorasick>,
    words: Vec<&'static str>,
    /// The target of each word.
    leads: Vec<KeywordTarget>,
}

/// The detector that a keyword starts.
#[derive(Clone, Copy, Debug)]
enum KeywordTarget {
    /// The rule of the table with this index, which may match anywhere in the text.
    Rule(usize),
    /// A part of a name.
    Name,
    /// An address continues here.
    Url,
    /// A curl command continues here.
    Curl,
    /// A token follows.
    Bearer,
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
        self.secrets_by(&self.words.automaton, text)
    }

    fn secrets_by(&self, automaton: &AhoCorasick, text: &str) -> Vec<SecretSpan> {
        let mut found = Vec::new();
        let seen = ScannedText::new(text);
        let mut wanted = 0_u64;
        // A name is read once, however many parts it has.
        let mut named = 0;
        for hit in automaton.find_overlapping_iter(text) {
            let secret = match self.words.leads[hit.pattern().as_usize()] {
                KeywordTarget::Rule(at) => {
                    wanted |= 1 << at;
                    None
                }
                KeywordTarget::Name if hit.end() <= named => None,
                KeywordTarget::Name => assignment::find(seen, hit.range()).inspect(|(_, range)| named = range.start),
                KeywordTarget::Url => address::in_url(seen, hit.end()),
                KeywordTarget::Curl => address::in_curl(seen, hit.end() - 1),
                KeywordTarget::Bearer => assignment::bearer(seen, hit.end()),
            };
            found.extend(secret.map(|(rule, range)| SecretSpan { rule, range }));
        }
        for (at, rule) in Rule::all().iter().enumerate().filter(|(at, _)| wanted >> at & 1 == 1) {
            debug_assert!(at < u64::BITS as usize, "more rules than bits");
            for (start, range) in rule.regex().into_iter().flat_map(|regex| matches(regex, text, 1)) {
                // The quote behind a flag may be the end of the string.
                if start < range.start && seen.is_after_string(range.start) {
                    continue;
                }
                let range = if rule.is_key_marker { private_key::find_key(seen, range) } else { Some(range) };
                if let Some(range) = range.filter(|range| rule.is_secret(&text[range.clone()])) {
                    found.push(SecretSpan { rule: &rule.id, range });
                }
            }
        }
        for (_, range) in self.extra.iter().flat_map(|regex| matches(regex, text, 0)) {
            found.push(SecretSpan { rule: CUSTOM_RULE, range });
        }
        if found.is_empty() {
            return found;
        }
        let marks = marks(text);
        let is_old = |range: &Range<usize>| marks.iter().any(|mark| mark.start < range.end && range.start < mark.end);
        let is_allowed = |range: &Range<usize>| self.allow.iter().any(|allowed| allowed.is_match(&text[range.clone()]));
        found.retain(|secret| !secret.range.is_empty() && !is_old(&secret.range) && !is_allowed(&secret.range));
        merge_overlapping(found)
    }
}

impl KeywordIndex {
    /// The keywords, which are built once per process.
    fn all() -> &'static Self {
        static WORDS: OnceLock<KeywordIndex> = OnceLock::new();
        WORDS.get_or_init(|| {
            let rules = Rule::all().iter().enumerate();
            let of_rules =
                rules.flat_map(|(at, rule)| rule.keywords.iter().map(move |word| (word.as_str(), KeywordTarget::Rule(at))));
            let of_names = names::NAME_PARTS.iter().map(|part| (*part, KeywordTarget::Name));
            let others = [("://", KeywordTarget::Url), ("curl ", KeywordTarget::Curl), ("bearer ", KeywordTarget::Bearer)];
            let (words, leads): (Vec<&str>, Vec<KeywordTarget>) = of_rules.chain(of_names).chain(others).unzip();
            Self { automaton: automaton(AhoCorasickKind::ContiguousNFA, &words), fast: OnceLock::new(), words, leads }
        })
    }

    fn fast(&self) -> &AhoCorasick {
        self.fast.get_or_init(|| automaton(AhoCorasickKind::DFA, &self.words))
    }
}

fn automaton(kind: AhoCorasickKind, words: &[&str]) -> AhoCorasick {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(kind))
        .build(words)
        .expect("a hundred constant words are no more than an automaton can have")
}

fn marker(rule: &str) -> String {
    format!("{MARKER_PREFIX}{rule}]")
}

/// Ranges of replacements in a text.
fn marks(text: &str) -> Vec<Range<usize>> {
    let end = |start: usize| text[start..].find(']').map_or(text.len(), |length| start + length + 1);
    text.match_indices(MARKER_PREFIX).map(|(start, _)| start..end(start)).collect()
}

/// Matches of a regex: each start, and the range of the first matched group within, else of the whole. `all` is the whole's group.
fn matches<'t>(regex: &'t Regex, text: &'t str, all: usize) -> impl Iterator<Item = (usize, Range<usize>)> + 't {
    let mut from = 0;
    std::iter::from_fn(move || {
        let groups = regex.captures_at(text, Some(from).filter(|from| *from <= text.len())?)?;
        let whole = groups.get(all)?.range();
        let secret = groups.iter().skip(all + 1).flatten().next().map_or(whole.clone(), |group| group.range());
        // What follows the secret may be part of the next one. A pattern of the user may find nothing at all, and be there again.
        from = secret.end.max(whole.start + text[whole.start..].chars().next().map_or(1, char::len_utf8));
        Some((whole.start, secret))
    })
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
