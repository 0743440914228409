//! Hits as they are shown.

use std::collections::{HashMap, HashSet};

use super::candidate_source::CandidateSource;
use super::index::excerpt::Excerpt;
use super::query::{self, QueryTerms};
use super::rank::{Candidate, Ranked, RankingContext};
use super::snippet::{self, Snippet};
use super::tokens::fold_word;
use super::{Hit, HitContent, SearchError, SearchRequest};
use crate::store::{Store, StoredTurn};
use crate::turn_text;
use ctxbridge_transcript::SearchableText;

/// Number of characters of a hit that are shown.
const SNIPPET_CHARS: usize = 240;

/// Reads the texts of hits that are shown.
pub(super) struct HitRenderer<'a, C: CandidateSource> {
    pub store: &'a mut dyn Store,
    pub catalog: &'a mut C,
    pub terms: &'a QueryTerms,
    pub request: &'a SearchRequest,
    pub allowed: Option<&'a C::ResolvedFilter>,
    pub around: &'a RankingContext<'a>,
}

/// The texts of a hit: their columns and content.
type FieldTexts<'a> = [(&'static str, &'a str)];

/// Words that were found in each column, and the best snippet.
type Matches = (Vec<(&'static str, Vec<String>)>, Snippet);

impl<C: CandidateSource> HitRenderer<'_, C> {
    pub fn hits(mut self, ranked: &[Ranked], candidates: &[Candidate]) -> Result<Vec<Hit>, SearchError> {
        let mut hits: Vec<Hit> = Vec::new();
        let mut same: HashMap<u64, usize> = HashMap::new();
        for one in ranked {
            if hits.len() >= self.request.limit {
                break;
            }
            let Some((hit, said)) = self.hit(one, one.candidate.map(|number| &candidates[number]))? else { continue };
            match same.get(&said) {
                Some(first) if self.request.stages.duplicates => hits[*first].duplicates += 1,
                _ => {
                    same.insert(said, hits.len());
                    hits.push(hit);
                }
            }
        }
        Ok(hits)
    }

    /// Returns a hit, and a hash by which hits with the same text are recognized.
    fn hit(&mut self, ranked: &Ranked, candidate: Option<&Candidate>) -> Result<Option<(Hit, u64)>, SearchError> {
        let (what, entry, at_ms) = match candidate.map(|candidate| &candidate.place) {
            Some(place) if place.key == 0 => match self.store.summary_of(place.entry)? {
                Some((session, summary)) => {
                    let (entry, at_ms) = (summary.entry, summary.at_ms);
                    (HitContent::Summary(session, summary), entry, at_ms)
                }
                None => return Ok(None),
            },
            place => {
                let turn = match place {
                    Some(place) => self.store.turn_by_location(place)?,
                    None => self.neighbor(ranked)?,
                };
                let Some(turn) = turn else { return Ok(None) };
                let (entry, at_ms) = (turn.entry, turn.turn.started_ms);
                (HitContent::Turn(Box::new(turn)), entry, at_ms)
            }
        };
        // One that the index does not have yet, or that says nothing.
        let Some(excerpt) = self.catalog.excerpt(self.store, entry)?.filter(|excerpt| !excerpt.is_empty()) else {
            return Ok(None);
        };
        let Some((words, snippet)) = self.matches(&what, &excerpt, candidate) else { return Ok(None) };
        let is_of_kinds = !self.request.kinds.is_empty() && !self.terms.is_empty();
        if is_of_kinds && words.is_empty() && !self.catalog.distinguishes_kinds() {
            return Ok(None);
        }
        // What was said before a short turn counts for it.
        let is_alone = self.terms.is_empty();
        let hit = Hit {
            content: what,
            score: ranked.score,
            is_neighbor: candidate.is_none_or(|candidate| candidate.cosine.is_none() && words.is_empty() && !is_alone),
            words,
            cosine: candidate.and_then(|candidate| candidate.cosine),
            is_in_time: self.around.time.as_ref().is_some_and(|time| time.contains(&at_ms)),
            snippet,
            summary: excerpt.line,
            duplicates: 0,
            is_elsewhere: false,
        };
        Ok(Some((hit, excerpt.said)))
    }

    /// Returns the turn next to a hit.
    fn neighbor(&mut self, ranked: &Ranked) -> Result<Option<StoredTurn>, SearchError> {
        let turn = self.store.turn(ranked.at.0, ranked.at.1)?;
        let (Some(found), Some(allowed)) = (&turn, self.allowed) else { return Ok(turn) };
        let places = self.store.turn_locations(&[found.entry])?;
        let here = places.iter().find(|place| (place.transcript, place.index) == ranked.at && !place.is_superseded);
        Ok(turn.filter(|_| here.is_some_and(|place| self.catalog.is_allowed(allowed, place))))
    }

    /// Returns the matches; `None` if a quoted text does not occur.
    fn matches(&mut self, what: &HitContent, excerpt: &Excerpt, candidate: Option<&Candidate>) -> Option<Matches> {
        let turn = match what {
            HitContent::Turn(turn) => turn,
            HitContent::Summary(_, summary) => {
                let texts = [("summary", summary.text.as_str())];
                return self.has_quotes(&texts).then(|| self.compare(&texts));
            }
        };
        let files = turn.turn.files.join("\n");
        let Excerpt { prompt, answer, input, output, .. } = excerpt;
        let begin = texts(prompt, answer, output, input, &files);
        let found = self.compare(&begin);
        let has_words = candidate.is_some_and(|candidate| candidate.words.is_some());
        let has_quotes = self.has_quotes(&begin);
        if excerpt.is_whole || has_quotes && (!has_words || !found.0.is_empty()) {
            return has_quotes.then_some(found);
        }
        // What was found may be behind the begin.
        let Ok(SearchableText { prompt, answer, input, output }) = turn_text::fields(self.store, turn) else {
            return has_quotes.then_some(found);
        };
        let whole = texts(&prompt, &answer, &output, &input, &files);
        self.has_quotes(&whole).then(|| self.compare(&whole))
    }

    /// `true` if these texts have all quoted texts, in the kinds of text that are searched.
    fn has_quotes(&self, texts: &FieldTexts<'_>) -> bool {
        self.terms.quotes_are_in(texts.iter().filter(|(name, _)| self.is_asked(name)).map(|(_, text)| *text))
    }

    /// `true` if a text is of a kind that is searched.
    fn is_asked(&self, name: &str) -> bool {
        let kinds = &self.request.kinds;
        kinds.is_empty() || kinds.iter().any(|kind| kind.columns().contains(&name))
    }

    fn compare(&self, texts: &FieldTexts<'_>) -> Matches {
        let mut words = Vec::new();
        let mut best: Option<Snippet> = None;
        for (name, text) in texts.iter().filter(|(name, _)| self.is_asked(name)) {
            let mut seen: Vec<String> = Vec::new();
            let mut terms: HashSet<&String> = HashSet::new();
            let hits = snippet::find_matches(text, self.terms, self.catalog.tokenizer());
            for (range, word) in &hits {
                if terms.insert(word) {
                    let shown = text[range.clone()].to_lowercase();
                    // Of a phrase, what says something is enough.
                    if (!query::is_stop_word(&fold_word(&shown)) || self.terms.words.contains(word)) && !seen.contains(&shown) {
                        seen.push(shown);
                    }
                }
            }
            let snippet = snippet::best_snippet(text, &hits, SNIPPET_CHARS);
            // The first of those that show as much.
            if !snippet.text.is_empty() && best.as_ref().is_none_or(|best| best.terms < snippet.terms) {
                best = Some(snippet);
            }
            if !seen.is_empty() {
                words.push((*name, seen));
            }
        }
        (words, best.unwrap_or_default())
    }
}

/// Texts in the order of preference for a snippet: the answer shows best what a turn is about.
fn texts<'a>(prompt: &'a str, answer: &'a str, output: &'a str, input: &'a str, files: &'a str) -> [(&'static str, &'a str); 5] {
    [("answer", answer), ("prompt", prompt), ("output", output), ("input", input), ("files", files)]
}
