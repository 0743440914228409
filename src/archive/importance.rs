//! Importance of stored turns, for ranking what is restored.

/// Days after which a turn counts half.
pub const HALF_LIFE_DAYS: f64 = 7.0;

/// Factors of a turn's importance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImportanceFactors {
    /// Days since the turn; a negative age (a clock that went back) counts as none.
    pub age_days: f64,
    /// Number of times that it was restored or viewed.
    pub access_count: u32,
    /// `true` if tools were used in it.
    pub has_tools: bool,
    /// `true` if it names files.
    pub has_files: bool,
}

/// `recency × frequency × richness`, where recency halves every [`HALF_LIFE_DAYS`], frequency is `log2(accesses + 1) + 1`, and
/// richness is 1, plus 0.5 for tools, plus 0.3 for files.
pub fn importance(traits: ImportanceFactors) -> f64 {
    let recency = (-std::f64::consts::LN_2 * traits.age_days.max(0.0) / HALF_LIFE_DAYS).exp();
    let frequency = f64::from(traits.access_count).ln_1p() / std::f64::consts::LN_2 + 1.0;
    let richness = 1.0 + if traits.has_tools { 0.5 } else { 0.0 } + if traits.has_files { 0.3 } else { 0.0 };
    recency * frequency * richness
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_numbers_of_the_design() {
        let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} is not {other}");
        close(importance(ImportanceFactors::default()), 1.0);
        close(importance(ImportanceFactors { age_days: 7.0, ..ImportanceFactors::default() }), 0.5);
        close(importance(ImportanceFactors { access_count: 3, ..ImportanceFactors::default() }), 3.0);
        close(importance(ImportanceFactors { has_tools: true, has_files: true, ..ImportanceFactors::default() }), 1.8);
        close(importance(ImportanceFactors { age_days: -1.0, ..ImportanceFactors::default() }), 1.0);
    }

    proptest! {
        #[test]
        fn older_matters_less_and_used_more(age in 0.0..1e4_f64, more in 0.001..100.0_f64, accesses in 0_u32..1000) {
            let traits = ImportanceFactors { age_days: age, access_count: accesses, ..ImportanceFactors::default() };
            let now = importance(traits);
            let later = importance(ImportanceFactors { age_days: age + more, ..traits });
            let used = importance(ImportanceFactors { access_count: accesses + 1, ..traits });
            // Where numbers get too small to be told apart, so do ages.
            prop_assert!(later < now || now < f64::MIN_POSITIVE, "{later} after {more} more days, {now} before");
            prop_assert!(used >= now, "{used} with one more access, {now} without");
        }
    }
}
