//! Division of vectors into lists: spherical k-means (Dhillon and Modha 2001) over a sample.

use crate::dot::dots;
use crate::{Quantized, normalize};

/// Number of times that centers move. More made no measurable difference.
const KMEANS_ROUNDS: usize = 6;
/// Number of vectors in the sample for each list.
pub(super) const SAMPLES_PER_LIST: usize = 32;

/// Direction of each list's center, rounded as vectors are.
#[derive(Clone, Debug)]
pub(super) struct Centroids {
    dimensions: usize,
    scales: Vec<f32>,
    values: Vec<i8>,
}

impl Centroids {
    /// Creates an empty set.
    pub fn new(dimensions: usize) -> Self {
        Self { dimensions, scales: Vec::new(), values: Vec::new() }
    }

    /// Adds a center.
    pub fn push(&mut self, center: &Quantized) {
        self.scales.push(center.scale);
        self.values.extend(&center.values);
    }

    /// Number of centers.
    pub fn len(&self) -> usize {
        self.scales.len()
    }

    /// Returns the scale and the values of a center.
    pub fn get(&self, list: usize) -> (f32, &[i8]) {
        (self.scales[list], &self.values[list * self.dimensions..][..self.dimensions])
    }

    /// Trains `lists` centers, so that every vector of a sample is near one. The same sample gives the same centers.
    pub fn train(sample: &[Quantized], dimensions: usize, lists: usize) -> Self {
        let mut centers = Self::new(dimensions);
        let lists = lists.min(sample.len());
        for list in 0..lists {
            centers.push(&sample[list * sample.len() / lists]);
        }
        let mut products = Vec::new();
        for _ in 0..KMEANS_ROUNDS {
            let mut sums = vec![0.0_f32; lists * dimensions];
            let mut farthest: Vec<(f32, usize)> = Vec::with_capacity(sample.len());
            let mut is_empty = vec![true; lists];
            for (number, vector) in sample.iter().enumerate() {
                let (list, cosine) = centers.nearest(vector, &mut products);
                is_empty[list] = false;
                farthest.push((cosine, number));
                let sum = &mut sums[list * dimensions..][..dimensions];
                sum.iter_mut().zip(&vector.values).for_each(|(sum, value)| *sum += f32::from(*value) * vector.scale);
            }
            // A list that nothing is in begins anew where a vector is far from its own.
            farthest.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
            let mut farthest = farthest.into_iter();
            let mut moved = Self::new(dimensions);
            for (list, sum) in sums.chunks_exact_mut(dimensions).enumerate() {
                if is_empty[list] || !normalize(sum) {
                    let (_, number) = farthest.next().unwrap_or_default();
                    moved.push(&sample[number]);
                } else {
                    moved.push(&Quantized::of(sum));
                }
            }
            centers = moved;
        }
        centers
    }

    /// Returns the list that a vector belongs to, and its cosine with the list's center.
    pub fn nearest(&self, vector: &Quantized, products: &mut Vec<i32>) -> (usize, f32) {
        dots(&vector.values, &self.values, products);
        let cosines = products.iter().zip(&self.scales).map(|(product, scale)| *product as f32 * scale);
        let mut best = (0, f32::NEG_INFINITY);
        for (list, cosine) in cosines.enumerate() {
            if cosine > best.1 {
                best = (list, cosine);
            }
        }
        (best.0, best.1 * vector.scale)
    }

    /// Returns the lists in the order to search them, with their cosines.
    pub fn order(&self, query: &Quantized) -> Vec<(usize, f32)> {
        let mut products = Vec::new();
        dots(&query.values, &self.values, &mut products);
        let cosines = products.iter().zip(&self.scales).map(|(product, scale)| *product as f32 * scale * query.scale);
        let mut order: Vec<(usize, f32)> = cosines.enumerate().collect();
        order.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        order
    }
}
