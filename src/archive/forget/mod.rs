//! Forgetting: turns and sessions that the user wants gone, and what is never kept in the first place.

mod blanked_source;
mod client_files;
mod plan;
mod quotes;
mod run;
mod tombstones;

pub(crate) use blanked_source::BlankedSource;
pub use blanked_source::Blanks;
pub use client_files::{ClientFiles, remove_from_history};
pub use plan::{ForgetPart, ForgetPlan, ForgetRequest, any_text};
pub use run::{ForgetReport, forget, is_unfinished, set_aside};
pub(crate) use tombstones::TombstoneWatch;
pub use tombstones::{Tombstone, Tombstones};
