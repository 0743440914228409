//! Real vectors, and any number of made-up ones that resemble them.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use ctxbridge::vectors::embed::{Embedder as _, MiniLm};
use ctxbridge_testkit::Rng;

pub const DIMENSIONS: usize = 384;

/// Number of texts that the model embeds at once; at most this many are lost when it is stopped.
const BATCH: usize = 256;
/// Number of vectors among which the nearest is chosen for a mixture.
const AMONG: usize = 64;
/// Noise of a mixture's numbers: it makes a mixture as far from the nearest real vector as those are from each other.
const NOISE: f64 = 0.018;

/// Returns a vector for each line of a file. They are kept next to it, and read from there if they were made before.
pub fn real(texts: &Path, model: &Path, most: usize) -> Result<Vec<f32>> {
    let lines = fs::read_to_string(texts).with_context(|| format!("cannot read {}", texts.display()))?;
    let lines: Vec<&str> = lines.lines().take(most).collect();
    let path = texts.with_extension("vectors");
    let size = DIMENSIONS * size_of::<f32>();
    let have = fs::metadata(&path).map_or(0, |metadata| metadata.len() as usize / size);
    if have < lines.len() {
        let mut model = MiniLm::with_threads(model, std::thread::available_parallelism().map_or(1, usize::from))?;
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        file.set_len((have * size) as u64)?;
        for (batch, texts) in lines[have..].chunks(BATCH).enumerate() {
            let vectors = model.embed(texts)?;
            file.write_all(&vectors.iter().flatten().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())?;
            eprint!("\r{} of {} texts have vectors", have + batch * BATCH + texts.len(), lines.len());
        }
        eprintln!();
    }
    let bytes = fs::read(&path)?;
    let (numbers, _) = bytes[..lines.len() * size].as_chunks::<4>();
    Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

/// Returns `count` vectors: the real ones first, then mixtures of two that are near each other, with noise. Also returns the number
/// of real ones.
pub fn fill(real: &[f32], count: usize) -> Result<(Vec<f32>, usize)> {
    let have = (real.len() / DIMENSIONS).min(count);
    ensure!(have > 0, "there are more queries than texts");
    let mut all = real[..have * DIMENSIONS].to_vec();
    let mut rng = Rng::new(7);
    let any = |rng: &mut Rng| &real[(rng.roll() * have as f64) as usize * DIMENSIONS..][..DIMENSIONS];
    for _ in have..count {
        let one = any(&mut rng);
        let product = |other: &[f32]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f32>();
        let others: Vec<&[f32]> = (0..AMONG).map(|_| any(&mut rng)).collect();
        let nearest = others.into_iter().max_by(|a, b| product(a).total_cmp(&product(b))).unwrap_or(one);
        let share = 0.5 + 0.4 * rng.roll() as f32;
        let begin = all.len();
        for (one, other) in one.iter().zip(nearest) {
            // A sum of twelve is near enough to a bell.
            let noise = NOISE * ((0..12).map(|_| rng.roll()).sum::<f64>() - 6.0);
            all.push(share * one + (1.0 - share) * other + noise as f32);
        }
        let length = all[begin..].iter().map(|number| number * number).sum::<f32>().sqrt();
        all[begin..].iter_mut().for_each(|number| *number /= length);
    }
    Ok((all, have))
}
