/*!
Finding turns again: by words, by meaning, or by both.

The [`index`] is a cache beside the archive; [`refresh`] brings it up to date and [`embed`] gives it vectors. A search takes the best
candidates by words and by vectors, puts them in order ([`rank`]) and reads from the archive only what is shown. Without a model, and
without vectors, words are enough; what is missing is said.
*/

mod embed;
pub mod filter;
pub mod index;
pub mod passages;
pub mod query;
pub mod rank;
mod refresh;
pub mod snippet;
pub mod time;
pub mod tokens;
pub mod vectors;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use embed::{Embedded, embed};
pub use filter::{Filter, Kind};
pub use index::Index;
pub use rank::Stages;
pub use refresh::{Refreshed, refresh};
pub use snippet::Snippet;

use super::embed::{EmbedError, Embedder};
use super::store::{Place, Store, StoreError, StoredSummary, StoredTurn};
use super::words;
use crate::transcript::Fields;
use query::Terms;
use rank::{Around, Candidate, Ranked};

/// Candidates by words, and as many by vectors.
const CANDIDATES: usize = 100;

/// Characters of a hit that are shown.
const SNIPPET_CHARS: usize = 240;

/// Characters of a query that are looked at.
const MOST_CHARS: usize = 1_000;

/// Characters by which turns are told apart: two that begin alike for as long say the same.
const SAME_CHARS: usize = 400;

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The archive cannot be read.
    #[error(transparent)]
    Store(StoreError),
    /// The index cannot be used.
    #[error("the search index {}: {cause}; it can be deleted, and `ctxbridge archive optimize` makes it anew", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        cause: rusqlite::Error,
    },
    /// There is no vector of a text.
    #[error(transparent)]
    Embed(#[from] EmbedError),
}

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Words alone.
    Lexical,
    /// Vectors alone.
    Dense,
    /// Both.
    #[default]
    Hybrid,
}

impl Mode {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Dense => "dense",
            Self::Hybrid => "hybrid",
        }
    }
}

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// As the user typed it.
    pub text: String,
    /// What is compared.
    pub mode: Mode,
    /// What may be found.
    pub filter: Filter,
    /// What words have to stand in; anything, where it is empty.
    pub kinds: Vec<Kind>,
    /// Hits at most.
    pub limit: usize,
    /// What goes into the order.
    pub stages: Stages,
    /// The folder that is asked from.
    pub folder: Option<String>,
    /// When it is asked.
    pub now: Timestamp,
    /// In which days and times are named.
    pub zone: TimeZone,
}

impl Request {
    /// The ten best by words and meaning, asked now.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            mode: Mode::default(),
            filter: Filter::default(),
            kinds: Vec::new(),
            limit: 10,
            stages: Stages::ALL,
            folder: None,
            now: Timestamp::now(),
            zone: TimeZone::system(),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A turn, or a sub-agent's work.
    Turn(Box<StoredTurn>),
    /// The summary of a compaction, and the session that it was made of.
    Summary(String, StoredSummary),
}

/// A turn that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The turn or summary.
    pub what: What,
    /// More is better; comparable within one search.
    pub score: f64,
    /// The words in it that were looked for, by where they stand.
    pub words: Vec<(&'static str, Vec<String>)>,
    /// The cosine of its best passage.
    pub cosine: Option<f64>,
    /// Whether it is here for its neighbours alone.
    pub is_neighbour: bool,
    /// Whether it is of the time that the query names.
    pub is_in_time: bool,
    /// The piece that shows best why.
    pub snippet: Snippet,
    /// What it was about.
    pub summary: String,
    /// How many others say the same.
    pub duplicates: usize,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best first.
    pub hits: Vec<Hit>,
    /// What was compared: without a model or vectors, words.
    pub mode: Mode,
    /// Days that the query named, as text.
    pub time: Option<String>,
    /// What the user should know: why vectors were not used, say.
    pub notes: Vec<String>,
}

/// Looks for turns. Without an embedder only words are compared.
///
/// # Errors
/// When the archive or the index cannot be read.
pub fn search(
    store: &mut dyn Store,
    index: &mut Index,
    embedder: Option<&mut (dyn Embedder + '_)>,
    request: &Request,
) -> Result<Found, SearchError> {
    let mut notes = Vec::new();
    let end = request.text.char_indices().nth(MOST_CHARS).map_or(request.text.len(), |(at, _)| at);
    let text = &request.text[..end];
    let named = if request.stages.time { time::named(text, request.now, &request.zone) } else { None };
    // The time is no word that turns would have.
    let words = named
        .as_ref()
        .map_or_else(|| text.to_owned(), |named| format!("{} {}", &text[..named.range.start], &text[named.range.end..]));
    let terms = Terms::of(&words, index.tokenizer());
    let time = named.as_ref().map(|named| named.millis(&request.zone));
    let vector = vector(index, embedder, request, &mut notes)?;
    let mode = match (&vector, request.mode) {
        (None, _) => Mode::Lexical,
        (Some(_), mode) => mode,
    };
    let allowed = index.allowed(&request.filter)?;
    let mut pool = Pool::default();
    pool.collect(index, &terms, request, mode, vector.as_ref(), allowed.as_ref())?;
    if let Some(time) = &time {
        // Those of the time that is named compete among themselves, too.
        let within =
            |edge: Option<i64>, named: i64, pick: fn(i64, i64) -> i64| Some(edge.map_or(named, |edge| pick(edge, named)));
        let filter = Filter {
            since_ms: within(request.filter.since_ms, time.start, i64::max),
            until_ms: within(request.filter.until_ms, time.end, i64::min),
            ..request.filter.clone()
        };
        let allowed = index.allowed(&filter)?.unwrap_or_default();
        pool.collect(index, &terms, request, mode, vector.as_ref(), Some(&allowed))?;
        if terms.is_nothing() && vector.is_none() {
            allowed.iter().for_each(|entry| pool.entry(*entry).0 = Some(1.0));
        }
    }
    if let Some((model, vector)) = vector.as_ref().filter(|_| mode == Mode::Hybrid) {
        let without: Vec<i64> = pool.0.iter().filter(|(_, found)| found.1.is_none()).map(|(entry, _)| *entry).collect();
        for (entry, cosine) in index.cosines(model, vector, &without)? {
            pool.entry(entry).1 = Some(f64::from(cosine));
        }
    }
    let candidates = candidates(store, &pool)?;
    let around = Around { time, folder: request.folder.as_deref(), now_ms: request.now.as_millisecond() };
    // What is asked for in a kind of text has to be in it: neighbours are not.
    let stages = Stages { neighbours: request.stages.neighbours && request.kinds.is_empty(), ..request.stages };
    let ranked = rank::rank(&candidates, stages, &around);
    let hits =
        Shower { store, index, terms: &terms, request, allowed: allowed.as_ref(), around: &around }.hits(&ranked, &candidates)?;
    let time = named.map(|named| request.text[named.range].to_owned());
    Ok(Found { hits, mode, time, notes })
}

/// The model's name and the query's vector; nothing where words have to do.
fn vector(
    index: &mut Index,
    embedder: Option<&mut (dyn Embedder + '_)>,
    request: &Request,
    notes: &mut Vec<String>,
) -> Result<Option<(&'static str, Vec<f32>)>, SearchError> {
    if request.mode == Mode::Lexical || request.text.trim().is_empty() {
        return Ok(None);
    }
    let Some(embedder) = embedder else {
        notes.push("there is no model, so words alone were compared".to_owned());
        return Ok(None);
    };
    let (with, all) = index.coverage()?;
    if with == 0 {
        if all > 0 {
            notes.push(
                "nothing has a vector yet, so words alone were compared; `ctxbridge archive optimize` makes them".to_owned(),
            );
        }
        return Ok(None);
    }
    if with < all {
        notes.push(format!("{} of {all} entries have no vector yet; `ctxbridge archive optimize` makes them", all - with));
    }
    let mut vectors = embedder.embed(&[&request.text])?;
    Ok(vectors.pop().map(|vector| (embedder.id(), vector)))
}

/// Entries with BM25 and cosine.
#[derive(Default)]
struct Pool(HashMap<i64, (Option<f64>, Option<f64>)>);

impl Pool {
    fn entry(&mut self, entry: i64) -> &mut (Option<f64>, Option<f64>) {
        self.0.entry(entry).or_default()
    }

    fn collect(
        &mut self,
        index: &mut Index,
        terms: &Terms,
        request: &Request,
        mode: Mode,
        vector: Option<&(&str, Vec<f32>)>,
        allowed: Option<&HashSet<i64>>,
    ) -> Result<(), SearchError> {
        let most = CANDIDATES.max(request.limit);
        if mode != Mode::Dense {
            for (entry, score) in index.lexical(terms, &request.kinds, allowed, most)? {
                self.entry(entry).0 = Some(score);
            }
        }
        if let Some((model, vector)) = vector.filter(|_| mode != Mode::Lexical) {
            for (entry, cosine) in index.dense(model, vector, allowed, most)? {
                self.entry(entry).1 = Some(f64::from(cosine));
            }
        }
        Ok(())
    }
}

/// Where the entries are; of several places, the one that is still part of a conversation, then the newest.
fn candidates(store: &mut dyn Store, pool: &Pool) -> Result<Vec<Candidate>, SearchError> {
    let mut entries: Vec<i64> = pool.0.keys().copied().collect();
    entries.sort_unstable();
    let mut best: HashMap<i64, Place> = HashMap::new();
    for place in store.places(&entries)? {
        let rank = |place: &Place| (!place.is_superseded, place.started_ms, place.key);
        if best.get(&place.entry).is_none_or(|known| rank(known) < rank(&place)) {
            best.insert(place.entry, place);
        }
    }
    let mut candidates = Vec::with_capacity(entries.len());
    for entry in entries {
        let (words, cosine) = pool.0[&entry];
        let place = match best.remove(&entry) {
            Some(place) => place,
            // No turn: a summary, or nothing that is there any more.
            None => match store.summary_of(entry)? {
                Some((_, summary)) => place_of(&summary),
                None => continue,
            },
        };
        candidates.push(Candidate { place, words, cosine });
    }
    Ok(candidates)
}

/// A summary stands alone, in no transcript.
fn place_of(summary: &StoredSummary) -> Place {
    Place {
        entry: summary.entry,
        key: 0,
        transcript: -summary.entry,
        index: 0,
        session: -summary.entry,
        folder: None,
        started_ms: summary.at_ms,
        access_count: 0,
        confidence: super::SUMMARY_CONFIDENCE,
        richness: (false, false),
        is_superseded: true,
    }
}

/// Reads what is shown.
struct Shower<'a> {
    store: &'a mut dyn Store,
    index: &'a Index,
    terms: &'a Terms,
    request: &'a Request,
    allowed: Option<&'a HashSet<i64>>,
    around: &'a Around<'a>,
}

impl Shower<'_> {
    fn hits(mut self, ranked: &[Ranked], candidates: &[Candidate]) -> Result<Vec<Hit>, SearchError> {
        let mut hits: Vec<Hit> = Vec::new();
        let mut same: HashMap<String, usize> = HashMap::new();
        for one in ranked {
            if hits.len() >= self.request.limit {
                break;
            }
            let candidate = one.candidate.map(|number| &candidates[number]);
            let Some((hit, begins)) = self.hit(one, candidate)? else { continue };
            let key = begins.chars().filter(|c| !c.is_whitespace()).take(SAME_CHARS).collect();
            match same.get(&key) {
                Some(first) if self.request.stages.duplicates => hits[*first].duplicates += 1,
                _ => {
                    same.insert(key, hits.len());
                    hits.push(hit);
                }
            }
        }
        Ok(hits)
    }

    /// A hit, and how it begins.
    fn hit(&mut self, ranked: &Ranked, candidate: Option<&Candidate>) -> Result<Option<(Hit, String)>, SearchError> {
        let turn = match candidate.map(|candidate| &candidate.place) {
            None => self.store.turn(ranked.at.0, ranked.at.1)?,
            Some(place) if place.key == 0 => return self.summary(ranked, candidate, place.entry),
            Some(place) => self.store.turn_of(place)?,
        };
        let Some(turn) = turn.filter(|turn| self.allowed.is_none_or(|allowed| allowed.contains(&turn.entry))) else {
            return Ok(None);
        };
        // One that cannot be read is no reason to show none of the others.
        let Ok(fields) = words::fields(self.store, &turn) else { return Ok(None) };
        // There is nothing in it.
        if fields == Fields::default() {
            return Ok(None);
        }
        let Fields { prompt, answer, input, output } = &fields;
        let files = turn.turn.files.join("\n");
        let texts = [("answer", answer.as_str()), ("prompt", prompt), ("output", output), ("input", input), ("files", &files)];
        let summary = words::summary(self.store, &turn).unwrap_or_default();
        let started_ms = turn.turn.started_ms;
        let begins = format!("{prompt}\n{answer}");
        Ok(Some((self.shown(ranked, candidate, What::Turn(Box::new(turn)), started_ms, &texts, summary), begins)))
    }

    fn summary(
        &mut self,
        ranked: &Ranked,
        candidate: Option<&Candidate>,
        entry: i64,
    ) -> Result<Option<(Hit, String)>, SearchError> {
        let Some((session, summary)) = self.store.summary_of(entry)? else { return Ok(None) };
        let text = summary.text.clone();
        let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect();
        let at_ms = summary.at_ms;
        let what = What::Summary(session, summary);
        Ok(Some((self.shown(ranked, candidate, what, at_ms, &[("summary", &text)], line), text)))
    }

    fn shown(
        &self,
        ranked: &Ranked,
        candidate: Option<&Candidate>,
        what: What,
        at_ms: i64,
        texts: &[(&'static str, &str)],
        summary: String,
    ) -> Hit {
        let mut words = Vec::new();
        let mut best: Option<Snippet> = None;
        for (name, text) in texts {
            let mut seen: Vec<String> = Vec::new();
            let mut terms: HashSet<String> = HashSet::new();
            self.index.tokenizer().tokens(text, &mut |token| {
                if self.terms.has(&token.word) && !terms.contains(&token.word) {
                    let shown = text[token.range].to_lowercase();
                    // Of a phrase, what says something is enough.
                    if (!query::is_empty(&shown) || self.terms.words.contains(&token.word)) && !seen.contains(&shown) {
                        seen.push(shown);
                    }
                    terms.insert(token.word);
                }
            });
            let snippet = snippet::of(text, self.terms, self.index.tokenizer(), SNIPPET_CHARS);
            // The first of those that show as much.
            if !snippet.text.is_empty() && best.as_ref().is_none_or(|best| best.terms < snippet.terms) {
                best = Some(snippet);
            }
            if !seen.is_empty() {
                words.push((*name, seen));
            }
        }
        Hit {
            what,
            score: ranked.score,
            words,
            cosine: candidate.and_then(|candidate| candidate.cosine),
            is_neighbour: candidate.is_none(),
            is_in_time: self.around.time.as_ref().is_some_and(|time| time.contains(&at_ms)),
            snippet: best.unwrap_or_default(),
            summary,
            duplicates: 0,
        }
    }
}
