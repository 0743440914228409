/*!
A static embedding: each piece of a word has a vector, and a text has their sum. It is part of the program and takes no time to load, so
that a hook can ask for the meaning of a prompt, and a search for that of a query before the model is installed. It knows less than
[`MiniLm`](super::MiniLm), of which it is made.

The method is that of Model2Vec (van Dongen and Tulkens 2024): the vector that the model gives to each word alone, on few dimensions, and less
weight for frequent words (Arora et al. 2017); then rows are fitted to the model's vectors of texts. `cargo xtask distill` made the files in `static/`.
*/

use std::sync::LazyLock;

use super::wordpiece::WordPiece;
use super::{EmbedError, Embedder};
use crate::normalize;

/// Name of the table, as stored beside vectors; vectors of two tables cannot be compared.
pub const STATIC: &str = "static-128-cd963574";
/// Dimensions of a vector.
pub const DIMENSIONS: usize = 128;
/// Bytes of a row: its factor, and four bits a dimension.
const ROW_BYTES: usize = FACTOR_BYTES + DIMENSIONS / 2;
const FACTOR_BYTES: usize = size_of::<f32>();
/// Offset of a number of four bits: so much stands for 0.
const NIBBLE_ZERO: i8 = 8;
/// Maximum number of pieces of a text that count.
const MAX_PIECES: usize = 1_000;
/// Number of pieces in half a passage; passages overlap by half.
const HALF_PASSAGE_PIECES: usize = 40;

const WORDS: &str = include_str!("static/words.txt");
const ROWS: &[u8] = include_bytes!("static/rows.bin");

static BUILT_IN: LazyLock<StaticEmbedding> =
    LazyLock::new(|| StaticEmbedding { vocabulary: WordPiece::built_in(WORDS), rows: ROWS });

/// The table of vectors.
pub struct StaticEmbedding {
    vocabulary: WordPiece,
    rows: &'static [u8],
}

/// Sums of the vectors of a text: up to each half of a passage, and of all of it.
pub struct StaticVectors {
    sums: Vec<[f32; DIMENSIONS]>,
}

impl StaticEmbedding {
    /// The table in this program.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Reads a text.
    pub fn read(&self, text: &str) -> StaticVectors {
        let (mut sums, mut sum) = (vec![[0.0; DIMENSIONS]], [0.0; DIMENSIONS]);
        for half in self.vocabulary.known(text, MAX_PIECES).chunks(HALF_PASSAGE_PIECES) {
            for token in half {
                let row = self.rows.chunks_exact(ROW_BYTES).nth(*token as usize);
                let Some(values) = row.and_then(row_values) else { continue };
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
            sums.push(sum);
        }
        StaticVectors { sums }
    }
}

impl Embedder for &StaticEmbedding {
    fn id(&self) -> &'static str {
        STATIC
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vector = |text: &&str| {
            let mut vector = self.read(text).whole().to_vec();
            normalize(&mut vector);
            vector
        };
        Ok(texts.iter().map(vector).collect())
    }
}

impl StaticVectors {
    fn whole(&self) -> &[f32; DIMENSIONS] {
        &self.sums[self.sums.len() - 1]
    }

    /// The cosine of two texts; 0 if nothing of one is known.
    pub fn cosine(&self, other: &Self) -> f64 {
        cosine(self.whole(), other.whole())
    }

    /// The greatest cosine with a passage of the other text.
    pub fn best_cosine(&self, other: &Self) -> f64 {
        let whole = self.whole();
        let last = other.sums.len() - 1;
        let passages = (0..last).map(|begin| (&other.sums[begin], &other.sums[(begin + 2).min(last)]));
        let cosines = passages.map(|(from, to)| cosine(whole, &std::array::from_fn(|at| to[at] - from[at])));
        cosines.fold(0.0, f64::max)
    }
}

fn cosine(one: &[f32; DIMENSIONS], other: &[f32; DIMENSIONS]) -> f64 {
    let product = |a: &[f32; DIMENSIONS], b: &[f32; DIMENSIONS]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
    let length = (product(one, one) * product(other, other)).sqrt();
    if length > 0.0 { product(one, other) / length } else { 0.0 }
}

/// Writes a row of a table; `values` are of one dimension each.
pub fn row_bytes(values: &[f32; DIMENSIONS]) -> Vec<u8> {
    let most = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let factor = most / f32::from(NIBBLE_ZERO - 1);
    let nibble = |value: f32| {
        let steps = if factor > 0.0 { (value / factor).round() as i8 } else { 0 };
        (steps + NIBBLE_ZERO).cast_unsigned()
    };
    let nibbles = values.chunks_exact(2).map(|pair| nibble(pair[0]) | nibble(pair[1]) << 4);
    factor.to_le_bytes().into_iter().chain(nibbles).collect()
}

/// Reads what [`row_bytes`] wrote; `None` if it is too short.
pub fn row_values(bytes: &[u8]) -> Option<[f32; DIMENSIONS]> {
    let (factor, nibbles) = bytes.split_first_chunk()?;
    let factor = f32::from_le_bytes(*factor);
    let mut values = [0.0; DIMENSIONS];
    for (pair, byte) in values.chunks_exact_mut(2).zip(nibbles.get(..DIMENSIONS / 2)?) {
        pair[0] = factor * f32::from((byte & 15).cast_signed() - NIBBLE_ZERO);
        pair[1] = factor * f32::from((byte >> 4).cast_signed() - NIBBLE_ZERO);
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_the_same_is_near() {
        let table = StaticEmbedding::built_in();
        let cosine = |one: &str, other: &str| table.read(one).cosine(&table.read(other));
        let near = cosine("the build is slow", "compilation takes too long");
        assert!(near > cosine("the build is slow", "a recipe for apple cake") + 0.1, "{near}");
        assert!(cosine("the build is slow", "The build is SLOW!") > 0.9);
        assert_eq!(cosine("the build is slow", ""), 0.0);
    }

    #[test]
    fn the_best_passage_counts() {
        let table = StaticEmbedding::built_in();
        let asked = table.read("why did the database migration fail");
        let answer = table.read(&format!(
            "{} The migration of the database failed. {}",
            "Lunch was good. ".repeat(60),
            "Bye. ".repeat(60)
        ));
        assert!(asked.best_cosine(&answer) > asked.cosine(&answer) + 0.05);
        assert_eq!(asked.best_cosine(&table.read("")), 0.0);
    }

    #[test]
    fn a_row_comes_back() {
        let values: [f32; DIMENSIONS] = std::array::from_fn(|at| (at as f32 * 0.7).sin() * 3.0);
        let bytes = row_bytes(&values);
        assert_eq!(bytes.len(), ROW_BYTES);
        let factor = f32::from_le_bytes(*bytes.first_chunk().unwrap());
        let read = row_values(&bytes).unwrap();
        assert!(read.iter().zip(values).all(|(read, value)| (read - value).abs() <= factor / 2.0 + 1e-6));
        assert_eq!(row_values(&bytes[1..]), None);
        assert!(row_bytes(&[0.0; DIMENSIONS])[FACTOR_BYTES..].iter().all(|byte| *byte == 0x88));
    }

    #[test]
    fn each_word_has_a_row() {
        assert_eq!(ROWS.len(), WORDS.lines().count() * ROW_BYTES);
    }

    /// Or searches would compare vectors of another table with those in users' indexes.
    #[test]
    fn the_name_is_of_this_table() {
        let sum = ctxbridge_common::digest::of_bytes(&[WORDS.as_bytes(), ROWS].concat());
        assert_eq!(STATIC, format!("static-{DIMENSIONS}-{}", &sum[..8]));
    }

    #[test]
    fn a_vector_has_length_one_or_none() {
        let vectors = (&*BUILT_IN).embed(&["the build is slow", "", "compilation takes too long"]).unwrap();
        let product = |one: &[f32], other: &[f32]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f32>();
        let lengths: Vec<f32> = vectors.iter().map(|one| product(one, one)).collect();
        assert!((lengths[0] - 1.0).abs() < 1e-5 && lengths[1] == 0.0, "{lengths:?}");
        let table = StaticEmbedding::built_in();
        let cosine = table.read("the build is slow").cosine(&table.read("compilation takes too long"));
        assert!((f64::from(product(&vectors[0], &vectors[2])) - cosine).abs() < 1e-5);
    }
}
