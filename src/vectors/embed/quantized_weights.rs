/*!
The weights, quantized, in a file of 11 MB beside the published one of 91: who searches once reads a quarter, and computes nothing.

The file is made at the installation. Where there is none, or it is damaged or of another kind of processor, the published weights are read:
the vectors are the same.
*/

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::Path;

use safetensors::{Dtype, View};

use super::EmbedError;
use super::encoder::{Encoder, EncoderSource, HIDDEN, POSITIONS};
use super::install::WEIGHTS;
use super::linear::{Integers, QuantizedLinear, largest_unit};
use super::published::{CHECKSUM, PublishedWeights};
use super::weights::Weights;
use ctxbridge_common::files;

/// The file of quantized weights.
pub const QUANTIZED: &str = "quantized.safetensors";
/// Name of the remark in its header.
const REMARK: &str = "source, largest unit and crc32";

/// An open file of quantized weights.
pub(super) struct QuantizedWeights {
    weights: Weights,
    largest_unit: i8,
}

impl QuantizedWeights {
    /// Opens the file in a model's folder; `None` if it is not for these weights and this processor.
    pub fn open(folder: &Path, largest_unit: i8) -> Option<Self> {
        let weights = Weights::open(&folder.join(QUANTIZED)).ok()?;
        weights.remark(REMARK)?.starts_with(&of(largest_unit)).then_some(Self { weights, largest_unit })
    }

    /// `true` if what was read of the encoder and its positions is what was written.
    pub fn is_whole(&self) -> bool {
        self.weights.remark(REMARK) == Some(&remark(self.largest_unit, self.weights.checksum()))
    }
}

impl EncoderSource for QuantizedWeights {
    fn linear(&mut self, name: &str, inputs: usize, outputs: usize) -> Result<QuantizedLinear, EmbedError> {
        let units = self.weights.integers(&format!("{name}.units"), &[outputs, inputs])?;
        let mut row = |part: &str| self.weights.tensor(&format!("{name}.{part}"), &[outputs]);
        Ok(QuantizedLinear { units, scales: row("scales")?, sums: row("sums")?, bias: row("bias")? })
    }

    fn attention(&mut self, name: &str) -> Result<QuantizedLinear, EmbedError> {
        self.linear(name, HIDDEN, 3 * HIDDEN)
    }

    fn numbers(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EmbedError> {
        self.weights.tensor(name, shape)
    }

    fn positions(&mut self) -> Result<Vec<f32>, EmbedError> {
        self.weights.tensor("positions", &[POSITIONS, HIDDEN])
    }
}

/// `true` if a model's folder has a whole file for these weights and this processor.
pub(super) fn is_present(folder: &Path) -> bool {
    QuantizedWeights::open(folder, largest_unit(&Integers::new()))
        .is_some_and(|mut source| Encoder::read(&mut source).is_ok() && source.positions().is_ok() && source.is_whole())
}

/// Makes the file from the published weights in a model's folder.
///
/// # Errors
/// If the published weights are damaged, or the file cannot be written.
pub(super) fn write(folder: &Path) -> Result<(), EmbedError> {
    let largest_unit = largest_unit(&Integers::new());
    let mut weights = Weights::open(&folder.join(WEIGHTS))?;
    let published = PublishedWeights { weights: &mut weights, largest_unit };
    let mut recorder = Recorder { published, tensors: Vec::new(), checksum: crc32fast::Hasher::new() };
    Encoder::read(&mut recorder)?;
    recorder.positions()?;
    recorder.published.check()?;
    let path = folder.join(QUANTIZED);
    let remarks = HashMap::from([(REMARK.to_owned(), remark(largest_unit, recorder.checksum.finalize()))]);
    let tensors = recorder.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor));
    let written = safetensors::serialize(tensors, Some(remarks)).map_err(io::Error::other);
    let written = written.and_then(|bytes| files::replace(&path, &bytes));
    written.map_err(|cause| EmbedError::Write { path, cause })
}

/// A tensor that goes into the file.
struct RecordedTensor {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for &RecordedTensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Keeps what is read of the published weights.
struct Recorder<'w> {
    published: PublishedWeights<'w>,
    tensors: Vec<RecordedTensor>,
    checksum: crc32fast::Hasher,
}

impl Recorder<'_> {
    fn keep(&mut self, name: String, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) {
        self.checksum.update(&bytes);
        self.tensors.push(RecordedTensor { name, dtype, shape: shape.to_vec(), bytes });
    }

    fn keep_numbers(&mut self, name: String, shape: &[usize], numbers: &[f32]) {
        self.keep(name, Dtype::F32, shape, numbers.iter().flat_map(|number| number.to_le_bytes()).collect());
    }

    fn keep_linear(&mut self, name: &str, linear: QuantizedLinear) -> QuantizedLinear {
        let (outputs, inputs) = (linear.bias.len(), linear.units.len() / linear.bias.len());
        let units = linear.units.iter().map(|unit| unit.cast_unsigned()).collect();
        self.keep(format!("{name}.units"), Dtype::I8, &[outputs, inputs], units);
        for (part, numbers) in [("scales", &linear.scales), ("sums", &linear.sums), ("bias", &linear.bias)] {
            self.keep_numbers(format!("{name}.{part}"), &[outputs], numbers);
        }
        linear
    }
}

impl EncoderSource for Recorder<'_> {
    fn linear(&mut self, name: &str, inputs: usize, outputs: usize) -> Result<QuantizedLinear, EmbedError> {
        let linear = self.published.linear(name, inputs, outputs)?;
        Ok(self.keep_linear(name, linear))
    }

    fn attention(&mut self, name: &str) -> Result<QuantizedLinear, EmbedError> {
        let linear = self.published.attention(name)?;
        Ok(self.keep_linear(name, linear))
    }

    fn numbers(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EmbedError> {
        let numbers = self.published.numbers(name, shape)?;
        self.keep_numbers(name.to_owned(), shape, &numbers);
        Ok(numbers)
    }

    fn positions(&mut self) -> Result<Vec<f32>, EmbedError> {
        let positions = self.published.positions()?;
        self.keep_numbers("positions".to_owned(), &[POSITIONS, HIDDEN], &positions);
        Ok(positions)
    }
}

/// Which published weights these are of, and how they were quantized.
fn of(largest_unit: i8) -> String {
    format!("{CHECKSUM:08x} {largest_unit} ")
}

/// The same, and the CRC-32 of all tensors in the order in which they are read.
fn remark(largest_unit: i8, checksum: u32) -> String {
    format!("{}{checksum:08x}", of(largest_unit))
}
