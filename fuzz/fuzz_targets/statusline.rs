//! Anything on the stdin of the statusline: one line, whatever the figures.
#![no_main]

use ctxbridge::autopilot::{StatuslineInput, StatusLine, WindowState};
use ctxbridge::config::AutopilotSettings;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(input) = StatuslineInput::parse(bytes) else { return };
    let line = StatusLine::of(&input, input.tokens, &WindowState::default(), None, &AutopilotSettings::default());
    let text = line.text();
    assert!(!text.is_empty() && !text.contains('\n'));
});
