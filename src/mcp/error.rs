//! Errors from answering a call.

use ctxbridge_archive::search::SearchError;
use ctxbridge_archive::store::StoreError;

/// Errors from answering a call.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// An argument is wrong: an error of the protocol.
    #[error("`{name}`: {why}")]
    InvalidArgument {
        /// The argument.
        name: String,
        /// The reason.
        why: String,
    },
    /// The named thing does not exist. The model receives this error.
    #[error("{0}")]
    NotFound(String),
    /// The archive or the index cannot be used. The model receives this error as well.
    #[error("{0}")]
    Unavailable(String),
}

impl ToolError {
    /// Makes the error for an argument.
    pub fn invalid_argument(name: &str, why: impl Into<String>) -> Self {
        Self::InvalidArgument { name: name.to_owned(), why: why.into() }
    }
}

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<SearchError> for ToolError {
    fn from(error: SearchError) -> Self {
        Self::Unavailable(error.to_string())
    }
}
