/*!
Finds earlier turns that a text is likely to need, for a context that nobody asked for. There, silence is better than irrelevant turns.

Of the best turns by words, those are looked at that are closest by words and meaning together, and whether they are [relevant](super::relevance)
is decided for each. A model of meaning would take longer to load than a hook may take, so meaning is that of the static embedding.
*/

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::index::excerpt::Excerpt;
use super::keywords::dedup_prefix;
use super::query::QueryTerms;
use super::relevance::{self, FEATURES, MODEL, Scores, Subject};
use super::snippet::{Snippet, best_snippet, find_matches};
use super::tokens::{Tokenizer, is_unspaced};
use super::{SearchError, SearchIndex};
use crate::project_scope::ProjectScope;
use crate::quote::{cut, line};
use crate::store::{LearningQuery, StoreReader, StoredTurn, TurnLocation};
use crate::turn_text;
use ctxbridge_common::folder::FolderKey;

/// Number of entries whose locations are looked up at once: those of other projects may come first.
const LOCATION_BATCH_ENTRIES: usize = 24;
/// Maximum number of entries that are looked up. In an archive of many projects, those with the rarest words may all be of others, and what
/// has fewer of them is not wanted.
const MAX_LOCATED_ENTRIES: usize = 960;
/// Maximum number of turns that are scored, of those whose text is read, and of those that are looked at.
const MAX_COMPARED_TURNS: usize = 48;
const MAX_READ_TURNS: usize = 12;
const MAX_CONSIDERED_TURNS: usize = 8;
/// Maximum number of turns that are told: the second is wanted too seldom.
const MAX_RELATED_TURNS: usize = 1;
/// Maximum numbers of words of a text, of pairs of characters and of prefixes that are looked up, each of which takes its time.
const MAX_LOOKED_UP_WORDS: usize = 24;
const MAX_LOOKED_UP_PREFIXES: usize = 12;
/// Maximum number of sentences that were learned in a session and are compared with a text.
const MAX_LEARNED: usize = 20;
/// Number of turns with a word above which they are not listed for it.
const MAX_LISTED_TURNS: usize = 2_000;
/// Characters of the prompt and of the passage that are shown.
const PROMPT_CHARS: usize = 90;
const PASSAGE_CHARS: usize = 300;

/// A query for related turns.
#[derive(Clone, Copy, Debug)]
pub struct RelatedQuery<'a> {
    /// The current text.
    pub text: &'a str,
    /// The current project: turns of others are not related.
    pub project: &'a ProjectScope,
    /// The current session, whose turns are known.
    pub session: &'a str,
    /// Number of turns at the start of the session that are no longer in the window.
    pub forgotten_turns: u32,
    /// Maximum number of turns.
    pub limit: usize,
    /// Deadline.
    pub deadline: Instant,
}

/// A related turn.
#[derive(Clone, Debug, PartialEq)]
pub struct RelatedTurn {
    /// The turn.
    pub turn: StoredTurn,
    /// The passage that has most of the text's words, in one line, behind the begin of the prompt.
    pub line: String,
    /// The start of the prompt.
    pub prompt: String,
    /// Log-odds that it is relevant.
    pub odds: f64,
}

/// A turn that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Considered {
    /// Its location.
    pub place: TurnLocation,
    /// Its features, which decide if it is relevant.
    pub features: [f64; FEATURES.len()],
    excerpt: Excerpt,
}

/// Returns turns of the same project that a text is likely to need, the best first; usually none.
///
/// # Errors
/// If the archive or the index cannot be read in time.
pub fn related(
    store: &mut dyn StoreReader,
    index: &mut SearchIndex,
    about: &RelatedQuery<'_>,
) -> Result<Vec<RelatedTurn>, SearchError> {
    let query = query_of(about.text, index.tokenizer());
    within_deadline(index, about, |index| {
        let considered = consider_query(store, index, about, &query)?;
        let odds = considered.into_iter().map(|one| (MODEL.log_odds(&one.features), one));
        let threshold = MODEL.threshold(query.is_foreign());
        let mut wanted: Vec<(f64, Considered)> = odds.filter(|(odds, _)| *odds >= threshold).collect();
        wanted.sort_by(|one, other| other.0.total_cmp(&one.0));
        let mut found: Vec<RelatedTurn> = Vec::new();
        // The same prompt, sent again, is the same turn to whoever reads of it.
        let mut begins = HashSet::new();
        for (odds, Considered { place, excerpt, .. }) in wanted {
            if Instant::now() > about.deadline || found.len() >= about.limit.min(MAX_RELATED_TURNS) {
                break;
            }
            if dedup_prefix(&excerpt.prompt).or_else(|| dedup_prefix(&excerpt.line)).is_some_and(|begin| !begins.insert(begin)) {
                continue;
            }
            let Some(turn) = store.turn_by_location(&place)? else { continue };
            let line = passage(store, &turn, &place, &excerpt, &query, index.tokenizer());
            found.push(RelatedTurn { turn, line, prompt: excerpt.prompt, odds });
        }
        Ok(found)
    })
}

/// Returns the turns that [`related`] looks at, and what it decides by; to fit and measure that.
///
/// # Errors
/// As [`related`].
pub fn consider(
    store: &mut dyn StoreReader,
    index: &mut SearchIndex,
    about: &RelatedQuery<'_>,
) -> Result<Vec<Considered>, SearchError> {
    let query = query_of(about.text, index.tokenizer());
    within_deadline(index, about, |index| consider_query(store, index, about, &query))
}

/// `true` if a text is [judged](QueryTerms::is_foreign) as one in another language than English.
pub fn is_foreign(text: &str, tokenizer: &Tokenizer) -> bool {
    query_of(text, tokenizer).is_foreign()
}

fn within_deadline<T>(
    index: &mut SearchIndex,
    about: &RelatedQuery<'_>,
    work: impl FnOnce(&mut SearchIndex) -> Result<Vec<T>, SearchError>,
) -> Result<Vec<T>, SearchError> {
    // What is started in the root or nowhere is of no project.
    if about.project.roots().iter().all(FolderKey::is_root) {
        return Ok(Vec::new());
    }
    index.set_deadline(Some(about.deadline))?;
    let found = work(index);
    index.set_deadline(None)?;
    found
}

/// The words of a text. Of many, the long ones: they are rare more often than not. Pairs of characters are counted for themselves: there are
/// many of them, and what they mean is another word.
fn query_of(text: &str, tokenizer: &Tokenizer) -> QueryTerms {
    let mut query = QueryTerms::of(&text.replace('"', " "), tokenizer);
    let (mut pairs, mut words): (Vec<String>, Vec<String>) =
        query.words.iter().cloned().partition(|word| word.starts_with(is_unspaced));
    words.sort_by_key(|word| Reverse(word.chars().count()));
    for some in [&mut pairs, &mut words] {
        some.truncate(MAX_LOOKED_UP_WORDS);
    }
    query.words.retain(|word| words.contains(word) || pairs.contains(word));
    query.translated.retain(|word, _| words.contains(word));
    query.prefixes.truncate(MAX_LOOKED_UP_PREFIXES);
    query
}

fn consider_query(
    store: &mut dyn StoreReader,
    index: &mut SearchIndex,
    about: &RelatedQuery<'_>,
    query: &QueryTerms,
) -> Result<Vec<Considered>, SearchError> {
    let asked = index.prepare_rare(query, MAX_LISTED_TURNS)?;
    let own = store.session(about.session)?.map(|session| session.key);
    let mut places: HashMap<i64, Vec<TurnLocation>> = HashMap::new();
    let mut masks: HashMap<i64, u64> = HashMap::new();
    for some in asked.heaviest().chunks(LOCATION_BATCH_ENTRIES).take(MAX_LOCATED_ENTRIES / LOCATION_BATCH_ENTRIES) {
        // The index gives up by itself; what is between two questions to it does not.
        if Instant::now() > about.deadline || masks.len() >= MAX_COMPARED_TURNS {
            break;
        }
        for place in store.turn_locations(&some.iter().map(|(entry, ..)| *entry).collect::<Vec<_>>())? {
            places.entry(place.entry).or_default().push(place);
        }
        let may_tell = |entry: &i64| places.get(entry).is_some_and(|places| about.may_suggest(places, own));
        masks.extend(some.iter().filter(|(entry, ..)| may_tell(entry)).map(|(entry, _, mask)| (*entry, *mask)));
    }
    let compared: HashSet<i64> = masks.keys().copied().collect();
    let scored = index.search_lexical(&asked, Some(&compared), MAX_COMPARED_TURNS, &[])?;
    if scored.is_empty() {
        return Ok(Vec::new());
    }
    let all = index.count()?;
    let terms = asked.terms();
    let subject = Subject::of(about.text, query, &terms, all, index.tokenizer());
    let score_of = |at: usize| scored.get(at).map_or(0.0, |(_, score)| score * asked.most());
    let mut read = Vec::new();
    for (entry, score) in scored.iter().take(MAX_READ_TURNS) {
        // With some of them alone, another one would seem the best.
        if Instant::now() > about.deadline {
            return Ok(Vec::new());
        }
        let Some(excerpt) = index.excerpt(*entry)? else { continue };
        let best = places[entry].iter().filter(|place| about.is_told(place)).max_by_key(|place| place.rank());
        let Some(place) = best.cloned() else { continue };
        let meaning = subject.meaning(&excerpt);
        let scores = Scores { own: score * asked.most(), best: score_of(0), next: score_of(1), mask: masks[entry], meaning };
        read.push((scores, excerpt, place));
    }
    // The sort is stable: of equals, the best by words is first.
    read.sort_by(|(one, ..), (other, ..)| other.closeness().total_cmp(&one.closeness()));
    let mut considered: Vec<Considered> = read
        .into_iter()
        .take(MAX_CONSIDERED_TURNS)
        .map(|(scores, excerpt, place)| {
            let features = subject.features(&excerpt, scores, index.tokenizer());
            Considered { features, excerpt, place }
        })
        .collect();
    relevance::compare(&mut considered.iter_mut().map(|one| &mut one.features).collect::<Vec<_>>());
    Ok(considered)
}

/// The sentence with most of the query's words that was learned from a turn.
fn learned(
    store: &mut dyn StoreReader,
    turn: &StoredTurn,
    place: &TurnLocation,
    query: &QueryTerms,
    tokenizer: &Tokenizer,
) -> Option<Snippet> {
    let wanted =
        LearningQuery { session: Some(place.session), turn: Some(turn.turn.id), limit: MAX_LEARNED, ..LearningQuery::default() };
    // Without it, the turn says it in more words.
    let learnings = store.learnings(&wanted).ok()?;
    let of_turn = learnings.iter().filter(|learning| !learning.is_rewound);
    let snippets = of_turn
        .map(|learning| best_snippet(&learning.sentence, &find_matches(&learning.sentence, query, tokenizer), PASSAGE_CHARS));
    snippets.max_by_key(|snippet| snippet.terms)
}

/// The passage of a turn that has most of the query's words, behind the begin of its prompt. What was learned from it is said in fewer
/// words.
fn passage(
    store: &mut dyn StoreReader,
    turn: &StoredTurn,
    place: &TurnLocation,
    excerpt: &Excerpt,
    query: &QueryTerms,
    tokenizer: &Tokenizer,
) -> String {
    let best = |text: &str| best_snippet(text, &find_matches(text, query, tokenizer), PASSAGE_CHARS);
    let mut answer = best(&excerpt.answer);
    if !excerpt.is_whole {
        let whole = turn_text::fields(store, turn).map(|fields| best(&fields.answer)).unwrap_or_default();
        if whole.terms > answer.terms {
            answer = whole;
        }
    }
    if let Some(learned) = learned(store, turn, place, query, tokenizer).filter(|learned| learned.terms >= answer.terms.max(1)) {
        answer = learned;
    }
    let prompt = best(&excerpt.prompt);
    if answer.terms == 0 || answer.terms < prompt.terms && excerpt.answer.is_empty() {
        return excerpt.line.clone();
    }
    // What answers does not say what was asked.
    match line(&excerpt.prompt) {
        asked if asked.is_empty() => answer.text,
        asked => format!("{} → {}", cut(&asked, PROMPT_CHARS), answer.text),
    }
}

impl RelatedQuery<'_> {
    /// `true` if a turn may be suggested. A turn that this session has as well, as a fork of another one, is known until it leaves
    /// the window.
    fn may_suggest(&self, places: &[TurnLocation], own: Option<i64>) -> bool {
        let is_known = |place: &TurnLocation| Some(place.session) == own && place.index >= self.forgotten_turns;
        !places.iter().any(is_known) && places.iter().any(|place| self.is_told(place))
    }

    /// `true` for what is said in a conversation of the project; what was rewound or lost in a rewrite is not.
    fn is_told(&self, place: &TurnLocation) -> bool {
        !place.is_superseded && self.is_of_project(place)
    }

    fn is_of_project(&self, place: &TurnLocation) -> bool {
        place.folder.as_deref().is_some_and(|folder| self.project.contains(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_characters_leave_room_for_what_they_mean() {
        let text = "長い質問には文字の対がたくさんあるので、英語の単語が全部押し出されてしまい、テストとエラーの話が見つからなくなっていました。";
        let query = query_of(text, &Tokenizer::default());
        let pairs = query.words.iter().filter(|word| word.starts_with(is_unspaced)).count();
        assert_eq!(pairs, MAX_LOOKED_UP_WORDS);
        for word in ["test", "error"] {
            assert!(query.has_word(word), "{word}: {:?}", query.words);
        }
    }
}
