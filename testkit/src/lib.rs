//! What tests and benchmarks of ctxbridge are made of: sessions of any size, from a seed; a PostgreSQL server.

mod code;
#[cfg(unix)]
pub mod postgres;
mod rng;
pub mod transcript;
mod words;

pub use rng::Rng;
