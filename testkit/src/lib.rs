//! What tests and benchmarks of ctxbridge are made of: sessions of any size, from a seed.

mod code;
mod rng;
pub mod transcript;
mod words;

pub use rng::Rng;
