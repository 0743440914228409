/*!
Texts as the server finds them: our own words, as in every store, in its own type.

A `tsvector` has each word once, with its places and their weights; what it can hold is limited. What is asked for comes in the language of the
other index, FTS5, of which queries are made of a few forms: words in quotes, begins, AND, OR, NOT, parentheses and columns.
*/

use std::collections::BTreeMap;
use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use ctxbridge_archive::search::tokens::Tokenizer;

/// Places that a word can have; a text that goes on has the rest of its words at the last one.
const LAST_PLACE: u16 = 16_383;
/// Places of one word that are kept: the server has room for 256.
const MOST_PLACES: usize = 100;
/// Bytes of a word at most, and of all of them together: the server's limits are 2,046 and 1,048,575.
const LONGEST_WORD: usize = 2_000;
const MOST_BYTES: usize = 900_000;
/// Words are further apart than that where another field begins: no phrase is in two fields.
const GAP: u16 = 8;

/// How much a place counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// Output of tools.
    D = 0,
    /// Calls of tools, and files.
    C = 1,
    /// What the model said.
    B = 2,
    /// What a human said, and summaries.
    A = 3,
}

/// The words of a text, with where they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    places: BTreeMap<String, Vec<u16>>,
    bytes: usize,
    last: u16,
}

impl Words {
    /// Adds the words of a field, which takes at most so many places.
    pub fn add(&mut self, tokenizer: &Tokenizer, text: &str, weight: Weight, places: u16) {
        let end = self.last.saturating_add(places).min(LAST_PLACE);
        if self.last > 0 && !text.is_empty() {
            self.last = (self.last + GAP).min(end);
        }
        tokenizer.tokens(text, &mut |token| {
            self.last = (self.last + 1).min(end.max(1));
            let place = (weight as u16) << 14 | self.last;
            match self.places.get_mut(&token.word) {
                // The same place once more is no other one.
                Some(known) if known.len() >= MOST_PLACES || known.last().is_some_and(|last| last & LAST_PLACE == self.last) => {}
                Some(_) if self.bytes + 2 > MOST_BYTES => {}
                Some(known) => {
                    known.push(place);
                    self.bytes += 2;
                }
                // Letters, two bytes for their number, and what it takes to begin at an even byte.
                None if token.word.len() <= LONGEST_WORD && self.bytes + token.word.len() + 6 <= MOST_BYTES => {
                    self.bytes += token.word.len() + 6;
                    self.places.insert(token.word, vec![place]);
                }
                None => {}
            }
        });
    }
}

impl ToSql for Words {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i32(i32::try_from(self.places.len())?);
        for (word, places) in &self.places {
            out.put_slice(word.as_bytes());
            out.put_u8(0);
            out.put_u16(u16::try_from(places.len())?);
            places.iter().for_each(|place| out.put_u16(*place));
        }
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TS_VECTOR
    }

    to_sql_checked!();
}

/// What is asked for, as the server reads it (`tsquery`), of what FTS5 reads; nothing where it asks for nothing.
pub(super) fn query(expression: &str) -> Option<String> {
    let mut reader = Reader { rest: expression, depth: 0 };
    reader.any("")
}

/// The alternatives that a [`query`] is made of: itself, where there are none.
pub(super) fn alternatives(expression: &str) -> Vec<String> {
    let mut reader = Reader { rest: expression, depth: 0 };
    let mut all = reader.alternatives("");
    // What has columns has one pair of parentheses around all of it.
    while let [one] = &all[..] {
        let inner = one.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
        let Some(parts) = inner.and_then(split) else { break };
        all = parts;
    }
    all
}

/// What stands between the `|` of an expression, outside of its parentheses; nothing where it is not of that form.
fn split(expression: &str) -> Option<Vec<String>> {
    let (mut parts, mut depth, mut begin, mut is_in_quotes) = (Vec::new(), 0_i32, 0, false);
    for (at, character) in expression.char_indices() {
        match character {
            '\'' => is_in_quotes = !is_in_quotes,
            '(' if !is_in_quotes => depth += 1,
            ')' if !is_in_quotes => depth -= 1,
            '|' if !is_in_quotes && depth == 0 => {
                parts.push(expression[begin..at].trim().to_owned());
                begin = at + 1;
            }
            '&' | '<' if !is_in_quotes && depth == 0 => return None,
            _ => {}
        }
        // The parentheses at both ends were no pair.
        if depth < 0 {
            return None;
        }
    }
    parts.push(expression[begin..].trim().to_owned());
    Some(parts)
}

/// Reads FTS5's expressions.
struct Reader<'a> {
    rest: &'a str,
    depth: u32,
}

/// Parentheses within each other: more than anybody makes, and no reason to run out of stack.
const DEEPEST: u32 = 64;

/// What begins a list of words that stand close together, with a number behind it.
const NEAR: &str = "NEAR(";

impl Reader<'_> {
    /// Alternatives, of which those that ask for nothing are left out.
    fn any(&mut self, weights: &str) -> Option<String> {
        joined(self.alternatives(weights), " | ")
    }

    fn alternatives(&mut self, weights: &str) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            all.extend(self.all(weights));
            if !self.take("OR") {
                return all;
            }
        }
    }

    fn all(&mut self, weights: &str) -> Option<String> {
        let mut all = Vec::new();
        loop {
            let before = self.rest.len();
            let is_not = self.take("NOT");
            if !is_not {
                self.take("AND");
            }
            if let Some(one) = self.one(weights) {
                all.push(if is_not { format!("!{one}") } else { one });
            } else if self.rest.len() == before || self.is_at_end() {
                break;
            }
        }
        joined(all, " & ")
    }

    fn one(&mut self, weights: &str) -> Option<String> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next()?;
        match first {
            '{' => {
                let (columns, rest) = self.rest[1..].split_once('}')?;
                self.rest = rest.trim_start().strip_prefix(':')?;
                self.one(&weights_of(columns))
            }
            '(' if self.depth < DEEPEST => {
                self.rest = &self.rest[1..];
                self.depth += 1;
                let inner = self.any(weights);
                self.depth -= 1;
                self.rest = self.rest.trim_start();
                self.rest = self.rest.strip_prefix(')').unwrap_or(self.rest);
                inner
            }
            '"' => {
                let (text, rest) = self.rest[1..].split_once('"')?;
                self.rest = rest;
                let is_begin = self.rest.starts_with('*');
                self.rest = self.rest.strip_prefix('*').unwrap_or(self.rest);
                phrase(text, is_begin, weights)
            }
            ')' => None,
            // How near, whoever reads what was found says.
            _ if self.rest.starts_with(NEAR) => {
                let (words, rest) = self.rest[NEAR.len()..].split_once(',')?;
                self.rest = rest.split_once(')')?.1;
                Reader { rest: words, depth: self.depth }.all(weights)
            }
            // A word as it is.
            _ if self.rest.starts_with("OR ") => None,
            _ => {
                let is_end = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '"' | '{' | '*');
                let end = self.rest.find(is_end).unwrap_or(self.rest.len()).max(first.len_utf8());
                let (word, rest) = self.rest.split_at(end);
                let is_begin = rest.starts_with('*');
                self.rest = rest.strip_prefix('*').unwrap_or(rest);
                phrase(&word.to_lowercase(), is_begin, weights)
            }
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(word) {
            Some(behind) if behind.starts_with([' ', '(', '"', '{']) => {
                self.rest = behind;
                true
            }
            _ => false,
        }
    }

    fn is_at_end(&self) -> bool {
        let rest = self.rest.trim_start();
        rest.is_empty() || rest.starts_with(')') || rest.starts_with("OR ")
    }
}

fn joined(parts: Vec<String>, by: &str) -> Option<String> {
    match &parts[..] {
        [] => None,
        [one] => Some(one.clone()),
        _ => Some(format!("({})", parts.join(by))),
    }
}

/// Words one behind the other; of the last one perhaps only the begin.
fn phrase(text: &str, is_begin: bool, weights: &str) -> Option<String> {
    // Our words have letters, digits and `_` only; nothing else can be in the index.
    let words: Vec<&str> =
        text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '\u{307}')).filter(|word| !word.is_empty()).collect();
    let (last, rest) = words.split_last()?;
    let star = if is_begin { "*" } else { "" };
    let colon = if weights.is_empty() && !is_begin { "" } else { ":" };
    let plain = if weights.is_empty() { String::new() } else { format!(":{weights}") };
    let mut all: Vec<String> = rest.iter().map(|word| format!("'{word}'{plain}")).collect();
    all.push(format!("'{last}'{colon}{star}{weights}"));
    if all.len() == 1 { all.pop() } else { Some(format!("({})", all.join(" <-> "))) }
}

/// The weights of columns; all, where there are none.
fn weights_of(columns: &str) -> String {
    let mut weights: Vec<&str> = columns
        .split_whitespace()
        .map(|column| match column {
            "prompt" | "summary" | "topics" => "A",
            "answer" | "first" | "last" => "B",
            "input" | "files" => "C",
            _ => "D",
        })
        .collect();
    weights.sort_unstable();
    weights.dedup();
    weights.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_have_places_and_weights() {
        let tokenizer = Tokenizer::default();
        let mut words = Words::default();
        words.add(&tokenizer, "max_retries again", Weight::A, 100);
        words.add(&tokenizer, "again", Weight::D, 100);
        let (a, d) = (3 << 14, 0);
        let place = |word: &str| words.places.get(word).cloned().unwrap_or_default();
        assert_eq!((place("max"), place("retri"), place("maxretries")), (vec![a | 1], vec![a | 2], vec![a | 3]));
        assert_eq!(place("again"), [a | 4, d | 13]);
    }

    #[test]
    fn a_long_text_fits() {
        let tokenizer = Tokenizer::default();
        let mut words = Words::default();
        let text: String = (0..400_000).map(|n| format!("w{n} same ")).collect();
        words.add(&tokenizer, &text, Weight::A, 4_000);
        words.add(&tokenizer, &text, Weight::D, 20_000);
        assert!(words.bytes <= MOST_BYTES && words.last == LAST_PLACE);
        for places in words.places.values() {
            let places: Vec<u16> = places.iter().map(|place| place & LAST_PLACE).collect();
            assert!(places.len() <= MOST_PLACES && places.is_sorted_by(|one, next| one < next) && places[0] > 0);
        }
    }

    #[test]
    fn queries() {
        for (of_fts5, of_the_server) in [
            (r#""retri""#, "'retri'"),
            (r#""max" OR "retri""#, "('max' | 'retri')"),
            (r#""max" AND "retri""#, "('max' & 'retri')"),
            (r#""max" "retri""#, "('max' & 'retri')"),
            (r#""max" NOT "retri""#, "('max' & !'retri')"),
            (r#""archiv"*"#, "'archiv':*"),
            (r#""one two three""#, "('one' <-> 'two' <-> 'three')"),
            (r#""one tw"*"#, "('one' <-> 'tw':*)"),
            (r#"{prompt answer} : ("a" OR "b"*)"#, "('a':AB | 'b':*AB)"),
            (r#"("a" AND "b") OR (("a" AND "b") AND ("c" OR "d"))"#, "(('a' & 'b') | (('a' & 'b') & ('c' | 'd')))"),
            ("plain words", "('plain' & 'words')"),
            (r#"NEAR("one" "two", 4) AND ("three")"#, "(('one' & 'two') & 'three')"),
            (r#""it's \ : & | ! <->""#, "('it' <-> 's')"),
        ] {
            assert_eq!(query(of_fts5).as_deref(), Some(of_the_server), "{of_fts5}");
        }
        for nothing in ["", "()", r#""""#, "\"", "{prompt", "OR ", "((((", ")"] {
            assert_eq!(query(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn alternatives_of_queries() {
        for (of_fts5, of_the_server) in [
            (r#""retri""#, &["'retri'"][..]),
            (r#""max" OR "retri"* OR "a b""#, &["'max'", "'retri':*", "('a' <-> 'b')"]),
            (r#"{prompt} : ("a" OR "b")"#, &["'a':A", "'b':A"]),
            (r#"("a" AND "b") OR (("a" AND "b") AND ("c" OR "d"))"#, &["('a' & 'b')", "(('a' & 'b') & ('c' | 'd'))"]),
            // What is no list of alternatives stays as it is.
            (r#""a b""#, &["('a' <-> 'b')"]),
            (r#"{prompt} : ("a" AND "b")"#, &["('a':A & 'b':A)"]),
            (r#"("a" OR "b") AND ("c" OR "d")"#, &["(('a' | 'b') & ('c' | 'd'))"]),
            ("", &[]),
        ] {
            assert_eq!(alternatives(of_fts5), of_the_server, "{of_fts5}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_read_ends(text in r#"([(){}":*a ]|AND|OR|NOT){0,40}"#) {
            if let Some(query) = query(&text) {
                prop_assert_eq!(query.matches('(').count(), query.matches(')').count());
            }
        }
    }
}
