//! Any pattern on any text.
#![no_main]

use ctxbridge::patch::pattern::{Bindings, Pattern, PatternSearch};
use ctxbridge::syntax::{Goal, for_each_item};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (pattern, text) = input;
    let Ok(pattern) = Pattern::parse(pattern) else { return };
    let _ = for_each_item(text, Goal::Module, |item| {
        let node = item.lower();
        for found in PatternSearch::new(&pattern).all(&node, &Bindings::default()) {
            assert!(found.span.lo <= found.span.hi && found.span.hi as usize <= text.len());
        }
    });
});
