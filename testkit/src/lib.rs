//! What tests and benchmarks of ctxbridge are made of: sessions of any size, from a seed; a PostgreSQL server; files for several at once.

mod code;
pub mod files;
#[cfg(unix)]
pub mod postgres;
mod rng;
pub mod transcript;
mod words;

pub use rng::Rng;
