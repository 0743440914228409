//! `ctxbridge mcp`, from outside: a message at a time by hand, and with the SDK's own client.
#![cfg(unix)]

mod answers;
mod changes;
mod client;
mod protocol;
mod sandbox;
