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
use super::linear::{Integers, Linear, OutputMode, QuantizedLinear, QuantizedRows};

/// Numbers for each token.
pub(super) const HIDDEN: usize = 384;
const INNER: usize = 1536;
const LAYERS: usize = 6;
const HEADS: usize = 12;
pub(super) const HEAD: usize = HIDDEN / HEADS;
/// Rows of the position embeddings.
pub(super) const POSITIONS: usize = 512;
/// Added to the variance, so that equal numbers are not divided by zero.
const EPSILON: f32 = 1e-12;

/// Rows that go through linear layers at once. With enough of them, weights in the cache are used often; with few enough, the
/// outputs are still in the cache when they are used.
const BLOCK_ROWS: usize = 64;

/// The norm before the layers.
const FIRST_NORM: &str = "embeddings.LayerNorm";

/// A source of an encoder's weights.
pub(super) trait EncoderSource {
    /// Reads a linear layer.
    fn linear(&mut self, name: &str, inputs: usize, outputs: usize) -> Result<QuantizedLinear, EmbedError>;

    /// Reads the linear layers of queries, keys and values, as one.
    fn attention(&mut self, name: &str) -> Result<QuantizedLinear, EmbedError>;

    /// Reads a tensor that is not quantized, row by row.
    fn numbers(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EmbedError>;

    /// Reads the embeddings of each token's kind and position.
    fn positions(&mut self) -> Result<Vec<f32>, EmbedError>;
}

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
    pub fn read(source: &mut impl EncoderSource) -> Result<Self, EmbedError> {
        let integers = Integers::new();
        let first = norm(source, FIRST_NORM)?;
        let layers = (0..LAYERS).map(|number| layer(source, &integers, number)).collect::<Result<_, _>>()?;
        Ok(Self { first, layers })
    }

    /// Returns a row for each token, from the sum of its embeddings.
    ///
    /// # Errors
    /// If shapes do not fit, which is a bug.
    pub fn run(&self, mut tokens: Vec<f32>) -> Result<Vec<f32>, GemmError> {
        let mut room = ScratchBuffers::default();
        self.first.apply(&mut tokens);
        for layer in &self.layers {
            layer.run(&mut tokens, &mut room)?;
        }
        Ok(tokens)
    }

    /// Returns what [`Self::run`] does, of weights that are read for it alone. No more than a layer is kept: for the others, new memory costs
    /// more than what is read into it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn run_once(source: &mut impl EncoderSource, mut tokens: Vec<f32>) -> Result<Vec<f32>, EmbedError> {
        let mut room = ScratchBuffers::default();
        norm(source, FIRST_NORM)?.apply(&mut tokens);
        for number in 0..LAYERS {
            layer(source, &room.integers, number)?.run(&mut tokens, &mut room)?;
        }
        Ok(tokens)
    }
}

/// Multipliers and intermediate results: kept from layer to layer, since new memory costs more than what is done in it. Made for each text,
/// since multipliers cannot go from thread to thread.
#[derive(Default)]
struct ScratchBuffers {
    integers: Integers,
    floats: GemmExecutor,
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
    /// Computes the layer, in place.
    fn run(&self, tokens: &mut [f32], room: &mut ScratchBuffers) -> Result<(), GemmError> {
        self.attend(tokens, room)?;
        let ScratchBuffers { integers, rows, mixed, inner, .. } = room;
        for (mixed, tokens) in mixed.chunks(BLOCK_ROWS * HIDDEN).zip(tokens.chunks_mut(BLOCK_ROWS * HIDDEN)) {
            rows.set(mixed, HIDDEN);
            self.joined.apply(integers, rows, OutputMode::Add, tokens)?;
            self.after_attention.apply(tokens);

            inner.resize(tokens.len() / HIDDEN * INNER, 0.0);
            rows.set(tokens, HIDDEN);
            self.inner.apply(integers, rows, OutputMode::Set, inner)?;
            Gelu {}.map_mut(inner.as_mut_slice());
            rows.set(inner, INNER);
            self.outer.apply(integers, rows, OutputMode::Add, tokens)?;
            self.after_network.apply(tokens);
        }
        Ok(())
    }

    /// Computes for each token the sum of all tokens' values, weighted by how well its query fits their keys, in each head.
    fn attend(&self, tokens: &[f32], room: &mut ScratchBuffers) -> Result<(), GemmError> {
        let count = tokens.len() / HIDDEN;
        let width = self.attention.outputs();
        let ScratchBuffers { integers, floats, rows, projected, fit, of_head, mixed, .. } = room;
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

fn layer(source: &mut impl EncoderSource, integers: &Integers, number: usize) -> Result<Layer, EmbedError> {
    let name = |part: &str| format!("encoder.layer.{number}.{part}");
    // In the order of the checksum.
    Ok(Layer {
        joined: Linear::new(integers, source.linear(&name("attention.output.dense"), HIDDEN, HIDDEN)?),
        inner: Linear::new(integers, source.linear(&name("intermediate.dense"), HIDDEN, INNER)?),
        outer: Linear::new(integers, source.linear(&name("output.dense"), INNER, HIDDEN)?),
        attention: Linear::new(integers, source.attention(&name("attention.self"))?),
        after_attention: norm(source, &name("attention.output.LayerNorm"))?,
        after_network: norm(source, &name("output.LayerNorm"))?,
    })
}

fn norm(source: &mut impl EncoderSource, name: &str) -> Result<Norm, EmbedError> {
    let mut part = |part: &str| source.numbers(&format!("{name}.{part}"), &[HIDDEN]);
    Ok(Norm { weight: part("weight")?, bias: part("bias")? })
}
