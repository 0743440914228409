//! The command as users and their scripts meet it: what it prints, on which stream, and how it exits.
#![cfg(unix)]

mod doctor;
mod general;
mod installations;
mod patch;
pub(crate) mod sandbox;
mod targets;
