//! All tests of the command and of the crates through their public interfaces, as one program: each program is linked by itself.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod kinds;

mod archive;
mod autopilot;
mod catalog;
mod cli;
mod client;
mod config;
mod cycle;
mod dashboard;
mod embed;
mod export;
mod fallback;
mod faults;
mod fixtures;
mod hooks_settings;
mod import;
mod jsonl;
mod learnings;
mod live;
mod mcp;
mod native;
mod pick;
mod postgres;
mod prune;
mod recall;
mod redact;
mod releases;
mod search;
mod simulate;
mod store;
mod stub;
mod sync;
mod team;
mod tiers;
mod transcript;
