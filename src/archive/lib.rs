/*!
The archive: nothing is lost, and the best of it comes back.

[`ingest`] makes one pass over a transcript: [`reader`] finds what is new, the [`store`] takes it in one transaction. The bytes are
kept, compressed ([`segment`]), so that a transcript can be rebuilt; turns point into them. How much a turn matters is pure arithmetic
([`importance`]); the clock is passed in.
*/

pub mod blocks;
pub mod context;
pub mod cycle;
pub mod embed;
pub mod entry;
pub mod facts;
pub mod heal;
pub mod import;
mod importance;
pub mod ingest;
pub mod instructions;
pub mod learn;
pub mod lines;
pub mod merge;
pub mod open;
pub mod place;
pub mod quote;
pub mod reader;
pub mod recall;
pub mod same;
pub mod search;
pub mod segment;
pub mod snapshot;
pub mod store;
pub mod tier;
pub mod words;

pub use importance::{HALF_LIFE_DAYS, Traits, importance};

/// Confidence of a turn that is new.
pub const FIRST_CONFIDENCE: f64 = 0.8;

/// Confidence of a compaction's summary: the client itself went on from it.
pub const SUMMARY_CONFIDENCE: f64 = 1.0;

/// What an entry's confidence gains when it is restored.
pub const CONFIDENCE_BOOST: f64 = 0.03;

/// What confidence loses in an hour.
pub const DECAY_PER_HOUR: f64 = 0.005;

/// Confidence never falls below this.
pub const LEAST_CONFIDENCE: f64 = 0.1;
