//! The autopilot: what it makes of a window that fills up, what it remembers, what the statusline and `autopilot status` show, and
//! whether a lost patch is noticed.
#![cfg(unix)]

mod commands;
mod keep;
mod memory;
mod notice;
mod rules;
