//! `ctxbridge prune preview` and `simulate`, from outside, on sessions in the client's format.
#![allow(clippy::unwrap_used)]

#[path = "simulate/help.rs"]
mod help;
#[path = "simulate/pictures.rs"]
mod pictures;
#[path = "simulate/preview.rs"]
mod preview;
#[path = "simulate/sandbox.rs"]
mod sandbox;
#[path = "simulate/tables.rs"]
mod tables;
#[path = "simulate/trouble.rs"]
mod trouble;
