/*!
Prefixes of words, as in `archiv*`.

The index has stems, and the stem of a word does not always start as the word does: "retries" is `retri`, which does not start with
"retrie". So a query also looks for the stems of words that start with the prefix. They are found by completing the prefix with the
endings that the stemmer cuts off. That costs one more look-up for one prefix in three. It also finds "archival" with "archive*",
since both have one stem. An index of unstemmed words would tell them apart, but be larger and require a rebuild.
*/

use super::super::tokens::Tokenizer;

/// The endings that the stemmer cuts off or changes.
const ENDINGS: &str = "s es ies ied ed eed edly eedly ing ings ingly y e er ers or ors ly li ion ions ation ations ational ationally tional \
    tionally ization izations isation izer izers ator ators ment ments ement ements ness nesses fulness ousness iveness ful fully able \
    ible ably ibly ability abilities ibility ibilities al als ally ality alities alism alize alizes alized alizing alization \
    alizations ance ances ancy ence ences ency encies ant ants ently ent ents ic ics ical ically icity icities icate icates icated \
    icating ive ives ively ivity ivities ize izes ized izing ism isms iti ity ities ous ously less lessly lessness ogy ogies logy \
    logical ogist ate ates ated ating ately atively ative atives";

/// Minimum number of letters of a word before its ending.
const MIN_ROOT_LETTERS: usize = 2;

/// A prefix of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordPrefix {
    /// As it was typed, folded.
    pub letters: String,
    /// Stems of words with this prefix, if they do not start with it themselves.
    pub stems: Vec<String>,
}

/// Pattern for a word of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::search) enum Phrase<'p> {
    /// The word itself.
    Word(&'p str),
    /// Any word with this prefix.
    Prefix(&'p str),
}

impl Phrase<'_> {
    /// Returns the FTS5 expression.
    pub fn expression(&self) -> String {
        match self {
            Self::Word(word) => format!("\"{word}\""),
            Self::Prefix(letters) => format!("\"{letters}\"*"),
        }
    }

    /// `true` if a word matches.
    pub fn matches_word(&self, word: &str) -> bool {
        match self {
            Self::Word(known) => *known == word,
            Self::Prefix(letters) => word.starts_with(letters),
        }
    }
}

impl WordPrefix {
    pub(super) fn of(letters: String, tokenizer: &Tokenizer) -> Self {
        let mut stems: Vec<String> = Vec::new();
        let mut add = |word: &str| {
            let stem = tokenizer.stem(word);
            if !stem.starts_with(letters.as_str()) && !stems.iter().any(|known| *known == stem) {
                stems.push(stem.into_owned());
            }
        };
        // Nothing else is stemmed.
        if letters.len() >= MIN_ROOT_LETTERS && letters.bytes().all(|byte| byte.is_ascii_lowercase()) {
            add(&letters);
            for ending in ENDINGS.split_ascii_whitespace() {
                // As much of the ending as is there already.
                let there =
                    (0..=ending.len().min(letters.len() - MIN_ROOT_LETTERS)).filter(|there| letters.ends_with(&ending[..*there]));
                there.for_each(|there| add(&format!("{}{}", letters, &ending[there..])));
            }
        } else if !letters.is_ascii() {
            add(&letters);
        }
        Self { letters, stems }
    }

    /// Returns the patterns for words of the index with this prefix.
    pub(super) fn phrases(&self) -> Vec<Phrase<'_>> {
        let stems = self.stems.iter().map(|stem| Phrase::Word(stem));
        std::iter::once(Phrase::Prefix(&self.letters)).chain(stems).collect()
    }

    /// `true` if a word of the index matches one of them.
    pub(super) fn has(&self, word: &str) -> bool {
        self.phrases().iter().any(|phrase| phrase.matches_word(word))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stems_that_do_not_begin_so() {
        for (letters, expected) in [
            ("arch", ""),
            ("archive", "archiv"),
            // "Archivi-ness" is thought of, too.
            ("archivin", "archiv archivi"),
            ("retrie", "retri"),
            ("retry", "retri"),
            ("runni", "run"),
            ("e0308", ""),
            ("grosse", "gross"),
            ("миграция", "миграц"),
        ] {
            assert_eq!(WordPrefix::of(letters.to_owned(), &Tokenizer::default()).stems.join(" "), expected, "{letters}");
        }
    }

    proptest! {
        #[test]
        fn every_begin_has_the_stem_of_the_word(
            root in "(archiv|pars|cach|retr|connect|relat|creat|happ|runn|nation|optim|depend|possib|us|config|dy)",
            ending in proptest::sample::select(ENDINGS.split_ascii_whitespace().collect::<Vec<_>>()),
        ) {
            let word = format!("{root}{ending}");
            let tokenizer = Tokenizer::default();
            for length in 2..=word.len() {
                let begin = WordPrefix::of(word[..length].to_owned(), &tokenizer);
                prop_assert!(begin.has(&tokenizer.stem(&word)), "{begin:?} of {word}, {}", tokenizer.stem(&word));
            }
        }
    }
}
