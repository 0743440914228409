/*!
The archive: keeps every turn, and restores the best of them.

[`ingest`] makes one pass over a transcript: [`reader`] finds new bytes, the [`store`] takes them in one transaction. The bytes are
kept, compressed ([`segment`]), so that a transcript can be rebuilt; turns point into them. A turn's importance is pure arithmetic
([`importance()`]); the clock is passed in. Files beside a transcript ([`side_files`]) are kept like transcripts, and are not interpreted.
*/

pub mod annotations;
mod copy;
pub mod entry;
pub mod forget;
pub mod generation_match;
pub mod handle;
pub mod handle_lookup;
pub mod heal;
pub mod import;
mod importance;
pub mod ingest;
pub mod instructions;
pub mod learn;
pub mod maintain;
pub mod maintenance;
pub mod merge;
pub mod message_range;
mod message_text;
pub mod open;
pub mod preserved;
pub mod project;
pub mod project_memory;
pub mod project_moves;
mod project_scope;
pub mod quote;
pub mod reader;
pub mod recall;
pub mod recovery;
pub mod restore;
pub mod search;
pub mod segment;
pub mod side_files;
pub mod snapshot;
mod spooled;
pub mod store;
pub mod tier;
pub mod transcript_lines;
pub mod transcript_paths;
pub mod turn_text;

pub use importance::{HALF_LIFE_DAYS, ImportanceFactors, importance};

/// Confidence of a new turn.
pub const INITIAL_CONFIDENCE: f64 = 0.8;

/// Confidence of a compaction's summary: the client itself continued from it.
pub const SUMMARY_CONFIDENCE: f64 = 1.0;

/// Gain in confidence of an entry when it is restored.
pub const CONFIDENCE_BOOST: f64 = 0.03;

/// Loss of confidence in an hour.
pub const DECAY_PER_HOUR: f64 = 0.005;

/// Minimum confidence.
pub const MIN_CONFIDENCE: f64 = 0.1;
