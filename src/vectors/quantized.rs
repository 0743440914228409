/*!
Vectors of length 1, a byte a dimension. Their loss in quality is measured (BENCHMARKS.md), and a scan reads a quarter.
*/

use super::dot::dot;

/// Divides a vector by its length; returns `false` if its length is 0.
pub fn normalize(values: &mut [f32]) -> bool {
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length != 0.0 {
        values.iter_mut().for_each(|value| *value /= length);
    }
    length != 0.0
}

/// A vector in bytes: its values are the bytes multiplied by [`Self::scale`].
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// One byte a dimension.
    pub values: Vec<i8>,
    /// The largest absolute value divided by 127.
    pub scale: f32,
}

impl Quantized {
    /// Rounds a vector.
    pub fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
        Self { values: vector.iter().map(|value| (value / scale).round() as i8).collect(), scale }
    }

    /// Encodes the vector: the scale, little-endian, then the values.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.scale.to_le_bytes().into_iter().chain(self.values.iter().map(|value| value.cast_unsigned())).collect()
    }

    /// Decodes a stored vector; `None` if it has another size.
    pub fn from_bytes(bytes: &[u8], dimensions: usize) -> Option<Self> {
        let (scale, values) = bytes.split_first_chunk::<4>()?;
        let scale = f32::from_le_bytes(*scale);
        // Vectors have length 1, so no value is larger.
        let fits = values.len() == dimensions && (0.0..=1.0).contains(&scale);
        fits.then(|| Self { values: values.iter().map(|value| value.cast_signed()).collect(), scale })
    }
}

/// Many vectors in sequence.
#[derive(Clone, Debug)]
pub struct Matrix {
    dimensions: usize,
    entries: Vec<i64>,
    scales: Vec<f32>,
    values: Vec<i8>,
}

impl Matrix {
    /// Creates an empty matrix.
    pub fn new(dimensions: usize) -> Self {
        Self { dimensions, entries: Vec::new(), scales: Vec::new(), values: Vec::new() }
    }

    /// Adds the stored vector of an entry; returns `false` if it has the wrong size.
    pub fn add(&mut self, entry: i64, stored: &[u8]) -> bool {
        let Some(vector) = Quantized::from_bytes(stored, self.dimensions) else { return false };
        self.entries.push(entry);
        self.scales.push(vector.scale);
        self.values.extend(vector.values);
        true
    }

    /// Number of values of each vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// `true` if there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the cosine between a vector and every one of these, with its entry. An entry comes once for each of its passages.
    pub fn scan<'a>(&'a self, vector: &[f32]) -> impl Iterator<Item = (i64, f32)> + use<'a> {
        let query = Quantized::of(vector);
        let rows = self.values.chunks_exact(self.dimensions.max(1));
        rows.zip(&self.scales)
            .zip(&self.entries)
            .map(move |((row, scale), entry)| (*entry, (dot(&query.values, row) as f32 * query.scale * scale).clamp(-1.0, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unit(values: &[f32]) -> Vec<f32> {
        let length = values.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        values.iter().map(|value| value / length).collect()
    }

    proptest! {
        #[test]
        fn close_to_the_exact_cosine(
            one in proptest::collection::vec(-1.0_f32..1.0, 384),
            other in proptest::collection::vec(-1.0_f32..1.0, 384),
        ) {
            let (one, other) = (unit(&one), unit(&other));
            let exact: f32 = one.iter().zip(&other).map(|(one, other)| one * other).sum();
            let mut matrix = Matrix::new(384);
            prop_assert!(matrix.add(7, &Quantized::of(&other).to_bytes()));
            let found: Vec<(i64, f32)> = matrix.scan(&one).collect();
            prop_assert_eq!(found.len(), 1);
            prop_assert!((found[0].1 - exact).abs() < 0.01 && found[0].0 == 7, "{} is not {exact}", found[0].1);
        }
    }

    #[test]
    fn other_sizes_are_not_taken() {
        let mut matrix = Matrix::new(384);
        assert!(!matrix.add(1, &Quantized::of(&[1.0; 3]).to_bytes()));
        assert!(!matrix.add(1, &[]) && matrix.is_empty());
        assert_eq!(Quantized::of(&[0.0; 4]).values, [0; 4]);
    }
}
