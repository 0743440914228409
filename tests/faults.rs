//! What goes wrong, done on purpose to the real binary: bad input, damaged state, full disks, missing rights, crowds and SIGKILL.
//!
//! Each test runs in a sandbox of its own (a client made for the test, a data directory, a home), and what must not change is
//! photographed before and compared after.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "faults/backups.rs"]
mod backups;
#[path = "faults/bundle.rs"]
mod bundle;
#[path = "faults/crowd.rs"]
mod crowd;
#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/gate.rs"]
mod gate;
#[path = "faults/input.rs"]
mod input;
#[path = "faults/kill.rs"]
mod kill;
#[path = "faults/lifecycle.rs"]
mod lifecycle;
#[path = "faults/sandbox.rs"]
mod sandbox;
#[path = "faults/smoke.rs"]
mod smoke;
#[path = "faults/state.rs"]
mod state;
