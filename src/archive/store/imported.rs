//! What comes from the archives of other tools besides the words of a conversation.

use serde::{Deserialize, Serialize};

/// What another archive knows of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adopted {
    /// The entry.
    pub entry: i64,
    /// How often it was restored there.
    pub access_count: u32,
    /// When that was last, in milliseconds since 1970.
    pub accessed_ms: Option<i64>,
    /// How far it is trusted there, from 0.1 to 1.
    pub confidence: f64,
    /// Whether it came into this archive with the other one just now, so that nothing else is known of it here.
    pub is_new: bool,
}

/// A vector that came with another archive.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedEmbedding {
    /// The entry that it is of.
    pub entry: i64,
    /// The tool whose archive it was: `claude-flow`.
    pub source: String,
    /// The id there.
    pub source_id: String,
    /// What made it: `hash-768`, `hash-384`, `minilm-384`, or `unknown`.
    pub model: String,
    /// The vector; every number is finite.
    pub vector: Vec<f32>,
}
