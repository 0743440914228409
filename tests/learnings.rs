//! What is learned from conversations: how well, on passages that were labelled by hand, and what becomes of it.
#![cfg(unix)]

mod commands;
mod labelled;
use crate::archive::lines;
mod patterns;
use crate::archive::sandbox;
