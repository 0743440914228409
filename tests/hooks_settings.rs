//! `ctxbridge hooks`: what happens to settings files, as text, as files, and through the command.

mod commands;
mod edits;
#[cfg(unix)]
mod files;
mod generated;
#[cfg(unix)]
mod launcher;
mod matchers;
mod plugin;
mod project;
#[cfg(unix)]
mod verify;

use ctxbridge::hook::Event;
use ctxbridge::hook::settings::wiring::{Hook, HookForm, WIRED, hooks};

/// All hooks that are wired, run by this program.
fn all(program: &str) -> Vec<Hook> {
    some(program, |_| true)
}

/// Those of them that a test wants.
fn some(program: &str, want: impl Fn(Event) -> bool) -> Vec<Hook> {
    let events: Vec<_> = WIRED.iter().map(|wiring| wiring.event).filter(|event| want(*event)).collect();
    hooks(&events, program, HookForm::Shell)
}
