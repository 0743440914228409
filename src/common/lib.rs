/*!
What every crate of ctxbridge stands on: where files are and who may read them, hashes, databases, threads.
*/

pub mod digest;
pub mod exact;
pub mod files;
pub mod parallel;
pub mod paths;
pub mod sqlite;
