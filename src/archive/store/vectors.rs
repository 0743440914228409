//! Vectors that a store keeps with its entries, for searches there. A local archive has them in its index instead.

use super::StoreError;
use ctxbridge_common::digest;

/// Storage for vectors.
pub trait VectorStore {
    /// Returns the reason why it accepts no vectors now, or `None` if it does.
    ///
    /// # Errors
    /// As every function here: if the store cannot be read or written.
    fn unavailable_reason(&mut self) -> Result<Option<String>, StoreError>;

    /// Returns this user's newest entries below an id that have no vectors of a model, at most `most`; each with the SHA-256 of
    /// its content.
    fn entries_without_vectors(
        &mut self,
        model: &str,
        dimensions: usize,
        below: i64,
        most: usize,
    ) -> Result<Vec<(i64, digest::Sha256Digest)>, StoreError>;

    /// Saves the vectors of entries' passages, in place of those that they had of this model.
    fn save_vectors(&mut self, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), StoreError>;
}
