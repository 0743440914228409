//! Fits rows of a table to vectors of texts, by ridge regression.

use ctxbridge::vectors::embed::static_embedding::DIMENSIONS;

/// A row of the table.
pub type TableRow = [f32; DIMENSIONS];

/// Iterations of conjugate gradients: what is held out no longer gets better by then.
const ITERATIONS: usize = 40;

/// Share of its first squared residual from which on a dimension is solved.
const SOLVED: f64 = 1e-12;

/// A text: rows of its tokens, and the vector that their mean ought to have.
pub struct TrainingText {
    pub tokens: Vec<u32>,
    pub target: TableRow,
}

/// Returns the rows E that minimize Σ |mean of a text's rows − its vector|² + λ Σ |row − c · its first row|², with the c that makes the
/// first rows E₀ fit best. It solves (XᵀX + λ) E = XᵀY + λ c E₀, each dimension by itself, by conjugate gradients with the diagonal as
/// preconditioner (Saad 2003, "Iterative Methods for Sparse Linear Systems", algorithm 9.1).
pub fn ridge(first: &[TableRow], samples: &[TrainingText], lambda: f32) -> Vec<TableRow> {
    let count = first.len();
    let (mut both, mut own) = (0.0_f64, 0.0_f64);
    for sample in samples {
        let predicted = predict(first, sample);
        both += dot(&predicted, &sample.target);
        own += dot(&predicted, &predicted);
    }
    let scale = (both / own.max(f64::MIN_POSITIVE)) as f32;
    let mut rows: Vec<TableRow> = first.iter().map(|row| row.map(|number| number * scale)).collect();
    let mut diagonal = vec![lambda; count];
    for sample in samples {
        let share = 1.0 / sample.tokens.len().max(1) as f32;
        // Too little for a token that is there twice, which costs iterations and changes nothing.
        sample.tokens.iter().for_each(|token| diagonal[*token as usize] += share * share);
    }
    // The residual at the begin: Xᵀ(Y − X c E₀), since λ (c E₀ − E) is zero there.
    let mut residual = vec![[0.0; DIMENSIONS]; count];
    for sample in samples {
        let predicted = predict(&rows, sample);
        spread(&mut residual, sample, &std::array::from_fn(|at| sample.target[at] - predicted[at]));
    }
    let preconditioned = |residual: &[TableRow]| -> Vec<TableRow> {
        residual.iter().zip(&diagonal).map(|(row, diagonal)| row.map(|number| number / diagonal)).collect()
    };
    let mut scaled = preconditioned(&residual);
    let mut direction = scaled.clone();
    let mut norm = products(&residual, &scaled);
    // A dimension that is solved stays as it is: numbers of 32 bits would go on to zero, and be divided by it.
    let enough = norm.map(|norm| norm * SOLVED);
    for _ in 0..ITERATIONS {
        let mut image: Vec<TableRow> = direction.iter().map(|row| row.map(|number| number * lambda)).collect();
        for sample in samples {
            spread(&mut image, sample, &predict(&direction, sample));
        }
        let curvature = products(&direction, &image);
        let step = quotients(&norm, &curvature, &enough);
        for (row, by) in rows.iter_mut().zip(&direction) {
            (0..DIMENSIONS).for_each(|at| row[at] += step[at] * by[at]);
        }
        for (row, by) in residual.iter_mut().zip(&image) {
            (0..DIMENSIONS).for_each(|at| row[at] -= step[at] * by[at]);
        }
        scaled = preconditioned(&residual);
        let next = products(&residual, &scaled);
        let share = quotients(&next, &norm, &enough);
        for (row, by) in direction.iter_mut().zip(&scaled) {
            (0..DIMENSIONS).for_each(|at| row[at] = by[at] + share[at] * row[at]);
        }
        norm = next;
    }
    rows
}

/// The mean cosine of the vectors of texts with those that they ought to have.
pub fn mean_cosine(rows: &[TableRow], samples: &[TrainingText]) -> f64 {
    let cosine = |sample: &TrainingText| {
        let predicted = predict(rows, sample);
        let length = (dot(&predicted, &predicted) * dot(&sample.target, &sample.target)).sqrt();
        if length > 0.0 { dot(&predicted, &sample.target) / length } else { 0.0 }
    };
    samples.iter().map(cosine).sum::<f64>() / samples.len().max(1) as f64
}

/// The mean of a text's rows.
fn predict(rows: &[TableRow], sample: &TrainingText) -> TableRow {
    let mut sum = [0.0; DIMENSIONS];
    for token in &sample.tokens {
        sum.iter_mut().zip(&rows[*token as usize]).for_each(|(sum, number)| *sum += number);
    }
    let share = 1.0 / sample.tokens.len().max(1) as f32;
    sum.map(|number| number * share)
}

/// Adds a text's share of a vector to the rows of its tokens.
fn spread(rows: &mut [TableRow], sample: &TrainingText, vector: &TableRow) {
    let share = 1.0 / sample.tokens.len().max(1) as f32;
    let vector = vector.map(|number| number * share);
    for token in &sample.tokens {
        rows[*token as usize].iter_mut().zip(&vector).for_each(|(sum, number)| *sum += number);
    }
}

/// Quotients by dimension; 0 where what is divided is no longer worth it.
fn quotients(one: &[f64; DIMENSIONS], by: &[f64; DIMENSIONS], enough: &[f64; DIMENSIONS]) -> TableRow {
    std::array::from_fn(|at| if one[at] > enough[at] && by[at] > 0.0 { (one[at] / by[at]) as f32 } else { 0.0 })
}

fn dot(one: &TableRow, other: &TableRow) -> f64 {
    f64::from(one.iter().zip(other).map(|(a, b)| a * b).sum::<f32>())
}

/// The products of two tables, by dimension.
fn products(one: &[TableRow], other: &[TableRow]) -> [f64; DIMENSIONS] {
    let mut sums = [0.0; DIMENSIONS];
    for (one, other) in one.iter().zip(other) {
        (0..DIMENSIONS).for_each(|at| sums[at] += f64::from(one[at]) * f64::from(other[at]));
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: usize = 20;

    /// A number between -1 and 1.
    fn number(seed: usize) -> f32 {
        (seed as f32 * 12.9898).sin()
    }

    /// Rows, and texts whose vectors are the means of them.
    fn example() -> (Vec<TableRow>, Vec<TrainingText>) {
        let rows: Vec<TableRow> = (0..WORDS).map(|word| std::array::from_fn(|at| number(word * DIMENSIONS + at))).collect();
        let samples = (0..400).map(|text| {
            let tokens = (0..1 + text % 7).map(|at| ((text * 31 + at * at * 17) % WORDS) as u32).collect();
            let mut sample = TrainingText { tokens, target: [0.0; DIMENSIONS] };
            sample.target = predict(&rows, &sample);
            sample
        });
        let samples = samples.collect();
        (rows, samples)
    }

    #[test]
    fn rows_that_made_the_vectors_are_found() {
        let (rows, samples) = example();
        let first: Vec<TableRow> = (0..WORDS).map(|word| std::array::from_fn(|at| number(word + 7 * at + 1))).collect();
        assert!(mean_cosine(&first, &samples) < 0.5);
        let found = ridge(&first, &samples, 1e-4);
        for (found, row) in found.iter().zip(&rows) {
            assert!(found.iter().zip(row).all(|(one, other)| (one - other).abs() < 0.01));
        }
        assert!(mean_cosine(&found, &samples) > 0.999);
    }

    #[test]
    fn a_single_text_is_met_as_well_as_it_may_be() {
        let target = std::array::from_fn(number);
        for tokens in [vec![0], vec![0, 1], vec![1, 1, 0]] {
            let rows = ridge(&[[0.5; DIMENSIONS], [0.25; DIMENSIONS]], &[TrainingText { tokens: tokens.clone(), target }], 1e-6);
            assert!(rows.iter().flatten().all(|number| number.is_finite()), "{tokens:?}");
            assert!(mean_cosine(&rows, &[TrainingText { tokens, target }]) > 0.999);
        }
    }

    #[test]
    fn what_no_text_has_stays_as_it_was_but_for_the_scale() {
        let (rows, samples) = example();
        let mut first: Vec<TableRow> = rows.iter().map(|row| row.map(|number| 2.0 * number)).collect();
        first.push([3.0; DIMENSIONS]);
        let found = ridge(&first, &samples, 0.1);
        assert!(found[WORDS].iter().all(|number| (number - 1.5).abs() < 1e-3), "{:?}", &found[WORDS][..3]);
        assert!(found[0].iter().zip(&rows[0]).all(|(one, other)| (one - other).abs() < 1e-3));
    }
}
