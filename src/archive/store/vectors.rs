//! Vectors that a store keeps beside its entries, for whoever searches there. The archive of one machine has them in its index instead.

use super::StoreError;
use ctxbridge_common::digest;

/// A place for vectors.
pub trait Vectors {
    /// Why it takes none as things are; nothing where it does.
    ///
    /// # Errors
    /// As every function here: when the store cannot be read or written.
    fn refusal(&mut self) -> Result<Option<String>, StoreError>;

    /// One's own entries that have no vectors of a model, of those below an id the newest, at most so many; each with the SHA-256 of
    /// its content.
    fn missing(
        &mut self,
        model: &str,
        dimensions: usize,
        below: i64,
        most: usize,
    ) -> Result<Vec<(i64, digest::Bytes)>, StoreError>;

    /// Keeps the vectors of entries' passages, instead of those that they had of this model.
    fn keep(&mut self, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), StoreError>;
}
