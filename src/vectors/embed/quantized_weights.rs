/*!
The weights, quantized, in a file of 12 MB beside the published one of 91: who searches once reads a quarter, and computes nothing.

The file is made at the installation. Where there is none, or it is damaged or of another kind of processor, the published weights are read:
the vectors are the same.
*/

use std::borrow::Cow;
use std::io;
use std::path::Path;

use safetensors::{Dtype, View};

use super::EmbedError;
use super::encoder::{Encoder, EncoderSource, HIDDEN, POSITIONS};
use super::linear::{Integers, QuantizedLinear, largest_unit};
use super::published::PublishedWeights;
use super::weights::{WEIGHTS, Weights};
use ctxbridge_common::files;

/// The file of quantized weights.
pub const QUANTIZED: &str = "quantized.safetensors";
/// CRC-32 of all its tensors, in the order in which they are read: with the largest units that processors have. Whoever changes how weights are
/// quantized changes these, and files of before are no longer used.
const CHECKSUMS: [(i8, u32); 2] = [(127, 0xa740_f4c9), (63, 0xc8be_5247)];

/// An open file of quantized weights.
pub(super) struct QuantizedWeights {
    weights: Weights,
}

impl QuantizedWeights {
    /// Opens the file in a model's folder; `None` if there is none.
    pub fn open(folder: &Path) -> Option<Self> {
        Some(Self { weights: Weights::open(&folder.join(QUANTIZED)).ok()? })
    }

    /// `true` if what was read, positions and encoder, is whole and of this kind of processor.
    pub fn is_whole(&self, largest_unit: i8) -> bool {
        CHECKSUMS.contains(&(largest_unit, self.weights.checksum()))
    }

    /// Reads positions and encoder; `None` if they are not there, damaged, of weights other than the published ones, or of another kind of
    /// processor.
    pub fn read(folder: &Path, largest_unit: i8) -> Option<(Encoder, Vec<f32>)> {
        let mut source = Self::open(folder)?;
        let positions = source.positions().ok()?;
        let encoder = Encoder::read(&mut source).ok()?;
        source.is_whole(largest_unit).then_some((encoder, positions))
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

/// Makes the file from the published weights in a model's folder, unless it is there and whole.
///
/// # Errors
/// If the published weights are damaged, or the file cannot be written.
pub(super) fn make(folder: &Path) -> Result<(), EmbedError> {
    let largest_unit = largest_unit(&Integers::new());
    if QuantizedWeights::read(folder, largest_unit).is_some() { Ok(()) } else { write(folder, largest_unit) }
}

fn write(folder: &Path, largest_unit: i8) -> Result<(), EmbedError> {
    let mut weights = Weights::open(&folder.join(WEIGHTS))?;
    let published = PublishedWeights { weights: &mut weights, largest_unit };
    let mut recorder = Recorder { published, tensors: Vec::new() };
    recorder.positions()?;
    Encoder::read(&mut recorder)?;
    recorder.published.check()?;
    let path = folder.join(QUANTIZED);
    let tensors = recorder.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor));
    let written = safetensors::serialize(tensors, None).map_err(io::Error::other);
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
}

impl Recorder<'_> {
    fn keep(&mut self, name: String, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::install;

    /// The file for one kind of processor is read for that one alone, and has what the published weights become there.
    #[test]
    fn each_kind_of_processor_reads_its_own() {
        let model = ctxbridge_common::paths::cache_dir().unwrap().join("models").join(install::MODEL);
        install::install(&model, None, &|_| {}).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(model.join(WEIGHTS), folder.path().join(WEIGHTS)).unwrap();
        for (own, other) in [(127, 63), (63, 127)] {
            write(folder.path(), own).unwrap();
            let mut source = QuantizedWeights::open(folder.path()).unwrap();
            source.positions().unwrap();
            Encoder::read(&mut source).unwrap();
            assert!(CHECKSUMS.contains(&(own, source.weights.checksum())), "{own}: {:#010x}", source.weights.checksum());
            assert!(QuantizedWeights::read(folder.path(), own).is_some());
            assert!(QuantizedWeights::read(folder.path(), other).is_none());
        }
    }
}
