//! `hash-768`: a vector of a text's characters, not of its meaning. For retrieval it is nearly useless. It exists to compare with
//! vectors that the reference implementation wrote.

use super::{EmbedError, Embedder};

/// Numbers in a vector.
const DIMENSIONS: usize = 768;

/// The embedder of the reference implementation, a pure function of the text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hash768;

impl Embedder for Hash768 {
    fn id(&self) -> &'static str {
        "hash-768"
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| vector(text)).collect())
    }
}

/// `true` if a vector of any number of dimensions was made of a text in that way: today the reference implementation makes 384 of
/// them. A few are compared, relative to each other, since each takes a pass over the text.
pub fn is_hash_of(text: &str, vector: &[f32]) -> bool {
    const COMPARED: usize = 6;
    const TOLERANCE: f64 = 1e-4;
    if vector.len() < 2 || vector.iter().any(|value| *value < 0.0 || !value.is_finite()) {
        return false;
    }
    let units = units(text);
    let last = vector.len() - 1;
    let mut at: Vec<usize> = (0..COMPARED).map(|step| last * step / (COMPARED - 1)).collect();
    at.dedup();
    let made: Vec<f64> = at.iter().map(|at| value(&units, i32::try_from(at + 1).unwrap_or(i32::MAX))).collect();
    let found: Vec<f64> = at.iter().map(|at| f64::from(vector[*at])).collect();
    // Whatever the whole was divided by: its parts are as large beside each other.
    let scale = |values: &[f64]| values.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let (made_sum, found_sum) = (scale(&made), scale(&found));
    made.iter().zip(&found).all(|(made, found)| (made / made_sum - found / found_sum).abs() < TOLERANCE)
}

/// For dimension `i`, `h = (h << 5) - h + c × (i + 1)` over the text's UTF-16 code units `c` in 32-bit signed arithmetic; its value
/// is `(sin h + 1) / 2`, and the whole has length 1.
fn vector(text: &str) -> Vec<f32> {
    let units = units(text);
    let values: Vec<f64> = (1..).take(DIMENSIONS).map(|factor| value(&units, factor)).collect();
    let length = values.iter().map(|value| value * value).sum::<f64>().sqrt();
    values.iter().map(|value| (value / length) as f32).collect()
}

fn units(text: &str) -> Vec<i32> {
    text.to_lowercase().trim_matches(is_space).encode_utf16().map(i32::from).collect()
}

/// The value of a dimension; the first one has the factor 1.
fn value(units: &[i32], factor: i32) -> f64 {
    let step = |hash: i32, unit: &i32| (hash << 5).wrapping_sub(hash).wrapping_add(unit.wrapping_mul(factor));
    f64::midpoint(f64::from(units.iter().fold(0, step)).sin(), 1.0)
}

/// `true` for characters that JavaScript's `trim` removes: unlike Rust's, the byte-order mark, but not U+0085.
fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Dimensions that are compared.
    const AT: [usize; 6] = [0, 1, 2, 383, 766, 767];

    /// Compares with what Node.js computes by the formula, written as the reference implementation has it.
    #[test]
    fn the_values_are_those_of_javascript() {
        let long = "x".repeat(5000);
        let expected: [(&str, [f64; 6]); 6] = [
            ("", [0.036084392; 6]),
            ("hello", [0.000717975, 0.042032002, 0.052598993, 0.058188324, 0.005947391, 0.017275474]),
            ("  Hello\u{feff} ", [0.000717975, 0.042032002, 0.052598993, 0.058188324, 0.005947391, 0.017275474]),
            ("Fix the bug in parser.rs", [0.052210366, 0.000714505, 0.042163882, 0.053769274, 0.021416097, 0.056299656]),
            ("ΑΣ 😀 İ", [0.011378723, 0.000773022, 0.060263537, 0.021959538, 0.009784746, 0.045890008]),
            (&long, [0.041382219, 0.057803852, 0.000466224, 0.020056840, 0.058668217, 0.046947675]),
        ];
        for (text, values) in expected {
            let vector = vector(text);
            for (at, value) in AT.iter().zip(values) {
                assert!((f64::from(vector[*at]) - value).abs() < 1e-8, "{text:.30}: {at}: {} is not {value}", vector[*at]);
            }
        }
    }

    #[test]
    fn what_was_made_like_that_is_known() {
        let of = |text: &str, dimensions: usize| {
            let mut vector = vector(text);
            vector.truncate(dimensions);
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            vector.iter().map(|value| value / length).collect::<Vec<_>>()
        };
        for text in ["", "hello", "User: Fix it.\n\nAssistant: Done."] {
            for dimensions in [2, 384, 768] {
                assert!(is_hash_of(text, &of(text, dimensions)), "{text} {dimensions}");
                assert!(!is_hash_of("something else", &of(text, dimensions)), "{text} {dimensions}");
            }
        }
        for other in [&[0.5_f32, -0.5][..], &[f32::NAN, 0.5], &[0.1], &[], &[0.0; 384]] {
            assert!(!is_hash_of("hello", other));
        }
    }

    proptest! {
        #[test]
        fn every_text_has_a_vector_of_length_one(text in "\\PC*") {
            let vectors = Hash768.embed(&[&text]).expect("it cannot fail");
            prop_assert_eq!(vectors[0].len(), Hash768.dimensions());
            let length: f32 = vectors[0].iter().map(|value| value * value).sum();
            prop_assert!((length - 1.0).abs() < 1e-4);
        }
    }
}
