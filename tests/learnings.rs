//! What is learned from conversations: how well, on passages that were labelled by hand, and what becomes of it.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "learnings/commands.rs"]
mod commands;
#[path = "learnings/labelled.rs"]
mod labelled;
#[allow(dead_code, reason = "shared with the tests of the archive, which need more of them")]
#[path = "archive/lines.rs"]
mod lines;
#[path = "learnings/patterns.rs"]
mod patterns;
#[allow(dead_code, reason = "shared with the tests of the archive, which need more of them")]
#[path = "archive/sandbox.rs"]
mod sandbox;
