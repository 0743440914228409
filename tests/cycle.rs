//! The optimise cycle: confidence that falls with time, pruning that loses nothing, and what it would do.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[macro_use]
#[path = "store/kinds.rs"]
mod kinds;

#[path = "cycle/commands.rs"]
mod commands;
#[path = "cycle/faults.rs"]
mod faults;
#[path = "cycle/hot.rs"]
mod hot;
#[path = "archive/invariants.rs"]
#[allow(dead_code, reason = "shared with the tests of the archive, which need more of them")]
mod invariants;
#[path = "archive/lines.rs"]
#[allow(dead_code, reason = "as above")]
mod lines;
#[path = "cycle/model.rs"]
mod model;
#[path = "cycle/place.rs"]
mod place;
#[path = "archive/sandbox.rs"]
#[allow(dead_code, reason = "as above")]
mod sandbox;
#[path = "cycle/sqlite.rs"]
mod sqlite;
