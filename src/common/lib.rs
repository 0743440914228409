/*!
Basics for all crates of ctxbridge: locations and permissions of files, hashes, databases, threads.
*/

pub mod digest;
pub mod files;
pub mod parallel;
pub mod paths;
pub mod serde_f64_bits;
pub mod sqlite;
