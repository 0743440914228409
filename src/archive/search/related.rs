/*!
What was said before about the same: for a context that nobody asked for, where silence is better than what does not matter.

Only words that are rare in the archive say what a text is about ([`Subject`]), and from them comes how likely it is that a turn is wanted. A model
would take longer to load than a hook may take.
*/

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::index::OWN;
use super::query::Terms;
use super::subject::{Subject, begin, is_enough};
use super::{Index, SearchError};
use crate::store::{Place, Store, StoredTurn};

/// Entries whose places are looked up at once: those of other projects may come first.
const AT_ONCE: usize = 24;
/// Turns that are compared.
const COMPARED: usize = 48;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// What is said now.
    pub text: &'a str,
    /// The folders of the project that it is said in: turns of others are not related.
    pub folders: &'a [String],
    /// The session that it is said in, whose turns are known.
    pub session: &'a str,
    /// But for so many at its begin, which are no longer in the window.
    pub forgotten: u32,
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
    /// The begin of what was asked.
    pub prompt: String,
    /// How likely it is that it is wanted ([`Subject::odds`]).
    pub odds: f64,
}

/// Turns of the same project that are about the same, the best first; mostly none.
///
/// # Errors
/// When the archive or the index cannot be read in time.
pub fn related(store: &mut dyn Store, index: &mut Index, about: &About<'_>) -> Result<Vec<Related>, SearchError> {
    // What is started in the root or nowhere is of no project.
    if !about.folders.iter().any(|folder| !folder.trim_matches(['/', '\\']).is_empty()) {
        return Ok(Vec::new());
    }
    index.give_up_at(Some(about.deadline))?;
    let found = look(store, index, about);
    index.give_up_at(None)?;
    found
}

fn look(store: &mut dyn Store, index: &mut Index, about: &About<'_>) -> Result<Vec<Related>, SearchError> {
    let all = index.count()?;
    let subject = Subject::of(about.text, index.tokenizer(), all, &mut |word, most| index.count_with(word, most))?;
    if subject.is_empty() {
        return Ok(Vec::new());
    }
    let terms = Terms { words: subject.words().map(str::to_owned).collect(), ..Terms::default() };
    // What was said before a turn is another one's.
    let asked = index.ask(&terms, &OWN)?;
    let hopeful = |weight: f64| is_enough(subject.odds(weight, 1.0));
    let weighed = asked.listed().map(|(entry, words)| (entry, subject.weight(words)));
    let mut weighed: Vec<(i64, f64)> = weighed.filter(|(_, weight)| hopeful(*weight)).collect();
    weighed.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
    let own = store.session(about.session)?.map(|session| session.key);
    let mut places: HashMap<i64, Vec<Place>> = HashMap::new();
    let mut compared: HashMap<i64, f64> = HashMap::new();
    for some in weighed.chunks(AT_ONCE) {
        // The index gives up by itself; what is between two questions to it does not.
        if Instant::now() > about.deadline || compared.len() >= COMPARED {
            break;
        }
        for place in store.places(&some.iter().map(|(entry, _)| *entry).collect::<Vec<_>>())? {
            places.entry(place.entry).or_default().push(place);
        }
        let may_tell = |entry: &i64| places.get(entry).is_some_and(|places| about.may_tell(places, own));
        compared.extend(some.iter().copied().filter(|(entry, _)| may_tell(entry)));
    }
    let scored = index.lexical(&asked, Some(&compared.keys().copied().collect()), COMPARED, &[])?;
    let best = scored.first().map_or(0.0, |(_, score)| score.max(f64::MIN_POSITIVE));
    let odds = scored.into_iter().map(|(entry, score)| (entry, subject.odds(compared[&entry], score / best)));
    let mut wanted: Vec<(i64, f64)> = odds.filter(|(_, odds)| is_enough(*odds)).collect();
    wanted.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut found: Vec<Related> = Vec::new();
    // The same prompt, sent again, is the same turn to whoever reads of it.
    let mut begins = HashSet::new();
    for (entry, odds) in wanted {
        if Instant::now() > about.deadline || found.len() >= about.most {
            break;
        }
        let Some(excerpt) = index.excerpt(entry)? else { continue };
        if begin(&excerpt.prompt).or_else(|| begin(&excerpt.line)).is_some_and(|begin| !begins.insert(begin)) {
            continue;
        }
        let best = places[&entry].iter().filter(|place| about.is_of_project(place)).max_by_key(|place| place.rank());
        if let Some(turn) = best.map_or(Ok(None), |place| store.turn_of(place))? {
            found.push(Related { turn, line: excerpt.line, prompt: excerpt.prompt, odds });
        }
    }
    Ok(found)
}

impl About<'_> {
    /// A turn that this session has as well, as a fork of another one, is known, until it leaves the window.
    fn may_tell(&self, places: &[Place], own: Option<i64>) -> bool {
        let is_known = |place: &Place| Some(place.session) == own && place.index >= self.forgotten;
        !places.iter().any(is_known) && places.iter().any(|place| self.is_of_project(place))
    }

    fn is_of_project(&self, place: &Place) -> bool {
        let Some(folder) = place.folder.as_deref() else { return false };
        let is_in = |root: &String| {
            folder.strip_prefix(root.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '\\']))
        };
        self.folders.iter().any(is_in)
    }
}
