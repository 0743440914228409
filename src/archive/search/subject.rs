/*!
What a text is about: the rarest of its words, by what they weigh in a collection. Whoever looks for what has to do with a text, unasked, compares
by these alone; the words that everybody uses say nothing.

Used on turns of the archive and on episodes of bundles, which both know how many of theirs have a word.
*/

use std::cmp::Reverse;

use super::query::is_empty;
use super::tokens::Tokenizer;

/// Words of a text that are read, and that are looked up.
const READ: usize = 100;
const LOOKED_AT: usize = 24;
/// Of these, the rarest that are looked for, and their bytes.
const WORDS: usize = 16;
const BYTES: usize = 200;
/// Texts that may have a word that says something: a share of all, at least and at most so many.
const RARE: usize = 20;
const RARE_AT_LEAST: usize = 8;
const RARE_AT_MOST: usize = 200;
/// Texts that a collection is thought to have besides: in one with three texts, a word that one has is not common.
const BESIDES: f64 = 20.0;

/// How much each thing says for a text being wanted, as a logarithm of odds: chosen with `cargo xtask bench recall` by logistic regression, each
/// project measured with what was fitted on the others.
const PER_WEIGHT: f64 = 1.4;
const OF_THE_BEST: f64 = 4.7;
const PER_UNKNOWN: f64 = -0.75;
const BIAS: f64 = -6.5;
/// The size of the collection that it was chosen on. That a word is missing in a smaller one says less; in a larger one more words are rare, which
/// says less of each: so it came out with 5,882 turns of other projects beside the same ones.
const CHOSEN_ON: f64 = 307.0;
/// Letters by which texts are the same.
const BEGIN_AT_LEAST: usize = 12;
const BEGIN_AT_MOST: usize = 60;
/// From which odds on a text is worth saying.
const ENOUGH: f64 = -0.25;

/// What a text is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subject {
    /// Words with what they weigh, the heaviest first.
    words: Vec<(String, f64)>,
    /// Words that the collection does not have, by how much that says.
    unknown: f64,
}

impl Subject {
    /// Reads a text. `count` says how many of `all` texts of the collection have a word, up to a limit.
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
            let typed = text[token.range].to_lowercase();
            if read.len() < READ && typed.chars().count() > 2 && !is_empty(&typed) && !read.contains(&token.word) {
                read.push(token.word);
            }
        });
        // Of a long text, the long words: they are the rare ones more often than not, and to ask for each takes its time.
        if read.len() > LOOKED_AT {
            read.sort_by_key(|word| Reverse(word.len()));
            read.truncate(LOOKED_AT);
        }
        let most = (all as usize / RARE).clamp(RARE_AT_LEAST, RARE_AT_MOST);
        let size = all as f64 + BESIDES;
        let rarer = ((BESIDES + CHOSEN_ON).ln() / size.ln()).min(1.0).sqrt();
        let missing = ((1.0 + all as f64).ln() / (1.0 + CHOSEN_ON).ln()).min(1.0);
        let mut subject = Self::default();
        for word in read {
            match count(&word, most + 1)? {
                0 => subject.unknown += missing,
                having if having <= most => subject.words.push((word, rarer * (size / having as f64).ln() / size.ln())),
                _ => {}
            }
        }
        subject.words.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        subject.words.truncate(WORDS);
        while subject.words.iter().map(|(word, _)| word.len()).sum::<usize>() > BYTES {
            subject.words.pop();
        }
        Ok(subject)
    }

    /// The words.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(|(word, _)| word.as_str())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// What a text with these of its words, by their place, has of it: the sum over them, each of which is at most 1.
    pub fn weight(&self, places: impl IntoIterator<Item = usize>) -> f64 {
        places.into_iter().filter_map(|place| self.words.get(place)).map(|(_, weight)| weight).sum()
    }

    /// How likely it is that a text is wanted, as a logarithm of odds, from its [weight](Self::weight) and its score as a share of the best
    /// one's in the collection.
    pub fn odds(&self, weight: f64, of_the_best: f64) -> f64 {
        PER_WEIGHT * weight + OF_THE_BEST * of_the_best + PER_UNKNOWN * self.unknown + BIAS
    }
}

/// How a text begins, by its letters and digits: two that begin alike are told once. Nothing where it is too short to say.
pub fn begin(text: &str) -> Option<String> {
    let letters = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
    Some(letters.take(BEGIN_AT_MOST).collect::<String>()).filter(|begin| begin.chars().nth(BEGIN_AT_LEAST - 1).is_some())
}

/// Whether a text with these odds is worth saying unasked.
pub fn is_enough(odds: f64) -> bool {
    odds >= ENOUGH
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn subject(text: &str, all: u64, having: &dyn Fn(&str) -> usize) -> Subject {
        let count = &mut |word: &str, most: usize| Ok::<_, Infallible>(having(word).min(most));
        let Ok(subject) = Subject::of(text, &Tokenizer::default(), all, count);
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
        let odds = |all| subject("greylisting for newcomers", all, &|word| usize::from(word.starts_with("grey"))).odds(1.0, 1.0);
        let known = subject("greylisting", 5, &|_| 1).odds(1.0, 1.0);
        assert!(known > odds(5) && odds(5) > odds(300), "{known} {} {}", odds(5), odds(300));
    }

    #[test]
    fn texts_are_the_same_by_their_letters() {
        assert_eq!(begin("Why does it fail?"), begin("why does it  fail"));
        assert_ne!(begin("Why does it fail?"), begin("Why does it work?"));
        assert_eq!(begin("continue!"), None);
        assert_eq!(begin(&format!("{} a", "word ".repeat(20))), begin(&format!("{} b", "word ".repeat(20))));
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
            prop_assert!(subject.odds(part, 0.5) <= subject.odds(whole, 1.0));
            prop_assert_eq!(subject.weight([count]), 0.0);
        }
    }
}
