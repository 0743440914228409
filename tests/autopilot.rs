//! The autopilot: what it makes of a window that fills up, what it remembers, what the statusline and `autopilot status` show, and
//! whether a lost patch is noticed.

mod commands;
#[cfg(unix)]
mod keep;
mod memory;
#[cfg(unix)]
mod notice;
mod rules;
