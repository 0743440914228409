//! An archive in JSON Lines, from outside: chosen, or used because there can be no database; and merged back.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "fallback/chosen.rs"]
mod chosen;
#[path = "fallback/crowd.rs"]
mod crowd;
#[path = "fallback/damage.rs"]
mod damage;
#[path = "fallback/instead.rs"]
mod instead;
#[path = "archive/invariants.rs"]
#[allow(dead_code, reason = "shared with the tests of the archive, which need more of them")]
mod invariants;
#[path = "archive/lines.rs"]
#[allow(dead_code, reason = "shared with the tests of the archive, which need more of them")]
mod lines;
#[path = "fallback/merging.rs"]
mod merging;
#[path = "fallback/obstacle.rs"]
mod obstacle;
#[path = "archive/sandbox.rs"]
#[allow(dead_code, reason = "shared with the tests of the archive, which need more of it")]
mod sandbox;
