/*!
The keywords of a text: its rarest words, with their weights in a collection. Unprompted search for related texts compares by these
alone; common words say nothing. They give the odds that another text is relevant.

Used on episodes of bundles; turns of the archive say more ([`relevance`](super::relevance)).
*/

use std::cmp::Reverse;

use super::index::SMOOTHING;
use super::query::is_stop_word;
use super::tokens::{Tokenizer, fold_word};

/// Maximum number of words of a text that are read, and that are looked up.
const MAX_READ_WORDS: usize = 100;
const MAX_LOOKED_UP_WORDS: usize = 24;
/// Maximum number of keywords, and of their bytes.
const MAX_KEYWORDS: usize = 16;
const MAX_KEYWORD_BYTES: usize = 200;
/// Number of texts that may have a keyword: a share of all, with a minimum and a maximum.
const RARE_SHARE_DIVISOR: usize = 20;
const MIN_RARE_TEXTS: usize = 8;
const MAX_RARE_TEXTS: usize = 200;

/// Coefficients of the log-odds that a text is relevant: fitted with `cargo xtask bench recall` by logistic regression. Each
/// project was measured with what was fitted on the others.
const COEF_IDF: f64 = 1.4;
const COEF_RELATIVE_SCORE: f64 = 4.7;
const COEF_UNKNOWN: f64 = -0.75;
const INTERCEPT: f64 = -6.5;
/// Size of the collection that the coefficients were fitted on. A word that is missing in a smaller collection says less. In a
/// larger one more words are rare, and each says less: this was seen with 5,882 turns of other projects beside the same ones.
const REFERENCE_SIZE: f64 = 307.0;
/// Number of letters by which texts are compared for equality.
const MIN_DEDUP_LETTERS: usize = 12;
const MAX_DEDUP_LETTERS: usize = 60;
/// Minimum log-odds of a text that is suggested.
const ODDS_THRESHOLD: f64 = -0.25;

/// Keywords of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keywords {
    /// Words with their weights, the heaviest first.
    words: Vec<(String, f64)>,
    /// Weighted number of words that the collection does not have.
    unknown: f64,
}

impl Keywords {
    /// Reads a text. `count` returns how many of `all` texts of the collection have a word, up to a limit.
    ///
    /// # Errors
    /// Those of `count`.
    pub fn of<E>(
        text: &str,
        tokenizer: &Tokenizer,
        all: u64,
        count: &mut dyn FnMut(&str, usize) -> Result<usize, E>,
    ) -> Result<Self, E> {
        let mut read: Vec<String> = Vec::new();
        tokenizer.tokens(text, &mut |token| {
            let typed = fold_word(&text[token.range]);
            if read.len() < MAX_READ_WORDS
                && !token.is_variant
                && typed.chars().count() > 2
                && !is_stop_word(&typed)
                && !read.contains(&token.word)
            {
                read.push(token.word);
            }
        });
        // Of a long text, the long words: they are the rare ones more often than not, and to ask for each takes its time.
        if read.len() > MAX_LOOKED_UP_WORDS {
            read.sort_by_key(|word| Reverse(word.len()));
            read.truncate(MAX_LOOKED_UP_WORDS);
        }
        let most = (all as usize / RARE_SHARE_DIVISOR).clamp(MIN_RARE_TEXTS, MAX_RARE_TEXTS);
        let size = (all + SMOOTHING) as f64;
        let rarer = ((SMOOTHING as f64 + REFERENCE_SIZE).ln() / size.ln()).min(1.0).sqrt();
        let missing = ((1.0 + all as f64).ln() / (1.0 + REFERENCE_SIZE).ln()).min(1.0);
        let mut subject = Self::default();
        for word in read {
            match count(&word, most + 1)? {
                0 => subject.unknown += missing,
                having if having <= most => subject.words.push((word, rarer * (size / having as f64).ln() / size.ln())),
                _ => {}
            }
        }
        subject.words.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        subject.words.truncate(MAX_KEYWORDS);
        while subject.words.iter().map(|(word, _)| word.len()).sum::<usize>() > MAX_KEYWORD_BYTES {
            subject.words.pop();
        }
        Ok(subject)
    }

    /// The words.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(|(word, _)| word.as_str())
    }

    /// `true` if there are no keywords.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the weight of a text with these of the keywords, by index: the sum of their weights, each of which is at most 1.
    pub fn weight(&self, places: impl IntoIterator<Item = usize>) -> f64 {
        places.into_iter().filter_map(|place| self.words.get(place)).map(|(_, weight)| weight).sum()
    }

    /// Returns the log-odds that a text is relevant, from its [weight](Self::weight) and its score as a share of the best one in
    /// the collection.
    pub fn log_odds(&self, weight: f64, of_the_best: f64) -> f64 {
        COEF_IDF * weight + COEF_RELATIVE_SCORE * of_the_best + COEF_UNKNOWN * self.unknown + INTERCEPT
    }
}

/// Returns the first letters and digits of a text: of two texts with the same start, one is suggested. `None` if the text is too
/// short.
pub fn dedup_prefix(text: &str) -> Option<String> {
    let letters = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
    Some(letters.take(MAX_DEDUP_LETTERS).collect::<String>()).filter(|begin| begin.chars().nth(MIN_DEDUP_LETTERS - 1).is_some())
}

/// `true` if a text with these log-odds is worth suggesting.
pub fn is_relevant(odds: f64) -> bool {
    odds >= ODDS_THRESHOLD
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn subject(text: &str, all: u64, having: &dyn Fn(&str) -> usize) -> Keywords {
        let count = &mut |word: &str, most: usize| Ok::<_, Infallible>(having(word).min(most));
        let Ok(subject) = Keywords::of(text, &Tokenizer::default(), all, count);
        subject
    }

    #[test]
    fn what_everybody_says_is_no_subject() {
        let having = |word: &str| if word == "graylist" { 2 } else { 500 };
        let subject = subject("Why does the greylisting of the graylist fail?", 1_000, &having);
        assert_eq!(subject.words().collect::<Vec<_>>(), ["graylist"]);
    }

    #[test]
    fn unknown_words_speak_against_it_and_less_so_in_a_small_collection() {
        let odds =
            |all| subject("greylisting for newcomers", all, &|word| usize::from(word.starts_with("grey"))).log_odds(1.0, 1.0);
        let known = subject("greylisting", 5, &|_| 1).log_odds(1.0, 1.0);
        assert!(known > odds(5) && odds(5) > odds(300), "{known} {} {}", odds(5), odds(300));
    }

    #[test]
    fn texts_are_the_same_by_their_letters() {
        assert_eq!(dedup_prefix("Why does it fail?"), dedup_prefix("why does it  fail"));
        assert_ne!(dedup_prefix("Why does it fail?"), dedup_prefix("Why does it work?"));
        assert_eq!(dedup_prefix("continue!"), None);
        assert_eq!(dedup_prefix(&format!("{} a", "word ".repeat(20))), dedup_prefix(&format!("{} b", "word ".repeat(20))));
    }

    proptest! {
        /// More of it is never less likely to be wanted, and all of it is all that there is.
        #[test]
        fn weights_add_up(words in proptest::collection::btree_set("[bcdfgkmprtvz]{4,7}", 1..12), all in 1_u64..5_000, take in 0_usize..12) {
            let text = words.iter().cloned().collect::<Vec<_>>().join(" ");
            let subject = subject(&text, all, &|word| 1 + word.len() % 5);
            let count = subject.words().count();
            let (part, whole) = (subject.weight(0..take.min(count)), subject.weight(0..count));
            prop_assert!(part <= whole + 1e-9 && whole <= count as f64 + 1e-9);
            prop_assert!(subject.log_odds(part, 0.5) <= subject.log_odds(whole, 1.0));
            prop_assert_eq!(subject.weight([count]), 0.0);
        }
    }
}
