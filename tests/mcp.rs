//! `ctxbridge mcp`, from outside: a message at a time by hand, and with the SDK's own client.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "mcp/answers.rs"]
mod answers;
#[path = "mcp/changes.rs"]
mod changes;
#[path = "mcp/client.rs"]
mod client;
#[path = "mcp/protocol.rs"]
mod protocol;
#[path = "mcp/sandbox.rs"]
mod sandbox;
