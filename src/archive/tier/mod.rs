/*!
Tiers: what nobody uses takes less room, and then none here.

Bytes are hot as hooks put them into the database. Segments of sessions that were not used for a while are compressed anew, harder, and
with a dictionary of what texts of this archive have in common: warm. Later, where the user has a folder for that, each session goes
into a [`cold_file`] of its own, and its bytes out of the database. Everything is read as before, from wherever it is, and what is used
again comes back.

What becomes of a session is decided by a pure function, [`verdict`]. [`run`] carries it out piece by piece: a piece is compressed or
copied, read back and compared by its SHA-256, and only then are the old bytes let go, in a transaction that is short and does nothing if
somebody has changed the row meanwhile. So it may be killed anywhere, and hooks hardly wait for it.
*/

mod cold;
pub mod cold_file;
pub mod dictionary;
mod manifest;
mod plan;
mod run;
mod warm;

use std::path::PathBuf;

pub use manifest::{Listed, Manifest, Piece};
pub use plan::{Known, Tier, Verdict, may_be_warm, verdict};
pub use run::{Moved, Moves, preview, run};

use ctxbridge_config as config;

/// zstd's level for what is warm or cold. 19 would be 5 % smaller and take 14 times as long (BENCHMARKS.md).
pub const LEVEL: i32 = 12;

/// What the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Days without use after which a session is warm; 0 for never.
    pub warm_after_days: u32,
    /// Days without use after which it is cold; 0 for never.
    pub cold_after_days: u32,
    /// Where it goes then; nowhere without it.
    pub cold_folder: Option<PathBuf>,
}

impl From<&config::Archive> for Settings {
    fn from(config: &config::Archive) -> Self {
        Self {
            warm_after_days: config.warm_after_days,
            cold_after_days: config.cold_after_days,
            cold_folder: config.cold_folder.clone(),
        }
    }
}
