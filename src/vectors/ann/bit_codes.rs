//! A bit a dimension: the side of its list's center on which a vector is. From these bits and the query, cosines are estimated.
//!
//! This is the estimator of RaBitQ (Gao and Long 2024) without its rotation. A vector's bits give its direction, scaled by how well
//! they fit it, so that the estimate is right on average. The query keeps [`QUERY_BITS`] bits, since rounding it to one bit
//! saves nothing.

use rten_simd::{Isa, SimdOp};

/// Number of vectors that are estimated at once, a byte each in a register.
pub(super) const LANES: usize = 32;
/// Bits of each number of the query.
const QUERY_BITS: usize = 4;
/// The largest of these numbers.
const MAX_QUERY_LEVEL: f32 = 7.0;
/// Bytes of a code whose bits can be counted in a byte: 8 bits each.
const MAX_COUNTED_BYTES: usize = 31;

/// Bytes of a code.
pub(super) fn code_bytes(dimensions: usize) -> usize {
    dimensions.div_ceil(8)
}

/// Writes the signs of a residual into a lane of a block, and returns the factor for a sum of signs.
pub(super) fn encode(residual: &[f32], block: &mut [u8], lane: usize) -> f32 {
    let (mut squares, mut sizes) = (0.0_f32, 0.0_f32);
    for (bits, numbers) in block.chunks_exact_mut(LANES).zip(residual.chunks(8)) {
        bits[lane] = 0;
        for (bit, number) in numbers.iter().enumerate() {
            bits[lane] |= u8::from(*number > 0.0) << bit;
            squares += number * number;
            sizes += number.abs();
        }
    }
    if sizes > 0.0 { squares / sizes } else { 0.0 }
}

/// A query as planes of bits: the first has the lowest bit of every number, the last, which counts negative, the sign.
pub(super) struct BitPlanes {
    /// For eight dimensions a byte of each plane.
    planes: Vec<[u8; QUERY_BITS]>,
    /// Value of the integer 1.
    step: f32,
    /// The sum of all numbers.
    total: f32,
}

impl BitPlanes {
    /// Quantizes a query's numbers.
    pub fn of(query: &[f32]) -> Self {
        let largest = query.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let step = if largest > 0.0 { largest / MAX_QUERY_LEVEL } else { 1.0 };
        let mut planes = vec![[0; QUERY_BITS]; code_bytes(query.len())];
        let mut total = 0.0;
        for (at, number) in query.iter().enumerate() {
            let rounded = (number / step).round();
            total += rounded * step;
            let bits = (rounded as i8).cast_unsigned();
            for (plane, byte) in planes[at / 8].iter_mut().enumerate() {
                *byte |= (bits >> plane & 1) << (at % 8);
            }
        }
        Self { planes, step, total }
    }

    /// Returns for each code of a block the sum of the query's numbers, each with the code's sign.
    pub fn sums(&self, block: &[u8]) -> [f32; LANES] {
        let counted = BitCount { planes: &self.planes, block }.dispatch();
        counted.map(|count| 2.0 * self.step * count as f32 - self.total)
    }
}

/// Sums of the query's numbers where a code has a 1.
struct BitCount<'a> {
    planes: &'a [[u8; QUERY_BITS]],
    block: &'a [u8],
}

impl SimdOp for BitCount<'_> {
    type Output = [i32; LANES];

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) -> [i32; LANES] {
        let mut sums = [0_i32; LANES];
        let (columns, _) = self.block.as_chunks::<LANES>();
        for (columns, planes) in columns.chunks(MAX_COUNTED_BYTES).zip(self.planes.chunks(MAX_COUNTED_BYTES)) {
            // One by one, so that each stays in a register.
            let [mut ones, mut twos, mut fours, mut eights] = [[0_u8; LANES]; QUERY_BITS];
            for (column, [one, two, four, eight]) in columns.iter().zip(planes) {
                count(&mut ones, column, *one);
                count(&mut twos, column, *two);
                count(&mut fours, column, *four);
                count(&mut eights, column, *eight);
            }
            for (lane, sum) in sums.iter_mut().enumerate() {
                let [ones, twos, fours, eights] = [ones, twos, fours, eights].map(|counts| i32::from(counts[lane]));
                *sum += ones + 2 * twos + 4 * fours - 8 * eights;
            }
        }
        sums
    }
}

/// Counts the bits that are wanted in each lane.
#[inline(always)]
fn count(counts: &mut [u8; LANES], column: &[u8; LANES], wanted: u8) {
    for (count, byte) in counts.iter_mut().zip(column) {
        *count += (byte & wanted).count_ones() as u8;
    }
}
