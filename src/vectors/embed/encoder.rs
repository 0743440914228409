/*!
The encoder of BERT (Devlin et al. 2019, section 3) in the shape of MiniLM-L6-H384: six layers of attention and a network of two
linear layers. The output of each is added to its input and brought to mean 0 and variance 1.

One text at a time and no padding, so nothing is computed in vain. The linear layers are as fast with 16 rows as with hundreds.
*/

use rten_gemm::{GemmError, GemmExecutor, GemmInputA, GemmInputB, GemmOptions};
use rten_simd::{SimdOp, SimdUnaryOp};
use rten_tensor::NdTensorView;
use rten_vecmath::{Gelu, Normalize, NormalizeOptions, Softmax, Sum, SumSquareSub};

use super::EmbedError;
use super::linear::{Integers, Linear, OutputMode, QuantizedRows};
use super::weights::Weights;

/// Numbers for each token.
pub(super) const HIDDEN: usize = 384;
const INNER: usize = 1536;
const LAYERS: usize = 6;
const HEADS: usize = 12;
const HEAD: usize = HIDDEN / HEADS;
/// Added to the variance, so that equal numbers are not divided by zero.
const EPSILON: f32 = 1e-12;

/// Rows that go through linear layers at once. With enough of them, weights in the cache are used often; with few enough, the
/// outputs are still in the cache when they are used.
const BLOCK_ROWS: usize = 64;

/// Weights of the encoder.
pub(super) struct Encoder {
    first: Norm,
    layers: Vec<Layer>,
}

struct Layer {
    /// Queries, keys and values, in sequence.
    attention: Linear,
    joined: Linear,
    after_attention: Norm,
    inner: Linear,
    outer: Linear,
    after_network: Norm,
}

struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Encoder {
    /// Reads the weights.
    ///
    /// # Errors
    /// If they are not there or not of the shape of this encoder.
    pub fn read(weights: &mut Weights) -> Result<Self, EmbedError> {
        let integers = Integers::new();
        let first = norm(weights, "embeddings.LayerNorm")?;
        let layers = (0..LAYERS).map(|number| layer(weights, &integers, number)).collect::<Result<_, _>>()?;
        Ok(Self { first, layers })
    }

    /// Returns a row for each token, from the sum of its embeddings.
    ///
    /// # Errors
    /// If shapes do not fit, which is a bug.
    pub fn run(&self, mut tokens: Vec<f32>) -> Result<Vec<f32>, GemmError> {
        // Made here since they cannot go from thread to thread. It costs nothing.
        let (integers, floats) = (Integers::new(), GemmExecutor::new());
        self.first.apply(&mut tokens);
        let mut room = ScratchBuffers::default();
        for layer in &self.layers {
            layer.attend(&integers, &floats, &tokens, &mut room)?;
            let ScratchBuffers { rows, mixed, inner, .. } = &mut room;
            for (mixed, tokens) in mixed.chunks(BLOCK_ROWS * HIDDEN).zip(tokens.chunks_mut(BLOCK_ROWS * HIDDEN)) {
                rows.set(mixed, HIDDEN);
                layer.joined.apply(&integers, rows, OutputMode::Add, tokens)?;
                layer.after_attention.apply(tokens);

                inner.resize(tokens.len() / HIDDEN * INNER, 0.0);
                rows.set(tokens, HIDDEN);
                layer.inner.apply(&integers, rows, OutputMode::Set, inner)?;
                Gelu {}.map_mut(inner.as_mut_slice());
                rows.set(inner, INNER);
                layer.outer.apply(&integers, rows, OutputMode::Add, tokens)?;
                layer.after_network.apply(tokens);
            }
        }
        Ok(tokens)
    }
}

/// Intermediate results. Kept from layer to layer, since new memory costs more than what is done in it.
#[derive(Default)]
struct ScratchBuffers {
    rows: QuantizedRows,
    /// Queries, keys and values of each token.
    projected: Vec<f32>,
    /// Attention weights of the tokens among each other, in one head.
    fit: Vec<f32>,
    /// Output of one head.
    of_head: Vec<f32>,
    mixed: Vec<f32>,
    inner: Vec<f32>,
}

impl Layer {
    /// Computes for each token the sum of all tokens' values, weighted by how well its query fits their keys, in each head.
    fn attend(
        &self,
        integers: &Integers,
        floats: &GemmExecutor,
        tokens: &[f32],
        room: &mut ScratchBuffers,
    ) -> Result<(), GemmError> {
        let count = tokens.len() / HIDDEN;
        let width = self.attention.outputs();
        let ScratchBuffers { rows, projected, fit, of_head, mixed, .. } = room;
        projected.resize(count * width, 0.0);
        fit.resize(count * count, 0.0);
        of_head.resize(count * HEAD, 0.0);
        mixed.resize(count * HIDDEN, 0.0);
        for (tokens, projected) in tokens.chunks(BLOCK_ROWS * HIDDEN).zip(projected.chunks_mut(BLOCK_ROWS * width)) {
            rows.set(tokens, HIDDEN);
            self.attention.apply(integers, rows, OutputMode::Set, projected)?;
        }
        let projected = NdTensorView::from_data([count, width], &projected[..]);
        for head in 0..HEADS {
            let part = |which: usize| {
                let begin = which * HIDDEN + head * HEAD;
                projected.slice((.., begin..begin + HEAD))
            };
            let (queries, keys, values) = (part(0), part(1), part(2));
            let by_key = GemmInputB::Unpacked(keys.transposed());
            floats.gemm(fit, GemmInputA::Unpacked(queries), by_key, GemmOptions::default())?;
            for row in fit.chunks_exact_mut(count) {
                Softmax::new_mut(row).dispatch();
            }
            let fit = GemmInputA::Unpacked(NdTensorView::from_data([count, count], &fit[..]));
            floats.gemm(of_head, fit, GemmInputB::Unpacked(values), GemmOptions::default())?;
            for (row, mixed) in of_head.chunks_exact(HEAD).zip(mixed.chunks_exact_mut(HIDDEN)) {
                mixed[head * HEAD..(head + 1) * HEAD].copy_from_slice(row);
            }
        }
        Ok(())
    }
}

impl Norm {
    /// Normalizes each row by itself (Ba et al. 2016).
    fn apply(&self, tokens: &mut [f32]) {
        for row in tokens.chunks_exact_mut(HIDDEN) {
            let mean = Sum::new(row).dispatch() / HIDDEN as f32;
            let variance = SumSquareSub::new(row, mean).dispatch() / HIDDEN as f32;
            let options = NormalizeOptions {
                pre_scale_bias: mean,
                scale: (variance + EPSILON).sqrt().recip(),
                element_scale: Some(&self.weight),
                element_bias: Some(&self.bias),
                ..NormalizeOptions::default()
            };
            Normalize::new_mut(row, options).dispatch();
        }
    }
}

fn layer(weights: &mut Weights, integers: &Integers, number: usize) -> Result<Layer, EmbedError> {
    let name = |part: &str| format!("encoder.layer.{number}.{part}");
    let mut linear = |part: &str, inputs: usize, outputs: usize| {
        let (matrix, bias) = matrix(weights, &name(part), inputs, outputs)?;
        Ok::<_, EmbedError>(Linear::new(integers, &matrix, bias))
    };
    let joined = linear("attention.output.dense", HIDDEN, HIDDEN)?;
    let inner = linear("intermediate.dense", HIDDEN, INNER)?;
    let outer = linear("output.dense", INNER, HIDDEN)?;
    let (mut all, mut biases) = (Vec::with_capacity(3 * HIDDEN * HIDDEN), Vec::with_capacity(3 * HIDDEN));
    for (part, scale) in [("query", (HEAD as f32).sqrt().recip()), ("key", 1.0), ("value", 1.0)] {
        let (matrix, bias) = matrix(weights, &name(&format!("attention.self.{part}")), HIDDEN, HIDDEN)?;
        // How well a query fits is measured in units of the root of its length: here once, not for each pair of tokens.
        all.extend(matrix.iter().map(|weight| weight * scale));
        biases.extend(bias.iter().map(|bias| bias * scale));
    }
    Ok(Layer {
        attention: Linear::new(integers, &all, biases),
        joined,
        after_attention: norm(weights, &name("attention.output.LayerNorm"))?,
        inner,
        outer,
        after_network: norm(weights, &name("output.LayerNorm"))?,
    })
}

/// Weights and bias of a linear layer.
fn matrix(weights: &mut Weights, name: &str, inputs: usize, outputs: usize) -> Result<(Vec<f32>, Vec<f32>), EmbedError> {
    Ok((weights.tensor(&format!("{name}.weight"), &[outputs, inputs])?, weights.tensor(&format!("{name}.bias"), &[outputs])?))
}

fn norm(weights: &mut Weights, name: &str) -> Result<Norm, EmbedError> {
    let mut part = |part: &str| weights.tensor(&format!("{name}.{part}"), &[HIDDEN]);
    Ok(Norm { weight: part("weight")?, bias: part("bias")? })
}
