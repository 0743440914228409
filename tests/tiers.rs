//! Tiers: what is not used is compressed anew, then moved to files, and comes back to the byte from anywhere.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "tiers/files.rs"]
mod files;
#[path = "archive/invariants.rs"]
#[allow(dead_code, reason = "shared with the tests of the archive, which need more of them")]
mod invariants;
#[path = "tiers/kill.rs"]
mod kill;
#[path = "archive/lines.rs"]
#[allow(dead_code, reason = "as above")]
mod lines;
#[path = "tiers/moving.rs"]
mod moving;
#[path = "tiers/place.rs"]
mod place;
#[path = "archive/sandbox.rs"]
#[allow(dead_code, reason = "as above")]
mod sandbox;
#[path = "tiers/told.rs"]
mod told;
#[path = "tiers/trouble.rs"]
mod trouble;
