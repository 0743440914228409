//! The command as users and their scripts meet it: what it prints, on which stream, and how it exits.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod doctor;
mod general;
mod installations;
mod patch;
mod sandbox;
mod targets;
