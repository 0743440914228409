/*!
Cuts text into the words that are indexed and searched, the same on both sides.

Prose is stemmed. A name in code becomes its parts and, after them, the whole of it without separators. So `max_retries`,
`maxRetries` and `max-retries` are one name, and "retries" finds it as well. Scripts without spaces are cut into pairs of
characters.

Text may be of any language. A word is cut from the text as it stands, and folded afterwards (`fold`), so that its range is that
of the text. Each script has its stemmer. Words in Latin letters are all stemmed as English, since a query is too short to tell
its language. Where the language of a text is known (`language`), its own stems are added as variants, and the parts of long
words (`compound`). A query adds the stems of all languages that it may be in. English text has no variants.
*/

mod compound;
mod cut;
mod fold;
mod language;
mod small_words;
mod stem;
mod unspaced;

use std::borrow::Cow;
use std::ops::Range;

use cut::{for_each_piece, is_plain_word, run_end, split_camel_case};
pub(crate) use fold::fold_text;
use fold::is_latin;
pub(super) use fold::{fold_word, is_emoji, is_mark};
pub use language::QueryLanguage;
use language::{LanguageSet, Passages};
pub(super) use language::{is_english_stem, is_foreign_stop_word};
use stem::{Stemmers, script_stem};
pub(super) use unspaced::{is_unspaced, is_word_character};

/// Version of the tokenization. A change makes whoever keeps words cut them again.
pub const VERSION: u32 = 3;

/// Maximum number of letters of a word: what is longer is encoded data.
const MAX_TOKEN_LETTERS: usize = 48;

/// Maximum number of parts of a name: what has more is a list.
const MAX_NAME_PARTS: usize = 8;

/// A word as it is indexed, and its range in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Lower case and folded, stemmed where it is prose; letters and digits only.
    pub word: String,
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// `true` if it is a whole name, whose parts come before it.
    pub is_whole: bool,
    /// `true` if it is another form of the word before it: the stem of a language, or a part of a compound.
    pub is_variant: bool,
}

/// Cuts texts into words.
#[derive(Default)]
pub struct Tokenizer {
    stemmers: Stemmers,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokenizer")
    }
}

impl Tokenizer {
    /// Passes the words of a text to `sink`, in order; variants come behind their word.
    pub fn tokens(&self, text: &str, sink: &mut dyn FnMut(Token)) {
        let mut passages = Passages::default();
        let cutter = |at: usize| CutMode::Text(passages.language(text, at));
        self.cut(text, cutter, sink);
    }

    /// Passes the words of a part of a query to `sink`, with the variants that the texts may have.
    pub fn query_tokens(&self, part: &str, language: &QueryLanguage, sink: &mut dyn FnMut(Token)) {
        self.cut(part, |_| CutMode::Query(language), sink);
    }

    fn cut<'q>(&self, text: &str, mut mode: impl FnMut(usize) -> CutMode<'q>, sink: &mut dyn FnMut(Token)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at].is_ascii() {
                if bytes[at].is_ascii_alphanumeric() {
                    let (end, is_ascii) = run_end(text, at);
                    self.name(text, at..end, is_ascii, mode(at), sink);
                    at = end;
                } else {
                    at += 1;
                }
                continue;
            }
            let character = text[at..].chars().next().unwrap_or_default();
            if is_unspaced(character) {
                at = unspaced::run(text, at, mode(at).is_query(), sink);
            } else if character.is_alphanumeric() {
                let (end, is_ascii) = run_end(text, at);
                self.name(text, at..end, is_ascii, mode(at), sink);
                at = end;
            } else if is_emoji(character) {
                let end = fold::emoji_end(text, at);
                sink(Token { word: fold::fold_emoji(&text[at..end]), range: at..end, is_whole: false, is_variant: false });
                at = end;
            } else {
                at += character.len_utf8();
            }
        }
    }

    /// Returns the words of a text, in order and with spaces between them. Variants come last, so that words that follow each
    /// other in the text do so here.
    pub fn join(&self, text: &str) -> String {
        let mut joined = String::with_capacity(text.len());
        let mut variants = String::new();
        self.tokens(text, &mut |token| {
            let joined = if token.is_variant { &mut variants } else { &mut joined };
            if !joined.is_empty() {
                joined.push(' ');
            }
            joined.push_str(&token.word);
        });
        if !variants.is_empty() {
            joined.push(' ');
            joined.push_str(&variants);
        }
        joined
    }

    /// Passes the words of a run of letters, digits and separators.
    fn name(&self, text: &str, range: Range<usize>, is_ascii: bool, mode: CutMode<'_>, sink: &mut dyn FnMut(Token)) {
        let mut parts = 0;
        let mut whole = String::new();
        let mut last: Option<Range<usize>> = None;
        let digits = |part: &Range<usize>| text[part.clone()].bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = !mode.is_nothing() && is_plain_word(&text[range.clone()]);
        let is_name = range.len() <= MAX_TOKEN_LETTERS || !is_ascii && letters(&text[range.clone()]) <= MAX_TOKEN_LETTERS;
        for_each_piece(text, range.clone(), &mut |piece| {
            split_camel_case(text, piece, &mut |part| {
                self.part(text, part.clone(), is_ascii, if is_plain { mode } else { CutMode::Name(mode.is_query()) }, sink);
                parts += 1;
                if !is_name || parts > MAX_NAME_PARTS {
                    return;
                }
                if let Some(before) = last.replace(part.clone()) {
                    if parts == 2 {
                        whole.reserve(range.len());
                        push_folded(&mut whole, &text[before.clone()], is_ascii);
                    }
                    // 1.12 is not 11.2.
                    if digits(&part) && digits(&before) {
                        whole.push('_');
                    }
                    push_folded(&mut whole, &text[part], is_ascii);
                }
            });
        });
        if is_name && (2..=MAX_NAME_PARTS).contains(&parts) && !whole.is_empty() {
            sink(Token { word: whole, range, is_whole: true, is_variant: false });
        }
    }

    fn part(&self, text: &str, range: Range<usize>, is_ascii: bool, mode: CutMode<'_>, sink: &mut dyn FnMut(Token)) {
        let typed = &text[range.clone()];
        if typed.len() > MAX_TOKEN_LETTERS && (is_ascii || letters(typed) > MAX_TOKEN_LETTERS) {
            return;
        }
        let folded = if is_ascii { typed.to_ascii_lowercase() } else { fold_word(typed) };
        if folded.is_empty() {
            return;
        }
        let is_stemmed = !(is_ascii && mode.is_nothing());
        let variants = if is_stemmed { self.variants(typed, &folded, mode) } else { Vec::new() };
        let word = match self.stem(&folded) {
            Cow::Owned(stem) => stem,
            Cow::Borrowed(stem) if stem.len() < folded.len() => stem.to_owned(),
            Cow::Borrowed(_) => folded,
        };
        let variants = variants.into_iter().filter(|variant| *variant != word).collect::<Vec<_>>();
        sink(Token { word, range: range.clone(), is_whole: false, is_variant: false });
        for word in variants {
            sink(Token { word, range: range.clone(), is_whole: false, is_variant: true });
        }
    }

    /// Returns the indexed form of a word that is [folded](fold_word) and no name.
    pub(super) fn stem<'a>(&self, folded: &'a str) -> Cow<'a, str> {
        if folded.is_ascii() {
            let is_prose = folded.len() > 2 && folded.bytes().all(|byte| byte.is_ascii_lowercase());
            if is_prose { self.stemmers.english(folded) } else { Cow::Borrowed(folded) }
        } else {
            script_stem(&self.stemmers, folded)
        }
    }

    /// Returns other forms of a word; the word itself may be among them.
    fn variants(&self, typed: &str, folded: &str, mode: CutMode<'_>) -> Vec<String> {
        if !is_latin(folded) {
            return stem::script_variants(folded);
        }
        let (languages, is_query) = match mode {
            CutMode::Text(languages) => (languages, false),
            CutMode::Query(language) => (language.of_word(typed, folded, &self.stem(folded)), true),
            CutMode::Name(_) => return Vec::new(),
        };
        let mut stems = self.stemmers.of_languages(typed, folded, languages);
        for part in compound::parts(folded, languages, is_query) {
            stems.extend(self.stemmers.of_languages(&part, &part, languages));
            stems.push(part);
        }
        // As English, since this is how the other side has a word of which the language is not known.
        let mut variants: Vec<String> = stems.iter().map(|stem| self.stem(stem).into_owned()).collect();
        let mut seen = std::collections::HashSet::new();
        variants.retain(|variant| seen.insert(variant.clone()));
        variants
    }
}

/// The side that a word is on, and what is known of its language.
#[derive(Clone, Copy, Debug)]
enum CutMode<'q> {
    /// Of a text in one of these languages.
    Text(LanguageSet),
    /// Of a query.
    Query(&'q QueryLanguage),
    /// Part of a name; `true` in a query.
    Name(bool),
}

impl CutMode<'_> {
    /// `true` if a word in ASCII letters has no variants.
    fn is_nothing(self) -> bool {
        match self {
            Self::Text(languages) => languages.is_empty(),
            Self::Query(_) => false,
            Self::Name(_) => true,
        }
    }

    fn is_query(self) -> bool {
        matches!(self, Self::Query(_) | Self::Name(true))
    }
}

/// Number of letters of a word: marks and joiners are none.
fn letters(word: &str) -> usize {
    word.chars().filter(|character| character.is_alphanumeric() && !is_mark(*character)).count()
}

fn push_folded(whole: &mut String, part: &str, is_ascii: bool) {
    if is_ascii {
        whole.extend(part.bytes().map(|byte| char::from(byte.to_ascii_lowercase())));
    } else {
        whole.push_str(&fold_word(part));
    }
}

#[cfg(test)]
mod tests;
