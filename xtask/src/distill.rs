//! `cargo xtask distill`: makes the static embedding out of the installed model. The same model gives the same files.

use std::fs;

use anyhow::Result;
use ctxbridge::vectors::embed::static_embedding::{DIMENSIONS, row_bytes};
use ctxbridge::vectors::embed::{MiniLm, install};

use crate::tools::root;

/// Weight of a word: this, over itself plus the word's share of all words (Arora et al. 2017, equation 3).
const SMOOTHING: f64 = 1e-4;
/// Rounds of subspace iteration; the principal components no longer move by then.
const ROUNDS: usize = 60;

pub fn run() -> Result<bool> {
    let mut model = MiniLm::with_threads(&install::folder()?, 2)?;
    let mut words = model.word_vectors()?;
    let dimensions = words[0].1.len();
    let mean: Vec<f64> = (0..dimensions)
        .map(|at| words.iter().map(|(_, vector)| f64::from(vector[at])).sum::<f64>() / words.len() as f64)
        .collect();
    for (_, vector) in &mut words {
        vector.iter_mut().zip(&mean).for_each(|(number, mean)| *number -= *mean as f32);
    }
    let components = principal_components(&words, dimensions);
    // The vocabulary lists frequent words first: Zipf's law.
    let all: f64 = (1..=words.len()).map(|rank| 1.0 / rank as f64).sum();
    let mut rows = Vec::with_capacity(words.len());
    for (rank, (word, vector)) in words.into_iter().enumerate() {
        // Words with a meaning for the model alone.
        if word.len() > 1 && word.starts_with('[') {
            continue;
        }
        let share = 1.0 / (rank + 1) as f64 / all;
        let weight = SMOOTHING / (SMOOTHING + share);
        let value = |component: &Vec<f64>| component.iter().zip(&vector).map(|(a, b)| a * f64::from(*b)).sum::<f64>() * weight;
        let values: [f32; DIMENSIONS] = std::array::from_fn(|at| value(&components[at]) as f32);
        rows.push((word, row_bytes(&values)));
    }
    rows.sort_unstable();
    let folder = root().join("src/vectors/embed/static");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("words.txt"), rows.iter().map(|(word, _)| format!("{word}\n")).collect::<String>())?;
    fs::write(folder.join("rows.bin"), rows.iter().flat_map(|(_, row)| row.clone()).collect::<Vec<u8>>())?;
    println!("{} words of {DIMENSIONS} dimensions", rows.len());
    Ok(true)
}

/// The directions in which vectors differ most, by subspace iteration on their covariance.
fn principal_components(words: &[(String, Vec<f32>)], dimensions: usize) -> Vec<Vec<f64>> {
    let mut covariance = vec![vec![0.0_f64; dimensions]; dimensions];
    for (_, vector) in words {
        for (row, one) in covariance.iter_mut().zip(vector) {
            row.iter_mut().zip(vector).for_each(|(sum, other)| *sum += f64::from(one * other));
        }
    }
    // Any begin will do that is not orthogonal to them.
    let mut basis: Vec<Vec<f64>> =
        (0..DIMENSIONS).map(|number| (0..dimensions).map(|at| ((number * dimensions + at) as f64).sin()).collect()).collect();
    for _ in 0..ROUNDS {
        for component in &mut basis {
            *component = covariance.iter().map(|row| product(row, component)).collect();
        }
        for number in 0..basis.len() {
            let (before, rest) = basis.split_at_mut(number);
            let component = &mut rest[0];
            for other in before {
                let part = product(other, component);
                component.iter_mut().zip(other.iter()).for_each(|(number, other)| *number -= part * other);
            }
            let length = product(component, component).sqrt().max(f64::MIN_POSITIVE);
            component.iter_mut().for_each(|number| *number /= length);
        }
    }
    basis
}

fn product(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}
