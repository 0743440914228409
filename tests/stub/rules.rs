//! Each rule of the API: a request that keeps it and one that breaks it.

use ctxbridge::stub::{Stub, validate};
use serde_json::{Value, json};

use crate::stub::http::{ask, assistant, cached, call, main_request, request, result, text, user};

/// Asserts that a fresh stub accepts `good` and refuses `bad` with `message`.
#[track_caller]
fn rule(good: Value, bad: Value, message: &str) {
    let stub = Stub::start().unwrap();
    let accepted = ask(&stub, &good);
    assert_eq!(accepted.status, 200, "{}", accepted.body);
    assert_eq!(stub.violations(), [""; 0]);

    let refused = ask(&stub, &bad).error();
    assert_eq!(refused, (400, "invalid_request_error".into(), message.into()));
    assert_eq!(stub.violations(), [message]);
    assert_eq!(stub.requests().last().unwrap().violation.as_deref(), Some(message));
}

/// The same for messages.
#[track_caller]
fn messages_rule(good: Value, bad: Value, message: &str) {
    rule(request(good), request(bad), message);
}

#[track_caller]
fn without(field: &str, message: &str) {
    let good = request(json!([user("Hi")]));
    let mut bad = good.clone();
    bad.as_object_mut().unwrap().remove(field);
    rule(good, bad, message);
}

#[track_caller]
fn with(field: &str, value: Value, message: &str) {
    let good = request(json!([user("Hi")]));
    let mut bad = good.clone();
    bad[field] = value;
    rule(good, bad, message);
}

#[test]
fn a_request_names_a_model_a_budget_and_messages() {
    without("model", "model: Field required");
    with("model", json!(7), "model: Input should be a valid string");
    with("model", json!(""), "model: String should have at least 1 character");
    without("max_tokens", "max_tokens: Field required");
    with("max_tokens", json!(0), "max_tokens: must be greater than or equal to 1");
    with("max_tokens", json!("9"), "max_tokens: Input should be a valid integer");
    without("messages", "messages: Field required");
    with("messages", json!("Hi"), "messages: Input should be a valid list");
    with("messages", json!([]), "messages: at least one message is required");
}

#[test]
fn roles_are_user_and_assistant_and_the_user_begins() {
    messages_rule(
        json!([user("Hi"), assistant("Hello.")]),
        json!([assistant("Hello."), user("Hi")]),
        "messages: first message must use the \"user\" role",
    );
    messages_rule(
        json!([user("Hi")]),
        json!([user("Hi"), { "role": "tool", "content": "x" }]),
        "messages.1.role: Input should be 'user' or 'assistant'",
    );
    messages_rule(
        json!([user("Hi")]),
        json!([{ "role": "system", "content": "x" }, user("Hi")]),
        "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` \
         parameter, not \"system\" as an input message role.",
    );
}

#[test]
fn neighbors_of_one_role_are_accepted() {
    let messages = json!([user("One."), user("Two."), assistant("A."), assistant("B."), user("C.")]);
    assert_eq!(validate(&request(messages)), Ok(()));
}

#[test]
fn content_is_not_empty_except_in_a_prefill() {
    let message = "messages.1: all messages must have non-empty content except for the optional \
                   final assistant message";
    messages_rule(
        json!([user("Hi"), assistant(json!([]))]),
        json!([user("Hi"), assistant(json!([])), user("Still there?")]),
        message,
    );
    messages_rule(json!([user("Hi"), assistant("")]), json!([user("Hi"), user("")]), message);
    messages_rule(json!([user("Hi")]), json!([{ "role": "user" }]), "messages.0.content: Field required");
    messages_rule(json!([user("Hi")]), json!([user(7)]), "messages.0.content: Input should be a valid list");
}

#[test]
fn text_is_not_empty_or_blank() {
    let (empty, blank) =
        ("messages: text content blocks must be non-empty", "messages: text content blocks must contain non-whitespace text");
    let good = json!([user(json!([text("Hi")]))]);
    messages_rule(good.clone(), json!([user(json!([text("Hi"), text("")]))]), empty);
    messages_rule(good.clone(), json!([user(json!([text(" \n")]))]), blank);
    messages_rule(good.clone(), json!([user("\t")]), blank);
    messages_rule(
        good.clone(),
        json!([user(json!([cached(text(""))]))]),
        "messages.0.content.0.text: cache_control cannot be set for empty text blocks",
    );
    messages_rule(good, json!([user(json!([{ "type": "text" }]))]), "messages.0.content.0.text.text: Field required");
    with("system", json!([text("")]), "system: text content blocks must be non-empty");
}

#[test]
fn a_prefill_does_not_end_in_white_space() {
    messages_rule(
        json!([user("Hi"), assistant("Well "), user("Go on.")]),
        json!([user("Hi"), assistant("Well ")]),
        "messages: final assistant content cannot end with trailing whitespace",
    );
}

#[test]
fn at_most_four_blocks_are_cache_breakpoints() {
    let mut good = main_request(json!([user(json!([cached(text("a")), cached(text("b"))]))]));
    good["system"][0] = cached(good["system"][0].clone());
    good["tools"][1] = cached(good["tools"][1].clone());
    let mut bad = good.clone();
    bad["messages"] = json!([user(json!([cached(text("a")), cached(text("b")), cached(text("c"))]))]);
    let message = "A maximum of 4 blocks with cache_control may be provided. Found 5.";
    rule(good, bad, message);
}

#[test]
fn thinking_keeps_its_signature() {
    let thinking = |signature: Value| {
        let mut block = json!({ "type": "thinking", "thinking": "Hm.", "signature": signature });
        if signature.is_null() {
            block.as_object_mut().unwrap().remove("signature");
        }
        json!([user("Hi"), assistant(json!([block, text("Hello.")])), user("Bye")])
    };
    messages_rule(thinking(json!("c2ln")), thinking(Value::Null), "messages.1.content.0.thinking.signature: Field required");
    messages_rule(thinking(json!("c2ln")), thinking(json!("")), "messages.1.content.0: Invalid `signature` in `thinking` block");
}

#[test]
fn tool_blocks_are_whole_and_on_the_right_side() {
    let good = json!([user("Hi"), assistant(json!([call("t1")])), user(json!([result("t1")]))]);
    let broken = |message: usize, block: Value| {
        let mut bad = good.clone();
        bad[message]["content"][0] = block;
        bad
    };
    let bad = |message, block, words| messages_rule(good.clone(), broken(message, block), words);
    bad(
        1,
        json!({ "type": "tool_use", "id": "t 1", "name": "Read", "input": {} }),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    );
    bad(1, json!({ "type": "tool_use", "id": "t1", "name": "Read" }), "messages.1.content.0.tool_use.input: Field required");
    bad(
        1,
        json!({ "type": "tool_use", "id": "t1", "name": "Read", "input": "x" }),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    );
    bad(1, json!({ "type": "tool_use", "id": "t1", "input": {} }), "messages.1.content.0.tool_use.name: Field required");
    bad(1, json!({ "text": "x" }), "messages.1.content.0.type: Field required");
    bad(1, result("t1"), "messages.1: `tool_result` blocks can only be in `user` messages");
    bad(2, call("t2"), "messages.2: `tool_use` blocks can only be in `assistant` messages");
    bad(2, json!({ "type": "tool_result", "content": "x" }), "messages.2.content.0.tool_result.tool_use_id: Field required");
}

fn unanswered(message: usize, ids: &str) -> String {
    format!(
        "messages.{message}: `tool_use` ids were found without `tool_result` blocks immediately \
         after: {ids}. Each `tool_use` block must have a corresponding `tool_result` block in the \
         next message."
    )
}

#[test]
fn every_tool_use_is_answered_in_the_next_message() {
    let calls = || assistant(json!([text("Let me see."), call("t1"), call("t2")]));
    messages_rule(
        json!([user("Hi"), calls(), user(json!([result("t2"), result("t1"), text("And?")]))]),
        json!([user("Hi"), calls(), user(json!([result("t2")]))]),
        &unanswered(1, "t1"),
    );
    // Merged with its neighbor a message counts as one.
    messages_rule(
        json!([user("Hi"), calls(), user(json!([result("t1")])), user(json!([result("t2")]))]),
        json!([user("Hi"), calls(), user("No."), assistant("Why?"), user(json!([result("t1")]))]),
        &unanswered(1, "t1, t2"),
    );
    messages_rule(json!([user("Hi"), assistant("Well.")]), json!([user("Hi"), calls()]), &unanswered(1, "t1, t2"));
}

#[test]
fn results_precede_text_and_calls_follow_it() {
    let good = json!([user("Hi"), assistant(json!([text("So."), call("t1")])), user(json!([result("t1"), text("And?")]))]);
    messages_rule(
        good.clone(),
        json!([user("Hi"), assistant(json!([call("t1")])), user(json!([text("And?"), result("t1")]))]),
        &unanswered(1, "t1"),
    );
    messages_rule(
        good.clone(),
        json!([user("Hi"), assistant(json!([call("t1")])), user("And?"), user(json!([result("t1")]))]),
        &unanswered(1, "t1"),
    );
    messages_rule(
        good,
        json!([user("Hi"), assistant(json!([call("t1"), text("So.")])), user(json!([result("t1")]))]),
        &unanswered(1, "t1"),
    );
}

#[test]
fn every_result_has_its_call_once() {
    let good = json!([user("Hi"), assistant(json!([call("t1")])), user(json!([result("t1")]))]);
    let orphan = |message: usize, block: usize, id: &str| {
        format!(
            "messages.{message}.content.{block}: unexpected `tool_use_id` found in `tool_result` \
             blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block in \
             the previous message."
        )
    };
    messages_rule(good.clone(), json!([user(json!([result("t9")]))]), &orphan(0, 0, "t9"));
    messages_rule(
        good.clone(),
        json!([user("Hi"), assistant(json!([call("t1")])), user(json!([result("t1"), text("x"), result("t9")]))]),
        &orphan(2, 2, "t9"),
    );
    // A result two messages later is as good as none.
    messages_rule(
        good.clone(),
        json!([
            user("Hi"),
            assistant(json!([call("t1")])),
            user(json!([result("t1")])),
            assistant("A."),
            user(json!([result("t1")]))
        ]),
        &orphan(4, 0, "t1"),
    );
    messages_rule(
        good.clone(),
        json!([user("Hi"), assistant(json!([call("t1")])), user(json!([result("t1"), result("t1")]))]),
        "messages.2.content.1: each tool_use must have a single result. Found multiple \
         `tool_result` blocks with id: t1",
    );
    messages_rule(
        good,
        json!([
            user("Hi"),
            assistant(json!([call("t1")])),
            user(json!([result("t1")])),
            assistant(json!([call("t1")])),
            user(json!([result("t1")]))
        ]),
        "messages.3.content.0: `tool_use` ids must be unique",
    );
}
