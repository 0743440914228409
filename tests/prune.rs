//! The pruning policy: its rules one by one, its invariants on generated conversations, and that
//! the Rust and the injected JavaScript agree on every conversation that appears in either.

mod conversations;
mod invariants;
mod messages;
mod node;
mod reference;
mod rules;
mod variables;

use std::borrow::Cow;
use std::process::Command;

use ctxbridge::patch::catalog::Catalog;
use ctxbridge::prune::{self, PruneSettings, RUNTIME, RUNTIME_FUNCTION};
use serde_json::Value;

use variables::Environment;

fn settings(environment: &Environment) -> PruneSettings {
    PruneSettings::from_env(|name| environment.get(name).cloned())
}

/// Prunes with both twins and returns what Rust made of it, having checked that they agree on the
/// conversation and on returning the input itself.
fn prune_with_both<'a>(messages: &'a [Value], environment: &Environment) -> Cow<'a, [Value]> {
    let pruned = prune::prune(messages, &settings(environment));
    let javascript = node::prune(messages, environment);
    assert_eq!(javascript.messages, pruned.as_ref(), "the twins differ under {environment:?}");
    assert_eq!(javascript.same_array, is_input(&pruned), "the array under {environment:?}");
    pruned
}

#[expect(clippy::ptr_arg, reason = "what is asked is how it is held")]
fn is_input(pruned: &Cow<'_, [Value]>) -> bool {
    matches!(pruned, Cow::Borrowed(_))
}

#[track_caller]
fn assert_untouched(messages: &[Value], environment: &Environment) {
    assert!(is_input(&prune_with_both(messages, environment)));
}

/// Constants exist once in each language; these are the lines where the JavaScript has them.
#[test]
fn the_twins_have_the_same_constants() {
    let defaults = PruneSettings::default().constants();
    let defaults = defaults.iter().map(|(name, value)| format!("const {name} = {value};"));
    let constants = [
        format!("const CHARS_PER_TOKEN = {};", prune::CHARS_PER_TOKEN),
        format!("const TOKENS_PER_MEDIA_BLOCK = {};", prune::TOKENS_PER_MEDIA_BLOCK),
        format!("const RESERVE_TOKENS = {};", prune::window::RESERVE_TOKENS),
        format!("const ROOM_TOKENS = {};", prune::fold::ROOM_TOKENS),
        format!("const TAIL_TOKENS = {};", prune::fold::TAIL_TOKENS),
    ];
    for constant in defaults.chain(constants) {
        assert_eq!(RUNTIME.matches(&constant).count(), 1, "{constant}");
    }
}

/// The patch says it in its own way: it is chosen when a client is patched.
#[test]
fn the_twins_know_where_a_release_compacts() {
    let mut catalog = Catalog::embedded().unwrap();
    let patch = catalog.patch_mut(prune::PATCH).unwrap();
    for version in ["1.0.60", "2.0.76", "2.1.24", "2.1.25", "2.1.330", "3.0.0"] {
        let runtime = patch.runtime_of(Some(&version.parse().unwrap())).unwrap().source;
        let line = format!("const RESERVE_TOKENS = {};", prune::window::reserve_tokens(Some(version)));
        assert_eq!(runtime.matches(&line).count(), 1, "{version}: {line}");
    }
}

/// The client's bundle may be Latin-1, and may be a module or the body of a function.
#[test]
fn the_runtime_is_one_small_ascii_function() {
    assert!(RUNTIME.is_ascii());
    assert!(RUNTIME.len() < 34 * 1024, "{} bytes", RUNTIME.len());
    assert!(RUNTIME.starts_with(&format!("function {RUNTIME_FUNCTION}(messages, purpose) {{\n")));
    assert!(RUNTIME.ends_with("\n}\n"));
}

/// What only JavaScript can do to it: throwing getters, proxies, lone surrogates, a hostile
/// environment.
#[test]
fn the_runtime_withstands_its_surroundings() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/prune/runtime.test.mjs");
    let run = Command::new("node").arg(script).output().expect("Node.js 18 or newer");
    let [printed, errors] = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(run.status.success(), "{printed}{errors}");
}
