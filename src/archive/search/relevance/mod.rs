/*!
Decides if an earlier turn is wanted with a text that does not ask for it.

Features ([`FEATURES`]) say how much of the text a turn has, how rare that is, how near its words stand to each other, whether it means
something similar, and whether the text asks about the past. Boosted trees (`trees`) make log-odds of them. They were fitted by `cargo xtask bench recall --corpus FOLDER --fit`
on the tuning half of questions and prompts on real sessions and on fixtures/retrieval; `trees.txt` is what that wrote.
*/

mod asking;
mod scores;
mod trees;

use std::collections::{BTreeSet, HashMap, HashSet};

use super::index::excerpt::Excerpt;
use super::index::{BM25_K1, QueryTerm, SMOOTHING};
use super::query::{Phrase, QueryTerms};
use super::tokens::{Tokenizer, is_unspaced};
use ctxbridge_vectors::embed::static_embedding::{StaticEmbedding, StaticVectors};

pub use scores::{MeaningScores, Scores};
pub use trees::{MODEL, TREE_DEPTH, Tree, Trees};

/// Names of the features, in their order.
pub const FEATURES: [&str; 40] = [
    // Score by words: as a share of the best, its lead over the next, as a share of what the text could give, and against one rare word.
    "relative",
    "lead",
    "score",
    "absolute",
    // Weight of the words that prompt and answer have: in rare words, the rarest, how many are in at most 5 turns, and in at most 3 prompts and answers.
    "mass",
    "rarest",
    "rare",
    "rare_said",
    // Shares of the text's weight in prompt and answer, in each of them, and anywhere in the turn.
    "said",
    "asked",
    "answered",
    "anywhere",
    // Neighbors in the text that are neighbors in the turn; the best passage, as a share and in rare words.
    "pairs",
    "passage",
    "passage_mass",
    // The text: its words that no turn has, if it asks, and about the past, how many words are known, names in it, and those that the turn has.
    "unknown",
    "question",
    "past",
    "known",
    "names",
    "names_said",
    // Cosine of the meaning of the text with the prompt, and with the best passage of the answer.
    "meaning_asked",
    "meaning_answered",
    // Words of the text, of the prompt and of the answer: who says "go on" is seldom asked for.
    "words",
    "asked_words",
    "answered_words",
    // Score by words as a share of the best plus the greater of the two cosines: by this, turns are chosen for a closer look.
    "closeness",
    // The turn's place among those that are considered, and how many there are.
    "place",
    "considered",
    // Leads over the best of the other turns, or behind it: which of several turns on a matter is the one.
    "said_lead",
    "asked_lead",
    "answered_lead",
    "anywhere_lead",
    "passage_lead",
    "pairs_lead",
    "score_lead",
    "rarest_lead",
    "meaning_asked_lead",
    "meaning_answered_lead",
    "closeness_lead",
];

/// Features of a turn alone; behind them are the leads of the compared ones.
const OWN_FEATURES: usize = 29;
const COMPARED_FEATURES: [usize; FEATURES.len() - OWN_FEATURES] = [8, 9, 10, 11, 13, 12, 2, 5, 21, 22, CLOSENESS];
/// Indices of a turn's closeness and place, and of the number of turns.
const CLOSENESS: usize = 26;
const PLACE: usize = 27;
const CONSIDERED: usize = 28;
/// Number of words above which a text is just long.
const MAX_COUNTED_WORDS: usize = 200;

/// Number of words of a passage.
const PASSAGE_WORDS: usize = 30;
/// Numbers of turns that may have a word that is rare, and one that is rare in prompts and answers.
const RARE_TURNS: u64 = 5;
const RARE_SAID_TURNS: u64 = 3;

/// A text that turns are compared with.
pub struct Subject<'t> {
    terms: &'t [QueryTerm],
    /// Numbers of the terms by their words, and starts of words.
    words: HashMap<&'t str, usize>,
    starts: Vec<(&'t str, usize)>,
    /// Names in the text, as they are indexed.
    names: HashSet<String>,
    is_question: bool,
    is_of_past: bool,
    meaning: StaticVectors,
    word_count: usize,
    /// Number of its words that no turn has.
    unknown: usize,
    /// Weight of a word of one turn.
    most: f64,
}

impl<'t> Subject<'t> {
    /// Reads a text; `terms` are its words in their order, looked up among `all` turns.
    pub fn of(text: &str, query: &'t QueryTerms, terms: &'t [QueryTerm], all: u64, tokenizer: &Tokenizer) -> Self {
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
        // No turn in English has pairs of characters, and what they mean is counted.
        let is_pair =
            |number: usize| query.is_foreign() && query.words.get(number).is_some_and(|word| word.starts_with(is_unspaced));
        let unknown = terms.iter().enumerate().filter(|(number, term)| term.docs == 0 && !is_pair(*number)).count();
        Self {
            terms,
            unknown,
            words,
            starts,
            names,
            is_question: asking::is_question(text),
            is_of_past: asking::is_of_past(text),
            meaning: StaticEmbedding::built_in().read(&meant),
            word_count: word_count.min(MAX_COUNTED_WORDS),
            most: ((all + SMOOTHING) as f64).ln(),
        }
    }

    /// Weight of the terms that some turn has.
    fn known_weight(&self) -> f64 {
        self.terms.iter().map(|term| term.smoothed_idf).sum::<f64>().max(1e-6)
    }

    fn term_of(&self, word: &str) -> Option<usize> {
        let start = || self.starts.iter().find(|(start, _)| word.starts_with(start)).map(|(_, number)| *number);
        self.words.get(word).copied().or_else(start)
    }

    /// Compares the meaning of the text with that of a turn.
    pub fn meaning(&self, excerpt: &Excerpt) -> MeaningScores {
        let [asked, answered] = [&excerpt.prompt, &excerpt.answer].map(|text| StaticEmbedding::built_in().read(text));
        MeaningScores { asked: self.meaning.cosine(&asked), answered: self.meaning.best_cosine(&answered) }
    }

    /// Returns the features of a turn, in the order of [`FEATURES`]; [`compare`] adds those that depend on others.
    pub fn features(&self, excerpt: &Excerpt, scores: Scores, tokenizer: &Tokenizer) -> [f64; FEATURES.len()] {
        let [prompt, answer] = [&excerpt.prompt, &excerpt.answer].map(|text| self.read(text, tokenizer));
        let known = self.known_weight();
        let idf = |term: &usize| self.terms[*term].smoothed_idf;
        let score = scores.own / (BM25_K1 + 1.0) / self.terms.iter().map(|term| term.idf).sum::<f64>().max(1e-9);
        let weight = |terms: &BTreeSet<usize>| terms.iter().map(idf).sum::<f64>();
        let said: BTreeSet<usize> = prompt.terms.union(&answer.terms).copied().collect();
        let is_rare = |term: &&usize| (1..=RARE_TURNS).contains(&self.terms[**term].docs);
        let is_rare_said = |term: &&usize| (1..=RARE_SAID_TURNS).contains(&self.terms[**term].said_docs);
        let anywhere =
            self.terms.iter().enumerate().filter(|(bit, _)| *bit < 64 && scores.mask >> bit & 1 == 1 || said.contains(bit));
        let passage = prompt.passage.max(answer.passage);
        let next = if scores.own >= scores.best { scores.next } else { scores.best };
        let pairs = prompt.pairs.union(&answer.pairs).count();
        let known_terms = self.terms.iter().filter(|term| term.docs > 0).count();
        let counted = known_terms + self.unknown;
        let names_said = self.names.iter().filter(|name| prompt.names.contains(*name) || answer.names.contains(*name)).count();
        let own = [
            scores.relative(),
            (scores.own - next) / scores.best.max(f64::MIN_POSITIVE),
            score,
            score * known / self.most,
            weight(&said) / self.most,
            said.iter().map(idf).fold(0.0, f64::max) / self.most,
            said.iter().filter(is_rare).count() as f64,
            said.iter().filter(is_rare_said).count() as f64,
            weight(&said) / known,
            weight(&prompt.terms) / known,
            weight(&answer.terms) / known,
            anywhere.map(|(_, term)| term.smoothed_idf).sum::<f64>() / known,
            pairs as f64,
            passage / known,
            passage / self.most,
            self.unknown as f64 / counted.max(1) as f64,
            f64::from(self.is_question),
            f64::from(self.is_of_past),
            known_terms as f64,
            self.names.len() as f64,
            names_said as f64,
            scores.meaning.asked,
            scores.meaning.answered,
            self.word_count as f64,
            prompt.word_count as f64,
            answer.word_count as f64,
            scores.closeness(),
        ];
        let mut features = [0.0; FEATURES.len()];
        features[..own.len()].copy_from_slice(&own);
        features
    }

    fn read(&self, text: &str, tokenizer: &Tokenizer) -> ReadText {
        let mut read = ReadText::default();
        let mut found: Vec<(usize, usize)> = Vec::new();
        let mut place = 0;
        tokenizer.tokens(text, &mut |token| {
            if !token.is_variant {
                place += 1;
            }
            if let Some(term) = self.term_of(&token.word) {
                read.terms.insert(term);
                // Parts of the text that follow each other.
                if let Some((before, last)) = found.last()
                    && *before + 2 >= place
                    && *last + 1 == term
                {
                    read.pairs.insert(term);
                }
                found.push((place, term));
            }
            if self.names.contains(&token.word) {
                read.names.insert(token.word);
            }
        });
        read.passage = self.best_passage(&found);
        read.word_count = place.min(MAX_COUNTED_WORDS);
        read
    }

    /// The most weight of terms within some words of each other.
    fn best_passage(&self, found: &[(usize, usize)]) -> f64 {
        let (mut counts, mut weight, mut best, mut first) = (vec![0_u32; self.terms.len()], 0.0, 0.0_f64, 0);
        for (place, term) in found {
            counts[*term] += 1;
            if counts[*term] == 1 {
                weight += self.terms[*term].smoothed_idf;
            }
            while found[first].0 + PASSAGE_WORDS < *place {
                let left = found[first].1;
                counts[left] -= 1;
                if counts[left] == 0 {
                    weight -= self.terms[left].smoothed_idf;
                }
                first += 1;
            }
            best = best.max(weight);
        }
        best
    }
}

/// Finds of a text. Sets are in order: a sum of fractions depends on theirs in its last bits, and a tree may split there.
#[derive(Default)]
struct ReadText {
    terms: BTreeSet<usize>,
    /// Terms that stand behind the term before them, as in the text that is compared.
    pairs: BTreeSet<usize>,
    names: HashSet<String>,
    passage: f64,
    word_count: usize,
}

/// Adds the features of turns, the closest first, that depend on the others.
pub fn compare(turns: &mut [&mut [f64; FEATURES.len()]]) {
    let count = turns.len();
    for (place, features) in turns.iter_mut().enumerate() {
        (features[PLACE], features[CONSIDERED]) = (place as f64, count as f64);
    }
    for (number, compared) in COMPARED_FEATURES.into_iter().enumerate() {
        let values: Vec<f64> = turns.iter().map(|features| features[compared]).collect();
        for (place, features) in turns.iter_mut().enumerate() {
            let others = values.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, value)| *value);
            features[OWN_FEATURES + number] = values[place] - others.fold(0.0, f64::max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_have_their_places() {
        assert_eq!([FEATURES[CLOSENESS], FEATURES[PLACE], FEATURES[CONSIDERED]], ["closeness", "place", "considered"]);
        for (number, compared) in COMPARED_FEATURES.into_iter().enumerate() {
            assert_eq!(FEATURES[OWN_FEATURES + number], format!("{}_lead", FEATURES[compared]));
        }
    }

    #[test]
    fn a_lead_is_over_the_best_of_the_others() {
        let mut turns = [0.5, 0.8, 0.2].map(|said| {
            let mut features = [0.0; FEATURES.len()];
            features[COMPARED_FEATURES[0]] = said;
            features
        });
        compare(&mut turns.each_mut());
        let leads = turns.map(|features| (features[OWN_FEATURES] * 10.0).round());
        assert_eq!(leads, [-3.0, 3.0, -6.0]);
        assert_eq!(turns.map(|features| [features[PLACE], features[CONSIDERED]]), [[0.0, 3.0], [1.0, 3.0], [2.0, 3.0]]);
        let mut alone = [turns[1]];
        compare(&mut alone.each_mut());
        assert_eq!(alone[0][OWN_FEATURES], 0.8);
    }
}
