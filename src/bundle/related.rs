//! Finds earlier episodes on the subject of a prompt, unasked, as [`ctxbridge_archive::search::related`] does for turns.

use std::collections::{HashMap, HashSet};

use super::{BundleIndex, Episode, IndexError};
use ctxbridge_archive::search::keywords::{Keywords, dedup_prefix, is_relevant};
use ctxbridge_archive::search::query::QueryTerms;

/// Maximum number of episodes that are scored.
const MAX_SCORED_EPISODES: usize = 48;

/// An episode that is related to a text.
#[derive(Clone, Debug, PartialEq)]
pub struct RelatedEpisode {
    /// The episode.
    pub episode: Episode,
    /// Likelihood that it is wanted ([`Keywords::log_odds`]).
    pub odds: f64,
}

/// Finds episodes on the same subject as a text, the best first; mostly none. `may_tell` filters sessions.
///
/// # Errors
/// If the index cannot be read.
pub fn related_episodes(
    index: &BundleIndex,
    text: &str,
    may_tell: &mut dyn FnMut(&str) -> bool,
) -> Result<Vec<RelatedEpisode>, IndexError> {
    let mut having: HashMap<String, Vec<i64>> = HashMap::new();
    let mut count = |word: &str, most: usize| -> Result<usize, IndexError> {
        let listed = index.episodes_with_word(word, most)?;
        Ok(having.entry(word.to_owned()).insert_entry(listed).get().len())
    };
    let subject = Keywords::of(text, index.tokenizer(), index.count()?, &mut count)?;
    // To score an episode takes longer than to know which words it has.
    let mut weights: HashMap<i64, f64> = HashMap::new();
    for (place, word) in subject.words().enumerate() {
        for episode in having.get(word).into_iter().flatten() {
            *weights.entry(*episode).or_default() += subject.weight([place]);
        }
    }
    let mut weighed: Vec<(i64, f64)> =
        weights.into_iter().filter(|(_, weight)| is_relevant(subject.log_odds(*weight, 1.0))).collect();
    weighed.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
    weighed.truncate(MAX_SCORED_EPISODES);
    let compared: HashMap<i64, f64> = weighed.iter().copied().collect();
    let terms = QueryTerms { words: subject.words().map(str::to_owned).collect(), ..QueryTerms::default() };
    let of: Vec<i64> = weighed.into_iter().map(|(episode, _)| episode).collect();
    let mut scored = if of.is_empty() { Vec::new() } else { index.scored(&terms, &of)? };
    scored.retain(|(_, episode, _)| may_tell(&episode.summary.session) && !episode.is_question_alone());
    let best = scored.iter().map(|(_, _, score)| *score).fold(f64::MIN_POSITIVE, f64::max);
    let mut found: Vec<RelatedEpisode> = Vec::new();
    for (id, episode, score) in scored {
        let odds = subject.log_odds(compared[&id], score / best);
        if is_relevant(odds) {
            found.push(RelatedEpisode { episode, odds });
        }
    }
    found.sort_by(|one, other| other.odds.total_cmp(&one.odds).then(other.episode.at.cmp(&one.episode.at)));
    // A month that was folded on two branches has the same twice, and the same prompt, sent again, is the same to whoever reads
    // of it.
    let mut begins = HashSet::new();
    found.retain(|found| begins.insert(dedup_prefix(&found.episode.summary.prompt).unwrap_or_else(|| found.episode.line())));
    Ok(found)
}
