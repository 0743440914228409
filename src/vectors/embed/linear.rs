/*!
Linear layers in 8-bit integers: 3.5 times as fast as 32-bit floats where the processor has instructions for it, and nine tenths of
the work of the model.

Weights have a scale for each output. Inputs have a scale and a zero for each row, that is, each token, so a text's vector does not
depend on what else is computed with it. The products are exact, so the vector does not depend on the processor either. There is one
exception: where products could overflow 16 bits on their way ([`GemmExecutor::may_saturate`]), weights have one bit less.
*/

use rten_gemm::{GemmError, GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_simd::{Isa, SimdOp};
use rten_tensor::NdTensorView;
use rten_vecmath::MinMax;

/// The products of integers.
pub(super) type Integers = GemmExecutor<u8, i8, i32>;

/// The largest integer that a weight is quantized to.
pub(super) fn largest_unit(integers: &Integers) -> i8 {
    if integers.may_saturate() { 63 } else { 127 }
}

/// Weights and bias in integers, one row after the other.
pub(super) struct QuantizedLinear {
    /// Outputs by inputs.
    pub units: Vec<i8>,
    /// Value of a quantized weight of 1, for each output.
    pub scales: Vec<f32>,
    /// Result of an input of 1 in every place, for each output. It is subtracted once for each unit that zero is above zero.
    pub sums: Vec<f32>,
    pub bias: Vec<f32>,
}

impl QuantizedLinear {
    /// Quantizes weights as they are published, outputs by inputs.
    pub fn of(weights: &[f32], bias: Vec<f32>, largest_unit: i8) -> Self {
        let (outputs, inputs) = (bias.len(), weights.len() / bias.len());
        let mut units = Vec::with_capacity(weights.len());
        let mut scales = Vec::with_capacity(outputs);
        let mut sums = Vec::with_capacity(outputs);
        for row in weights.chunks_exact(inputs) {
            let (least, greatest) = MinMax::new(row).dispatch();
            let scale = least.abs().max(greatest.abs()).max(f32::MIN_POSITIVE) / f32::from(largest_unit);
            let sum = Rounding { row, inverse: scale.recip(), units: &mut units }.dispatch();
            scales.push(scale);
            sums.push(scale * sum as f32);
        }
        Self { units, scales, sums, bias }
    }
}

/// Weights and bias, laid out for the product.
pub(super) struct Linear {
    /// Inputs by outputs.
    weights: PackedBMatrix<i8>,
    inputs: usize,
    scales: Vec<f32>,
    sums: Vec<f32>,
    bias: Vec<f32>,
}

impl Linear {
    /// Lays out weights. Must be used with as many threads as it was made with.
    pub fn new(integers: &Integers, quantized: QuantizedLinear) -> Self {
        let QuantizedLinear { units, scales, sums, bias } = quantized;
        let (outputs, inputs) = (bias.len(), units.len() / bias.len());
        let weights = integers.prepack_b(NdTensorView::from_data([outputs, inputs], &units[..]).transposed());
        Self { weights, inputs, scales, sums, bias }
    }

    /// Number of outputs for a row.
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Computes the outputs for rows of inputs, into `outputs` or added to what is there.
    ///
    /// # Errors
    /// If the shapes do not fit, which is a bug.
    pub fn apply(
        &self,
        integers: &Integers,
        rows: &mut QuantizedRows,
        way: OutputMode,
        outputs: &mut [f32],
    ) -> Result<(), GemmError> {
        let QuantizedRows { units, scales, zeros, products } = rows;
        let inputs = NdTensorView::from_data([scales.len(), self.inputs], &units[..]);
        products.resize(scales.len() * self.outputs(), 0);
        // The zeros are not left to the product: with one for each row, as late as rten-gemm 0.27 takes those of other rows.
        integers.gemm(products, GemmInputA::Unpacked(inputs), GemmInputB::Packed(&self.weights), GemmOptions::default())?;
        let rows = scales.iter().zip(zeros);
        let places = products.chunks_exact(self.outputs()).zip(outputs.chunks_exact_mut(self.outputs()));
        for ((products, outputs), (scale, zero)) in places.zip(rows) {
            Unscale { linear: self, products, scale: *scale, zero: *zero, way, outputs }.dispatch();
        }
        Ok(())
    }
}

/// Treatment of existing outputs: overwritten, or added to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputMode {
    Set,
    Add,
}

/// Rows of inputs in integers.
#[derive(Default)]
pub(super) struct QuantizedRows {
    units: Vec<u8>,
    /// Value of the integer 1, for each row.
    scales: Vec<f32>,
    /// Integer that represents 0, for each row.
    zeros: Vec<f32>,
    /// Buffer for the products.
    products: Vec<i32>,
}

impl QuantizedRows {
    /// Quantizes rows that have `length` numbers each.
    pub fn set(&mut self, numbers: &[f32], length: usize) {
        self.units.clear();
        self.scales.clear();
        self.zeros.clear();
        self.units.reserve(numbers.len());
        for row in numbers.chunks_exact(length) {
            let (least, greatest) = MinMax::new(row).dispatch();
            let (least, greatest) = (least.min(0.0), greatest.max(0.0));
            let scale = ((greatest - least) / 255.0).max(f32::MIN_POSITIVE);
            let zero = (-least / scale).round();
            Scale { row, inverse: scale.recip(), zero, units: &mut self.units }.dispatch();
            self.scales.push(scale);
            self.zeros.push(zero);
        }
    }
}

/// Adds the integers that are nearest to `row × inverse`, and returns their sum. It is a [`SimdOp`], so that its loop is compiled
/// for each kind of processor and the best one is chosen.
struct Rounding<'a> {
    row: &'a [f32],
    inverse: f32,
    units: &'a mut Vec<i8>,
}

impl SimdOp for Rounding<'_> {
    type Output = i32;

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) -> i32 {
        let begin = self.units.len();
        self.units.extend(self.row.iter().map(|weight| (weight * self.inverse).round_ties_even() as i8));
        self.units[begin..].iter().map(|unit| i32::from(*unit)).sum()
    }
}

/// Adds the integers that are nearest to `row × inverse + zero`. rten-vecmath has the same operation, but leaves it to the compiler
/// to fuse it into one loop. Where it is not fused, it takes a fifth of all time.
struct Scale<'a> {
    row: &'a [f32],
    inverse: f32,
    zero: f32,
    units: &'a mut Vec<u8>,
}

impl SimdOp for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let begin = self.units.len();
        self.units.resize(begin + self.row.len(), 0);
        for (unit, number) in self.units[begin..].iter_mut().zip(self.row) {
            *unit = (number * self.inverse + (self.zero + 0.5)) as u8;
        }
    }
}

/// Converts integers back to numbers, for one row.
struct Unscale<'a> {
    linear: &'a Linear,
    products: &'a [i32],
    scale: f32,
    zero: f32,
    way: OutputMode,
    outputs: &'a mut [f32],
}

impl SimdOp for Unscale<'_> {
    type Output = ();

    #[inline(always)]
    fn eval<I: Isa>(self, _: I) {
        let Self { linear, products, scale, zero, way, outputs } = self;
        // By index, over slices of one length: of iterators zipped this deep the compiler makes no vectors.
        let count = outputs.len();
        let (products, outputs) = (&products[..count], &mut outputs[..count]);
        let (scales, sums, bias) = (&linear.scales[..count], &linear.sums[..count], &linear.bias[..count]);
        for at in 0..count {
            let value = (products[at] as f32 * scales[at] - zero * sums[at]) * scale + bias[at];
            outputs[at] = if way == OutputMode::Add { outputs[at] + value } else { value };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_product_but_for_the_rounding(
            (outputs, inputs, count) in (1_usize..70, 1_usize..90, 1_usize..40),
            seed in any::<u64>(),
        ) {
            let mut state = seed;
            let mut number = || {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                (state >> 40) as f32 / (1 << 23) as f32 - 0.7
            };
            let mut numbers = |count: usize| Vec::from_iter((0..count).map(|_| number()));
            let (weights, bias, values) = (numbers(outputs * inputs), numbers(outputs), numbers(count * inputs));
            let integers = Integers::new();
            let linear = Linear::new(&integers, QuantizedLinear::of(&weights, bias.clone(), largest_unit(&integers)));
            let mut rows = QuantizedRows::default();
            rows.set(&values, inputs);
            let mut found = vec![1.0; count * outputs];
            linear.apply(&integers, &mut rows, OutputMode::Add, &mut found).unwrap();
            for (row, found) in values.chunks(inputs).zip(found.chunks(outputs)) {
                for ((weights, bias), found) in weights.chunks(inputs).zip(&bias).zip(found) {
                    let expected: f32 = 1.0 + bias + row.iter().zip(weights).map(|(a, b)| a * b).sum::<f32>();
                    // Half a step of the one times the other, in every place.
                    let steps = inputs as f32 * (1.3 / 127.0 + 2.0 / 255.0);
                    prop_assert!((found - expected).abs() <= steps, "{found} is not {expected}");
                }
            }
            linear.apply(&integers, &mut rows, OutputMode::Set, &mut found).unwrap();
            let mut again = vec![1.0; count * outputs];
            linear.apply(&integers, &mut rows, OutputMode::Add, &mut again).unwrap();
            prop_assert!(found.iter().zip(&again).all(|(set, added)| (set + 1.0 - added).abs() < 1e-4));
        }
    }

    #[test]
    fn rows_of_zeros_and_of_one_number_are_exact() {
        let integers = Integers::new();
        let quantized = QuantizedLinear::of(&[1.0, -1.0, 0.0, 0.0], vec![0.5, 0.25], largest_unit(&integers));
        let linear = Linear::new(&integers, quantized);
        let mut rows = QuantizedRows::default();
        rows.set(&[0.0, 0.0, -3.0, -3.0, 2.0, -2.0], 2);
        let mut found = [0.0; 6];
        linear.apply(&integers, &mut rows, OutputMode::Set, &mut found).unwrap();
        for (found, expected) in found.iter().zip([0.5, 0.25, 0.5, 0.25, 4.5, 0.25]) {
            assert!((found - expected).abs() < 0.02, "{found} is not {expected}");
        }
    }
}
