//! An archive in JSON Lines: the same answers as from a database, whatever happens to its files.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "transcript/lines.rs"]
#[allow(dead_code, reason = "shared with the tests of transcripts, which need more of them")]
mod lines;
#[path = "jsonl/merge.rs"]
mod merge;
#[path = "jsonl/place.rs"]
mod place;
#[path = "jsonl/same.rs"]
mod same;
#[path = "jsonl/torn.rs"]
mod torn;
