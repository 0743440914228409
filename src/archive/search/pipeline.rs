//! From a request to what is found.

use std::collections::HashMap;

use super::catalogue::{Catalogue, Coverage};
use super::index::OWN;
use super::query::Terms;
use super::rank::{Around, Candidate};
use super::show::Shower;
use super::{Filter, Found, Mode, Request, SearchError, Stages, rank, time};
use crate::SUMMARY_CONFIDENCE;
use crate::embed::Model;
use crate::quote::head;
use crate::store::{Place, Store, StoredSummary};

/// Candidates by words, and as many by vectors.
const CANDIDATES: usize = 100;

/// Candidates where nothing but a time is named: the newest of it.
const OF_A_TIME: usize = 1_000;

/// Characters of a query that are looked at.
const MOST_CHARS: usize = 1_000;

/// Looks for turns. Without a model only words are compared; where nothing has what is in quotes, its words are.
///
/// # Errors
/// When the archive or the catalogue cannot be read.
pub fn search<C: Catalogue>(
    store: &mut dyn Store,
    catalogue: &mut C,
    model: &mut Model,
    request: &Request,
) -> Result<Found, SearchError> {
    let strict = look(store, catalogue, model, request)?;
    if !strict.hits.is_empty() || !request.text.contains('"') {
        return Ok(strict);
    }
    // An error text is remembered with another number in it, or with a dot too many.
    let mut loose = look(store, catalogue, model, &Request { text: request.text.replace('"', " "), ..request.clone() })?;
    if loose.hits.is_empty() {
        return Ok(strict);
    }
    loose.notes.insert(0, "nothing has what is in quotes as it is typed, so its words were looked for".to_owned());
    Ok(loose)
}

fn look<C: Catalogue>(
    store: &mut dyn Store,
    catalogue: &mut C,
    model: &mut Model,
    request: &Request,
) -> Result<Found, SearchError> {
    let mut notes = Vec::new();
    let text = head(&request.text, MOST_CHARS);
    let named = if request.stages.time { time::named(text, request.now, &request.zone) } else { None };
    let terms = match &named {
        None => Terms::of(text, catalogue.tokenizer()),
        Some(named) => Terms::besides(text, named, catalogue.tokenizer()),
    };
    let time = named.as_ref().map(|named| named.millis(&request.zone));
    let vector = vector(store, catalogue, model, request, &mut notes)?;
    let mode = match &vector {
        None => Mode::Lexical,
        Some(_) => request.mode.unwrap_or(Mode::Hybrid),
    };
    let vector = vector.as_ref().map(|(model, vector)| (*model, vector.as_slice()));
    let allowed = catalogue.allowed(store, &request.filter)?;
    // The catalogue gives what may have what is in quotes, and much of it may not.
    let most = CANDIDATES.max(request.limit) * if terms.are_required() { 4 } else { 1 };
    let asked = catalogue.ask(store, &terms, &columns(request))?;
    let mut pool = Pool { found: HashMap::new(), mode, most, is_of_kinds: !request.kinds.is_empty() };
    pool.collect(store, catalogue, &asked, vector, allowed.as_ref())?;
    if let Some(time) = &time {
        // Those of the time that is named compete among themselves, too.
        let within =
            |edge: Option<i64>, named: i64, pick: fn(i64, i64) -> i64| Some(edge.map_or(named, |edge| pick(edge, named)));
        let filter = Filter {
            since_ms: within(request.filter.since_ms, time.start, i64::max),
            until_ms: within(request.filter.until_ms, time.end, i64::min),
            ..request.filter.clone()
        };
        let allowed = catalogue.allowed(store, &filter)?;
        pool.collect(store, catalogue, &asked, vector, allowed.as_ref())?;
        if let Some(allowed) = allowed.filter(|_| terms.is_time_alone && mode != Mode::Dense) {
            let newest = catalogue.newest(store, &allowed, OF_A_TIME.max(request.limit))?;
            newest.into_iter().for_each(|entry| pool.entry(entry).0 = Some(1.0));
        }
    }
    if let Some(vector) = vector.filter(|_| mode == Mode::Hybrid) {
        let without: Vec<i64> = pool.found.iter().filter(|(_, found)| found.1.is_none()).map(|(entry, _)| *entry).collect();
        for (entry, cosine) in catalogue.cosines(vector, &without)? {
            pool.entry(entry).1 = Some(f64::from(cosine));
        }
    }
    if !request.kinds.is_empty() {
        pool.found.retain(|_, found| found.0.is_some());
    }
    if mode == Mode::Dense {
        pool.found.values_mut().for_each(|found| found.0 = None);
    }
    let candidates = candidates(store, catalogue, &pool, allowed.as_ref())?;
    let around = Around { time, folder: request.folder.as_deref(), now_ms: request.now.as_millisecond() };
    // What is asked for in a kind of text, or in quotes, has to be in it: neighbours are not.
    let is_strict = !request.kinds.is_empty() || terms.are_required();
    let stages = Stages { neighbours: request.stages.neighbours && !is_strict, ..request.stages };
    let ranked = rank::rank(&candidates, stages, &around);
    let fit = candidates.iter().map(rank::fit).fold(0.0, f64::max);
    let shower = Shower { store, catalogue, terms: &terms, request, allowed: allowed.as_ref(), around: &around };
    let hits = shower.hits(&ranked, &candidates)?;
    let time = named.map(|named| request.text[named.range].to_owned());
    notes.extend(catalogue.notes());
    Ok(Found { hits, fit, mode, time, notes })
}

/// Where words are looked for; anywhere, where none are named.
fn columns(request: &Request) -> Vec<&'static str> {
    match &request.kinds[..] {
        [] if request.stages.context => Vec::new(),
        [] => OWN.to_vec(),
        kinds => kinds.iter().flat_map(|kind| kind.columns()).copied().collect(),
    }
}

/// The model's name and the query's vector; nothing where words have to do.
fn vector<C: Catalogue>(
    store: &mut dyn Store,
    catalogue: &mut C,
    model: &mut Model,
    request: &Request,
    notes: &mut Vec<String>,
) -> Result<Option<(&'static str, Vec<f32>)>, SearchError> {
    if request.mode == Some(Mode::Lexical) || request.text.trim().is_empty() {
        return Ok(None);
    }
    let (with, all) = match catalogue.coverage(store, model.id())? {
        Coverage::Counted(with, all) => (with, all),
        Coverage::Uncounted if request.mode.is_none() && !model.is_there() => return Ok(None),
        Coverage::Uncounted => (1, 1),
        Coverage::Never(why) => {
            // Who never had a model misses nothing.
            if request.mode.is_some() || model.is_there() {
                notes.push(format!("words alone were compared: {why}"));
            }
            return Ok(None);
        }
    };
    // Who never had a model is not told of it at every search.
    if with == 0 && request.mode.is_none() && !model.is_there() {
        return Ok(None);
    }
    let embedded = match model.get() {
        Ok(_) if with == 0 => {
            if all > 0 {
                notes.push(
                    "nothing has a vector yet, so words alone were compared; `ctxbridge archive optimize` makes them".to_owned(),
                );
            }
            return Ok(None);
        }
        Ok(embedder) => embedder.embed(&[&request.text]).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match embedded {
        Ok(mut vectors) => {
            if with < all {
                notes
                    .push(format!("{} of {all} entries have no vector yet; `ctxbridge archive optimize` makes them", all - with));
            }
            Ok(vectors.pop().map(|vector| (model.id(), vector)))
        }
        Err(error) => {
            // Somebody may be replacing its files.
            model.set_aside();
            notes.push(format!("words alone were compared: {error}"));
            Ok(None)
        }
    }
}

/// Entries with BM25 and cosine.
struct Pool {
    found: HashMap<i64, (Option<f64>, Option<f64>)>,
    mode: Mode,
    most: usize,
    is_of_kinds: bool,
}

impl Pool {
    fn entry(&mut self, entry: i64) -> &mut (Option<f64>, Option<f64>) {
        self.found.entry(entry).or_default()
    }

    fn collect<C: Catalogue>(
        &mut self,
        store: &mut dyn Store,
        catalogue: &mut C,
        asked: &C::Asked,
        vector: Option<(&str, &[f32])>,
        allowed: Option<&C::Allowed>,
    ) -> Result<(), SearchError> {
        let mut near = Vec::new();
        if let Some(vector) = vector.filter(|_| self.mode != Mode::Lexical) {
            for (entry, cosine) in catalogue.dense(store, vector, allowed, self.most)? {
                self.entry(entry).1 = Some(f64::from(cosine));
                near.push(entry);
            }
        }
        if self.mode != Mode::Dense || self.is_of_kinds {
            // What is near may have some of the words, too, if not enough of them to be among the best.
            let most = if self.mode == Mode::Dense { 0 } else { self.most };
            for (entry, score) in catalogue.lexical(store, asked, allowed, most, &near)? {
                self.entry(entry).0 = Some(score);
            }
        }
        Ok(())
    }
}

/// Where the entries are; of several places that are let through, the one that is still part of a conversation, then the newest.
fn candidates<C: Catalogue>(
    store: &mut dyn Store,
    catalogue: &C,
    pool: &Pool,
    allowed: Option<&C::Allowed>,
) -> Result<Vec<Candidate>, SearchError> {
    let mut entries: Vec<i64> = pool.found.keys().copied().collect();
    entries.sort_unstable();
    let mut best: HashMap<i64, Place> = HashMap::new();
    for place in store.places(&entries)? {
        let is_allowed = allowed.is_none_or(|allowed| catalogue.is_allowed(allowed, &place));
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
        confidence: SUMMARY_CONFIDENCE,
        richness: (false, false),
        is_superseded: true,
    }
}
