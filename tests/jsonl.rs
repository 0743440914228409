//! An archive in JSON Lines: the same answers as from a database, whatever happens to its files.

use crate::transcript::lines;
mod merge;
pub(crate) mod place;
mod same;
mod torn;
