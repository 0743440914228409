//! The stub itself, against real clients: what it relies on must be so.

use ctxbridge::client::ConversationLimits;
use ctxbridge::stub::{ApiRequest, Options, RequestKind, ScriptedReply, Stub};
use ctxbridge_testkit::first_or_all;

use super::{Installation, ended_well};

#[test]
fn a_compaction_is_told_from_the_conversation() {
    for version in first_or_all(&["2.1.112", "2.0.76"]) {
        let installation = Installation::of(version);
        let stub = Stub::start().unwrap();
        let client = installation.client().api(&stub.url()).env("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "25");
        let prompts = ["first ".repeat(24_000), "second ".repeat(20_000)];
        ended_well(&stub, &client.converse(&prompts, ConversationLimits::default()).unwrap());
        let kinds: Vec<RequestKind> =
            stub.requests().iter().map(|request| request.kind).filter(|kind| *kind != RequestKind::Side).collect();
        assert_eq!(kinds, [RequestKind::Main, RequestKind::Compaction, RequestKind::Main], "{version}");
    }
}

#[test]
fn a_refusal_shows_at_once() {
    for version in first_or_all(&["2.1.112", "1.0.128"]) {
        let installation = Installation::of(version);
        let script = |_: &ApiRequest| ScriptedReply::Text("Never.".into());
        let stub = Stub::start_with(script, Options { max_requests: 0, ..Options::default() }).unwrap();
        let conversation = installation.converse(&stub, &["Hello".to_owned()]);
        assert!(conversation.turns[0].is_error, "{version}");
        assert!(conversation.turns[0].text.contains("529"), "{version}: {}", conversation.turns[0].text);
    }
}
