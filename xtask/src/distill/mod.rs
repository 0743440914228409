/*!
`cargo xtask distill`: makes the static embedding out of the installed model. The same model, the same `Cargo.lock` and the same kind of processor
give the same files.

A row begins as the vector that the model gives to its word alone (Model2Vec, van Dongen and Tulkens 2024). Then all rows are fitted at once, so that
the mean of a text's rows is near the model's vector of the text, less the mean of all texts, on their first principal components. Model2Vec's
authors do that by gradient descent (Tokenlearn); here it is a ridge regression towards the first rows.
*/

mod fit;
mod texts;

use std::fs;

use anyhow::{Context as _, Result};
use ctxbridge::vectors::embed::static_embedding::{DIMENSIONS, row_bytes, row_values};
use ctxbridge::vectors::embed::{Embedder as _, MiniLm, install};

use self::fit::{TableRow, TrainingText, mean_cosine};
use crate::tools::root;

/// Weight of a word in the first rows: this, over itself plus the word's share of all words (Arora et al. 2017, equation 3).
const SMOOTHING: f64 = 1e-4;
/// Rounds of subspace iteration; the principal components no longer move by then.
const ROUNDS: usize = 60;
/// Penalty for a row's distance from the first one. Of 0.3, 0.1, 0.03 and 0.01, this is best for the texts that are held out.
const LAMBDA: f32 = 0.03;
/// Texts that the model is given at once.
const BATCH_TEXTS: usize = 4096;

pub fn run() -> Result<bool> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut model = MiniLm::with_threads(&install::folder()?, threads)?;
    let texts = texts::of_dependencies()?;
    let mut vectors = Vec::with_capacity(texts.len());
    for some in texts.chunks(BATCH_TEXTS) {
        vectors.extend(model.embed(&some.iter().map(|one| one.text.as_str()).collect::<Vec<_>>())?);
        eprintln!("{} of {} texts read", vectors.len(), texts.len());
    }
    center(&mut vectors);
    let components = principal_components(&vectors);
    let project = |vector: &[f32]| -> TableRow {
        std::array::from_fn(|at| components[at].iter().zip(vector).map(|(a, b)| a * f64::from(*b)).sum::<f64>() as f32)
    };
    let (mut held_out, mut fitted) = (Vec::new(), Vec::new());
    for (one, vector) in texts.iter().zip(&vectors) {
        let sample = TrainingText { tokens: model.known_tokens(&one.text), target: project(vector) };
        if one.is_held_out { held_out.push(sample) } else { fitted.push(sample) }
    }

    let (words, mut alone): (Vec<String>, Vec<Vec<f32>>) = model.word_vectors()?.into_iter().unzip();
    center(&mut alone);
    // The vocabulary lists frequent words first: Zipf's law.
    let all: f64 = (1..=words.len()).map(|rank| 1.0 / rank as f64).sum();
    let weight = |rank: usize| SMOOTHING / (SMOOTHING + 1.0 / (rank + 1) as f64 / all);
    let first = alone.iter().enumerate().map(|(rank, vector)| project(vector).map(|one| (f64::from(one) * weight(rank)) as f32));
    let first: Vec<TableRow> = first.collect();
    let rows = fit::ridge(&first, &fitted, LAMBDA);
    // As the program has them.
    let rounded = |rows: &[TableRow]| rows.iter().filter_map(|row| row_values(&row_bytes(row))).collect::<Vec<TableRow>>();
    let [before, after] = [&first, &rows].map(|rows| mean_cosine(&rounded(rows), &held_out));
    println!(
        "mean cosine with the model's vectors of {} texts that were held out: {after:.3} ({before:.3} by words alone)",
        held_out.len()
    );
    write(words, &rows)
}

fn write(words: Vec<String>, rows: &[TableRow]) -> Result<bool> {
    // Words with a meaning for the model alone.
    let is_special = |word: &str| word.len() > 1 && word.starts_with('[');
    let lines = words.into_iter().zip(rows).filter(|(word, _)| !is_special(word));
    let mut lines: Vec<(String, Vec<u8>)> = lines.map(|(word, row)| (word, row_bytes(row))).collect();
    lines.sort_unstable();
    let folder = root().join("src/vectors/embed/static");
    let cannot = || format!("cannot write the table into {}", folder.display());
    fs::create_dir_all(&folder).with_context(cannot)?;
    let words: String = lines.iter().map(|(word, _)| format!("{word}\n")).collect();
    fs::write(folder.join("words.txt"), words).with_context(cannot)?;
    fs::write(folder.join("rows.bin"), lines.iter().flat_map(|(_, row)| row).copied().collect::<Vec<u8>>())
        .with_context(cannot)?;
    println!("{} words of {DIMENSIONS} dimensions", lines.len());
    Ok(true)
}

/// Takes their mean from vectors.
fn center(vectors: &mut [Vec<f32>]) {
    let count = vectors.len() as f64;
    let mut mean = vec![0.0; vectors.first().map_or(0, Vec::len)];
    for vector in &*vectors {
        mean.iter_mut().zip(vector).for_each(|(sum, number)| *sum += f64::from(*number));
    }
    for vector in vectors {
        vector.iter_mut().zip(&mean).for_each(|(number, sum)| *number -= (sum / count) as f32);
    }
}

/// The directions in which vectors differ most, by subspace iteration on their covariance.
fn principal_components(vectors: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let dimensions = vectors[0].len();
    let mut covariance = vec![vec![0.0_f64; dimensions]; dimensions];
    for vector in vectors {
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
