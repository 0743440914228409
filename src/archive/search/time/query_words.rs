//! The words of a query, and which of them can be part of a time.

use std::ops::Range;

/// A run of letters, digits, and hyphens between digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// In lower case; empty if it is in quotes or in the middle of something else: a path, a name, a line of a log.
    pub text: String,
    /// Its bytes in the query.
    pub range: Range<usize>,
    /// `true` if it is written as a name, between words that are not.
    pub is_name: bool,
    /// `true` if `'s` follows.
    pub is_possessive: bool,
    /// `true` if it is the start of a time of day.
    pub is_clock: bool,
}

/// The words of a query.
pub(super) fn words(query: &str) -> Vec<Word> {
    let quoted = quoted(query);
    let mut words: Vec<Word> = Vec::new();
    for range in runs(query) {
        let typed = &query[range.clone()];
        let (before, behind) = (&query[..range.start], &query[range.end..]);
        let mut text = typed.to_lowercase();
        let is_free = is_free_before(before, words.last()) && is_free_behind(&text, behind);
        let is_in_quotes = quoted.iter().any(|quoted| quoted.contains(&range.start));
        let is_clock = behind.strip_prefix(':').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            && before.ends_with(char::is_whitespace);
        if !is_free || is_in_quotes {
            text.clear();
        }
        let after = words.last().map(|last| &query[last.range.clone()]);
        let is_name = typed.starts_with(char::is_uppercase)
            && typed.chars().skip(1).all(char::is_lowercase)
            && after.is_some_and(|after| !after.starts_with(char::is_uppercase));
        words.push(Word { text, range, is_name, is_possessive: starts_with_possessive(behind), is_clock });
    }
    words
}

fn runs(query: &str) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut open = None;
    let characters = query.char_indices().map(|(at, c)| (at, Some(c))).chain([(query.len(), None)]);
    for (at, character) in characters {
        let joins = character == Some('-')
            && query[at + 1..].starts_with(|c: char| c.is_ascii_digit())
            && query[..at].ends_with(|c: char| c.is_ascii_digit());
        match (character.is_some_and(char::is_alphanumeric) || joins, open) {
            (true, None) => open = Some(at),
            (false, Some(start)) => {
                runs.push(start..at);
                open = None;
            }
            _ => {}
        }
    }
    runs
}

/// Returns the byte ranges between quotes.
pub(super) fn quoted(query: &str) -> Vec<Range<usize>> {
    let marks: Vec<usize> = query.match_indices('"').map(|(at, _)| at).collect();
    marks.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect()
}

fn is_free_before(before: &str, last: Option<&Word>) -> bool {
    match before.chars().next_back() {
        // "Mid-March".
        Some('-') => last.is_some_and(|last| is_part_of_month(&last.text) && last.range.end + 1 == before.len()),
        character => character.is_none_or(|c| c.is_whitespace() || matches!(c, '(' | '–' | '—' | '…')),
    }
}

fn is_free_behind(text: &str, behind: &str) -> bool {
    let mut rest = behind.chars();
    match rest.next() {
        Some('.' | ',' | ';' | ':' | '?' | '!') => {
            rest.next().is_none_or(|c| c.is_whitespace() || matches!(c, '.' | ',' | ';' | '?' | '!' | ')'))
        }
        Some('\'' | '’') => starts_with_possessive(behind),
        Some('-') => is_part_of_month(text),
        character => character.is_none_or(|c| c.is_whitespace() || matches!(c, ')' | '–' | '—' | '…')),
    }
}

fn starts_with_possessive(behind: &str) -> bool {
    let owned = behind.strip_prefix(['\'', '’']).and_then(|rest| rest.strip_prefix(['s', 'S']));
    owned.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// `true` if it names a part of a month.
pub(super) fn is_part_of_month(word: &str) -> bool {
    matches!(word, "early" | "mid" | "middle" | "late" | "end" | "beginning" | "start")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_something_else_is_no_word_of_a_time() {
        for (query, expected) in [
            ("Since May, or (mid-March)?", "since may or mid march"),
            ("last week's fix, yesterday’s", "last week fix yesterday"),
            ("logs/2026-11-20.txt may", "_ _ _ may"),
            ("[2026-11-20 12:33] error", "_ _ _ error"),
            ("is_today today() x.may std::march", "_ _ _ _ _ _ _"),
            ("a \"b c\" d \"e", "a _ _ d _"),
            ("rate-limit-may", "_ _ _"),
        ] {
            let read: Vec<String> = words(query)
                .into_iter()
                .filter(|word| !matches!(&query[word.range.clone()], "s"))
                .map(|word| if word.text.is_empty() { "_".to_owned() } else { word.text })
                .collect();
            assert_eq!(read.join(" "), expected, "{query}");
        }
    }
}
