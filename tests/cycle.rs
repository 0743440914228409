//! The optimize cycle: confidence that falls with time, pruning that loses nothing, and what it would do.
#![cfg(unix)]

use crate::kinds;

mod commands;
mod faults;
mod hot;
use crate::archive::lines;
mod model;
mod place;
mod sqlite;
