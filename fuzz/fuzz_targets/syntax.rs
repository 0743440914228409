//! Any text: parsed item by item and lowered, or an error with a place in the text. Never a panic.
#![no_main]

use ctxbridge::syntax::{Goal, for_each_item};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for goal in [Goal::Module, Goal::FunctionBody] {
        let read = for_each_item(text, goal, |item| {
            let node = item.lower();
            node.walk(&mut |node| assert!(node.span.hi as usize <= text.len()));
        });
        if let Err(error) = read {
            assert!(error.offset as usize <= text.len());
        }
    }
});
