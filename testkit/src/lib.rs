//! Building blocks of ctxbridge's tests and benchmarks: sessions of any size, from a seed; a machine of its own for the program; a
//! PostgreSQL server; files for several processes at once.

mod code;
mod conversation;
pub mod files;
#[cfg(unix)]
pub mod postgres;
mod rng;
mod runs;
pub mod sandbox;
mod share;
#[cfg(unix)]
pub mod terminal;
pub mod transcript;
mod without;
mod words;

pub use conversation::{agent_turns, conversation};
pub use rng::Rng;
pub use runs::RunIndex;
pub use share::{first_or_all, is_full_run, share_of, some_of};
pub use without::is_left_out;
