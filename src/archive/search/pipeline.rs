//! The steps from a request to its results.

use std::collections::HashMap;

use super::candidate_source::{CandidateSource, Coverage};
use super::hit_renderer::HitRenderer;
use super::index::OWN_COLUMNS;
use super::meaning::MeaningWeights;
use super::query::QueryTerms;
use super::rank::{Candidate, RankingContext};
use super::{Filter, Mode, SearchError, SearchRequest, SearchResults, Stages, TextKind, rank, time};
use crate::SUMMARY_CONFIDENCE;
use crate::project_scope::ProjectScope;
use crate::quote::head;
use crate::store::{Store, StoreReader, StoredSummary, TurnLocation};
use ctxbridge_vectors::embed::EmbeddingModel;

/// Maximum number of candidates by words, and of those by vectors.
const MAX_CANDIDATES: usize = 100;

/// Maximum number of candidates if the query names nothing but a time: the newest of it.
const MAX_TIME_CANDIDATES: usize = 1_000;

/// Maximum number of sessions that are found by their titles.
const MAX_TITLED_SESSIONS: usize = 10;

/// Maximum number of characters of a query that are read.
const MAX_SEARCH_TEXT_CHARS: usize = 1_000;

/// Searches turns. Without vectors only words are compared. If no turn has the text in quotes, its words are searched.
///
/// # Errors
/// If the archive or the catalog cannot be read.
pub fn search<C: CandidateSource>(
    store: &mut dyn Store,
    catalog: &mut C,
    model: &mut EmbeddingModel,
    request: &SearchRequest,
) -> Result<SearchResults, SearchError> {
    let strict = search_once(store, catalog, model, request)?;
    if !strict.hits.is_empty() || !request.text.contains('"') {
        return Ok(strict);
    }
    // An error text is remembered with another number in it, or with a dot too many.
    let mut loose =
        search_once(store, catalog, model, &SearchRequest { text: request.text.replace('"', " "), ..request.clone() })?;
    if loose.hits.is_empty() {
        return Ok(strict);
    }
    loose.notes.insert(0, "nothing has what is in quotes as it is typed, so its words were looked for".to_owned());
    Ok(loose)
}

fn search_once<C: CandidateSource>(
    store: &mut dyn Store,
    catalog: &mut C,
    model: &mut EmbeddingModel,
    request: &SearchRequest,
) -> Result<SearchResults, SearchError> {
    let mut notes = Vec::new();
    let text = head(&request.text, MAX_SEARCH_TEXT_CHARS);
    let named = if request.stages.time { time::find_time(text, request.now, &request.zone) } else { None };
    let terms = match &named {
        None => QueryTerms::of(text, catalog.tokenizer()),
        Some(named) => QueryTerms::without_time(text, named, catalog.tokenizer()),
    };
    let time = named.as_ref().map(|named| named.millis(&request.zone));
    // A model of English makes more of the English words.
    let embedded = if terms.is_foreign() { format!("{}\n{text}", terms.english.join(" ")) } else { request.text.clone() };
    // The same with and without quotes, so that it is made once.
    let embedded = embedded.replace('"', " ");
    let vector = embed_query(store, catalog, model, request, &embedded, &mut notes)?;
    let mode = match &vector {
        None => Mode::Lexical,
        Some(_) => request.mode.unwrap_or(Mode::Hybrid),
    };
    let vector = vector.as_ref().map(|(model, vector)| (*model, vector.as_slice()));
    let meaning = vector.map_or_else(MeaningWeights::default, |(model, _)| MeaningWeights::of(model));
    let allowed = catalog.resolve_filter(store, &request.filter)?;
    // The catalog gives what may have what is in quotes, and much of it may not.
    let most = MAX_CANDIDATES.max(request.limit) * if terms.has_quotes() { 4 } else { 1 };
    let asked = catalog.prepare(store, &terms, &columns(request))?;
    let mut pool = CandidatePool { found: HashMap::new(), mode, most, is_of_kinds: !request.kinds.is_empty() };
    pool.collect(store, catalog, &asked, vector, allowed.as_ref())?;
    if !terms.words.is_empty() && request.kinds.is_empty() && mode != Mode::Dense && !terms.has_quotes() {
        // A session is found by its title at its first turn.
        for session in store.sessions_titled(&terms.words, MAX_TITLED_SESSIONS)? {
            if let Some(first) = store.first_entry(session)? {
                pool.entry(first).0 = Some(1.0);
            }
        }
    }
    if let Some(time) = &time {
        // Those of the time that is named compete among themselves, too.
        let within =
            |edge: Option<i64>, named: i64, pick: fn(i64, i64) -> i64| Some(edge.map_or(named, |edge| pick(edge, named)));
        let filter = Filter {
            since_ms: within(request.filter.since_ms, time.start, i64::max),
            until_ms: within(request.filter.until_ms, time.end, i64::min),
            ..request.filter.clone()
        };
        let allowed = catalog.resolve_filter(store, &filter)?;
        pool.collect(store, catalog, &asked, vector, allowed.as_ref())?;
        if let Some(allowed) = allowed.filter(|_| terms.is_time_only && mode != Mode::Dense) {
            let newest = catalog.newest(store, &allowed, MAX_TIME_CANDIDATES.max(request.limit))?;
            newest.into_iter().for_each(|entry| pool.entry(entry).0 = Some(1.0));
        }
    }
    if let Some(vector) = vector.filter(|_| mode == Mode::Hybrid) {
        let without: Vec<i64> = pool.found.iter().filter(|(_, found)| found.1.is_none()).map(|(entry, _)| *entry).collect();
        for (entry, cosine) in catalog.cosines(vector, &without)? {
            pool.entry(entry).1 = Some(f64::from(cosine));
        }
    }
    // Where nothing has any of the words that were compared, it takes a likeness that unrelated texts do not have; and a number or a version is
    // that one or none.
    let has_words = mode == Mode::Dense || pool.found.values().any(|(words, _)| words.is_some());
    let has_numbers_alone = !terms.words.is_empty() && terms.words.iter().all(|word| word.chars().any(char::is_numeric));
    let best_cosine = pool.found.values().filter_map(|(_, cosine)| *cosine).fold(0.0, f64::max);
    if !has_words && (has_numbers_alone || best_cosine < meaning.min_best_cosine) {
        pool.found.clear();
    }
    // Vectors are of what was said.
    let is_said =
        request.kinds.is_empty() || request.kinds.iter().any(|kind| matches!(kind, TextKind::Prompt | TextKind::Answer));
    pool.found
        .retain(|_, (words, cosine)| words.is_some() || is_said && cosine.is_some_and(|cosine| cosine >= meaning.min_cosine));
    if mode == Mode::Dense {
        pool.found.values_mut().for_each(|found| found.0 = None);
    }
    let candidates = candidates(store, catalog, &pool, allowed.as_ref())?;
    let project = request.folder.as_deref().map(ProjectScope::at);
    let now_ms = request.now.as_millisecond();
    let around = RankingContext { time, project: project.as_ref(), now_ms, is_foreign: terms.is_foreign(), meaning };
    // What is asked for in a kind of text, or in quotes, has to be in it: neighbors are not.
    let is_strict = !request.kinds.is_empty() || terms.has_quotes();
    let stages = Stages { neighbors: request.stages.neighbors && !is_strict, ..request.stages };
    let ranked = rank::rank(&candidates, stages, &around);
    let fit = candidates.iter().map(|one| rank::fit(one, &meaning)).fold(0.0, f64::max);
    let shower = HitRenderer { store, catalog, terms: &terms, request, allowed: allowed.as_ref(), around: &around };
    let hits = shower.hits(&ranked, &candidates)?;
    let time = named.map(|named| request.text[named.range].to_owned());
    notes.extend(catalog.notes());
    Ok(SearchResults { hits, fit, mode, time, notes })
}

/// Returns the columns to search for words; empty means all.
fn columns(request: &SearchRequest) -> Vec<&'static str> {
    match &request.kinds[..] {
        [] if request.stages.context => Vec::new(),
        [] => OWN_COLUMNS.to_vec(),
        kinds => kinds.iter().flat_map(|kind| kind.columns()).copied().collect(),
    }
}

/// Returns the model's name and the query's vector; `None` if only words are compared.
fn embed_query<C: CandidateSource>(
    store: &mut dyn StoreReader,
    catalog: &mut C,
    model: &mut EmbeddingModel,
    request: &SearchRequest,
    text: &str,
    notes: &mut Vec<String>,
) -> Result<Option<(&'static str, Vec<f32>)>, SearchError> {
    if request.mode == Some(Mode::Lexical) || request.text.trim().is_empty() {
        return Ok(None);
    }
    let (with, all) = match catalog.coverage(store, model.id())? {
        Coverage::Counted(with, all) => (with, all),
        Coverage::Uncounted if request.mode.is_none() && !model.is_present() => return Ok(None),
        Coverage::Uncounted => (1, 1),
        Coverage::Never(why) => {
            // Who never had a model misses nothing.
            if request.mode.is_some() || model.is_present() {
                notes.push(format!("words alone were compared: {why}"));
            }
            return Ok(None);
        }
    };
    // Who never had a model is not told of it at every search.
    if with == 0 && request.mode.is_none() && !model.is_present() {
        return Ok(None);
    }
    // Nor who has none, of the vectors that searches and upkeep make of what is in the program.
    let are_told = !model.is_built_in();
    let embedded =
        if with > 0 { model.embed_text(text).map(Some) } else { model.get().map(|_| None).map_err(ToString::to_string) };
    match embedded {
        Ok(None) => {
            if all > 0 && are_told {
                notes.push(
                    "nothing has a vector yet, so words alone were compared; `ctxbridge archive optimize` makes them".to_owned(),
                );
            }
            Ok(None)
        }
        Ok(Some(vector)) => {
            if with < all && are_told {
                notes
                    .push(format!("{} of {all} entries have no vector yet; `ctxbridge archive optimize` makes them", all - with));
            }
            Ok(Some((model.id(), vector)))
        }
        Err(reason) => {
            notes.push(format!("words alone were compared: {reason}"));
            Ok(None)
        }
    }
}

/// Entries that were found, with BM25 and cosine.
struct CandidatePool {
    found: HashMap<i64, (Option<f64>, Option<f64>)>,
    mode: Mode,
    most: usize,
    is_of_kinds: bool,
}

impl CandidatePool {
    fn entry(&mut self, entry: i64) -> &mut (Option<f64>, Option<f64>) {
        self.found.entry(entry).or_default()
    }

    fn collect<C: CandidateSource>(
        &mut self,
        store: &mut dyn Store,
        catalog: &mut C,
        asked: &C::PreparedQuery,
        vector: Option<(&str, &[f32])>,
        allowed: Option<&C::ResolvedFilter>,
    ) -> Result<(), SearchError> {
        let mut near = Vec::new();
        if let Some(vector) = vector.filter(|_| self.mode != Mode::Lexical) {
            for (entry, cosine) in catalog.search_dense(store, vector, allowed, self.most)? {
                self.entry(entry).1 = Some(f64::from(cosine));
                near.push(entry);
            }
        }
        if self.mode != Mode::Dense || self.is_of_kinds {
            // What is near may have some of the words, too, if not enough of them to be among the best.
            let most = if self.mode == Mode::Dense { 0 } else { self.most };
            for (entry, score) in catalog.search_lexical(store, asked, allowed, most, &near)? {
                self.entry(entry).0 = Some(score);
            }
        }
        Ok(())
    }
}

/// Locates the entries. Of several places that are let through, takes the one that is still part of a conversation, then the
/// newest.
fn candidates<C: CandidateSource>(
    store: &mut dyn StoreReader,
    catalog: &C,
    pool: &CandidatePool,
    allowed: Option<&C::ResolvedFilter>,
) -> Result<Vec<Candidate>, SearchError> {
    let mut entries: Vec<i64> = pool.found.keys().copied().collect();
    entries.sort_unstable();
    let mut best: HashMap<i64, TurnLocation> = HashMap::new();
    for place in store.turn_locations(&entries)? {
        let is_allowed = allowed.is_none_or(|allowed| catalog.is_allowed(allowed, &place));
        if is_allowed && best.get(&place.entry).is_none_or(|known| known.rank() < place.rank()) {
            best.insert(place.entry, place);
        }
    }
    let mut candidates = Vec::with_capacity(entries.len());
    for entry in entries {
        let (words, cosine) = pool.found[&entry];
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

/// Location of a summary, which is in no transcript.
fn place_of(summary: &StoredSummary) -> TurnLocation {
    TurnLocation {
        entry: summary.entry,
        key: 0,
        transcript: -summary.entry,
        index: 0,
        session: -summary.entry,
        folder: None,
        started_ms: summary.at_ms,
        access_count: 0,
        confidence: SUMMARY_CONFIDENCE,
        richness: (false, false),
        is_superseded: true,
    }
}
