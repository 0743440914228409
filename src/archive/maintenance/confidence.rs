//! Confidence of entries: falls with every hour, rises with every use.

use crate::{CONFIDENCE_BOOST, DECAY_PER_HOUR, MIN_CONFIDENCE};

const HOUR_MS: f64 = 3_600_000.0;

/// Maximum loss of a confidence: from 1 to [`MIN_CONFIDENCE`].
const MAX_CONFIDENCE_LOSS: f64 = 1.0 - MIN_CONFIDENCE;

pub(super) fn hours(ms: i64) -> f64 {
    ms as f64 / HOUR_MS
}

/// Confidence lost in a number of milliseconds: [`DECAY_PER_HOUR`] an hour, however many cycles that were. The loss is never more
/// than there is to lose. Otherwise a clock that was wrong by centuries would leave a number too large to add small ones to.
pub fn loss(elapsed_ms: i64) -> f64 {
    (DECAY_PER_HOUR * hours(elapsed_ms.max(0))).min(MAX_CONFIDENCE_LOSS)
}

/// Confidence after a loss.
pub fn decayed(confidence: f64, loss: f64) -> f64 {
    (confidence - loss).max(MIN_CONFIDENCE)
}

/// Confidence of an entry after it is restored.
pub fn boosted(confidence: f64) -> f64 {
    (confidence + CONFIDENCE_BOOST).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn the_numbers_of_the_design() {
        assert!(close(decayed(0.8, loss(HOUR)), 0.795));
        assert!(close(decayed(0.8, loss(130 * HOUR)), 0.15));
        assert!(close(decayed(0.8, loss(1_000 * HOUR)), 0.1));
        assert!(close(boosted(0.8), 0.83) && close(boosted(0.99), 1.0));
        assert!(close(loss(-HOUR), 0.0) && close(loss(i64::MIN), 0.0) && close(loss(i64::MAX), 0.9));
    }

    proptest! {
        /// Time counts and not the number of cycles, for each entry and for a loss that is added up and taken off later.
        #[test]
        fn two_cycles_are_as_long_as_one(confidence in 0.1..=1.0_f64, first in 0..400 * HOUR, second in 0..400 * HOUR) {
            let once = decayed(confidence, loss(first + second));
            prop_assert!(close(decayed(decayed(confidence, loss(first)), loss(second)), once));
            prop_assert!(close(decayed(decayed(confidence, loss(second)), loss(first)), once));
            prop_assert!(close(decayed(confidence, loss(first) + loss(second)), once));
        }

        #[test]
        fn it_stays_in_its_range(confidence in 0.1..=1.0_f64, elapsed in any::<i64>()) {
            let lower = decayed(confidence, loss(elapsed));
            prop_assert!((MIN_CONFIDENCE..=confidence).contains(&lower), "{lower}");
            prop_assert!(boosted(lower) > lower || lower >= 1.0);
            prop_assert!(boosted(lower) <= 1.0);
        }
    }
}
