//! Size of a session's context over time.

use std::sync::Arc;

use serde::Serialize;

use super::calls::{SeriesPoint, numbered};
use super::{DashboardService, DataError, SessionListItem, session};
use ctxbridge_archive::store::StoredCompaction;

/// Least drop that counts as pruning, in tokens and as a share of the context before. Smaller ones may come from different ways
/// of counting.
const MIN_DROP_TOKENS: u64 = 1_000;
const MIN_DROP_SHARE: f64 = 0.05;

/// A session, and its context over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContextSeries {
    /// The session.
    pub session: SessionListItem,
    /// The unit that is counted.
    pub unit: SeriesUnit,
    /// Number of calls or turns whose context is known.
    pub count: u64,
    /// Number of the call or turn, from 1, its time in milliseconds since 1970, and its tokens; at most 2,000, the highest and
    /// lowest of each stretch.
    pub points: Vec<(usize, i64, u64)>,
    /// Events, in order of time.
    pub marks: Vec<ContextMark>,
}

/// Unit of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SeriesUnit {
    /// A call of the model: one request to the API.
    Call,
    /// A turn, where the transcript is too large, or damaged.
    Turn,
}

/// An event that shrank a context, or nearly did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContextMark {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// Number of calls or turns before it.
    pub behind: usize,
    /// `compaction`, `blocked` or `announced`; `prune` if the context shrank without any of them, as pruning does.
    pub kind: &'static str,
    /// Tokens before, where they are known.
    pub before_tokens: Option<u64>,
    /// Tokens after it.
    pub after_tokens: Option<u64>,
}

impl DashboardService {
    /// Returns a session, by its whole id.
    pub fn session(&self, id: &str) -> Result<ContextSeries, DataError> {
        let mut store = self.opened()?;
        let found = session(&mut *store, id)?;
        let (unit, points) = match self.calls(&mut *store, &found)? {
            Some(calls) => (SeriesUnit::Call, calls),
            None => {
                let turns = store.contexts(found.key)?.into_iter();
                let points = turns.map(|(at_ms, tokens)| SeriesPoint { at_ms, tokens, location: None });
                (SeriesUnit::Turn, Arc::new(points.collect()))
            }
        };
        let compactions = store.compactions(Some(found.key), i64::MIN)?;
        let title = self.titles(&mut *store, std::slice::from_ref(&found))?.pop().flatten();
        let mut session = self.listed(&mut *store, found, title)?;
        drop(store);
        session.saved = self.savings_by_session()?.get(&session.session).copied();
        Ok(ContextSeries {
            session,
            unit,
            count: points.len() as u64,
            points: numbered(&points).into_iter().map(|((number, at_ms), tokens)| (number, at_ms, tokens)).collect(),
            marks: marks(&points, &compactions),
        })
    }
}

/// All recorded compactions, and every drop between two calls that none of them explains.
fn marks(points: &[SeriesPoint], compactions: &[StoredCompaction]) -> Vec<ContextMark> {
    let mut marks: Vec<ContextMark> = compactions
        .iter()
        .map(|compaction| {
            let behind = points_before(points, compaction);
            let tokens = |index: Option<usize>| index.and_then(|index| points.get(index)).map(|point| point.tokens);
            ContextMark {
                at_ms: compaction.at_ms,
                behind,
                kind: if compaction.is_done {
                    "compaction"
                } else if compaction.is_blocked {
                    "blocked"
                } else {
                    "announced"
                },
                before_tokens: compaction.context_tokens.or(tokens(behind.checked_sub(1))),
                after_tokens: tokens(Some(behind)),
            }
        })
        .collect();
    let prunes = (1..).zip(points.windows(2)).filter_map(|(behind, pair)| {
        let [SeriesPoint { at_ms: from_ms, tokens: before, .. }, SeriesPoint { at_ms, tokens: after, .. }] = *pair else {
            return None;
        };
        let drop = before.saturating_sub(after);
        let is_explained = compactions
            .iter()
            .filter(|compaction| !compaction.is_blocked)
            .any(|compaction| points_before(points, compaction) == behind || (from_ms..=at_ms).contains(&compaction.at_ms));
        let is_large = drop >= MIN_DROP_TOKENS && drop as f64 >= before as f64 * MIN_DROP_SHARE;
        let mark = ContextMark { at_ms, behind, kind: "prune", before_tokens: Some(before), after_tokens: Some(after) };
        (is_large && !is_explained).then_some(mark)
    });
    marks.extend(prunes);
    marks.sort_by_key(|mark| mark.at_ms);
    marks
}

/// Number of points before a compaction: by its place in the transcript, or else by its time, since clocks go wrong.
fn points_before(points: &[SeriesPoint], compaction: &StoredCompaction) -> usize {
    let is_there = |(transcript, byte): &(i64, u64)| {
        let last = points.iter().rposition(|point| point.location.is_some_and(|(of, at)| of == *transcript && at < *byte));
        last.map(|last| last + 1)
    };
    let by_place = compaction.location.as_ref().and_then(is_there);
    by_place.unwrap_or_else(|| points.partition_point(|point| point.at_ms <= compaction.at_ms))
}

/// Returns at most `most` points: the first, the last, and the lowest and highest of each stretch, so that no drop is lost.
pub fn downsample<X: Copy>(points: &[(X, u64)], most: usize) -> Vec<(X, u64)> {
    let [first, inner @ .., last] = points else { return points.to_vec() };
    if points.len() <= most || most < 4 {
        return points.to_vec();
    }
    let stretch = inner.len().div_ceil((most - 2) / 2);
    let mut kept = vec![*first];
    for part in inner.chunks(stretch) {
        let by_tokens = |index: &usize| part[*index].1;
        let lowest = (0..part.len()).min_by_key(by_tokens);
        let highest = (0..part.len()).max_by_key(by_tokens);
        let (Some(lowest), Some(highest)) = (lowest, highest) else { continue };
        kept.push(part[lowest.min(highest)]);
        if lowest != highest {
            kept.push(part[lowest.max(highest)]);
        }
    }
    kept.push(*last);
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compaction(at_ms: i64, is_done: bool, is_blocked: bool) -> StoredCompaction {
        StoredCompaction { at_ms, is_blocked, is_done, ..StoredCompaction::default() }
    }

    /// Points whose time is also their place.
    fn points(of: &[(i64, u64)]) -> Vec<SeriesPoint> {
        of.iter()
            .map(|(at_ms, tokens)| SeriesPoint { at_ms: *at_ms, tokens: *tokens, location: Some((1, at_ms.unsigned_abs())) })
            .collect()
    }

    #[test]
    fn a_compaction_is_where_it_stands_in_the_transcript_whatever_the_clock_says() {
        let points = points(&[(10, 50_000), (20, 90_000), (30, 20_000)]);
        let told = |location| {
            let compaction = StoredCompaction { location, ..compaction(99, true, false) };
            let found = marks(&points, &[compaction]);
            found.iter().map(|mark| (mark.kind, mark.behind)).collect::<Vec<_>>()
        };
        assert_eq!(told(Some((1, 25))), [("compaction", 2)]);
        assert_eq!(told(None), [("prune", 2), ("compaction", 3)]);
    }

    #[test]
    fn a_drop_that_no_compaction_explains_is_a_prune() {
        let points = points(&[(10, 50_000), (20, 90_000), (30, 60_000), (40, 100_000), (50, 20_000), (60, 19_500)]);
        let found = marks(&points, &[compaction(45, true, false), compaction(58, false, true)]);
        let told: Vec<_> =
            found.iter().map(|mark| (mark.at_ms, mark.behind, mark.kind, mark.before_tokens, mark.after_tokens)).collect();
        let expected = [
            (30, 2, "prune", Some(90_000), Some(60_000)),
            (45, 4, "compaction", Some(100_000), Some(20_000)),
            (58, 5, "blocked", Some(20_000), Some(19_500)),
        ];
        assert_eq!(told, expected);
    }

    proptest! {
        #[test]
        fn thinning_keeps_ends_extremes_and_order(tokens in prop::collection::vec(0_u64..1_000, 0..400), most in 4_usize..60) {
            let points: Vec<(usize, u64)> = tokens.into_iter().enumerate().collect();
            let kept = downsample(&points, most);
            prop_assert!(kept.len() <= most.max(4) || kept == points);
            prop_assert!(points.len() > most || kept == points);
            prop_assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
            prop_assert!(kept.iter().all(|point| points[point.0] == *point));
            prop_assert_eq!(kept.first(), points.first());
            prop_assert_eq!(kept.last(), points.last());
            let extremes = |of: &[(usize, u64)]| (of.iter().map(|p| p.1).min(), of.iter().map(|p| p.1).max());
            prop_assert_eq!(extremes(&kept), extremes(&points));
        }
    }
}
