//! Snippets: the part of a text that shows best why it was found.

use std::collections::HashSet;
use std::ops::Range;

use super::query::QueryTerms;
use super::tokens::Tokenizer;
use crate::quote::head;

/// A part of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snippet {
    /// One line, with an ellipsis where something is missing.
    pub text: String,
    /// Byte ranges in it of words of the query.
    pub marks: Vec<Range<usize>>,
    /// Number of different terms in it.
    pub terms: usize,
}

/// Range in a text of a word of the query, and that word as indexed.
pub type TermMatch = (Range<usize>, String);

/// Returns all words of the query in a text.
pub fn find_matches(text: &str, terms: &QueryTerms, tokenizer: &Tokenizer) -> Vec<TermMatch> {
    let mut hits: Vec<TermMatch> = Vec::new();
    tokenizer.tokens(text, &mut |token| {
        if terms.has_word(&token.word) {
            hits.push((token.range, token.word));
        }
    });
    // A name and its parts are one mark: the longer one comes behind.
    hits.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    hits
}

/// Returns the part of at most `chars` characters with most of the hits; the start, if there are none.
pub fn best_snippet(text: &str, hits: &[TermMatch], chars: usize) -> Snippet {
    // What is shown when a hit is the first that has to be: some characters before it and so many in all.
    let window = |from: usize| {
        let start = lead_in(text, hits[from].0.start, chars / 5);
        start..start + head(&text[start..], chars).len()
    };
    let distinct = |from: usize| {
        let window = window(from);
        let first = hits.partition_point(|(range, _)| range.start < window.start);
        let shown =
            hits[first..].iter().take_while(|(range, _)| range.start < window.end).filter(|(range, _)| range.end <= window.end);
        shown.map(|(_, word)| word.as_str()).collect::<HashSet<&str>>().len()
    };
    // Of a text that is full of hits, the begin is enough.
    let best =
        (0..hits.len().min(400)).map(|from| (distinct(from), from)).max_by_key(|(count, from)| (*count, usize::MAX - from));
    let begin = || 0..head(text, chars).len();
    let (terms, Range { start, end }) = best.map_or_else(|| (0, begin()), |(count, from)| (count, window(from)));
    let mut snippet = Snippet { terms, ..Snippet::default() };
    if start > 0 {
        snippet.text.push('…');
    }
    let mut marks =
        hits.iter().map(|(range, _)| range.clone()).filter(|range| range.start >= start && range.end <= end).peekable();
    let mut open: Option<(usize, usize)> = None;
    for (at, character) in text[start..end].char_indices().map(|(at, character)| (start + at, character)) {
        if let Some((begin, _)) = open.take_if(|(_, until)| at >= *until) {
            snippet.marks.push(begin..snippet.text.len());
        }
        while marks.peek().is_some_and(|mark| mark.start < at) {
            marks.next();
        }
        if character.is_whitespace() || character.is_control() {
            if !snippet.text.ends_with([' ', '…']) && !snippet.text.is_empty() {
                snippet.text.push(' ');
            }
            continue;
        }
        if open.is_none()
            && let Some(mark) = marks.next_if(|mark| mark.start == at)
        {
            open = Some((snippet.text.len(), mark.end));
        }
        snippet.text.push(character);
    }
    if let Some((begin, _)) = open {
        snippet.marks.push(begin..snippet.text.len());
    }
    snippet.text.truncate(snippet.text.trim_end().len());
    if end < text.len() {
        snippet.text.push('…');
    }
    snippet
}

/// Returns an offset some characters before a position, at the start of a word.
fn lead_in(text: &str, at: usize, chars: usize) -> usize {
    let start = text[..at].char_indices().rev().nth(chars).map_or(0, |(at, _)| at);
    let space = text[start..at].char_indices().find(|(_, character)| character.is_whitespace());
    if start == 0 { 0 } else { space.map_or(start, |(space, character)| start + space + character.len_utf8()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marked(text: &str, query: &str, chars: usize) -> String {
        let tokenizer = Tokenizer::default();
        let snippet = best_snippet(text, &find_matches(text, &QueryTerms::of(query, &tokenizer), &tokenizer), chars);
        let mut shown = snippet.text.clone();
        for mark in snippet.marks.iter().rev() {
            shown.insert(mark.end, ']');
            shown.insert(mark.start, '[');
        }
        shown
    }

    #[test]
    fn the_best_piece_with_marks() {
        assert_eq!(marked("Why does the parser\nhang?", "parsers hanging", 80), "Why does the [parser] [hang]?");
        assert_eq!(marked("set max_retries here", "maxRetries", 80), "set [max_retries] here");
        assert_eq!(marked("nothing fits", "parser", 80), "nothing fits");
        assert_eq!(marked("some words before\u{a0}it: the\u{a0}parser", "parser", 12), "…[parser]", "a space of two bytes");
        let long = format!("{}the lock timeout was 5 s {}", "padding words ".repeat(20), "and so on ".repeat(20));
        assert_eq!(marked(&long, "lock timeout", 40), "…the [lock] [timeout] was 5 s and so on and s…");
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        // Both words are within 50 characters, and more than 50 bytes apart.
        let text = format!("lock {}the lock {} timeout", "padding words ".repeat(20), "é".repeat(26));
        assert_eq!(marked(&text, "lock timeout", 50), format!("…words the [lock] {} [timeout]", "é".repeat(26)));
        // A term behind what is shown is not in it.
        let tokenizer = Tokenizer::default();
        let text = format!("{}lock {} timeout", "some words before ".repeat(5), "x".repeat(30));
        assert_eq!(
            best_snippet(&text, &find_matches(&text, &QueryTerms::of("lock timeout", &tokenizer), &tokenizer), 45).terms,
            1
        );
    }

    proptest! {
        #[test]
        fn marks_are_in_the_text(text in ".{0,200}|[a-z_ .\n]{0,300}", query in "[a-z_]{1,3}( [a-z]{1,3}\\*?){0,3}", chars in 1_usize..100) {
            let tokenizer = Tokenizer::default();
            let snippet = best_snippet(&text, &find_matches(&text, &QueryTerms::of(&query, &tokenizer), &tokenizer), chars);
            prop_assert!(snippet.text.chars().count() <= chars + 2);
            let mut last = 0;
            for mark in &snippet.marks {
                prop_assert!(mark.start >= last && mark.start < mark.end && snippet.text.get(mark.clone()).is_some(), "{snippet:?}");
                last = mark.end;
            }
        }
    }
}
