//! What is learned from conversations: how well, on passages that were labeled by hand, and what becomes of it.

mod commands;
mod labeled;
use crate::archive::lines;
mod patterns;
