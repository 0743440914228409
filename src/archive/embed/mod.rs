/*!
Vectors of texts, by which the archive finds what says the same in other words.

[`MiniLm`] is the encoder; [`install`] brings its files. [`Hash768`] is there for vectors that other tools wrote. How the runtime was
chosen, and what it costs, is in `docs/embeddings.md`.
*/

mod encoder;
mod hash;
pub mod install;
mod linear;
mod minilm;
mod model;
mod weights;
mod wordpiece;

use std::io;
use std::path::PathBuf;

pub use hash::{Hash768, is_hash_of};
pub use minilm::{MOST_TOKENS, MiniLm};
pub use model::Model;

/// Makes vectors of texts; texts that mean alike have vectors that point alike.
pub trait Embedder: Send {
    /// Name of model and pooling, as stored beside vectors: `minilm-384`.
    fn id(&self) -> &'static str;

    /// How many numbers a vector has.
    fn dimensions(&self) -> usize;

    /// A vector of length 1 for each text, in order.
    ///
    /// # Errors
    /// When the model is damaged.
    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// A text has no vector.
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
        /// Why.
        cause: io::Error,
    },
    /// A file is not what was published.
    #[error("{path} is damaged: {what}; run `ctxbridge model install` to replace it")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The system gives no threads.
    #[error("cannot start threads for the model: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// A bug of ours: shapes are checked when the model is read.
    #[error("a bug in ctxbridge: the shapes of the model do not fit: {0}. Please report it")]
    Shapes(#[from] rten_gemm::GemmError),
}
