//! An archive in JSON Lines, from outside: chosen, or used because there can be no database; and merged back.
#![cfg(unix)]

mod chosen;
mod crowd;
mod damage;
mod instead;
use crate::archive::lines;
mod merging;
mod obstacle;
use crate::jsonl::place;
