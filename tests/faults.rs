//! What goes wrong, done on purpose to the real binary: bad input, damaged state, full disks, missing rights, crowds and SIGKILL.
//!
//! Each test runs in a sandbox of its own (a client made for the test, a data directory, a home), and what must not change is
//! photographed before and compared after.

#![cfg(unix)]

mod backups;
mod bundle;
mod client;
mod crowd;
mod disk;
mod gate;
mod input;
mod kill;
mod lifecycle;
mod smoke;
mod state;
