/*!
What a user types, made into what the index is asked for.

Nothing that is typed becomes syntax of the index by accident: a query is cut into the same words as texts are, and those have letters
and digits only. What has a meaning is `"quotes"` around what has to stand there as it is typed, and `*` behind the begin of a word or
name.
*/

mod begin;
mod quote;

use std::collections::HashSet;

pub use begin::Begin;
pub(super) use begin::Phrase;
pub use quote::Quote;

use super::time::Named;
use super::tokens::Tokenizer;

/// English words that say nothing of what is looked for; left out of a query that has others.
const EMPTY: &str = "a about again all also am an and any anything are as ask at be because been being between both but by can \
    could d did do does doing don done down each ever every few for from further get got had has have having he her here him his \
    how i if in into is it its just ll m me might more most my myself no nor not now of off on once one or other our out over own \
    re s same she should so some someth something such t than that the their them then there these they thing this those through \
    to too under until up us ve very was we were what when where which while who whom whose why will with would you your yours";

/// Words of a query that only asks what there was at a time.
const DOING: &str = "conversation conversations discuss discussed everything find give happen happened happening list please session \
    sessions show talk talked tell turn turns work worked working";

/// The words of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Words and names; each is looked for on its own.
    pub words: Vec<String>,
    /// Begins of words.
    pub begins: Vec<Begin>,
    /// What has to be there as it is.
    pub quotes: Vec<Quote>,
    /// Whether the query names a time and says nothing else of what is looked for.
    pub is_time_alone: bool,
}

impl Terms {
    /// Reads a query.
    pub fn of(query: &str, tokenizer: &Tokenizer) -> Self {
        let (mut terms, empty) = Self::read(query, tokenizer);
        if terms.is_nothing() {
            terms.words = empty.into_iter().map(|(word, _)| word).collect();
        }
        terms.once()
    }

    /// Reads a query that names a time, which is no word that its turns would have. But where a day is named as texts do it, others
    /// may speak of it.
    pub fn besides(query: &str, named: &Named, tokenizer: &Tokenizer) -> Self {
        let time = &query[named.range.clone()];
        let (mut terms, _) = Self::read(&format!("{} {}", &query[..named.range.start], &query[named.range.end..]), tokenizer);
        let doing: HashSet<String> = DOING.split_ascii_whitespace().map(|word| tokenizer.stem(word).into_owned()).collect();
        terms.is_time_alone =
            terms.begins.is_empty() && terms.quotes.is_empty() && terms.words.iter().all(|word| doing.contains(word));
        if terms.is_time_alone {
            terms.words.clear();
        }
        if named.is_day() {
            tokenizer.tokens(time, &mut |token| {
                if token.is_whole && token.word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
                    terms.words.push(token.word);
                }
            });
        }
        terms.once()
    }

    /// What says something, and the words that do not.
    fn read(query: &str, tokenizer: &Tokenizer) -> (Self, Vec<(String, String)>) {
        let mut terms = Self::default();
        let mut empty = Vec::new();
        // Between quotes is every other piece; the last one is not, when nothing closes it.
        let pieces: Vec<&str> = query.split('"').collect();
        for (at, piece) in pieces.iter().enumerate() {
            if at % 2 == 1 && at + 1 < pieces.len() {
                terms.quotes.extend(Quote::of(piece, tokenizer));
                continue;
            }
            tokenizer.tokens(piece, &mut |token| {
                let typed = piece[token.range.clone()].to_lowercase();
                let behind = piece[token.range.end..].trim_start_matches(['_', '-', '.']);
                if behind.starts_with('*') && token.range.len() > 1 {
                    // The whole of a name is not stemmed, and so begins as it is typed.
                    let begin = if token.is_whole {
                        Begin { letters: token.word, stems: Vec::new() }
                    } else {
                        Begin::of(typed, tokenizer)
                    };
                    terms.begins.push(begin);
                } else if is_empty(&typed) {
                    empty.push((token.word, typed));
                } else {
                    terms.words.push(token.word);
                }
            });
        }
        (terms, empty)
    }

    /// Each of them once.
    fn once(mut self) -> Self {
        let mut seen = HashSet::new();
        self.words.retain(|word| seen.insert(word.clone()));
        let mut seen = HashSet::new();
        self.begins.retain(|begin| seen.insert(begin.letters.clone()));
        self
    }

    /// Whether nothing is looked for.
    pub fn is_nothing(&self) -> bool {
        self.words.is_empty() && self.begins.is_empty() && self.quotes.is_empty()
    }

    /// Whether some of it has to be in a hit, so that nothing is one for its neighbours.
    pub fn are_required(&self) -> bool {
        !self.quotes.is_empty()
    }

    /// As FTS5 reads it, in these columns (all, where there are none): any of the words, all of the quotes.
    pub fn expression(&self, columns: &[&str]) -> Option<String> {
        let begins = self.begins.iter().flat_map(Begin::phrases);
        let any: Vec<String> =
            self.words.iter().map(|word| Phrase::Word(word)).chain(begins).map(|phrase| phrase.expression()).collect();
        let all: Vec<String> = self.quotes.iter().map(Quote::expression).collect();
        let any = (!any.is_empty()).then(|| any.join(" OR "));
        let all = (!all.is_empty()).then(|| all.join(" AND "));
        let expression = match (any, all) {
            (None, None) => return None,
            (Some(any), None) => any,
            (None, Some(all)) => all,
            (Some(any), Some(all)) => format!("({all}) OR (({all}) AND ({any}))"),
        };
        Some(within(&expression, columns))
    }

    /// What [`Self::expression`] gives scores for: groups of which any may be there, and how often they stand in it.
    pub fn groups(&self, columns: &[&str]) -> Vec<(Vec<String>, f64)> {
        let within = |phrase: Phrase<'_>| within(&phrase.expression(), columns);
        self.looked_for().into_iter().map(|(group, times)| (group.into_iter().map(within).collect(), times)).collect()
    }

    /// The same, as what words of a text are compared with; first what is in quotes ([`Self::required`]).
    pub(super) fn looked_for(&self) -> Vec<(Vec<Phrase<'_>>, f64)> {
        let any: Vec<Vec<Phrase<'_>>> =
            self.words.iter().map(|word| one(word)).chain(self.begins.iter().map(Begin::phrases)).collect();
        let twice = if any.is_empty() { 1.0 } else { 2.0 };
        let of_quotes = self
            .quotes
            .iter()
            .flat_map(|quote| quote.words.iter().map(|word| one(word)).chain(quote.begin.iter().map(Begin::phrases)));
        of_quotes.map(|group| (group, twice)).chain(any.into_iter().map(|group| (group, 1.0))).collect()
    }

    /// How many of the groups have to be there, since they are in quotes.
    pub(super) fn required(&self) -> usize {
        self.quotes.iter().map(|quote| quote.words.len() + usize::from(quote.begin.is_some())).sum()
    }

    /// Whether these texts have all that is in quotes.
    pub fn are_in<'a>(&self, texts: impl Iterator<Item = &'a str>) -> bool {
        if self.quotes.is_empty() {
            return true;
        }
        let mut missing: Vec<&Quote> = self.quotes.iter().collect();
        for text in texts {
            let lower = text.to_lowercase();
            let runs = quote::runs(&lower);
            missing.retain(|quote| !quote.is_in(&runs));
        }
        missing.is_empty()
    }

    /// Whether a word of a text is one that is looked for.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().chain(self.quotes.iter().flat_map(|quote| &quote.words)).any(|term| term == word)
            || self.begins.iter().chain(self.quotes.iter().filter_map(|quote| quote.begin.as_ref())).any(|begin| begin.has(word))
    }
}

fn one(word: &str) -> Vec<Phrase<'_>> {
    vec![Phrase::Word(word)]
}

fn within(expression: &str, columns: &[&str]) -> String {
    if columns.is_empty() { expression.to_owned() } else { format!("{{{}}} : ({expression})", columns.join(" ")) }
}

/// Whether a word, in lower case, says nothing of what is looked for.
pub(super) fn is_empty(word: &str) -> bool {
    EMPTY.split_ascii_whitespace().any(|empty| empty == word)
}

#[cfg(test)]
mod tests;
