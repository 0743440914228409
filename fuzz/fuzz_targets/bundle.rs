//! Any bytes of a bundle: what is read of them is one line when it is shown, and the same when it is folded.
#![no_main]

use ctxbridge::bundle::{Episode, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let episodes = parse("session", bytes).episodes;
    for episode in &episodes {
        assert!(!episode.line().contains('\n') && !episode.line().contains("```"));
    }
    let unique = Episode::unique(episodes);
    let folded: String = unique.iter().map(|episode| episode.to_line().to_json()).collect();
    assert_eq!(Episode::unique(parse("other", folded.as_bytes()).episodes), unique);
});
