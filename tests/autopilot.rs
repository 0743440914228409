//! The autopilot: what it makes of a window that fills up, what it remembers, what the statusline and `autopilot status` show, and
//! whether a lost patch is noticed.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

#[path = "autopilot/commands.rs"]
mod commands;
#[path = "autopilot/memory.rs"]
mod memory;
#[path = "autopilot/notice.rs"]
mod notice;
#[path = "autopilot/rules.rs"]
mod rules;
#[path = "autopilot/sandbox.rs"]
mod sandbox;
