/*!
Tiers: unused sessions take less room, and later none in the database.

Bytes are hot as hooks put them into the database. Segments of sessions that were not used for a while become warm: they are
recompressed harder, with a dictionary of the common parts of this archive's texts. Later, if the user has configured a folder, each
session moves to a [`cold_file`] of its own, and its bytes leave the database. Everything is read as before, from wherever it is,
and a session that is used again comes back.

A pure function, [`decide_tier`], decides about a session by its last use. [`run()`] carries the decision out piece by piece: a
piece is compressed or copied, read back and compared by its SHA-256. Only then are the old bytes removed, in a short transaction
that does nothing if somebody has changed the row meanwhile. So it may be killed at any point, and hooks hardly wait for it.

Segments that a session in the database still needs stay there. No cold file is overwritten or deleted. Cold bytes are read through
`Store::read_bytes` like all others, but never by a hook. A cold file that cannot be read is [`StoreError::Cold`]: it concerns one
session, and lists stay complete.

[`StoreError::Cold`]: crate::store::StoreError::Cold
*/

mod cold;
pub mod cold_file;
pub mod dictionary;
mod manifest;
mod plan;
mod report;
mod run;
mod warm;

use std::path::PathBuf;

pub use manifest::{ColdManifest, ManifestGeneration, ManifestSegment};
pub use plan::{SessionUsage, Tier, TierDecision, decide_tier, may_be_warm};
pub use report::{TierMoves, TierReport};
pub use run::{preview, run};

use ctxbridge_config as config;

/// zstd's level for warm and cold data. 19 would be 5 % smaller and take 14 times as long (BENCHMARKS.md).
pub const TIER_COMPRESSION_LEVEL: i32 = 12;

/// The user's settings for tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierSettings {
    /// Days without use after which a session is warm; 0 for never.
    pub warm_after_days: u32,
    /// Days without use after which it is cold; 0 for never.
    pub cold_after_days: u32,
    /// Folder of cold files; `None` to keep everything in the database.
    pub cold_folder: Option<PathBuf>,
}

impl From<&config::ArchiveSettings> for TierSettings {
    fn from(config: &config::ArchiveSettings) -> Self {
        Self {
            warm_after_days: config.warm_after_days,
            cold_after_days: config.cold_after_days,
            cold_folder: config.cold_folder.clone(),
        }
    }
}
