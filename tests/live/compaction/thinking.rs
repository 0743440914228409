//! Thinking is bound to what stood before it. A patched client cuts there, and is refused once; the mod keeps no thinking behind a cut.

use ctxbridge::stub::ThinkingRules;

use super::stage::{Stage, Turn, counted, thoughts};
use super::{WINDOW, long_turn};
use crate::live::Installation;

/// The same turn as with the mod, and another one.
fn a_patched_client(version: &'static str) {
    let installation = Installation::of(version);
    installation.apply();
    let stage = Stage::of(version, &installation.path, WINDOW, ThinkingRules::Bound);
    stage.remove_plugin();
    let long = long_turn(&stage, "Count the plovers on each beach.", 1..6, "All are counted.");
    let (conversation, said) = stage.try_to_say(vec![long, Turn::new("How many were there?", "Very many.")]);
    assert!(conversation.is_success(), "{version}: {conversation:#?}");
    let refused: Vec<usize> = (0..said.len()).filter(|&at| said[at].violation.is_some()).collect();
    let cuts: Vec<usize> = (1..said.len()).filter(|&at| counted(&said[at - 1]).len() > counted(&said[at]).len()).collect();
    println!("{version}: {} requests, of which {} were refused: one for each of {} cuts", said.len(), refused.len(), cuts.len());
    assert!(!cuts.is_empty(), "{version}: something was folded");
    assert_eq!(refused, cuts, "{version}: each cut is refused, and nothing else");
    for at in refused {
        let (refused, again) = (&said[at], &said[at + 1]);
        let reason = refused.violation.as_deref().unwrap();
        assert!(reason.ends_with("Invalid `signature` in `thinking` block"), "{version}: {reason}");
        assert_eq!((thoughts(refused), thoughts(again)), (1, 0), "{version}: it is sent again without thinking");
        assert_eq!(counted(refused), counted(again), "{version}: and else the same");
    }
    assert_eq!(stage.summaries(), 0, "{version}");
}

scenes! {
    #[ignore = "nightly: it is the client that is looked at"]
    a_patched_client_2_1_330: a_patched_client("2.1.330"),
    #[ignore = "nightly: another release is tried"]
    a_patched_client_2_1_332: a_patched_client("2.1.332"),
}
