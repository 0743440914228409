//! The archive, from outside: hooks and commands of the real binary on the transcripts of a client that is not there.
//!
//! Each test has a home of its own. What must hold is looked up twice: the commands are asked, and the database is read by other
//! means (in [`ctxbridge_testkit::sandbox`]).

mod background;
mod bit_flips;
mod bundles;
mod compaction;
mod crowd;
mod damage;
mod forget;
mod generations;
mod history;
mod index;
#[cfg(unix)]
mod kill;
mod left_out;
pub(crate) mod lines;
mod many;
mod mods;
#[cfg(unix)]
mod paths;
mod pieces;
mod pins;
mod projects;
mod related;
mod restore;
mod rewinds;
mod salvage;
mod search;
mod shapes;
mod side_files;
mod spool;
mod start;
mod stdin;
#[cfg(unix)]
mod trouble;
