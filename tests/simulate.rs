//! `ctxbridge prune preview` and `simulate`, from outside, on sessions in the client's format.

mod help;
mod pictures;
mod preview;
mod sandbox;
mod tables;
mod trouble;
