//! The native client: small executables in the shape of those that Bun makes, found, patched, verified and put back.
//!
//! They do not run, so `apply` reads them back instead, or is told not to run them.

#![allow(clippy::unwrap_used)]

#[path = "native/builder/mod.rs"]
mod builder;
#[path = "native/client.rs"]
mod client;
#[path = "native/hashes.rs"]
mod hashes;
#[cfg(unix)]
#[path = "native/kill.rs"]
mod kill;
#[path = "native/lifecycle.rs"]
mod lifecycle;
#[path = "native/rewrite.rs"]
mod rewrite;
#[path = "native/sites.rs"]
mod sites;
#[path = "native/soundness.rs"]
mod soundness;
