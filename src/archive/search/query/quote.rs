/*!
Text in quotes, which a turn must have as typed: the same words in sequence, with anything between them that is neither letter nor
digit. Case does not matter, and neither do accents.

The index knows stems and parts of names, so it gives the texts that may have the quote; these are then read. A text with the name
`mimeType: null` may have "type null" by the index, but does not. The index cannot give names with other capitals, which have other
parts: "maxretries" does not find `maxRetries`.
*/

use super::super::tokens::{Tokenizer, fold_text, fold_word, is_emoji, is_mark, is_unspaced, is_word_character};
use super::prefix::{Phrase, WordPrefix};

/// Words in quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// The words that the index has for them; names as their parts.
    pub words: Vec<String>,
    /// Prefixes of words of the index: that of the last word, if it may go on, or else single characters of scripts without spaces.
    pub prefixes: Vec<WordPrefix>,
    /// `true` if the last word may go on.
    is_open: bool,
    /// The words themselves, folded.
    typed: Vec<String>,
}

impl Quote {
    /// Reads the text between quotes; `None` if it has no words.
    pub(super) fn of(text: &str, tokenizer: &Tokenizer) -> Option<Self> {
        let is_open = text.strip_suffix('*').is_some_and(|text| text.ends_with(char::is_alphanumeric));
        let mut words = Vec::new();
        let mut last = None;
        tokenizer.tokens(text, &mut |token| {
            // In a text, the whole of a name may be the whole of a longer one.
            if !token.is_whole && !token.is_variant {
                last = Some(fold_word(&text[token.range]));
                words.push(token.word);
            }
        });
        let mut prefixes: Vec<WordPrefix> =
            last.filter(|_| is_open).map(|letters| WordPrefix::of(letters, tokenizer)).into_iter().collect();
        let is_open = !prefixes.is_empty();
        if is_open {
            words.pop();
        }
        // In a text, such a character is a half of pairs: it begins one, or stands at the end, where a kana is not in the index.
        let is_half = |word: &String| {
            let mut letters = word.chars().filter(|character| !is_mark(*character));
            letters.next().is_some_and(is_unspaced) && letters.next().is_none()
        };
        let (halves, words): (Vec<String>, Vec<String>) = words.into_iter().partition(is_half);
        if !is_open && words.is_empty() {
            let has_word = halves.iter().any(|half| half.starts_with(is_word_character));
            let needed = halves.into_iter().filter(|half| !has_word || half.starts_with(is_word_character));
            prefixes = needed.map(|letters| WordPrefix { letters, stems: Vec::new() }).collect();
        }
        let folded = fold_text(text);
        let typed = runs(&folded).into_iter().map(str::to_owned).collect();
        (!words.is_empty() || !prefixes.is_empty()).then_some(Self { words, prefixes, is_open, typed })
    }

    /// Returns the FTS5 expression for the texts that may have it, and perhaps for others.
    pub(super) fn expression(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| format!("\"{word}\"")).collect();
        let words = match words.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            // Behind each word the whole of a name may stand.
            several => Some(format!("NEAR({}, {})", several.join(" "), 2 * several.len())),
        };
        let prefixes = self.prefixes.iter().map(|prefix| format!("({})", expressions(prefix).join(" OR ")));
        words.into_iter().chain(prefixes).collect::<Vec<_>>().join(" AND ")
    }

    /// `true` if a text has it.
    pub(super) fn is_in(&self, runs: &[&str]) -> bool {
        let fits = |(at, (typed, run)): (usize, (&String, &&str))| {
            if self.is_open && at + 1 == self.typed.len() { run.starts_with(typed.as_str()) } else { typed == run }
        };
        runs.windows(self.typed.len().max(1)).any(|window| self.typed.iter().zip(window).enumerate().all(fits))
    }
}

fn expressions(prefix: &WordPrefix) -> Vec<String> {
    prefix.phrases().iter().map(Phrase::expression).collect()
}

/// Returns the runs of letters and digits of a folded text; in scripts without spaces, each character, as of pictures.
pub(super) fn runs(text: &str) -> Vec<&str> {
    let mut runs = Vec::new();
    for run in text.split(|c: char| !c.is_alphanumeric() && !is_emoji(c)) {
        let mut start = 0;
        for (at, character) in run.char_indices().filter(|(_, c)| is_unspaced(*c) || is_emoji(*c)) {
            let end = at + character.len_utf8();
            runs.extend([&run[start..at], &run[at..end]].into_iter().filter(|run| !run.is_empty()));
            start = end;
        }
        runs.extend(Some(&run[start..]).filter(|run| !run.is_empty()));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_what_was_typed() {
        for (quote, text, expected) in [
            ("parser", "The Parser, again", true),
            ("parser", "parsers parse", false),
            ("parser", "src/parser.rs: parser_state", true),
            ("type null", "type: null", true),
            ("type null", "mimeType: null", false),
            ("reset connection", "connection reset", false),
            ("max_retries", "max-retries max_retries_of", true),
            ("max_retries", "maxRetries", false),
            ("max_ret*", "let max_retries", true),
            ("max_ret*", "max_r", false),
            ("a * b", "a * b", true),
            ("日本", "日本語とRust", true),
            ("語とru*", "日本語とRust", true),
            ("résumé", "a re\u{301}sume\u{301}", true),
            ("Größe", "die GRÖSSE", true),
            ("🚀 release", "the 🚀 release", true),
            ("🚀", "a release", false),
        ] {
            let quote = Quote::of(quote, &Tokenizer::default()).expect("words");
            assert_eq!(quote.is_in(&runs(&fold_text(text))), expected, "{quote:?} in {text}");
        }
        assert_eq!(Quote::of(" … ", &Tokenizer::default()), None);
    }
}
