/*!
Full-text search on the server: our own tokens, as in every store, as a `tsvector`.

A `tsvector` has each word once, with its positions and their weights; its size is limited. Queries come in the language
of the other index, FTS5, and use a few of its forms: words in quotes, prefixes, AND, OR, NOT, parentheses and columns.
*/

use std::collections::BTreeMap;
use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use ctxbridge_archive::search::tokens::Tokenizer;

/// Largest position of a word. All further words of a longer text get the last position.
const MAX_POSITION: u16 = 16_383;
/// Positions that are kept of one word; the server's limit is 256.
const MAX_POSITIONS_PER_WORD: usize = 100;
/// Maximum bytes of a word, and of all words together; the server's limits are 2,046 and 1,048,575.
const MAX_WORD_BYTES: usize = 2_000;
const MAX_TSVECTOR_BYTES: usize = 900_000;
/// Gap in positions between two fields, so that no phrase spans both.
const FIELD_GAP: u16 = 8;

/// Weight of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// Output of tools.
    D = 0,
    /// Calls of tools, and files.
    C = 1,
    /// Text of the model.
    B = 2,
    /// Text of a human, and summaries.
    A = 3,
}

/// The words of a text, with their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TsVector {
    positions: BTreeMap<String, Vec<u16>>,
    bytes: usize,
    last_position: u16,
}

impl TsVector {
    /// Adds the words of a field, which takes at most `places` positions.
    pub fn add(&mut self, tokenizer: &Tokenizer, text: &str, weight: Weight, places: u16) {
        let end = self.last_position.saturating_add(places).min(MAX_POSITION);
        if self.last_position > 0 && !text.is_empty() {
            self.last_position = (self.last_position + FIELD_GAP).min(end);
        }
        tokenizer.tokens(text, &mut |token| {
            // Another form of a word stands where the word does.
            if !token.is_variant {
                self.last_position = (self.last_position + 1).min(end.max(1));
            }
            let place = (weight as u16) << 14 | self.last_position;
            match self.positions.get_mut(&token.word) {
                // The same place once more is no other one.
                Some(known)
                    if known.len() >= MAX_POSITIONS_PER_WORD
                        || known.last().is_some_and(|last| last & MAX_POSITION == self.last_position) => {}
                Some(_) if self.bytes + 2 > MAX_TSVECTOR_BYTES => {}
                Some(known) => {
                    known.push(place);
                    self.bytes += 2;
                }
                // Letters, two bytes for their number, and what it takes to begin at an even byte.
                None if token.word.len() <= MAX_WORD_BYTES && self.bytes + token.word.len() + 6 <= MAX_TSVECTOR_BYTES => {
                    self.bytes += token.word.len() + 6;
                    self.positions.insert(token.word, vec![place]);
                }
                None => {}
            }
        });
    }
}

impl ToSql for TsVector {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i32(i32::try_from(self.positions.len())?);
        for (word, places) in &self.positions {
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

/// Translates an FTS5 expression to a `tsquery`; `None` where it has no words.
pub(super) fn to_tsquery(expression: &str) -> Option<String> {
    let mut reader = QueryParser { rest: expression, depth: 0 };
    reader.parse_or("")
}

/// The alternatives of a [query](to_tsquery); the query itself if it has none.
pub(super) fn alternatives(expression: &str) -> Vec<String> {
    let mut reader = QueryParser { rest: expression, depth: 0 };
    let mut all = reader.alternatives("");
    // What has columns has one pair of parentheses around all of it.
    while let [one] = &all[..] {
        let inner = one.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
        let Some(parts) = inner.and_then(split) else { break };
        all = parts;
    }
    all
}

/// Splits an expression at each `|` outside of parentheses; `None` where it has other operators there.
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

/// Parser of FTS5 expressions.
struct QueryParser<'a> {
    rest: &'a str,
    depth: u32,
}

/// Maximum nesting of parentheses, so that the stack cannot overflow.
const MAX_PARENTHESES_DEPTH: u32 = 64;

/// Start of a `NEAR` group: words that are close together, with a distance at the end.
const NEAR: &str = "NEAR(";

impl QueryParser<'_> {
    /// Parses alternatives. Empty ones are left out.
    fn parse_or(&mut self, weights: &str) -> Option<String> {
        joined(self.alternatives(weights), " | ")
    }

    fn alternatives(&mut self, weights: &str) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            all.extend(self.parse_and(weights));
            if !self.take("OR") {
                return all;
            }
        }
    }

    fn parse_and(&mut self, weights: &str) -> Option<String> {
        let mut all = Vec::new();
        loop {
            let before = self.rest.len();
            let is_not = self.take("NOT");
            if !is_not {
                self.take("AND");
            }
            if let Some(one) = self.parse_term(weights) {
                all.push(if is_not { format!("!{one}") } else { one });
            } else if self.rest.len() == before || self.is_at_end() {
                break;
            }
        }
        joined(all, " & ")
    }

    fn parse_term(&mut self, weights: &str) -> Option<String> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next()?;
        match first {
            '{' => {
                let (columns, rest) = self.rest[1..].split_once('}')?;
                self.rest = rest.trim_start().strip_prefix(':')?;
                self.parse_term(&weights_of(columns))
            }
            '(' if self.depth < MAX_PARENTHESES_DEPTH => {
                self.rest = &self.rest[1..];
                self.depth += 1;
                let inner = self.parse_or(weights);
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
                QueryParser { rest: words, depth: self.depth }.parse_and(weights)
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

/// A phrase of words in sequence. The last one may be a prefix.
fn phrase(text: &str, is_begin: bool, weights: &str) -> Option<String> {
    // Of ASCII, our words have letters, digits and `_` only; nothing else can be in the index. Beyond it, all is part of a word, as
    // for FTS5: marks, and what joins pictures.
    let is_between = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && c != '_';
    let words: Vec<&str> = text.split(is_between).filter(|word| !word.is_empty()).collect();
    let (last, rest) = words.split_last()?;
    let star = if is_begin { "*" } else { "" };
    let colon = if weights.is_empty() && !is_begin { "" } else { ":" };
    let plain = if weights.is_empty() { String::new() } else { format!(":{weights}") };
    let mut all: Vec<String> = rest.iter().map(|word| format!("'{word}'{plain}")).collect();
    all.push(format!("'{last}'{colon}{star}{weights}"));
    if all.len() == 1 { all.pop() } else { Some(format!("({})", all.join(" <-> "))) }
}

/// The weights of columns; an empty text for all.
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
        let mut words = TsVector::default();
        words.add(&tokenizer, "max_retries again", Weight::A, 100);
        words.add(&tokenizer, "again", Weight::D, 100);
        let (a, d) = (3 << 14, 0);
        let place = |word: &str| words.positions.get(word).cloned().unwrap_or_default();
        assert_eq!((place("max"), place("retri"), place("maxretries")), (vec![a | 1], vec![a | 2], vec![a | 3]));
        assert_eq!(place("again"), [a | 4, d | 13]);
    }

    #[test]
    fn a_long_text_fits() {
        let tokenizer = Tokenizer::default();
        let mut words = TsVector::default();
        let text: String = (0..400_000).map(|n| format!("w{n} same ")).collect();
        words.add(&tokenizer, &text, Weight::A, 4_000);
        words.add(&tokenizer, &text, Weight::D, 20_000);
        assert!(words.bytes <= MAX_TSVECTOR_BYTES && words.last_position == MAX_POSITION);
        for places in words.positions.values() {
            let places: Vec<u16> = places.iter().map(|place| place & MAX_POSITION).collect();
            assert!(places.len() <= MAX_POSITIONS_PER_WORD && places.is_sorted_by(|one, next| one < next) && places[0] > 0);
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
            assert_eq!(to_tsquery(of_fts5).as_deref(), Some(of_the_server), "{of_fts5}");
        }
        for nothing in ["", "()", r#""""#, "\"", "{prompt", "OR ", "((((", ")"] {
            assert_eq!(to_tsquery(nothing), None, "{nothing}");
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
            if let Some(query) = to_tsquery(&text) {
                prop_assert_eq!(query.matches('(').count(), query.matches(')').count());
            }
        }
    }
}
