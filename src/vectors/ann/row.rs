//! A vector in the file, with its id and entry.

use super::Quantized;
use super::file::take_array;

/// A vector with its id and entry.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorRow {
    /// Its id in the index; one that is added later has a higher one.
    pub id: i64,
    /// The entry that it is a passage of.
    pub entry: i64,
    /// Its numbers.
    pub vector: Quantized,
}

impl VectorRow {
    /// Encodes the row for this position in the file. The position is part of the checksum: the right bytes in the wrong place are
    /// damage, too.
    pub(super) fn write(&self, row: usize, bytes: &mut Vec<u8>) {
        let begin = bytes.len();
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.entry.to_le_bytes());
        bytes.extend(self.vector.scale.to_le_bytes());
        bytes.extend(self.vector.values.iter().map(|value| value.cast_unsigned()));
        let crc = checksum(row, &bytes[begin..]);
        bytes.extend(crc.to_le_bytes());
    }

    /// Decodes the row at this position in the file; `None` if it is damaged.
    pub(super) fn parse(row: usize, bytes: &[u8]) -> Option<Self> {
        let (mut content, crc) = bytes.split_last_chunk::<4>()?;
        if checksum(row, content) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (id, entry) = (i64::from_le_bytes(take_array(&mut content)?), i64::from_le_bytes(take_array(&mut content)?));
        let vector = Quantized::from_bytes(content, content.len().checked_sub(4)?)?;
        Some(Self { id, entry, vector })
    }
}

fn checksum(row: usize, content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(row as u64).to_le_bytes());
    hasher.update(content);
    hasher.finalize()
}
