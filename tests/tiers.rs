//! Tiers: what is not used is compressed anew, then moved to files, and comes back to the byte from anywhere.

mod files;
mod kill;
use crate::archive::lines;
mod moving;
mod place;
mod told;
mod trouble;
