//! Thinking is bound to what stood before it: neither way keeps any behind a cut, so that no request is refused. (With the newest thinking kept, each
//! cut was refused once: the client then strips all thinking and sends the request again.)

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
    let refused: Vec<&str> = said.iter().filter_map(|request| request.violation.as_deref()).collect();
    let cuts: Vec<usize> = (1..said.len()).filter(|&at| counted(&said[at - 1]).len() > counted(&said[at]).len()).collect();
    println!("{version}: {} requests, {} cuts, refused: {refused:?}", said.len(), cuts.len());
    assert!(!cuts.is_empty(), "{version}: something was folded");
    assert_eq!(refused, [""; 0], "{version}");
    for at in cuts {
        assert_eq!(thoughts(&said[at]), 0, "{version}: no thinking is behind a cut");
    }
    assert!(said.iter().any(|request| thoughts(request) > 0), "{version}: there is thinking");
    assert_eq!(stage.summaries(), 0, "{version}");
}

scenes! {
    #[ignore = "nightly: it is the client that is looked at"]
    a_patched_client_2_1_330: a_patched_client("2.1.330"),
    #[ignore = "nightly: another release is tried"]
    a_patched_client_2_1_332: a_patched_client("2.1.332"),
}
