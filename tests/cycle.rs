//! The optimize cycle: confidence that falls with time, pruning that loses nothing, and what it would do.

use crate::kinds;

mod commands;
#[cfg(unix)]
mod faults;
mod hot;
use crate::archive::lines;
mod model;
mod place;
mod sqlite;
