//! The weights as they were published, in 32-bit floats: they are quantized as they are read.

use super::EmbedError;
use super::encoder::{EncoderSource, HEAD, HIDDEN, POSITIONS};
use super::linear::QuantizedLinear;
use super::weights::Weights;

/// CRC-32 of all tensors that are read, in the order in which they are.
const CHECKSUM: u32 = 0x305c_97bd;

/// Embeddings of each token's kind and position.
const KINDS: &str = "embeddings.token_type_embeddings.weight";
const POSITION_EMBEDDINGS: &str = "embeddings.position_embeddings.weight";

/// The published weights of an encoder.
pub(super) struct PublishedWeights<'w> {
    pub weights: &'w mut Weights,
    pub largest_unit: i8,
}

impl PublishedWeights<'_> {
    /// Fails if what was read of the encoder and its positions is not what was published.
    ///
    /// # Errors
    /// If the weights are damaged.
    pub fn check(&self) -> Result<(), EmbedError> {
        match self.weights.checksum() {
            CHECKSUM => Ok(()),
            found => Err(self.weights.damaged(format!("the checksum of its weights is {found:08x}, not {CHECKSUM:08x}"))),
        }
    }

    /// `true` if these may be what positions were made of: another model of this shape has others.
    pub fn has_positions(&mut self, positions: &[f32]) -> bool {
        let names = [(KINDS, 2), (POSITION_EMBEDDINGS, POSITIONS)];
        let first_rows = names.map(|(name, count)| {
            let mut row = Vec::new();
            self.weights.rows(name, [count, HIDDEN]).and_then(|rows| self.weights.row(&rows, 0, &mut row)).map(|()| row)
        });
        matches!(first_rows, [Ok(kind), Ok(position)] if position.iter().zip(&kind).map(|(a, b)| a + b).eq(positions[..HIDDEN].iter().copied()))
    }

    /// Weights and bias of a linear layer.
    fn matrix(&mut self, name: &str, inputs: usize, outputs: usize) -> Result<(Vec<f32>, Vec<f32>), EmbedError> {
        let weights = self.weights.tensor(&format!("{name}.weight"), &[outputs, inputs])?;
        Ok((weights, self.weights.tensor(&format!("{name}.bias"), &[outputs])?))
    }
}

impl EncoderSource for PublishedWeights<'_> {
    fn linear(&mut self, name: &str, inputs: usize, outputs: usize) -> Result<QuantizedLinear, EmbedError> {
        let (weights, bias) = self.matrix(name, inputs, outputs)?;
        Ok(QuantizedLinear::of(&weights, bias, self.largest_unit))
    }

    fn attention(&mut self, name: &str) -> Result<QuantizedLinear, EmbedError> {
        let (mut all, mut biases) = (Vec::with_capacity(3 * HIDDEN * HIDDEN), Vec::with_capacity(3 * HIDDEN));
        for (part, scale) in [("query", (HEAD as f32).sqrt().recip()), ("key", 1.0), ("value", 1.0)] {
            let (weights, bias) = self.matrix(&format!("{name}.{part}"), HIDDEN, HIDDEN)?;
            // How well a query fits is measured in units of the root of its length: here once, not for each pair of tokens.
            all.extend(weights.iter().map(|weight| weight * scale));
            biases.extend(bias.iter().map(|bias| bias * scale));
        }
        Ok(QuantizedLinear::of(&all, biases, self.largest_unit))
    }

    fn numbers(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EmbedError> {
        self.weights.tensor(name, shape)
    }

    fn positions(&mut self) -> Result<Vec<f32>, EmbedError> {
        let kinds = self.weights.tensor(KINDS, &[2, HIDDEN])?;
        let mut positions = self.weights.tensor(POSITION_EMBEDDINGS, &[POSITIONS, HIDDEN])?;
        for position in positions.chunks_exact_mut(HIDDEN) {
            position.iter_mut().zip(&kinds).for_each(|(number, kind)| *number += kind);
        }
        Ok(positions)
    }
}
