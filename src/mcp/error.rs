//! Why a call has no answer.

use ctxbridge_archive::search::SearchError;
use ctxbridge_archive::store::StoreError;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The caller has to ask otherwise: an error of the protocol.
    #[error("`{name}`: {why}")]
    Argument {
        /// Which argument.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// What is named does not exist, which the model is told.
    #[error("{0}")]
    Missing(String),
    /// The archive or the index cannot be used, which the model is told as well.
    #[error("{0}")]
    Unable(String),
}

impl Failure {
    /// Of this argument.
    pub fn argument(name: &str, why: impl Into<String>) -> Self {
        Self::Argument { name: name.to_owned(), why: why.into() }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Unable(error.to_string())
    }
}

impl From<SearchError> for Failure {
    fn from(error: SearchError) -> Self {
        Self::Unable(error.to_string())
    }
}
