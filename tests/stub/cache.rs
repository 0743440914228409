//! The prompt cache, with requests made by hand.

use ctxbridge::stub::{CacheRules, Options, Stub, UsageTotals};
use serde_json::{Value, json};

use super::http::{ask, assistant, cached, call, main_request, result, text, user};

/// What an answer said of its prompt.
#[derive(Debug, PartialEq)]
struct Said {
    input: u64,
    written: u64,
    read: u64,
}

fn stub(rules: CacheRules) -> Stub {
    Stub::start_with(ctxbridge::stub::NumberedReplies, Options { cache: Some(rules), ..Options::default() }).unwrap()
}

/// Asks, and checks that nothing of the prompt is lost or counted twice.
#[track_caller]
fn said(stub: &Stub, body: &Value) -> Said {
    let usage = ask(stub, body).json()["usage"].clone();
    let tokens = |field: &str| usage[field].as_u64().unwrap();
    let said = Said {
        input: tokens("input_tokens"),
        written: tokens("cache_creation_input_tokens"),
        read: tokens("cache_read_input_tokens"),
    };
    assert_eq!(said.input + said.written + said.read, stub.requests().last().unwrap().tokens);
    said
}

/// A text of some 1,000 tokens that differs from the others.
fn page(number: usize) -> Value {
    text(&format!("Page {number}. {}", "It goes on and on. ".repeat(185)))
}

/// A conversation of `pages` user messages, of which the last one is a breakpoint.
fn conversation(pages: usize) -> Value {
    let mut messages = Vec::new();
    for number in 1..=pages {
        let page = if number == pages { cached(page(number)) } else { page(number) };
        messages.push(user(json!([page])));
        messages.push(assistant("Read."));
    }
    messages.pop();
    main_request(json!(messages))
}

#[test]
fn without_rules_nothing_is_cached() {
    let stub = Stub::start().unwrap();
    for _ in 0..2 {
        let Said { written, read, .. } = said(&stub, &conversation(2));
        assert_eq!((written, read), (0, 0));
    }
}

#[test]
fn a_growing_conversation_is_read_up_to_what_is_new() {
    let stub = stub(CacheRules::API);
    let first = said(&stub, &conversation(2));
    assert!(first.read == 0 && first.written > 2_000, "{first:?}");
    assert!(first.input <= 1, "the breakpoint is at the end: {first:?}");
    let mut before = first.written;
    for pages in 3..=6 {
        let next = said(&stub, &conversation(pages));
        // The mark has moved away from what was written, and was 38 characters of it.
        assert!(before.abs_diff(next.read) <= 12, "{next:?} after {before}");
        assert!((900..1_200).contains(&next.written), "one page is new: {next:?}");
        before = next.read + next.written;
    }
    let again = said(&stub, &conversation(6));
    assert_eq!((again.read, again.written), (before, 0), "all of it is known");
}

#[test]
fn what_is_behind_the_last_breakpoint_is_plain_input() {
    let stub = stub(CacheRules::API);
    let mut body = conversation(2);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.extend([assistant("Read."), user(json!([page(3)]))]);
    for expected in [(true, false), (false, true)] {
        let Said { input, written, read } = said(&stub, &body);
        assert!((900..1_200).contains(&input), "{input}");
        assert_eq!((written > 2_000, read > 2_000), expected);
    }
}

#[test]
fn an_edit_makes_everything_behind_it_new() {
    let stub = stub(CacheRules::API);
    for pages in 2..=6 {
        said(&stub, &conversation(pages));
    }
    let mut edited = conversation(6);
    edited["messages"][6]["content"][0]["text"] = json!("Page 4, in short.");
    let Said { written, read, .. } = said(&stub, &edited);
    assert!((3_000..3_500).contains(&read), "the first three pages: {read}");
    assert!((1_900..2_300).contains(&written), "the fourth, and two pages: {written}");
}

/// Texts of some 100 tokens in one message, some of them marked and one edited.
fn texts(count: usize, marks: &[usize], edited: Option<usize>) -> Value {
    let text_at =
        |at: usize| text(&format!("{} {at}. {}", if edited == Some(at) { "Edited" } else { "Text" }, "word ".repeat(70)));
    let block = |at: usize| if marks.contains(&at) { cached(text_at(at)) } else { text_at(at) };
    main_request(json!([user(json!((1..=count).map(block).collect::<Vec<_>>()))]))
}

/// The documents' example: an entry at block 15 is out of reach from block 35, and in reach from 34, or with a second breakpoint.
#[test]
fn twenty_positions_are_looked_at() {
    let read = |rules, count, marks: &[usize]| {
        let stub = stub(rules);
        assert!(said(&stub, &texts(15, &[15], None)).written > 0);
        said(&stub, &texts(count, marks, None)).read
    };
    assert!(read(CacheRules::API, 34, &[34]) > 1_000);
    assert_eq!(read(CacheRules::API, 35, &[35]), 0);
    assert!(read(CacheRules::API, 35, &[15, 35]) > 1_000);
    assert!(read(CacheRules::EXACT, 35, &[35]) > 1_000);
}

/// After an edit far behind the start, only an entry within reach of a breakpoint helps.
#[test]
fn an_edit_beyond_twenty_positions_needs_a_breakpoint_nearby() {
    for (rules, marks, found) in
        [(CacheRules::API, &[15, 60][..], true), (CacheRules::API, &[60], false), (CacheRules::EXACT, &[60], true)]
    {
        let stub = stub(rules);
        said(&stub, &texts(60, &[15, 60], None));
        let quarter = stub.requests()[0].tokens / 4;
        let Said { written, read, .. } = said(&stub, &texts(60, marks, Some(50)));
        let expected = if found { quarter } else { 0 };
        assert!(read.abs_diff(expected) < 60, "{rules:?}, {marks:?}: {read} of {expected}");
        assert!(written.abs_diff(4 * quarter - expected) < 60, "{rules:?}, {marks:?}: {written}");
    }
}

/// Twenty-five calls and their results are two positions.
#[test]
fn parallel_calls_are_one_position() {
    let stub = stub(CacheRules::API);
    said(&stub, &conversation(2));
    let mut body = conversation(2);
    body["messages"][2]["content"][0] = page(2);
    let ids: Vec<String> = (0..25).map(|number| format!("t{number}")).collect();
    let mut results: Vec<Value> = ids.iter().map(|id| result(id)).collect();
    let last = results.pop().unwrap();
    results.push(cached(last));
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(assistant(json!(ids.iter().map(|id| call(id)).collect::<Vec<_>>())));
    messages.push(user(json!(results)));
    assert!(said(&stub, &body).read > 2_000);
}

#[test]
fn a_short_prompt_is_not_cached() {
    let stub = stub(CacheRules::API);
    for _ in 0..2 {
        let Said { written, read, .. } = said(&stub, &main_request(json!([user(json!([cached(text("Hi."))]))])));
        assert_eq!((written, read), (0, 0));
    }
    let mut body = conversation(2);
    body["system"][0] = cached(body["system"][0].clone());
    said(&stub, &body);
    body["messages"][0]["content"][0] = page(7);
    assert_eq!(said(&stub, &body).read, 0, "the marked system prompt is too short to be an entry of its own");
}

#[test]
fn each_model_has_a_cache_of_its_own() {
    let stub = stub(CacheRules::API);
    let mut body = conversation(2);
    let first = said(&stub, &body);
    body["model"] = json!("claude-opus-4-8");
    assert_eq!(said(&stub, &body), first);
    assert_eq!(said(&stub, &body).written, 0);
}

#[test]
fn tools_system_prompt_and_roles_are_part_of_a_prefix() {
    type Edit = fn(&mut Value);
    let edits: [Edit; 3] = [
        |body| body["tools"][0]["name"] = json!("Agent"),
        |body| body["system"][0]["text"] = json!("Be brief."),
        |body| body["messages"][1]["role"] = json!("user"),
    ];
    for edit in edits {
        let stub = stub(CacheRules::API);
        said(&stub, &conversation(3));
        let mut body = conversation(3);
        edit(&mut body);
        assert_eq!(said(&stub, &body).read, 0);
    }
}

/// A client makes a block of a string to mark it, and sends the string again later.
#[test]
fn a_string_is_the_block_that_it_stands_for() {
    let stub = stub(CacheRules::API);
    said(&stub, &conversation(2));
    let mut body = conversation(3);
    for at in [0, 2] {
        body["messages"][at]["content"] = body["messages"][at]["content"][0]["text"].take();
    }
    assert!(said(&stub, &body).read > 2_000);
}

#[test]
fn a_billing_line_that_changes_spoils_nothing() {
    let stub = stub(CacheRules::API);
    let mut body = conversation(2);
    for (hash, known) in [("36ee5", false), ("0aaa9", true)] {
        let line = format!("x-anthropic-billing-header: cc_version=2.1.330.01c; cc_entrypoint=sdk-cli; cch={hash};");
        body["system"] = json!([text(&line), text("Be helpful.")]);
        assert_eq!(said(&stub, &body).read > 2_000, known);
    }
}

#[test]
fn refused_requests_leave_the_cache_alone() {
    let stub = stub(CacheRules::API);
    let mut body = conversation(2);
    body["max_tokens"] = json!(0);
    assert_eq!(ask(&stub, &body).status, 400);
    assert_eq!(said(&stub, &conversation(2)).read, 0);
}

#[test]
fn an_entry_can_expire() {
    let rules = CacheRules { time_to_live: Some(std::time::Duration::ZERO), ..CacheRules::API };
    let stub = stub(rules);
    for _ in 0..2 {
        assert_eq!(said(&stub, &conversation(2)).read, 0);
    }
}

#[test]
fn totals_are_of_the_main_conversation() {
    let stub = stub(CacheRules::API);
    let first = said(&stub, &conversation(2));
    let second = said(&stub, &conversation(3));
    let mut aside = conversation(4);
    aside["tools"] = json!([]);
    said(&stub, &aside);

    let totals = stub.totals();
    let expected = UsageTotals {
        requests: 2,
        input: first.input + second.input,
        read: second.read,
        written: first.written + second.written,
        // `Answer 1.` and `Answer 2.`
        output: 6,
        peak: stub.requests()[1].tokens,
    };
    assert_eq!(totals, expected);
    assert_eq!(totals.sent(), stub.requests()[0].tokens + stub.requests()[1].tokens);
    let cost = (10 * totals.input + totals.read) as f64 / 10.0 + 1.25 * totals.written as f64 + 30.0;
    assert!((totals.cost() - cost).abs() < 1e-6, "{} and {cost}", totals.cost());
}
