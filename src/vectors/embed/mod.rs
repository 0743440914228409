/*!
Vectors of texts, by which the archive finds what says the same in other words.

[`MiniLm`] is the encoder; [`install`] installs its files. [`Hash768`] is there for vectors that other tools wrote. The model is
read only where there are vectors to compare with. Its products of 8-bit integers are those of rten. Eight runtimes were measured;
`docs/embeddings.md` describes the choice and its costs.
*/

mod encoder;
mod hash;
pub mod install;
mod linear;
mod longest;
mod minilm;
mod model;
mod published;
mod quantized_weights;
pub mod static_embedding;
mod weights;
mod wordpiece;

use std::io;
use std::path::PathBuf;

pub use hash::{Hash768, is_hash_of};
pub use minilm::{MAX_TOKENS, MiniLm};
pub use model::EmbeddingModel;
pub use quantized_weights::QUANTIZED;
pub use static_embedding::STATIC;

/// Makes vectors of texts: texts with similar meaning have vectors that point in similar directions.
pub trait Embedder: Send {
    /// Name of model and pooling, as stored beside vectors: `minilm-384`.
    fn id(&self) -> &'static str;

    /// Number of dimensions of a vector.
    fn dimensions(&self) -> usize;

    /// Returns a vector of length 1 for each text, in order; of length 0 for a text of which nothing is known.
    ///
    /// # Errors
    /// If the model is damaged.
    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// Errors from making a text's vector.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// There is no model.
    #[error("the model is not installed: there is no {0}; run `ctxbridge model install`")]
    Absent(PathBuf),
    /// A file cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// A file of ours cannot be written.
    #[error("cannot write {path}: {cause}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// A file is not what was published.
    #[error("{path} is damaged: {what}; run `ctxbridge model install` to replace it")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// The system gives no threads.
    #[error("cannot start threads for the model: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// A bug of ours: shapes are checked when the model is read.
    #[error("a bug in ctxbridge: the shapes of the model do not fit: {0}. Please report it")]
    Shapes(#[from] rten_gemm::GemmError),
}
