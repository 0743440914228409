//! The share of repetitions that a run of the tests takes: few in CI and while one works, all of them at night.

use std::iter::StepBy;
use std::ops::Range;

/// Names the share: a number above 0 and up to 1.
const VARIABLE: &str = "CTXBRIDGE_TEST_SHARE";

/// The share where nothing is set.
const USUAL: f64 = 0.03;

/// At least this many of anything are tried, where there are as many.
const MIN_REPETITIONS: u32 = 4;

/// `true` where all repetitions and all releases are tried.
pub fn is_full_run() -> bool {
    share() >= 1.0
}

/// Number of repetitions (kills, generated cases, rounds) to try out of `all`: the share that `CTXBRIDGE_TEST_SHARE` names, three in
/// a hundred by default.
///
/// # Panics
/// When the variable has no number above 0 and up to 1.
pub fn share_of(all: u32) -> u32 {
    part(all, share())
}

/// All of these places in a full run, else every third.
pub fn some_of(places: Range<usize>) -> StepBy<Range<usize>> {
    places.step_by(if is_full_run() { 1 } else { 3 })
}

/// All of these in a full run, else the first one.
pub fn first_or_all<T>(all: &[T]) -> &[T] {
    if is_full_run() { all } else { all.get(..1).unwrap_or(all) }
}

fn share() -> f64 {
    match std::env::var(VARIABLE) {
        Ok(text) => match text.parse() {
            Ok(share) if share > 0.0 && share <= 1.0 => share,
            _ => panic!("{VARIABLE} is {text:?}; it has to be a number above 0 and up to 1"),
        },
        Err(_) => USUAL,
    }
}

fn part(all: u32, share: f64) -> u32 {
    ((f64::from(all) * share).ceil() as u32).max(MIN_REPETITIONS.min(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_nothing_and_never_more_than_all() {
        assert_eq!([part(1_000, 0.1), part(1_000, 1.0), part(50, 0.1), part(3, 0.1), part(75, 0.2)], [100, 1_000, 5, 3, 15]);
    }
}
