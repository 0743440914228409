//! The stub of the Messages API over real HTTP.

mod cache;
mod http;
mod rules;

use std::sync::atomic::{AtomicUsize, Ordering};

use ctxbridge::stub::{ApiRequest, Options, ReplyUsage, RequestKind, Responder, Role, ScriptedReply, Stub, ToolCall};
use serde_json::{Value, json};

use http::{Answer, agent, ask, assistant, call, main_request, post, request, result, text, user};

#[test]
fn what_is_not_json_is_refused() {
    let stub = Stub::start().unwrap();
    for body in ["{", r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"\ud83d"}]}"#] {
        let (status, kind, message) = post(&stub, "/v1/messages", body).error();
        assert_eq!((status, kind.as_str()), (400, "invalid_request_error"));
        assert!(message.starts_with("The request body is not valid JSON: "), "{message}");
    }
    assert_eq!(stub.violations().len(), 2);
    assert!(stub.requests().is_empty());
}

#[test]
fn a_plain_answer_is_one_message() {
    let stub = Stub::start().unwrap();
    let answer = ask(&stub, &main_request(json!([user("Hi")])));
    assert_eq!(answer.content_type, "application/json");
    let tokens = stub.requests()[0].tokens;
    assert_eq!(
        answer.json(),
        json!({
            "id": "msg_stub0001",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [{ "type": "text", "text": "Answer 1." }],
            "stop_reason": "end_turn",
            "stop_sequence": null,
            "usage": {
                "input_tokens": tokens,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 3,
            },
        })
    );
}

/// The events of a stream, each checked to carry its own name.
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "text/event-stream"));
    let events = answer.body.strip_suffix("\n\n").unwrap().split("\n\n");
    let event = |event: &str| {
        let (name, data) = event.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: ").unwrap(), data["type"]);
        data
    };
    events.map(event).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn a_streamed_text_comes_in_deltas() {
    let long = "Grüße. ".repeat(1_000);
    let said = long.clone();
    let script = move |_: &ApiRequest| ScriptedReply::Text(said.clone());
    let stub = Stub::start_with(script, Options::default()).unwrap();
    let mut body = main_request(json!([user("Hi")]));
    body["stream"] = json!(true);
    let events = events(&ask(&stub, &body));

    let delta = "content_block_delta";
    assert_eq!(
        names(&events),
        [
            "message_start",
            "content_block_start",
            "ping",
            delta,
            delta,
            delta,
            delta,
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let message = &events[0]["message"];
    assert_eq!((&message["content"], &message["stop_reason"]), (&json!([]), &Value::Null));
    assert_eq!(message["usage"]["input_tokens"], stub.requests()[0].tokens);
    assert_eq!(events[1]["content_block"], json!({ "type": "text", "text": "" }));
    let text: String = events[3..7].iter().map(|event| event["delta"]["text"].as_str().unwrap()).collect();
    assert_eq!(text, long);
    assert_eq!(events[8]["delta"]["stop_reason"], "end_turn");
    assert_eq!(events[8]["usage"]["output_tokens"], 2_000);
}

#[test]
fn a_script_calls_a_tool_and_sees_its_result() {
    let script = |request: &ApiRequest| {
        if request.brings_tool_result() {
            ScriptedReply::Text("Read it.".into())
        } else {
            ScriptedReply::ToolUse { name: "Read".into(), input: json!({ "file_path": "a.txt" }) }
        }
    };
    let stub = Stub::start_with(script, Options::default()).unwrap();
    let mut body = main_request(json!([user("Read a.txt")]));
    body["stream"] = json!(true);
    let streamed = events(&ask(&stub, &body));
    let block = &streamed[1]["content_block"];
    assert_eq!((&block["type"], &block["name"], &block["input"]), (&json!("tool_use"), &json!("Read"), &json!({})));
    let delta = &streamed[3]["delta"];
    assert_eq!(delta["type"], "input_json_delta");
    assert_eq!(delta["partial_json"], r#"{"file_path":"a.txt"}"#);
    assert_eq!(streamed[5]["delta"]["stop_reason"], "tool_use");

    let id = block["id"].as_str().unwrap();
    body["messages"] = json!([user("Read a.txt"), assistant(json!([call(id)])), user(json!([result(id)]))]);
    let streamed = events(&ask(&stub, &body));
    assert_eq!(streamed[3]["delta"]["text"], "Read it.");
    assert_eq!(stub.violations(), [""; 0]);
}

#[test]
fn side_requests_use_up_no_step_of_the_script() {
    struct Counting(&'static AtomicUsize);
    impl Responder for Counting {
        fn reply(&mut self, _: &ApiRequest) -> ScriptedReply {
            ScriptedReply::Text(format!("Step {}.", self.0.fetch_add(1, Ordering::Relaxed)))
        }
    }
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    let stub = Stub::start_with(Counting(&STEPS), Options::default()).unwrap();
    let said = |body: Value| ask(&stub, &body).json()["content"][0]["text"].clone();

    let mut deferring = request(json!([user("Hi")]));
    deferring["system"] = json!([text("You are an interactive tool.")]);
    let summary = "Now create a detailed summary, please: all of it all.";
    assert_eq!(said(request(json!([user("Warmup")]))), "OK.");
    assert_eq!(said(main_request(json!([user("Hi")]))), "Step 0.");
    let summed_up = said(main_request(json!([user(json!([text("Hi"), text(summary)]))])));
    assert!(summed_up.as_str().unwrap().contains("<summary>"), "{summed_up}");
    assert_eq!(said(deferring), "Step 1.");
    let mut delegated = main_request(json!([user("Count the birds.")]));
    delegated["system"] = json!([text("x-anthropic-billing-header: cc_is_subagent=true;"), text("You are an agent.")]);
    assert_eq!(said(delegated), "OK.");

    let seen = stub.requests();
    let seen: Vec<_> = seen.iter().map(|request| (request.kind, request.number)).collect();
    assert_eq!(
        seen,
        [
            (RequestKind::Side, 1),
            (RequestKind::Main, 1),
            (RequestKind::Compaction, 1),
            (RequestKind::Main, 2),
            (RequestKind::Side, 2)
        ]
    );
    assert_eq!(stub.main_requests().len(), 2);
}

#[test]
fn a_script_calls_several_tools_at_once() {
    let calls = ["a.txt", "b.txt"].map(|path| ToolCall { name: "Read".into(), input: json!({ "file_path": path }) });
    let script = move |_: &ApiRequest| ScriptedReply::ToolUses(calls.to_vec());
    let stub = Stub::start_with(script, Options::default()).unwrap();
    let mut body = main_request(json!([user("Read both.")]));
    let plain = ask(&stub, &body).json();
    assert_eq!(plain["stop_reason"], "tool_use");
    let block = |at: usize, path: &str| {
        let id = format!("toolu_stub0001_{at}");
        json!({ "type": "tool_use", "id": id, "name": "Read", "input": { "file_path": path } })
    };
    assert_eq!(plain["content"], json!([block(0, "a.txt"), block(1, "b.txt")]));
    assert_eq!(plain["usage"]["output_tokens"], (2.0 * (4 + 21) as f64 / 3.5).ceil() as u64);

    body["stream"] = json!(true);
    let streamed = events(&ask(&stub, &body));
    let starts = streamed.iter().filter(|event| event["type"] == "content_block_start");
    let starts: Vec<_> = starts.map(|event| (&event["index"], &event["content_block"]["id"])).collect();
    assert_eq!(starts, [(&json!(0), &json!("toolu_stub0002_0")), (&json!(1), &json!("toolu_stub0002_1"))]);
}

#[test]
fn a_script_says_what_usage_is_reported() {
    struct Full;
    impl Responder for Full {
        fn reply(&mut self, _: &ApiRequest) -> ScriptedReply {
            ScriptedReply::Text("Yes.".into())
        }
        fn usage(&mut self, request: &ApiRequest, reply: &ScriptedReply) -> ReplyUsage {
            ReplyUsage { input_tokens: 150_000, ..ReplyUsage::of(request, reply) }
        }
    }
    let stub = Stub::start_with(Full, Options::default()).unwrap();
    let usage = ask(&stub, &main_request(json!([user("Hi")]))).json()["usage"].clone();
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(150_000), &json!(2)));
    assert!(stub.requests()[0].tokens < 1_000);
}

#[test]
fn a_request_is_measured() {
    let stub = Stub::start().unwrap();
    let reminder = "<system-reminder>\nBe kind.\n</system-reminder>";
    ask(
        &stub,
        &main_request(json!([
            user("<available-deferred-tools>\nRead\n</available-deferred-tools>"),
            user(json!([text(reminder), text("Erste Frage: größer?")])),
            assistant(json!([text("Ja."), call("t1")])),
            user(json!([result("t1"), text(reminder)])),
            assistant("Fertig."),
            user(format!("Zweite.\n{reminder}")),
        ])),
    );
    let request = &stub.requests()[0];
    assert_eq!(request.model, "claude-sonnet-4-5");
    assert_eq!(request.messages().len(), 6);
    assert_eq!(request.human_prompts(), ["Erste Frage: größer?", "Zweite."]);
    assert_eq!(request.text_chars(Role::Assistant), "Ja.Fertig.".len());
    let blocks = request.text_blocks();
    assert_eq!(blocks.len(), 7);
    assert_eq!((blocks[2].message, blocks[2].role, blocks[2].text), (1, Role::User, "Erste Frage: größer?"));
    let prompt = ["system", "tools", "messages"].map(|part| request.body[part].to_string());
    let chars = prompt.concat().chars().count();
    assert_eq!(request.tokens, (chars as f64 / 3.5).ceil() as u64);
}

#[test]
fn a_pruned_conversation_shows_in_the_turns() {
    const MARKER: &str = "[earlier context pruned]";
    let cut = |n: usize| format!("{}{MARKER}", format!("{n}. {}", "word ".repeat(40)).chars().take(80).collect::<String>());
    let whole = |n: usize| format!("{n}. {}", "word ".repeat(40)).trim().to_owned();
    let mut messages = Vec::new();
    for n in 1..=8 {
        messages.push(user(if n <= 4 { cut(n) } else { whole(n) }));
        messages.push(assistant(format!("Answer {n}.")));
    }
    messages.pop();
    let stub = Stub::start().unwrap();
    ask(&stub, &main_request(json!(messages)));

    let turns = stub.main_requests()[0].human_prompts();
    let (old, new) = turns.split_at(turns.len() - 4);
    assert!(old.iter().all(|turn| { turn.strip_suffix(MARKER).is_some_and(|kept| kept.chars().count() <= 80) }));
    assert_eq!(new, [5, 6, 7, 8].map(whole));
}

#[test]
fn tokens_are_counted_without_a_budget() {
    let stub = Stub::start().unwrap();
    let mut body = request(json!([user("How many?")]));
    body.as_object_mut().unwrap().remove("max_tokens");
    let answer = post(&stub, "/v1/messages/count_tokens?beta=true", &body.to_string());
    let chars = body["messages"].to_string().chars().count();
    assert_eq!(answer.json(), json!({ "input_tokens": (chars as f64 / 3.5).ceil() as u64 }));
    assert!(stub.requests().is_empty(), "nothing was asked of the model");

    body["messages"] = json!([]);
    let refused = post(&stub, "/v1/messages/count_tokens", &body.to_string());
    assert_eq!(refused.error().2, "messages: at least one message is required");
}

#[test]
fn anything_else_is_not_found() {
    let stub = Stub::start().unwrap();
    let refused = post(&stub, "/v1/complete", "{}").error();
    assert_eq!(refused, (404, "not_found_error".into(), "Not found".into()));
    let get = |path: &str| agent().get(format!("{}{path}", stub.url())).call().unwrap().status().as_u16();
    assert_eq!((get("/"), get("/v1/messages")), (404, 404));
    assert_eq!(agent().head(stub.url()).call().unwrap().status(), 404);
}

#[test]
fn the_stub_is_bounded() {
    let options = Options { max_requests: 2, max_body: 2_000, ..Options::default() };
    let stub = Stub::start_with(|_: &ApiRequest| ScriptedReply::Text("Yes.".into()), options).unwrap();
    let (status, kind, _) = ask(&stub, &request(json!([user("x".repeat(2_000))]))).error();
    assert_eq!((status, kind.as_str()), (413, "request_too_large"));
    assert_eq!(ask(&stub, &request(json!([user("Hi")]))).status, 200);
    let refused = ask(&stub, &request(json!([user("Hi")]))).error();
    assert_eq!(refused, (529, "overloaded_error".into(), "Overloaded".into()));
    assert_eq!(stub.requests().len(), 1);
}

#[test]
fn a_dropped_stub_is_gone() {
    let stub = Stub::start().unwrap();
    let url = stub.url();
    assert!(url.starts_with("http://127.0.0.1:"));
    // The agent keeps its connection open; the stop must not wait for it.
    let agent = agent();
    agent.get(&url).call().unwrap();
    drop(stub);
    assert!(agent.get(&url).call().is_err());
}
