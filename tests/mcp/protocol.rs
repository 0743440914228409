//! The protocol: what is offered, what is refused, and how it ends.

#[cfg(unix)]
use std::process::Command;

use ctxbridge_testkit::sandbox::Sandbox;
use serde_json::{Value, json};

use super::archive_session;
use super::server::Server;

#[test]
fn the_tools_are_described() {
    let mut server = Server::start(&Sandbox::new());
    let tools = server.request("tools/list", json!({}))["result"]["tools"].clone();
    for tool in tools.as_array().unwrap() {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{}", tool["name"]);
        for (name, property) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 10), "{name}: {property}");
            assert!(property["type"].is_string(), "{name}: {property}");
        }
    }
    let inputs: Vec<Value> = tools.as_array().unwrap().iter().map(without_output).collect();
    insta::assert_snapshot!("tools", serde_json::to_string_pretty(&inputs).unwrap());
}

fn without_output(tool: &Value) -> Value {
    let mut tool = tool.clone();
    let output = tool.as_object_mut().unwrap().remove("outputSchema").unwrap();
    assert_eq!(output["type"], "object");
    tool
}

#[test]
fn wrong_arguments_are_named() {
    let sandbox = Sandbox::new();
    archive_session(&sandbox, 1, &[("Ospreys?", "They fish.")]);
    let mut server = Server::start(&sandbox);
    for (tool, arguments, named) in [
        ("search", json!({}), "query"),
        ("search", json!({ "query": "  " }), "query"),
        ("search", json!({ "query": 1 }), "query"),
        ("search", json!({ "query": "a", "limit": 0 }), "limit"),
        ("search", json!({ "query": "a", "limit": -1 }), "limit"),
        ("search", json!({ "query": "a", "max_tokens": 20_001 }), "max_tokens"),
        ("search", json!({ "query": "a", "kind": "bird" }), "kind"),
        ("search", json!({ "query": "a", "mode": "best" }), "mode"),
        ("search", json!({ "query": "a", "since": "the second coming" }), "since"),
        ("search", json!({ "query": "a", "cursor": "10-0123456789ab" }), "cursor"),
        ("search", json!({ "query": "a", "color": "red" }), "color"),
        ("recall", json!({ "handle": "osprey" }), "handle"),
        ("recall", json!({ "handle": "ctx:1a2b3c4d.x" }), "handle"),
        ("recall", json!({ "handle": "ctx:1a2b3c4d..5e6f" }), "handle"),
        ("recall", json!({ "handle": "ctx:10000000", "cursor": "" }), "cursor"),
        ("recall", json!({ "handle": "ctx:10000000", "max_tokens": 1 }), "max_tokens"),
        ("timeline", json!({}), "session"),
        ("timeline", json!({ "session": "" }), "session"),
        ("timeline", json!({ "session": "1a", "newest_first": "yes" }), "newest_first"),
        ("session", json!({ "project": ["a"] }), "project"),
        ("learnings", json!({ "kind": "wish" }), "kind"),
        ("learnings", json!({ "since": "the second coming" }), "since"),
        ("learn", json!({}), "name"),
    ] {
        let (argument, message) = server.refusal(tool, arguments.clone());
        assert_eq!(argument, named, "{tool} {arguments}: {message}");
        assert!(message.starts_with(&format!("`{named}`: ")), "{tool} {arguments}: {message}");
    }
    // Null is as good as nothing.
    server.answer("search", json!({ "query": "ospreys", "limit": null, "kind": null, "cursor": null }));
}

#[test]
fn an_argument_of_a_wrong_type_is_named_with_the_right_one() {
    let mut server = Server::start(&Sandbox::new());
    let text = ["query", "project", "session", "since", "until", "tool", "file", "kind", "mode", "cursor", "handle"];
    let tools = server.request("tools/list", json!({}))["result"]["tools"].clone();
    for tool in tools.as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let fine = json!({ "query": "a", "handle": "ctx:1a2b3c4d", "session": "1a" });
        for (argument, schema) in tool["inputSchema"]["properties"].as_object().unwrap() {
            let mut arguments: Value = fine.clone();
            // Only what this tool takes.
            arguments.as_object_mut().unwrap().retain(|key, _| tool["inputSchema"]["properties"].get(key).is_some());
            arguments[argument] = json!({ "of": "another type" });
            let expected = match schema["type"].as_str().unwrap() {
                "string" => "a string",
                "integer" => "a whole number",
                _ => "a boolean",
            };
            assert_eq!(text.contains(&argument.as_str()), expected == "a string", "{argument}");
            let (named, message) = server.refusal(name, arguments);
            assert!(named == *argument && message.contains(expected), "{name} {argument}: {message}");
        }
    }
}

#[test]
fn parameters_of_a_wrong_type_are_named_as_well() {
    let mut server = Server::start(&Sandbox::new());
    for (method, params, named) in [
        ("tools/call", json!({ "name": 7, "arguments": { "query": "a" } }), "name"),
        ("tools/call", json!({ "name": ["search"] }), "name"),
        ("tools/call", json!({ "name": null }), "name"),
        ("tools/call", json!({ "arguments": {} }), "name"),
        ("tools/call", json!({ "name": "search", "arguments": "query" }), "arguments"),
        ("tools/call", json!({ "name": "search", "arguments": [{ "query": "a" }] }), "arguments"),
        ("tools/call", json!({ "name": "search", "arguments": 1 }), "arguments"),
        ("tools/call", json!({ "name": "search", "arguments": false, "_meta": { "progressToken": 1 } }), "arguments"),
        ("resources/read", json!({ "uri": 1 }), "uri"),
    ] {
        let error = server.request(method, params.clone())["error"].clone();
        assert_eq!((&error["code"], &error["data"]["argument"]), (&json!(-32602), &json!(named)), "{method} {params}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("`{named}`: should be ")), "{method} {params}: {message}");
    }
    assert_eq!(server.request("ping", json!({}))["result"], json!({}), "it goes on");
}

#[test]
fn what_is_no_message_does_no_harm() {
    let mut server = Server::start(&Sandbox::new());
    server.write("\n{\"jsonrpc\": \n\u{0}\u{1}\n");
    assert_eq!(server.request("no/such/method", json!({}))["error"]["code"], -32601);
    server.write("null\n");
    assert_eq!(server.next().unwrap()["error"]["code"], -32600, "JSON, but no message");
    server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/unheard_of" }));
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
    let error = &server.request("resources/read", json!({ "uri": "file:///etc/passwd" }))["error"];
    assert_eq!((&error["code"], &error["data"]["argument"]), (&json!(-32602), &json!("uri")), "{error}");
    let error = &server.request("resources/list", json!({ "cursor": "7" }))["error"];
    assert_eq!(error["data"]["argument"], "cursor", "{error}");
    let long = "x".repeat(1 << 20);
    server.answer("search", json!({ "query": long }));
}

#[test]
fn it_ends_with_its_input_and_answers_what_was_asked_before() {
    let sandbox = Sandbox::new();
    archive_session(&sandbox, 1, &[("Ospreys?", "They fish.")]);
    let mut server = Server::start(&sandbox);
    server.send(&json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "search", "arguments": { "query": "ospreys" } } }));
    server.close();
    let answer = server.next().expect("the answer");
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(7), &json!(false)), "{answer}");
    assert_eq!(server.next(), None);
    assert!(server.end().success());

    let mut server = Server::silent(&sandbox);
    server.close();
    assert!(server.end().success(), "not a word was said");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it() {
    let mut server = Server::start(&Sandbox::new());
    assert!(Command::new("kill").args(["-TERM", &server.process().to_string()]).status().unwrap().success());
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&server.end()), Some(15));
}

#[test]
fn without_an_archive_it_says_so_and_makes_none() {
    let sandbox = Sandbox::new();
    let mut server = Server::start(&sandbox);
    for (tool, arguments) in [("search", json!({ "query": "ospreys" })), ("session", json!({}))] {
        let answer = server.answer(tool, arguments);
        assert!(answer.text.contains("ctxbridge hooks install"), "{}", answer.text);
        assert!(answer.value["notes"][0].as_str().unwrap().contains("ctxbridge hooks install"), "{}", answer.value);
    }
    for (tool, arguments) in [
        ("recall", json!({ "handle": "ctx:1a2b3c4d" })),
        ("recall", json!({ "handle": "ctx:1a2b3c4d.0" })),
        ("recall", json!({ "handle": "ctx:1a2b3c4d..5e6f7a8b" })),
        ("recall", json!({ "handle": "ctx:summary.1" })),
        ("timeline", json!({ "session": "1a" })),
    ] {
        let answer = server.call(tool, arguments);
        assert!(answer.is_error && answer.text.contains("nothing is archived yet"), "{answer:?}");
    }
    assert_eq!(server.request("resources/list", json!({}))["result"]["resources"], json!([]));
    assert_eq!(server.request("resources/read", json!({ "uri": "ctxbridge://session/1a" }))["error"]["code"], -32002);
    let left: Vec<_> = std::fs::read_dir(sandbox.data()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
