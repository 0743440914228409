//! The words of a text in their order, the names in it and what it means, for comparing it with what turns say.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::search::index::excerpt::Excerpt;
use crate::search::query::{Phrase, QueryTerms};
use crate::search::tokens::Tokenizer;
use ctxbridge_vectors::embed::static_embedding::{StaticEmbedding, StaticVectors};

/// Number of words above which a text is just long.
const MAX_COUNTED_WORDS: usize = 200;
/// What an answer of the same meaning adds to the score of a search, and words that follow each other as in the query do; see [`Wording::likeness`].
const MEANING_WEIGHT: f64 = 0.4;
const PAIRS_WEIGHT: f64 = 0.2;
/// Number of pairs from which on more say no more.
const ENOUGH_PAIRS: usize = 4;

/// A text as it is worded.
pub struct Wording<'t> {
    /// Numbers of the terms by their words, and starts of words.
    words: HashMap<&'t str, usize>,
    starts: Vec<(&'t str, usize)>,
    /// Names in the text, as they are indexed.
    pub(super) names: HashSet<String>,
    pub(super) meaning: StaticVectors,
    pub(super) word_count: usize,
}

/// Finds of a text. Sets are in order: a sum of fractions depends on theirs in its last bits, and a tree may split there.
#[derive(Default)]
pub(super) struct ReadText {
    pub terms: BTreeSet<usize>,
    /// Terms that stand behind the term before them, as in the text that is compared.
    pub pairs: BTreeSet<usize>,
    pub names: HashSet<String>,
    /// Places of terms, and the terms.
    pub found: Vec<(usize, usize)>,
    pub word_count: usize,
}

impl<'t> Wording<'t> {
    /// Reads a text, whose words are `query`.
    pub fn of(text: &str, query: &'t QueryTerms, tokenizer: &Tokenizer) -> Self {
        let (mut words, mut starts) = (HashMap::new(), Vec::new());
        for (number, (group, _)) in query.phrase_groups().into_iter().enumerate() {
            for phrase in group {
                match phrase {
                    Phrase::Word(word) => _ = words.entry(word).or_insert(number),
                    Phrase::Prefix(start) => starts.push((start, number)),
                }
            }
        }
        let mut names = HashSet::new();
        let mut typed_names = Vec::new();
        let mut word_count = 0;
        tokenizer.tokens(text, &mut |token| {
            word_count += usize::from(!token.is_variant);
            let typed = &text[token.range.clone()];
            let has_digits = typed.bytes().any(|byte| byte.is_ascii_digit());
            let has_capitals = typed.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
            if !token.is_variant && typed.len() > 2 && (token.is_whole || has_digits || has_capitals) {
                names.insert(token.word);
                typed_names.push(typed);
            }
        });
        // The table knows English; of a text in another language, its terms in English and its names.
        let meant = if query.is_foreign() {
            query.english.iter().copied().chain(typed_names).collect::<Vec<_>>().join(" ")
        } else {
            text.to_owned()
        };
        Self {
            words,
            starts,
            names,
            meaning: StaticEmbedding::built_in().read(&meant),
            word_count: word_count.min(MAX_COUNTED_WORDS),
        }
    }

    /// Returns how much more a turn says of the text than that it has its words: how similar the best passage of its answer is in meaning, and how
    /// many of its words follow each other as in the text. From 0 to 0.6, where the words that turns are ranked by have 1.8.
    pub fn likeness(&self, excerpt: &Excerpt, tokenizer: &Tokenizer) -> f64 {
        let meaning = self.meaning.best_cosine(&StaticEmbedding::built_in().read(&excerpt.answer)).max(0.0);
        let [prompt, answer] = [&excerpt.prompt, &excerpt.answer].map(|text| self.read(text, tokenizer).pairs);
        let pairs = prompt.union(&answer).count().min(ENOUGH_PAIRS) as f64 / ENOUGH_PAIRS as f64;
        MEANING_WEIGHT * meaning + PAIRS_WEIGHT * pairs
    }

    pub(super) fn read(&self, text: &str, tokenizer: &Tokenizer) -> ReadText {
        let mut read = ReadText::default();
        let mut place = 0;
        tokenizer.tokens(text, &mut |token| {
            if !token.is_variant {
                place += 1;
            }
            if let Some(term) = self.term_of(&token.word) {
                read.terms.insert(term);
                // Parts of the text that follow each other.
                if let Some((before, last)) = read.found.last()
                    && *before + 2 >= place
                    && *last + 1 == term
                {
                    read.pairs.insert(term);
                }
                read.found.push((place, term));
            }
            if self.names.contains(&token.word) {
                read.names.insert(token.word);
            }
        });
        read.word_count = place.min(MAX_COUNTED_WORDS);
        read
    }

    fn term_of(&self, word: &str) -> Option<usize> {
        let start = || self.starts.iter().find(|(start, _)| word.starts_with(start)).map(|(_, number)| *number);
        self.words.get(word).copied().or_else(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(query: &str, answers: [&str; 2]) -> [f64; 2] {
        let tokenizer = Tokenizer::default();
        let terms = QueryTerms::of(query, &tokenizer);
        let wording = Wording::of(query, &terms, &tokenizer);
        answers.map(|answer| wording.likeness(&Excerpt { answer: answer.to_owned(), ..Excerpt::default() }, &tokenizer))
    }

    #[test]
    fn words_in_their_order_are_more_alike_than_the_same_words_elsewhere() {
        let [together, apart] =
            likeness("retry upload queue", ["the retry upload queue is full", "a queue is full, so upload again and retry"]);
        assert!(together > apart + PAIRS_WEIGHT / 4.0, "{together} {apart}");
    }

    #[test]
    fn what_means_the_same_is_more_alike() {
        let [same, other] = likeness("the car engine broke", ["the vehicle motor failed", "the database schema has a column"]);
        assert!(same > other, "{same} {other}");
        assert_eq!(likeness("engine", ["", ""]), [0.0, 0.0]);
    }
}
