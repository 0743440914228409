//! The best of many estimates, without keeping all of them: allocating and freeing memory costs more than the estimates.

/// Factor: as many times the wanted number are kept before the rest is dropped.
const OVERSAMPLING: usize = 8;

/// Rows with the highest estimates.
pub(super) struct TopK {
    wanted: usize,
    /// `true` if there were several times as many as are wanted.
    is_full: bool,
    /// Estimates that are not above this are not among the best.
    least: f32,
    kept: Vec<(f32, u32)>,
}

impl TopK {
    /// Keeps the `wanted` best.
    pub fn new(wanted: usize) -> Self {
        Self {
            wanted,
            is_full: false,
            least: f32::NEG_INFINITY,
            kept: Vec::with_capacity(wanted.saturating_mul(OVERSAMPLING).min(1 << 16)),
        }
    }

    /// Offers an estimate. `is_allowed` is called last, since the look-up takes longer than all the rest.
    pub fn offer(&mut self, estimate: f32, row: u32, is_allowed: impl FnOnce() -> bool) {
        if estimate > self.least && is_allowed() {
            self.kept.push((estimate, row));
            if self.kept.len() >= self.wanted.saturating_mul(OVERSAMPLING) {
                self.shrink();
                self.is_full = true;
            }
        }
    }

    /// `true` if there were several times as many as are wanted, so that the best of them are good.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the rows.
    pub fn into_rows(mut self) -> Vec<u32> {
        self.shrink();
        self.kept.into_iter().map(|(_, row)| row).collect()
    }

    fn shrink(&mut self) {
        if self.wanted == 0 {
            self.kept.clear();
        } else if self.kept.len() > self.wanted {
            let order = |one: &(f32, u32), other: &(f32, u32)| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1));
            let (_, last, _) = self.kept.select_nth_unstable_by(self.wanted - 1, order);
            self.least = last.0;
            self.kept.truncate(self.wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_sorting_all_of_them(estimates in proptest::collection::vec(-10_i8..10, 0..300), wanted in 0_usize..20) {
            let mut best = TopK::new(wanted);
            for (row, estimate) in estimates.iter().enumerate() {
                best.offer(f32::from(*estimate), row as u32, || row % 5 != 0);
            }
            let allowed = estimates.iter().enumerate().filter(|(row, _)| row % 5 != 0).map(|(_, estimate)| *estimate);
            let mut sorted: Vec<i8> = allowed.collect();
            prop_assert_eq!(best.is_full(), sorted.len() >= wanted * OVERSAMPLING && !sorted.is_empty());
            let mut found: Vec<i8> = best.into_rows().iter().map(|row| estimates[*row as usize]).collect();
            found.sort_unstable();
            sorted.sort_unstable();
            prop_assert_eq!(found, &sorted[sorted.len().saturating_sub(wanted)..]);
        }
    }
}
