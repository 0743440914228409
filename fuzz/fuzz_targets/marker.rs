//! Any text with what looks like our comment in it: undone or not, never a panic.
#![no_main]

use ctxbridge::patch::marker;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, &str)| {
    let (before, json, behind) = input;
    for text in [before.to_owned(), format!("{before}/*! ctxbridge {json}*/{behind}")] {
        let found = marker::find(&text);
        let _ = marker::undo(&text, &found);
    }
});
