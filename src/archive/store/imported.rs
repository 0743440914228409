//! Data from other tools' archives, other than the words of a conversation.

use serde::{Deserialize, Serialize};

/// Usage of an entry, as another archive counted it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportedUsage {
    /// The entry.
    pub entry: i64,
    /// Number of restores there.
    pub access_count: u32,
    /// Time of the last restore, in milliseconds since 1970.
    pub accessed_ms: Option<i64>,
    /// Confidence there, from 0.1 to 1.
    pub confidence: f64,
    /// `true` if this import added the entry, so that nothing else is known of it here.
    pub is_new: bool,
}

/// A vector that came with another archive.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedEmbedding {
    /// The entry that it belongs to.
    pub entry: i64,
    /// The tool that the archive came from: `claude-flow`.
    pub source: String,
    /// The id there.
    pub source_id: String,
    /// The model that made it: `hash-768`, `hash-384`, `minilm-384`, or `unknown`.
    pub model: String,
    /// The vector; every number is finite.
    pub vector: Vec<f32>,
}
