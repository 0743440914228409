/*!
Finds earlier turns on the same subject, for a context that nobody asked for. There, silence is better than irrelevant turns.

Only words that are rare in the archive say what a text is about ([`Keywords`]). They give the odds that a turn is relevant. A model
would take longer to load than a hook may take.
*/

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::index::OWN_COLUMNS;
use super::keywords::{Keywords, dedup_prefix, is_relevant};
use super::query::QueryTerms;
use super::{SearchError, SearchIndex};
use crate::project::ProjectScope;
use crate::store::{StoreReader, StoredTurn, TurnLocation};
use ctxbridge_common::folder::FolderKey;

/// Number of entries whose locations are looked up at once: those of other projects may come first.
const LOCATION_BATCH_ENTRIES: usize = 24;
/// Maximum number of turns that are compared.
const MAX_COMPARED_TURNS: usize = 48;

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
    /// A one-line summary.
    pub line: String,
    /// The start of the prompt.
    pub prompt: String,
    /// Log-odds that it is relevant ([`Keywords::log_odds`]).
    pub odds: f64,
}

/// Returns turns of the same project on the same subject, the best first; usually none.
///
/// # Errors
/// If the archive or the index cannot be read in time.
pub fn related(
    store: &mut dyn StoreReader,
    index: &mut SearchIndex,
    about: &RelatedQuery<'_>,
) -> Result<Vec<RelatedTurn>, SearchError> {
    // What is started in the root or nowhere is of no project.
    if about.project.roots().iter().all(FolderKey::is_root) {
        return Ok(Vec::new());
    }
    index.set_deadline(Some(about.deadline))?;
    let found = find_related(store, index, about);
    index.set_deadline(None)?;
    found
}

fn find_related(
    store: &mut dyn StoreReader,
    index: &mut SearchIndex,
    about: &RelatedQuery<'_>,
) -> Result<Vec<RelatedTurn>, SearchError> {
    let all = index.count()?;
    let subject = Keywords::of(about.text, index.tokenizer(), all, &mut |word, most| index.count_with(word, most))?;
    if subject.is_empty() {
        return Ok(Vec::new());
    }
    let terms = QueryTerms { words: subject.words().map(str::to_owned).collect(), ..QueryTerms::default() };
    // What was said before a turn is another one's.
    let asked = index.prepare(&terms, &OWN_COLUMNS)?;
    let hopeful = |weight: f64| is_relevant(subject.log_odds(weight, 1.0));
    let weighed = asked.listed().map(|(entry, words)| (entry, subject.weight(words)));
    let mut weighed: Vec<(i64, f64)> = weighed.filter(|(_, weight)| hopeful(*weight)).collect();
    weighed.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
    let own = store.session(about.session)?.map(|session| session.key);
    let mut places: HashMap<i64, Vec<TurnLocation>> = HashMap::new();
    let mut compared: HashMap<i64, f64> = HashMap::new();
    for some in weighed.chunks(LOCATION_BATCH_ENTRIES) {
        // The index gives up by itself; what is between two questions to it does not.
        if Instant::now() > about.deadline || compared.len() >= MAX_COMPARED_TURNS {
            break;
        }
        for place in store.turn_locations(&some.iter().map(|(entry, _)| *entry).collect::<Vec<_>>())? {
            places.entry(place.entry).or_default().push(place);
        }
        let may_tell = |entry: &i64| places.get(entry).is_some_and(|places| about.may_suggest(places, own));
        compared.extend(some.iter().copied().filter(|(entry, _)| may_tell(entry)));
    }
    let scored = index.search_lexical(&asked, Some(&compared.keys().copied().collect()), MAX_COMPARED_TURNS, &[])?;
    let best = scored.first().map_or(0.0, |(_, score)| score.max(f64::MIN_POSITIVE));
    let odds = scored.into_iter().map(|(entry, score)| (entry, subject.log_odds(compared[&entry], score / best)));
    let mut wanted: Vec<(i64, f64)> = odds.filter(|(_, odds)| is_relevant(*odds)).collect();
    wanted.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut found: Vec<RelatedTurn> = Vec::new();
    // The same prompt, sent again, is the same turn to whoever reads of it.
    let mut begins = HashSet::new();
    for (entry, odds) in wanted {
        if Instant::now() > about.deadline || found.len() >= about.limit {
            break;
        }
        let Some(excerpt) = index.excerpt(entry)? else { continue };
        if dedup_prefix(&excerpt.prompt).or_else(|| dedup_prefix(&excerpt.line)).is_some_and(|begin| !begins.insert(begin)) {
            continue;
        }
        let best = places[&entry].iter().filter(|place| about.is_told(place)).max_by_key(|place| place.rank());
        if let Some(turn) = best.map_or(Ok(None), |place| store.turn_by_location(place))? {
            found.push(RelatedTurn { turn, line: excerpt.line, prompt: excerpt.prompt, odds });
        }
    }
    Ok(found)
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
