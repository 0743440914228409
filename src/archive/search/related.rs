/*!
What was said elsewhere about the same: for a context that nobody asked for, where silence is better than what does not matter.

Only words that are rare in the archive say what a text is about. A turn is related when it has enough of them, by weight; how many that is
was chosen on fixtures/retrieval. A model would take longer to load than a hook may take.
*/

use std::collections::HashMap;
use std::time::Instant;

use super::query::{Terms, is_empty};
use super::{Index, SearchError};
use crate::archive::store::{Place, Store, StoredTurn};

/// Words of a text that are looked at.
const LOOKED_AT: usize = 60;
/// Of these, the rarest that are looked for.
const WORDS: usize = 16;
/// Entries that may have a word that says something: a share of all, at least and at most so many.
const RARE: usize = 20;
const RARE_AT_LEAST: usize = 8;
const RARE_AT_MOST: usize = 500;
/// What a related turn has of what is looked for, by weight, and how many words at least: one or two are chance.
const SHARE: f64 = 0.35;
const LEAST_SHARED: usize = 3;
/// Entries that are looked at: those of other projects may come first.
const CANDIDATES: usize = 300;
/// Of these, turns whose words are compared.
const COMPARED: usize = 24;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// What is said now.
    pub text: &'a str,
    /// The folder that it is said in: turns of others are not related.
    pub folder: &'a str,
    /// The session that it is said in, whose turns are known.
    pub session: &'a str,
    /// Turns at most.
    pub most: usize,
    /// When to give up.
    pub deadline: Instant,
}

/// A turn that has to do with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Related {
    /// The turn.
    pub turn: StoredTurn,
    /// What it was about, in one line.
    pub line: String,
    /// What it has of what was looked for, by weight.
    pub share: f64,
}

/// Turns of other sessions in the same folder that are about the same, the best first; mostly none.
///
/// # Errors
/// When the archive or the index cannot be read in time.
pub fn related(store: &mut dyn Store, index: &mut Index, about: &About<'_>) -> Result<Vec<Related>, SearchError> {
    // What is started in the root or nowhere is of no project.
    if about.folder.trim_matches(['/', '\\']).is_empty() {
        return Ok(Vec::new());
    }
    index.give_up_at(Some(about.deadline))?;
    let found = look(store, index, about);
    index.give_up_at(None)?;
    found
}

fn look(store: &mut dyn Store, index: &mut Index, about: &About<'_>) -> Result<Vec<Related>, SearchError> {
    let weights = rare(index, about.text)?;
    let sum: f64 = weights.values().sum();
    let terms = Terms { words: weights.keys().cloned().collect(), ..Terms::default() };
    if weights.len() < LEAST_SHARED {
        return Ok(Vec::new());
    }
    let mut entries: Vec<i64> =
        index.lexical(&index.ask(&terms, &[])?, None, CANDIDATES, &[])?.into_iter().map(|(entry, _)| entry).collect();
    let mut places: HashMap<i64, Vec<Place>> = HashMap::new();
    for some in entries.chunks(COMPARED) {
        if Instant::now() > about.deadline {
            break;
        }
        for place in store.places(some)? {
            places.entry(place.entry).or_default().push(place);
        }
    }
    let own = store.session(about.session)?.map(|session| session.key);
    entries.retain(|entry| places.get(entry).is_some_and(|places| is_elsewhere(places, own, about.folder)));
    let mut found: Vec<Related> = Vec::new();
    for entry in entries.into_iter().take(COMPARED) {
        // The index gives up by itself; what is between two questions to it does not.
        if Instant::now() > about.deadline {
            break;
        }
        let Some(excerpt) = index.excerpt(entry)? else { continue };
        let mut has: HashMap<&str, f64> = HashMap::new();
        for text in [&excerpt.prompt, &excerpt.answer] {
            index.tokenizer().tokens(text, &mut |token| {
                has.extend(weights.get_key_value(&token.word).map(|(word, weight)| (word.as_str(), *weight)));
            });
        }
        let share = has.values().sum::<f64>() / sum;
        let best =
            places[&entry].iter().filter(|place| place.folder.as_deref() == Some(about.folder)).max_by_key(|place| place.rank());
        if share < SHARE || has.len() < LEAST_SHARED {
            continue;
        }
        if let Some(turn) = best.map_or(Ok(None), |place| store.turn_of(place))? {
            found.push(Related { turn, line: excerpt.line, share });
        }
    }
    found.sort_by(|one, other| other.share.total_cmp(&one.share));
    found.truncate(about.most);
    Ok(found)
}

/// A turn that this session has as well, as a fork of another one, is known.
fn is_elsewhere(places: &[Place], own: Option<i64>, folder: &str) -> bool {
    places.iter().all(|place| Some(place.session) != own) && places.iter().any(|place| place.folder.as_deref() == Some(folder))
}

/// The rarest words of a text, with what they weigh: their inverse document frequency.
fn rare(index: &mut Index, text: &str) -> Result<HashMap<String, f64>, SearchError> {
    let mut words: Vec<String> = Vec::new();
    index.tokenizer().tokens(text, &mut |token| {
        let typed = text[token.range].to_lowercase();
        if words.len() < LOOKED_AT && typed.chars().count() > 2 && !is_empty(&typed) && !words.contains(&token.word) {
            words.push(token.word);
        }
    });
    let all = index.count()?;
    let most = (all as usize / RARE).clamp(RARE_AT_LEAST, RARE_AT_MOST);
    let mut weighed = Vec::new();
    for word in words {
        let docs = index.count_with(&word, most + 1)?;
        if (1..=most).contains(&docs) {
            weighed.push((word, (all as f64 / docs as f64).ln().max(0.0)));
        }
    }
    weighed.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    weighed.truncate(WORDS);
    Ok(weighed.into_iter().collect())
}
