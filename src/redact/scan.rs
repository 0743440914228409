//! A single pass over a text for the keywords that every secret has near it, and the detectors that these start.
//!
//! Anybody may have written the text, so all of it is linear: a detector looks at a bounded number of bytes, or at none that it has
//! looked at before.

use std::ops::Range;
use std::sync::OnceLock;

use regex::Regex;

use super::keywords::SecretKeywords;
use super::rules::Rule;
use super::value::{LastValues, ScannedText};
use super::{SecretSpan, address, assignment, authorization, base64, blocks, calls, commands, names, private_key, prose};

/// Maximum depth of base64 within base64.
const MAX_ENCODINGS: usize = 2;

/// The keywords, one of which every secret has near it.
#[derive(Debug)]
pub struct KeywordIndex {
    keywords: SecretKeywords,
    /// The target of each word.
    targets: Vec<KeywordTarget>,
}

/// The detector that a keyword starts.
#[derive(Clone, Copy, Debug)]
enum KeywordTarget {
    /// The rule of the table with this index.
    Rule(usize),
    /// A part of a name.
    Name,
    /// A word for a password in some language.
    Word,
    /// A word before a user and its password.
    Pair,
    /// An address continues here.
    Url,
    /// A command with this index continues here.
    Command(usize),
    /// The arguments of a call follow.
    Call,
    /// The columns of a statement in SQL follow.
    Insert,
    /// The keys of a secret of Kubernetes follow.
    Kubernetes,
    /// A text for PowerShell follows.
    SecureString,
    /// A password of a connection string follows.
    Connection,
    /// A token follows.
    Bearer,
}

impl KeywordIndex {
    /// The keywords, which are built once per process.
    pub fn all() -> &'static Self {
        static WORDS: OnceLock<KeywordIndex> = OnceLock::new();
        WORDS.get_or_init(|| {
            let rules = Rule::all().iter().enumerate();
            let of_rules =
                rules.flat_map(|(at, rule)| rule.keywords.iter().map(move |word| (word.as_str(), KeywordTarget::Rule(at))));
            let all = |words: &'static [&'static str], target| words.iter().map(move |word| (*word, target));
            let others = [
                ("://", KeywordTarget::Url),
                ("pwd=", KeywordTarget::Connection),
                ("pwd =", KeywordTarget::Connection),
                ("bearer ", KeywordTarget::Bearer),
                ("insert into", KeywordTarget::Insert),
                ("kind: secret", KeywordTarget::Kubernetes),
                ("convertto-securestring", KeywordTarget::SecureString),
            ];
            let (words, targets): (Vec<&str>, Vec<KeywordTarget>) = of_rules
                .chain(all(names::NAME_PARTS, KeywordTarget::Name))
                .chain(all(prose::WORDS, KeywordTarget::Word))
                .chain(all(prose::PAIR_WORDS, KeywordTarget::Pair))
                .chain(all(calls::CALLS, KeywordTarget::Call))
                .chain(commands::keywords().map(|(word, at)| (word, KeywordTarget::Command(at))))
                .chain(others)
                .unzip();
            Self { keywords: SecretKeywords::new(&words), targets }
        })
    }
}

/// The secrets of a text, in no order.
pub fn secrets(words: &KeywordIndex, text: &str) -> Vec<SecretSpan> {
    let mut scan = Scan { words, found: Vec::new() };
    scan.text(text);
    scan.encoded(text, MAX_ENCODINGS);
    scan.found
}

struct Scan<'s> {
    words: &'s KeywordIndex,
    found: Vec<SecretSpan>,
}

impl Scan<'_> {
    fn text(&mut self, text: &str) {
        let last = LastValues::default();
        let seen = ScannedText::new(text, &last);
        let rules = Rule::all();
        let first = self.found.len();
        // Where each rule goes on: what it has found is not looked at again.
        let mut done = vec![0; rules.len()];
        let mut near = vec![Vec::new(); rules.len()];
        // A name is read once, however many parts it has, and a command once for each kind of it.
        let mut named = 0;
        let mut kubernetes = blocks::KubernetesLines::default();
        let mut line = commands::CommandLine::default();
        // What a pass before this one has put there.
        let mut marks = super::marks(text).into_iter().peekable();
        for (word, range) in self.words.keywords.find(text) {
            while marks.next_if(|mark| mark.end <= range.start).is_some() {}
            if marks.peek().is_some_and(|mark| mark.start <= range.start && range.end <= mark.end) {
                continue;
            }
            match self.words.targets[word] {
                KeywordTarget::Rule(at) if rules[at].is_anywhere => add_lines(&mut near[at], text, range.start),
                KeywordTarget::Rule(at) if range.start < done[at] => {}
                KeywordTarget::Rule(at) => {
                    if let Some(secret) = rules[at].secret_at(text, range.start) {
                        done[at] = secret.end;
                        self.push_rule(seen, &rules[at], range.start, secret);
                    }
                }
                KeywordTarget::Name if range.end <= named => {}
                KeywordTarget::Name => {
                    let is_sign = !text.as_bytes()[range.end - 1].is_ascii_alphanumeric();
                    let part = range.start..range.end - usize::from(is_sign);
                    if let Some(name) = assignment::name_around(seen, part) {
                        let secret = assignment::find(seen, &name);
                        named = secret.as_ref().map_or(name.end, |(_, range)| range.end);
                        self.found.extend(secret.map(|(rule, range)| SecretSpan { rule, range }));
                    }
                }
                KeywordTarget::Word => {
                    let secret = Some(range).filter(|word| prose::is_alone(seen, word));
                    let secret = secret.and_then(|word| prose::find(seen, &word, names::SecretKind::Password));
                    self.extend(assignment::NAMED_SECRET_RULE, secret);
                }
                KeywordTarget::Pair => {
                    let secret =
                        Some(range).filter(|word| prose::is_alone(seen, word)).and_then(|word| prose::find_pair(seen, &word));
                    self.extend(assignment::NAMED_SECRET_RULE, secret);
                }
                KeywordTarget::Url => {
                    if let Some((rule, range)) = address::in_url(seen, range.end) {
                        self.push(rule, range);
                    }
                }
                KeywordTarget::Connection => self.extend(address::CONNECTION_RULE, address::in_connection(seen, &range)),
                KeywordTarget::Command(at) => {
                    line.find(seen, at, &range).into_iter().for_each(|(rule, range)| self.push(rule, range));
                }
                KeywordTarget::Call => self.extend(assignment::NAMED_SECRET_RULE, calls::find(seen, &range)),
                KeywordTarget::Insert => self.extend(assignment::NAMED_SECRET_RULE, calls::inserted(seen, &range)),
                KeywordTarget::Kubernetes => {
                    self.extend(assignment::NAMED_SECRET_RULE, kubernetes.values(seen, range.end));
                }
                KeywordTarget::SecureString => self.extend(assignment::NAMED_SECRET_RULE, blocks::secure_string(seen, range.end)),
                KeywordTarget::Bearer => self.extend(authorization::AUTHORIZATION_RULE, authorization::bearer(seen, range.end)),
            }
        }
        for (rule, near) in rules.iter().zip(near).filter(|(_, near)| !near.is_empty()) {
            let found = rule.regex().into_iter().flat_map(|regex| near.iter().flat_map(|lines| matches(regex, text, lines, 1)));
            if rule.is_key_marker {
                let markers: Vec<_> = found.map(|(_, range)| range).collect();
                self.extend(&rule.id, private_key::find_keys(seen, &markers));
            } else {
                found.for_each(|(start, range)| self.push_rule(seen, rule, start, range));
            }
        }
        self.keep_json(seen, first);
    }

    /// Looks into base64.
    fn encoded(&mut self, text: &str, deeper: usize) {
        let Some(deeper) = deeper.checked_sub(1) else { return };
        for (range, decoded) in base64::texts(text) {
            let first = self.found.len();
            self.text(&decoded);
            self.encoded(&decoded, deeper);
            if self.found.len() > first {
                self.found.truncate(first);
                self.push(base64::BASE64_RULE, range);
            }
        }
    }

    fn push_rule(&mut self, seen: ScannedText<'_>, rule: &'static Rule, start: usize, range: Range<usize>) {
        // The quote behind a flag may be the end of the string.
        let is_outside = start < range.start && seen.is_after_string(range.start);
        if !is_outside && rule.is_secret(&seen.text[range.clone()]) {
            self.push(&rule.id, range);
        }
    }

    fn push(&mut self, rule: &'static str, range: Range<usize>) {
        self.found.push(SecretSpan { rule, range });
    }

    fn extend(&mut self, rule: &'static str, ranges: impl IntoIterator<Item = Range<usize>>) {
        self.found.extend(ranges.into_iter().map(|range| SecretSpan { rule, range }));
    }

    /// Keeps JSON what it is: no secret has a quote of it, or half an escape, or is in no string.
    fn keep_json(&mut self, seen: ScannedText<'_>, first: usize) {
        if !seen.is_json() {
            return;
        }
        let ends = |secret: &SecretSpan| [secret.range.start, secret.range.end];
        let mut positions: Vec<usize> = self.found[first..].iter().flat_map(ends).collect();
        positions.sort_unstable();
        positions.dedup();
        let places = seen.places_in_json(&positions);
        let place = |position: usize| positions.binary_search(&position).map_or((true, position), |at| places[at]);
        // A text that only begins like JSON has quotes of another meaning, and is redacted all the same.
        let is_outside = |secret: &SecretSpan| !place(secret.range.start).0;
        let drops_outside = self.found[first..].iter().any(is_outside) && is_valid_json(seen.text);
        let found = self.found.split_off(first).into_iter().filter(|secret| !(drops_outside && is_outside(secret)));
        let kept = found.filter(|secret| !seen.crosses_string(secret.range.clone()));
        self.found.extend(kept.filter_map(|SecretSpan { rule, range }| {
            let range = place(range.start).1..place(range.end).1;
            (!range.is_empty()).then_some(SecretSpan { rule, range })
        }));
    }
}

/// `true` for JSON to its end, one value or several; a [`ScannedText`] only begins like it.
fn is_valid_json(text: &str) -> bool {
    serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>().all(|value| value.is_ok())
}

/// Adds the lines around a keyword to those in which a rule is looked for, all in order and apart.
fn add_lines(near: &mut Vec<Range<usize>>, text: &str, keyword: usize) {
    /// Bytes behind a keyword that a match may have on further lines.
    const REACH: usize = 600;
    let bytes = text.as_bytes();
    let done = near.last().map_or(0, |last| last.end);
    let reach = (keyword + REACH).min(bytes.len());
    if !near.is_empty() && reach <= done {
        return;
    }
    let from = reach.max(done);
    let end = memchr::memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |length| from + length);
    let line = memchr::memrchr(b'\n', &bytes[done.min(keyword)..keyword]).map(|at| done + at + 1);
    match near.last_mut().filter(|_| line.is_none()) {
        Some(last) => last.end = end,
        None => near.push(line.unwrap_or(0)..end),
    }
}

/// Matches of a regex in a part of a text: each start, and the range of the first matched group within, else of the whole. `all` is
/// the whole's group.
pub fn matches<'t>(
    regex: &'t Regex,
    text: &'t str,
    part: &Range<usize>,
    all: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> + use<'t> {
    let mut from = part.start;
    let text = &text[..part.end];
    std::iter::from_fn(move || {
        let groups = regex.captures_at(text, Some(from).filter(|from| *from <= text.len())?)?;
        let whole = groups.get(all)?.range();
        let secret = groups.iter().skip(all + 1).flatten().next().map_or(whole.clone(), |group| group.range());
        // What follows the secret may be part of the next one. A pattern of the user may find nothing at all, and be there again.
        from = secret.end.max(whole.start + text[whole.start..].chars().next().map_or(1, char::len_utf8));
        Some((whole.start, secret))
    })
}
