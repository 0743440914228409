//! `ctxbridge hooks`: what happens to settings files, as text, as files, and through the command.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "hooks_settings/commands.rs"]
mod commands;
#[path = "hooks_settings/edits.rs"]
mod edits;
#[path = "hooks_settings/files.rs"]
mod files;
#[path = "hooks_settings/generated.rs"]
mod generated;
#[path = "hooks_settings/matchers.rs"]
mod matchers;
#[path = "hooks_settings/plugin.rs"]
mod plugin;
#[path = "hooks_settings/project.rs"]
mod project;
#[path = "cli/sandbox.rs"]
#[allow(dead_code, reason = "the command's own tests use the rest")]
mod sandbox;
#[path = "hooks_settings/verify.rs"]
mod verify;

use ctxbridge::hook::Event;
use ctxbridge::hook::settings::wiring::{Hook, WIRED, hooks};

/// All hooks that are wired, run by this program.
fn all(program: &str) -> Vec<Hook> {
    some(program, |_| true)
}

/// Those of them that a test wants.
fn some(program: &str, want: impl Fn(Event) -> bool) -> Vec<Hook> {
    let events: Vec<_> = WIRED.iter().map(|wiring| wiring.event).filter(|event| want(*event)).collect();
    hooks(&events, program)
}
