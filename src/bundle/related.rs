//! What was done before about the same, for one who did not ask: as [`ctxbridge_archive::search::related`] does it for turns.

use std::collections::{HashMap, HashSet};

use super::{Episode, Index, IndexError};
use ctxbridge_archive::search::query::Terms;
use ctxbridge_archive::search::subject::{Subject, begin, is_enough};

/// Episodes whose words are compared.
const COMPARED: usize = 48;

/// An episode that has to do with a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Related {
    /// The episode.
    pub episode: Episode,
    /// How likely it is that it is wanted ([`Subject::odds`]).
    pub odds: f64,
}

/// Episodes that are about the same as a text, the best first; mostly none. `may_tell` says of which sessions.
///
/// # Errors
/// When the index cannot be read.
pub fn related(index: &Index, text: &str, may_tell: &mut dyn FnMut(&str) -> bool) -> Result<Vec<Related>, IndexError> {
    let mut having: HashMap<String, Vec<i64>> = HashMap::new();
    let mut count = |word: &str, most: usize| -> Result<usize, IndexError> {
        let listed = index.having(word, most)?;
        Ok(having.entry(word.to_owned()).insert_entry(listed).get().len())
    };
    let subject = Subject::of(text, index.tokenizer(), index.count()?, &mut count)?;
    // To score an episode takes longer than to know which words it has.
    let mut weights: HashMap<i64, f64> = HashMap::new();
    for (place, word) in subject.words().enumerate() {
        for episode in having.get(word).into_iter().flatten() {
            *weights.entry(*episode).or_default() += subject.weight([place]);
        }
    }
    let mut weighed: Vec<(i64, f64)> = weights.into_iter().filter(|(_, weight)| is_enough(subject.odds(*weight, 1.0))).collect();
    weighed.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
    weighed.truncate(COMPARED);
    let compared: HashMap<i64, f64> = weighed.iter().copied().collect();
    let terms = Terms { words: subject.words().map(str::to_owned).collect(), ..Terms::default() };
    let of: Vec<i64> = weighed.into_iter().map(|(episode, _)| episode).collect();
    let mut scored = if of.is_empty() { Vec::new() } else { index.scored(&terms, &of)? };
    scored.retain(|(_, episode, _)| may_tell(&episode.said.session) && !episode.is_question_alone());
    let best = scored.iter().map(|(_, _, score)| *score).fold(f64::MIN_POSITIVE, f64::max);
    let mut found: Vec<Related> = Vec::new();
    for (id, episode, score) in scored {
        let odds = subject.odds(compared[&id], score / best);
        if is_enough(odds) {
            found.push(Related { episode, odds });
        }
    }
    found.sort_by(|one, other| other.odds.total_cmp(&one.odds).then(other.episode.at.cmp(&one.episode.at)));
    // A month that was folded on two branches has the same twice, and the same prompt, sent again, is the same to whoever reads of it.
    let mut begins = HashSet::new();
    found.retain(|found| begins.insert(begin(&found.episode.said.prompt).unwrap_or_else(|| found.episode.line())));
    Ok(found)
}
