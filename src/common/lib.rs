/*!
Basics for all crates of ctxbridge: locations and permissions of files, folders and repositories, hashes, checksums, databases, threads.
*/

pub mod crc;
pub mod digest;
pub mod files;
pub mod folder;
pub mod lock_deadline;
pub mod parallel;
pub mod paths;
pub mod repository;
pub mod serde_f64_bits;
pub mod sqlite;
