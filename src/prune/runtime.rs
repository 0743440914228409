//! The injected twin of this policy.

/// JavaScript source of the function that is injected into the client: one ASCII function
/// declaration that depends on nothing but the language and `process.env`, fit for an ES module and
/// for a CommonJS wrapper.
pub const RUNTIME: &str = include_str!("../../patches/aggressive-text-prune/runtime.js");

/// Name that [`RUNTIME`] declares. It takes the message array and returns the array to send in its
/// place.
pub const RUNTIME_FUNCTION: &str = "ctxbridgeAggressiveTextPrune";
