/*!
Secrets in text: found by their form, by the name that they are assigned to, and by where they stand, and replaced by
`[redacted:RULE]`.

What leaves this machine, or is kept besides the archive, goes through here. Words that every secret has near it are looked for in one
pass ([`Redactor`]); only where one is, more is done. What is known by its form is in `rules.toml` (`rules`) with a regex that is
compiled then, since hooks have no time for all of them. What is known by its name (`names`, `assignment`) or by its place
(`address`) is read by hand, and `value` says what only stands for a secret. How far a private key goes, `private_key` finds out.

Redacting twice is redacting once. A JSON text whose strings have secrets is JSON afterwards; better is [`Redactor::redact_json`], which
sees strings as they are meant, and keys. [`Redactor::redact_line`] does that to the bytes of a transcript's line, and leaves the rest of them as
they are.
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

use ctxbridge_config::{self as config, PatternError};
use rules::Rule;
use value::Text;

/// How every replacement begins.
const MARK: &str = "[redacted:";

/// The name of the rule for patterns of the user.
const EXTRA: &str = "pattern";

/// What is found in a text that was redacted so often already is left: nobody writes such a text but to keep us busy.
const MOST_PASSES: usize = 8;

/// Patterns of the user.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patterns<'p> {
    /// Regular expressions of more secrets; group 1 is the secret where there is one.
    pub extra: &'p [String],
    /// Regular expressions of what is no secret: one in which it is found whole, or in part unless it has anchors, stays.
    pub allow: &'p [String],
}

/// A text without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted<'t> {
    /// The text; borrowed where there were none.
    pub text: Cow<'t, str>,
    /// How many were found, by rule.
    pub found: Found,
}

/// How many secrets were found, by rule.
pub type Found = BTreeMap<&'static str, usize>;

/// Finds secrets.
#[derive(Debug)]
pub struct Redactor {
    words: &'static Words,
    extra: Vec<Regex>,
    allow: Vec<Regex>,
}

/// The words that every secret has near it.
#[derive(Debug)]
struct Words {
    automaton: AhoCorasick,
    /// The same, three times as fast and with twice the time to build: for whole transcripts, and not for hooks.
    fast: OnceLock<AhoCorasick>,
    words: Vec<&'static str>,
    /// What each word leads to.
    leads: Vec<Lead>,
}

/// What a word that was found leads to.
#[derive(Clone, Copy, Debug)]
enum Lead {
    /// This rule of the table may match somewhere.
    Rule(usize),
    /// A part of a name.
    Name,
    /// An address goes on here.
    Url,
    /// A command of curl goes on here.
    Curl,
    /// A token goes on here.
    Bearer,
}

/// A secret.
struct Secret {
    rule: &'static str,
    range: Range<usize>,
}

impl Redactor {
    /// With patterns of the user.
    ///
    /// # Errors
    /// When one of them is no regular expression, or one that takes too much.
    pub fn new(patterns: &Patterns<'_>) -> Result<Self, PatternError> {
        let (redactor, problems) = Self::of_patterns(patterns);
        problems.into_iter().next().map_or(Ok(redactor), Err)
    }

    /// With the user's settings. Patterns that are no regular expressions are passed over, and listed; who must not go on without them asks
    /// [`Self::strict`].
    pub fn of(settings: &config::Redact) -> (Self, Vec<PatternError>) {
        Self::of_patterns(&Patterns { extra: &settings.patterns, allow: &settings.allow })
    }

    /// With the user's settings, all of them: for what leaves this machine.
    ///
    /// # Errors
    /// When one of the patterns is no regular expression, or one that takes too much.
    pub fn strict(settings: &config::Redact) -> Result<Self, PatternError> {
        Self::new(&Patterns { extra: &settings.patterns, allow: &settings.allow })
    }

    fn of_patterns(patterns: &Patterns<'_>) -> (Self, Vec<PatternError>) {
        let mut problems = Vec::new();
        let mut compile = |patterns: &[String]| {
            let one = |pattern: &String| config::compile(pattern).map_err(|problem| problems.push(problem)).ok();
            patterns.iter().filter_map(one).collect::<Vec<_>>()
        };
        let redactor = Self { words: Words::all(), extra: compile(patterns.extra), allow: compile(patterns.allow) };
        (redactor, problems)
    }

    /// Without any.
    pub fn standard() -> &'static Self {
        static STANDARD: OnceLock<Redactor> = OnceLock::new();
        STANDARD.get_or_init(|| Self { words: Words::all(), extra: Vec::new(), allow: Vec::new() })
    }

    /// Whether there is a secret in a text.
    pub fn has_secret(&self, text: &str) -> bool {
        matches!(self.redact(text).text, Cow::Owned(_))
    }

    /// A text with `[redacted:RULE]` for each secret.
    pub fn redact<'t>(&self, text: &'t str) -> Redacted<'t> {
        let mut redacted = Redacted { text: Cow::Borrowed(text), found: Found::new() };
        // What was beside a secret may be seen as one when that is gone.
        for _ in 0..MOST_PASSES {
            let secrets = self.secrets(&redacted.text);
            if secrets.is_empty() {
                break;
            }
            let mut clean = String::with_capacity(redacted.text.len());
            let mut done = 0;
            for Secret { rule, range } in secrets {
                clean.push_str(&redacted.text[done..range.start]);
                clean.push_str(&mark(rule));
                done = range.end;
                *redacted.found.entry(rule).or_default() += 1;
            }
            clean.push_str(&redacted.text[done..]);
            redacted.text = Cow::Owned(clean);
        }
        redacted
    }

    /// The secrets of a text in their order, apart from each other.
    fn secrets(&self, text: &str) -> Vec<Secret> {
        self.secrets_by(&self.words.automaton, text)
    }

    fn secrets_by(&self, automaton: &AhoCorasick, text: &str) -> Vec<Secret> {
        let mut found = Vec::new();
        let seen = Text::new(text);
        let mut wanted = 0_u64;
        // A name is read once, however many parts it has.
        let mut named = 0;
        for hit in automaton.find_overlapping_iter(text) {
            let secret = match self.words.leads[hit.pattern().as_usize()] {
                Lead::Rule(at) => {
                    wanted |= 1 << at;
                    None
                }
                Lead::Name if hit.end() <= named => None,
                Lead::Name => assignment::find(seen, hit.range()).inspect(|(_, range)| named = range.start),
                Lead::Url => address::in_url(seen, hit.end()),
                Lead::Curl => address::in_curl(seen, hit.end() - 1),
                Lead::Bearer => assignment::bearer(seen, hit.end()),
            };
            found.extend(secret.map(|(rule, range)| Secret { rule, range }));
        }
        for (at, rule) in Rule::all().iter().enumerate().filter(|(at, _)| wanted >> at & 1 == 1) {
            debug_assert!(at < u64::BITS as usize, "more rules than bits");
            for (start, range) in rule.regex().into_iter().flat_map(|regex| matches(regex, text, 1)) {
                // The quote behind a flag may be the end of the string.
                if start < range.start && seen.is_behind_a_string(range.start) {
                    continue;
                }
                let range = if rule.is_key_marker { private_key::body(seen, range) } else { Some(range) };
                if let Some(range) = range.filter(|range| rule.is_secret(&text[range.clone()])) {
                    found.push(Secret { rule: &rule.id, range });
                }
            }
        }
        for (_, range) in self.extra.iter().flat_map(|regex| matches(regex, text, 0)) {
            found.push(Secret { rule: EXTRA, range });
        }
        if found.is_empty() {
            return found;
        }
        let marks = marks(text);
        let is_old = |range: &Range<usize>| marks.iter().any(|mark| mark.start < range.end && range.start < mark.end);
        let is_allowed = |range: &Range<usize>| self.allow.iter().any(|allowed| allowed.is_match(&text[range.clone()]));
        found.retain(|secret| !secret.range.is_empty() && !is_old(&secret.range) && !is_allowed(&secret.range));
        apart(found)
    }
}

impl Words {
    /// They are put together once in a process.
    fn all() -> &'static Self {
        static WORDS: OnceLock<Words> = OnceLock::new();
        WORDS.get_or_init(|| {
            let rules = Rule::all().iter().enumerate();
            let of_rules = rules.flat_map(|(at, rule)| rule.keywords.iter().map(move |word| (word.as_str(), Lead::Rule(at))));
            let of_names = names::PARTS.iter().map(|part| (*part, Lead::Name));
            let others = [("://", Lead::Url), ("curl ", Lead::Curl), ("bearer ", Lead::Bearer)];
            let (words, leads): (Vec<&str>, Vec<Lead>) = of_rules.chain(of_names).chain(others).unzip();
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

fn mark(rule: &str) -> String {
    format!("{MARK}{rule}]")
}

/// Where secrets were.
fn marks(text: &str) -> Vec<Range<usize>> {
    let end = |start: usize| text[start..].find(']').map_or(text.len(), |length| start + length + 1);
    text.match_indices(MARK).map(|(start, _)| start..end(start)).collect()
}

/// What a regex finds: where it begins, and the group within that took part, else all of it. `all` is the group of all that counts.
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

/// Those that overlap become one, with the name of the one that begins first, or is longest.
fn apart(mut found: Vec<Secret>) -> Vec<Secret> {
    found.sort_by_key(|secret| (secret.range.start, std::cmp::Reverse(secret.range.end)));
    let mut apart: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match apart.last_mut().filter(|last| secret.range.start < last.range.end) {
            Some(last) => {
                // The form says more than the name.
                if last.rule == assignment::ID && last.range == secret.range {
                    last.rule = secret.rule;
                }
                last.range.end = last.range.end.max(secret.range.end);
            }
            None => apart.push(secret),
        }
    }
    apart
}
