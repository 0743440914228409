//! The native client: small executables in the shape of those that Bun makes, found, patched, verified and put back.
//!
//! They do not run, so `apply` reads them back instead, or is told not to run them.

mod builder;
mod client;
mod hashes;
#[cfg(unix)]
mod kill;
mod lifecycle;
mod rewrite;
mod sites;
mod soundness;
