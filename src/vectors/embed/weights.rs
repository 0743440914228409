//! Weights as in `model.safetensors`: a header with names, shapes and offsets, then numbers.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::Metadata;

use super::EmbedError;
use ctxbridge_common::files;

/// The file of weights.
pub const WEIGHTS: &str = "model.safetensors";

/// Maximum size of a header: that of the published file has 11 KB.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// An open file of weights.
pub(super) struct Weights {
    path: PathBuf,
    file: File,
    tensors: Metadata,
    /// Offset of the first tensor.
    begin: u64,
    /// CRC-32 of all tensors that were read whole.
    checksum: crc32fast::Hasher,
    buffer: Vec<u8>,
}

impl Weights {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If there is no such file, or it is not of that format, or not as long as its header says.
    pub fn open(path: &Path) -> Result<Self, EmbedError> {
        let fail = |cause: io::Error| match cause.kind() {
            io::ErrorKind::NotFound => EmbedError::Absent(path.to_owned()),
            _ => EmbedError::Read { path: path.to_owned(), cause },
        };
        let damaged = |what: String| EmbedError::Damaged { path: path.to_owned(), what };
        let mut file = files::open(path).map_err(fail)?;
        let size = file.metadata().map_err(fail)?.len();
        let mut length = [0; 8];
        if size < length.len() as u64 {
            return Err(damaged(format!("it has {size} bytes")));
        }
        file.read_exact(&mut length).map_err(fail)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER_BYTES.min(size - 8) {
            return Err(damaged("it has no header of safetensors".to_owned()));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(fail)?;
        let tensors: Metadata = serde_json::from_slice(&header).map_err(|error| damaged(error.to_string()))?;
        let begin = 8 + length;
        let expected = begin + tensors.data_len() as u64;
        if size != expected {
            return Err(damaged(format!("it has {size} bytes, not {expected}")));
        }
        Ok(Self { path: path.to_owned(), file, tensors, begin, checksum: crc32fast::Hasher::new(), buffer: Vec::new() })
    }

    /// Reads a tensor of this shape, row by row.
    ///
    /// # Errors
    /// If it is not there, has another shape, or holds what is not a number.
    pub fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EmbedError> {
        let place = self.place(name, Dtype::F32, shape)?;
        let mut numbers = Vec::with_capacity(shape.iter().product());
        self.read(place, name, &mut numbers)?;
        self.checksum.update(&self.buffer);
        Ok(numbers)
    }

    /// Reads a tensor of 8-bit integers of this shape, row by row.
    ///
    /// # Errors
    /// If it is not there or has another shape.
    pub fn integers(&mut self, name: &str, shape: &[usize]) -> Result<Vec<i8>, EmbedError> {
        let place = self.place(name, Dtype::I8, shape)?;
        self.read_bytes(place)?;
        self.checksum.update(&self.buffer);
        // In place: new memory costs more than what is read into it.
        Ok(std::mem::take(&mut self.buffer).into_iter().map(u8::cast_signed).collect())
    }

    /// Returns the location of a tensor's rows.
    ///
    /// # Errors
    /// If it is not there or has another shape.
    pub fn rows(&self, name: &'static str, shape: [usize; 2]) -> Result<TensorRows, EmbedError> {
        let place = self.place(name, Dtype::F32, &shape)?;
        Ok(TensorRows { name, begin: place.start, length: shape[1] })
    }

    /// Adds a row to `numbers`.
    ///
    /// # Errors
    /// If it cannot be read, or holds what is not a number.
    pub fn row(&mut self, rows: &TensorRows, index: usize, numbers: &mut Vec<f32>) -> Result<(), EmbedError> {
        let bytes = (rows.length * size_of::<f32>()) as u64;
        let begin = rows.begin + index as u64 * bytes;
        self.read(begin..begin + bytes, rows.name, numbers)
    }

    /// CRC-32 of all tensors that were read, in the order in which they were read.
    pub fn checksum(&self) -> u32 {
        self.checksum.clone().finalize()
    }

    /// Returns an error for damage in this file.
    pub fn damaged(&self, what: impl Into<String>) -> EmbedError {
        EmbedError::Damaged { path: self.path.clone(), what: what.into() }
    }

    fn place(&self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<Range<u64>, EmbedError> {
        let tensor = self.tensors.info(name).ok_or_else(|| self.damaged(format!("it has no {name}")))?;
        if tensor.dtype != dtype || tensor.shape != shape {
            return Err(self.damaged(format!("{name} is {:?} {:?}, not {dtype:?} {shape:?}", tensor.dtype, tensor.shape)));
        }
        // `Metadata` has checked that the tensors lie one behind the other and have the bytes of their shapes.
        let (begin, end) = tensor.data_offsets;
        Ok(self.begin + begin as u64..self.begin + end as u64)
    }

    fn read(&mut self, place: Range<u64>, name: &str, numbers: &mut Vec<f32>) -> Result<(), EmbedError> {
        self.read_bytes(place)?;
        let before = numbers.len();
        numbers.extend(self.buffer.chunks_exact(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])));
        // Not `all`, which stops at the first and so looks at one after the other.
        if numbers[before..].iter().fold(true, |all, number| all & number.is_finite()) {
            return Ok(());
        }
        Err(self.damaged(format!("{name} holds what is not a number")))
    }

    fn read_bytes(&mut self, place: Range<u64>) -> Result<(), EmbedError> {
        self.buffer.resize((place.end - place.start) as usize, 0);
        let read = self.file.seek(SeekFrom::Start(place.start)).and_then(|_| self.file.read_exact(&mut self.buffer));
        read.map_err(|cause| match cause.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it is too short"),
            _ => EmbedError::Read { path: self.path.clone(), cause },
        })
    }
}

/// The rows of a tensor that is too large to be read whole for a few of them.
pub(super) struct TensorRows {
    name: &'static str,
    begin: u64,
    /// Numbers in one.
    length: usize,
}
