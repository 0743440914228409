//! What makes vectors of texts.
/// Why there is no vector.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EmbedError(pub String);
/// Makes vectors of texts; texts that mean alike have vectors that point alike.
pub trait Embedder: Send {
    /// Name of model and pooling, as stored beside vectors: `minilm-384`.
    fn id(&self) -> &'static str;
    /// Values of a vector.
    fn dimensions(&self) -> usize;
    /// A vector of length 1 for each text, in order.
    ///
    /// # Errors
    /// When the model cannot be run.
    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// The model of this machine, if there is one. None can be installed yet.
pub fn installed() -> Option<Box<dyn Embedder>> {
    None
}
