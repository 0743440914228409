//! Anything on the stdin of the statusline: one line, whatever the figures.
#![no_main]

use ctxbridge::autopilot::{Input, Line, State};
use ctxbridge::config::Autopilot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(input) = Input::parse(bytes) else { return };
    let line = Line::of(&input, input.tokens, &State::default(), None, &Autopilot::default());
    let text = line.text();
    assert!(!text.is_empty() && !text.contains('\n'));
});
