/*!
Ranks turns by the scores of words and vectors.

Scores are fused as a sum of BM25 and cosine, each relative to the best of the query. Unlike ranks, they say how far apart turns are
(Bruch, Gai, Ingber 2023, "An Analysis of Fusion Functions for Hybrid Retrieval"). Reciprocal ranks (Cormack et al. 2009) are there
to compare with. All weights were chosen with `cargo xtask bench retrieval`; each stage can be left out.
*/

use std::collections::BTreeMap;
use std::ops::Range;

use super::likely_projects::likely_projects;
use super::meaning::MeaningWeights;
use crate::project_scope::ProjectScope;
use crate::store::TurnLocation;
use crate::{ImportanceFactors, importance};

/// Weight of words; [`MeaningWeights`] has that of meaning.
const LEXICAL_WEIGHT: f64 = 1.8;
/// Share of its score that a turn gives to turns at distance one and two.
const NEIGHBOR_SHARES: [f64; 2] = [0.06, 0.05];
/// Share that a turn gets of the best score of its session, and the best word score from which on it gets all of it: a session that
/// only meaning led to is not surely the right one.
const SESSION_SHARE: f64 = 0.6;
const SURE_WORDS: f64 = 0.5;
/// Factor for the score of a turn outside the time that the query names.
const OUTSIDE_TIME_FACTOR: f64 = 0.3;
/// Maximum bonus for importance and confidence: they decide between turns that fit alike.
const MAX_IMPORTANCE_BONUS: f64 = 0.02;
/// Bonus for a turn of the project that the search is run from.
const PROJECT_BONUS: f64 = 0.2;
/// Word score that the best by words need: what has less has the query's common words.
const MIN_FIRST_WORDS: f64 = 0.2;
/// Hits of a first page.
const FIRST_PAGE: usize = 10;
/// The constant of reciprocal ranks.
const RRF_CONSTANT: f64 = 60.0;

/// Stages of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Fuses words and vectors by the sum of their scores; otherwise by their reciprocal ranks.
    pub scores: bool,
    /// The text before a short turn counts for it.
    pub context: bool,
    /// A hit lifts the turns before and after it.
    pub neighbors: bool,
    /// A hit lifts its session.
    pub session: bool,
    /// Turns of the project that the search is run from are lifted, or of those that its words point to.
    pub project: bool,
    /// Important and trusted turns are lifted.
    pub importance: bool,
    /// A time that the query names counts.
    pub time: bool,
    /// Turns with the same text are shown once.
    pub duplicates: bool,
}

impl Stages {
    /// All stages.
    pub const ALL: Self = Self {
        scores: true,
        context: true,
        neighbors: true,
        session: true,
        project: true,
        importance: true,
        time: true,
        duplicates: true,
    };
    /// The plain order of words, of vectors, or of both by reciprocal ranks.
    pub const NONE: Self = Self {
        scores: false,
        context: false,
        neighbors: false,
        session: false,
        project: false,
        importance: false,
        time: false,
        duplicates: false,
    };
}

impl Default for Stages {
    fn default() -> Self {
        Self::ALL
    }
}

/// Data on an entry that may be a hit.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its location; of several, the one to show.
    pub place: TurnLocation,
    /// BM25, as a share of the maximum that the query could give; `None` if no word fits.
    pub words: Option<f64>,
    /// The cosine of its best passage, `None` if there is no vector.
    pub cosine: Option<f64>,
}

/// Context of the search for the ranking.
#[derive(Clone, Debug, Default)]
pub struct RankingContext<'a> {
    /// The time that the query names, in milliseconds since 1970.
    pub time: Option<Range<i64>>,
    /// The project that the search is run from.
    pub project: Option<&'a ProjectScope>,
    /// Now, in milliseconds since 1970.
    pub now_ms: i64,
    /// `true` if the query is in another language than English, which the model knows.
    pub is_foreign: bool,
    /// Weights of cosines.
    pub meaning: MeaningWeights,
}

/// A ranked turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// Transcript and index of the turn.
    pub at: (i64, u32),
    /// More is better; comparable within one search.
    pub score: f64,
    /// Index in the candidates; `None` if it is only a neighbor of one.
    pub candidate: Option<usize>,
}

/// Returns how well an entry fits by itself, whatever else was found. Unlike scores, this is comparable between searches for the
/// same query.
pub(super) fn fit(candidate: &Candidate, meaning: &MeaningWeights) -> f64 {
    LEXICAL_WEIGHT * candidate.words.unwrap_or_default() + meaning.fit * meaning.score(candidate.cosine)
}

/// Returns the order of candidates and, if the stages include them, of their neighbors. The best by words alone are
/// among the first, and in English those by meaning alone where they leave room.
pub fn rank(candidates: &[Candidate], stages: Stages, around: &RankingContext<'_>) -> Vec<Ranked> {
    let is_hybrid = candidates.iter().any(|one| one.words.is_some()) && candidates.iter().any(|one| one.cosine.is_some());
    let bonuses = project_bonuses(candidates, stages, around, is_hybrid);
    let rank_once = |candidates: &[Candidate]| rank_once(candidates, stages, around, &bonuses);
    let mut order = rank_once(candidates);
    if !stages.scores || !is_hybrid {
        return order;
    }
    // The best by words are the last to be moved: none of them is pushed off the page.
    if !around.is_foreign {
        let by_meaning = |one: &Candidate| Candidate { words: None, ..one.clone() };
        bring_forward(&mut order, &best_by_one(around.meaning.first_by_meaning, candidates, &rank_once, by_meaning));
    }
    let by_words = |one: &Candidate| Candidate { cosine: None, ..one.clone() };
    bring_forward(&mut order, &best_by_one(around.meaning.first_by_words, candidates, &rank_once, by_words));
    order
}

/// Returns the bonus of each candidate for its project: the one that is searched from; or if that has none of them or all, those that the
/// words of a hybrid search point to.
fn project_bonuses(candidates: &[Candidate], stages: Stages, around: &RankingContext<'_>, is_hybrid: bool) -> Vec<f64> {
    if !stages.project {
        return vec![0.0; candidates.len()];
    }
    let is_of_project = |one| around.project.zip(folder(one)).is_some_and(|(project, folder)| project.contains(folder));
    let mut bonuses: Vec<f64> = candidates.iter().map(|one| if is_of_project(one) { PROJECT_BONUS } else { 0.0 }).collect();
    let of_project = bonuses.iter().filter(|bonus| **bonus > 0.0).count();
    if !is_hybrid || (1..candidates.len()).contains(&of_project) {
        return bonuses;
    }
    let by_words = candidates.iter().filter_map(|one| Some((one.words? * time_factor(one, stages, around), folder(one))));
    let shares = likely_projects(by_words);
    for (bonus, one) in bonuses.iter_mut().zip(candidates) {
        let share = folder(one).and_then(|folder| shares.get(folder));
        *bonus += around.meaning.likely_project_bonus * share.copied().unwrap_or_default();
    }
    bonuses
}

fn folder(candidate: &Candidate) -> Option<&str> {
    candidate.place.folder.as_deref()
}

fn time_factor(candidate: &Candidate, stages: Stages, around: &RankingContext<'_>) -> f64 {
    let outside = stages.time && around.time.as_ref().is_some_and(|time| !time.contains(&candidate.place.started_ms));
    if outside { OUTSIDE_TIME_FACTOR } else { 1.0 }
}

/// The first turns by one of the scores alone, given candidates without the other.
fn best_by_one(
    first: usize,
    candidates: &[Candidate],
    rank_once: &dyn Fn(&[Candidate]) -> Vec<Ranked>,
    without_other: impl Fn(&Candidate) -> Candidate,
) -> Vec<(i64, u32)> {
    let candidates: Vec<Candidate> = candidates.iter().map(without_other).collect();
    let is_good = |ranked: &&Ranked| {
        let candidate = ranked.candidate.map(|number| &candidates[number]);
        candidate.is_some_and(|one| one.words.map_or(one.cosine.is_some(), |words| words >= MIN_FIRST_WORDS))
    };
    let ranked = rank_once(&candidates);
    ranked.iter().take(first).filter(is_good).map(|ranked| ranked.at).collect()
}

/// Moves these turns to the end of the first page, in their order, unless they are on it.
fn bring_forward(order: &mut Vec<Ranked>, best: &[(i64, u32)]) {
    let page = FIRST_PAGE.min(order.len());
    let missing: Vec<(i64, u32)> =
        best.iter().copied().filter(|at| !order[..page].iter().any(|ranked| ranked.at == *at)).collect();
    let Some(end) = page.checked_sub(missing.len()) else { return };
    let mut moved = Vec::with_capacity(missing.len());
    for at in missing {
        if let Some(place) = order.iter().position(|ranked| ranked.at == at) {
            moved.push(order.remove(place));
        }
    }
    for (number, mut ranked) in moved.into_iter().enumerate() {
        // Scores go down the list.
        if let Some(before) = (end + number).checked_sub(1).and_then(|before| order.get(before)) {
            ranked.score = before.score;
        }
        order.insert(end + number, ranked);
    }
}

fn rank_once(candidates: &[Candidate], stages: Stages, around: &RankingContext<'_>, project_bonuses: &[f64]) -> Vec<Ranked> {
    let fused = if stages.scores { scores(candidates, around) } else { reciprocal_ranks(candidates) };
    // In order: what neighbors add up to depends on it in its last bits.
    let mut ranked: BTreeMap<(i64, u32), Ranked> = BTreeMap::new();
    for (number, (candidate, score)) in candidates.iter().zip(&fused).enumerate() {
        let at = (candidate.place.transcript, candidate.place.index);
        let score = score * time_factor(candidate, stages, around);
        let known = ranked.entry(at).or_insert(Ranked { at, score: 0.0, candidate: None });
        if known.candidate.is_none() || known.score < score {
            *known = Ranked { at, score, candidate: Some(number) };
        }
    }
    let alone: Vec<Ranked> = ranked.values().cloned().collect();
    if stages.session {
        lift_sessions(&alone, candidates, &mut ranked);
    }
    if stages.neighbors {
        lift_neighbors(&alone, candidates, &mut ranked);
    }
    for one in ranked.values_mut() {
        let Some(number) = one.candidate else { continue };
        one.score += project_bonuses[number];
        if stages.importance {
            one.score += MAX_IMPORTANCE_BONUS * weight(&candidates[number].place, around.now_ms);
        }
    }
    let mut order: Vec<Ranked> = ranked.into_values().collect();
    order.sort_by(|one, other| other.score.total_cmp(&one.score).then(other.at.cmp(&one.at)));
    order
}

fn scores(candidates: &[Candidate], around: &RankingContext<'_>) -> Vec<f64> {
    let share = around.meaning.share(around.is_foreign);
    let words = |candidate: &Candidate| candidate.words.unwrap_or(0.0).max(0.0);
    let meaning = |candidate: &Candidate| around.meaning.score(candidate.cosine);
    let best = |of: &dyn Fn(&Candidate) -> f64| candidates.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
    let (best_words, best_meaning) = (best(&words).powf(share.relative_exponent), best(&meaning));
    let score =
        |candidate: &Candidate| LEXICAL_WEIGHT * words(candidate) / best_words + share.weight * meaning(candidate) / best_meaning;
    candidates.iter().map(score).collect()
}

fn reciprocal_ranks(candidates: &[Candidate]) -> Vec<f64> {
    let mut fused = vec![0.0; candidates.len()];
    let lists: [fn(&Candidate) -> Option<f64>; 2] = [|candidate| candidate.words, |candidate| candidate.cosine];
    for list in lists {
        let mut order: Vec<(usize, f64)> =
            candidates.iter().enumerate().filter_map(|(number, candidate)| Some((number, list(candidate)?))).collect();
        order.sort_by(|one, other| other.1.total_cmp(&one.1));
        for (rank, (number, _)) in (1_u32..).zip(order) {
            // So that the first of both lists has 1.
            fused[number] += (RRF_CONSTANT + 1.0) / 2.0 / (RRF_CONSTANT + f64::from(rank));
        }
    }
    fused
}

/// Lifts the neighbors of a hit: the next turns often have the answer, in other words.
fn lift_neighbors(alone: &[Ranked], candidates: &[Candidate], ranked: &mut BTreeMap<(i64, u32), Ranked>) {
    for hit in alone {
        // What is no longer part of the conversation stands beside nothing.
        if hit.candidate.is_some_and(|number| candidates[number].place.is_superseded) {
            continue;
        }
        let (transcript, index) = hit.at;
        for (distance, share) in (1_u32..).zip(NEIGHBOR_SHARES) {
            for index in [index.checked_sub(distance), index.checked_add(distance)].into_iter().flatten() {
                let at = (transcript, index);
                ranked.entry(at).or_insert(Ranked { at, score: 0.0, candidate: None }).score += share * hit.score;
            }
        }
    }
}

/// A hit lifts its session, in which more may be about the same.
fn lift_sessions(alone: &[Ranked], candidates: &[Candidate], ranked: &mut BTreeMap<(i64, u32), Ranked>) {
    let mut sessions: BTreeMap<i64, f64> = BTreeMap::new();
    let session = |one: &Ranked| one.candidate.map(|number| candidates[number].place.session);
    for one in alone {
        if let Some(session) = session(one) {
            let best = sessions.entry(session).or_default();
            *best = best.max(one.score);
        }
    }
    let highest = sessions.values().fold(f64::MIN_POSITIVE, |highest, best| highest.max(*best));
    let best_words = candidates.iter().filter_map(|candidate| candidate.words).fold(0.0, f64::max);
    let share = SESSION_SHARE * (best_words / SURE_WORDS).min(1.0);
    for one in ranked.values_mut() {
        if let Some(best) = session(one).and_then(|session| sessions.get(&session)) {
            // As much as it is of the best hit: so it means the same whatever the scores are.
            one.score += share * best / highest * highest.min(1.0);
        }
    }
}

/// From 0 to about 1.
fn weight(place: &TurnLocation, now_ms: i64) -> f64 {
    let (has_tools, has_files) = place.richness;
    let age_days = now_ms.saturating_sub(place.started_ms) as f64 / 86_400_000.0;
    let importance = importance(ImportanceFactors { age_days, access_count: place.access_count, has_tools, has_files });
    (importance / 2.0).min(1.0) * place.confidence.abs()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidate(transcript: i64, index: u32, words: Option<f64>, cosine: Option<f64>) -> Candidate {
        let place = TurnLocation {
            entry: transcript * 1000 + i64::from(index),
            key: 0,
            transcript,
            index,
            session: transcript,
            folder: None,
            started_ms: i64::from(index) * 1000,
            access_count: 0,
            confidence: 0.8,
            richness: (false, false),
            is_superseded: false,
        };
        Candidate { place, words, cosine }
    }

    fn order(candidates: &[Candidate], stages: Stages) -> Vec<(i64, u32)> {
        rank(candidates, stages, &RankingContext::default()).into_iter().map(|ranked| ranked.at).collect()
    }

    #[test]
    fn words_and_vectors_count() {
        let candidates =
            [candidate(1, 10, Some(0.8), Some(0.4)), candidate(2, 10, None, Some(0.9)), candidate(3, 10, Some(0.2), None)];
        let plain = Stages { scores: true, ..Stages::NONE };
        assert_eq!(order(&candidates, plain), [(1, 10), (2, 10), (3, 10)]);
        assert_eq!(order(&candidates, Stages::NONE), [(1, 10), (2, 10), (3, 10)], "1 is first and second, 2 first, 3 second");
    }

    #[test]
    fn a_hit_lifts_its_neighbors() {
        let candidates =
            [candidate(1, 10, Some(0.9), Some(0.6)), candidate(2, 4, Some(0.2), None), candidate(1, 11, Some(0.18), None)];
        let stages = Stages { scores: true, neighbors: true, ..Stages::NONE };
        assert_eq!(order(&candidates, stages)[..2], [(1, 10), (1, 11)]);
        assert!(order(&candidates, stages).contains(&(1, 9)), "one that does not fit itself");
        assert_eq!(order(&candidates, Stages { neighbors: false, ..stages }), [(1, 10), (2, 4), (1, 11)]);
    }

    #[test]
    fn the_best_by_words_are_on_the_first_page() {
        let less = |at: u32| 0.01 * f64::from(at);
        let mut candidates: Vec<Candidate> =
            (0..20).map(|at| candidate(1, at, Some(0.5 - less(at)), Some(0.9 - less(at)))).collect();
        candidates.push(candidate(2, 0, Some(0.52), None));
        let stages = Stages { scores: true, ..Stages::NONE };
        let ranked = rank(&candidates, stages, &RankingContext::default());
        let place = ranked.iter().position(|ranked| ranked.at == (2, 0));
        assert_eq!(place, Some(FIRST_PAGE - 1), "meaning alone puts it last");
        assert_eq!(ranked.len(), candidates.len());
        assert!(ranked.windows(2).all(|pair| pair[0].score >= pair[1].score));
    }

    #[test]
    fn words_point_to_a_project_where_no_project_is_known() {
        let of = |folder: &str, one: Candidate| Candidate {
            place: TurnLocation { folder: Some(folder.to_owned()), ..one.place },
            ..one
        };
        let candidates = [
            of("/a", candidate(1, 0, Some(0.9), None)),
            of("/a", candidate(2, 0, None, Some(0.5))),
            of("/b", candidate(3, 0, None, Some(0.55))),
        ];
        let stages = Stages { scores: true, project: true, ..Stages::NONE };
        assert_eq!(order(&candidates, stages), [(1, 0), (2, 0), (3, 0)]);
        assert_eq!(order(&candidates, Stages { project: false, ..stages }), [(1, 0), (3, 0), (2, 0)]);
        let from = |folder: &str| {
            let project = ProjectScope::at(folder);
            let ranked = rank(&candidates, stages, &RankingContext { project: Some(&project), ..RankingContext::default() });
            ranked.iter().map(|one| one.at).collect::<Vec<_>>()
        };
        assert_eq!(from("/elsewhere"), [(1, 0), (2, 0), (3, 0)], "a folder without sessions is no project");
        assert_eq!(from("/"), [(1, 0), (2, 0), (3, 0)], "nor one with all of them");
        assert_eq!(from("/b")[1], (3, 0), "who asks in a project means that one");
        let meaning = MeaningWeights::STATIC;
        let ranked = rank(&candidates, stages, &RankingContext { meaning, ..RankingContext::default() });
        assert_eq!(ranked[1].at, (3, 0), "not where the table of words says what is meant");
    }

    #[test]
    fn the_time_that_is_named_comes_first() {
        let candidates = [candidate(1, 10, Some(0.5), Some(0.4)), candidate(2, 4, Some(0.3), Some(0.3))];
        let around = RankingContext { time: Some(3000..5000), ..RankingContext::default() };
        let stages = Stages { scores: true, time: true, ..Stages::NONE };
        assert_eq!(rank(&candidates, stages, &around)[0].at, (2, 4));
    }

    proptest! {
        #[test]
        fn every_candidate_is_ranked_whatever_the_stages(
            given in proptest::collection::vec((1_i64..5, 0_u32..9, proptest::option::of(0.0..1.0_f64), proptest::option::of(-1.0..1.0_f64)), 0..30),
            flags in proptest::array::uniform8(any::<bool>()),
        ) {
            let [scores, context, neighbors, session, project, importance, time, duplicates] = flags;
            let stages = Stages { scores, context, neighbors, session, project, importance, time, duplicates };
            let candidates: Vec<Candidate> = given.into_iter().map(|(t, i, words, cosine)| candidate(t, i, words, cosine)).collect();
            let ranked = rank(&candidates, stages, &RankingContext { time: Some(0..2000), now_ms: 5000, ..RankingContext::default() });
            for one in &candidates {
                prop_assert!(ranked.iter().any(|ranked| ranked.at == (one.place.transcript, one.place.index) && ranked.candidate.is_some()));
            }
            prop_assert!(ranked.windows(2).all(|pair| pair[0].score >= pair[1].score));
            prop_assert!(ranked.iter().all(|one| one.score.is_finite()));
            prop_assert!(neighbors || ranked.iter().all(|one| one.candidate.is_some()));
        }
    }
}
