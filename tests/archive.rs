//! The archive, from outside: hooks and commands of the real binary on the transcripts of a client that is not there.
//!
//! Each test has a home of its own. What must hold is looked up twice: the commands are asked, and the database is read by other
//! means ([`invariants`]).
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "archive/background.rs"]
mod background;
#[path = "archive/bundles.rs"]
mod bundles;
#[path = "archive/compaction.rs"]
mod compaction;
#[path = "archive/crowd.rs"]
mod crowd;
#[path = "archive/damage.rs"]
mod damage;
#[path = "archive/generations.rs"]
mod generations;
#[path = "archive/history.rs"]
mod history;
#[path = "archive/index.rs"]
mod index;
#[path = "archive/invariants.rs"]
mod invariants;
#[path = "archive/kept.rs"]
mod kept;
#[path = "archive/kill.rs"]
mod kill;
#[path = "archive/lines.rs"]
mod lines;
#[path = "archive/paths.rs"]
mod paths;
#[path = "archive/related.rs"]
mod related;
#[path = "archive/restore.rs"]
mod restore;
#[path = "archive/sandbox.rs"]
mod sandbox;
#[path = "archive/search.rs"]
mod search;
#[path = "archive/shapes.rs"]
mod shapes;
#[path = "archive/spool.rs"]
mod spool;
#[path = "archive/stdin.rs"]
mod stdin;
#[path = "archive/trouble.rs"]
mod trouble;
