//! The sessions that are made: what a reader may rely on, for every kind.
#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use ctxbridge_testkit::transcript::{Kind, Made, MadeSession, Spec, append_turn, generate};
use proptest::prelude::*;
use serde_json::Value;

fn made(spec: &Spec) -> (Made, tempfile::TempDir) {
    let out = tempfile::tempdir().unwrap();
    (generate(spec, out.path()).unwrap(), out)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_message(line: &Value) -> bool {
    line["type"] == "user" || line["type"] == "assistant"
}

fn blocks<'a>(line: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    line["message"]["content"].as_array().into_iter().flatten().filter(move |block| block["type"] == kind)
}

/// A prompt that a person wrote, as a reader finds it without knowing how the file was made.
fn is_human(line: &Value) -> bool {
    let Some(text) = line["message"]["content"].as_str() else { return false };
    line["type"] == "user"
        && line["isMeta"] != true
        && line["isCompactSummary"] != true
        && line["turnOrigin"] != "task_notification"
        && !text.starts_with("<command-name>")
        && !text.starts_with("<local-command-stdout>")
}

/// Every parent is a line before; one line begins the chain, and one more for each compaction.
fn check_chain(lines: &[Value], beginnings: u64) {
    let mut seen = HashSet::new();
    let mut began = 0;
    for line in lines.iter().filter(|line| line.get("uuid").is_some()) {
        match line["parentUuid"].as_str() {
            Some(parent) => assert!(seen.contains(parent), "no line {parent} before {line}"),
            None => began += 1,
        }
        assert!(seen.insert(line["uuid"].as_str().unwrap()), "twice: {line}");
    }
    assert_eq!(began, beginnings);
}

/// Each call has its one result, behind it and chained to it, and each result its call.
fn check_tools(lines: &[Value]) -> u64 {
    let mut open = HashMap::new();
    let mut pairs = 0;
    for line in lines {
        for call in blocks(line, "tool_use") {
            assert!(open.insert(call["id"].as_str().unwrap(), line["uuid"].clone()).is_none());
        }
        for result in blocks(line, "tool_result") {
            let call = open.remove(result["tool_use_id"].as_str().unwrap()).unwrap();
            assert_eq!(line["parentUuid"], call);
            assert_eq!(line["sourceToolAssistantUUID"], call);
            pairs += 1;
        }
    }
    assert!(open.is_empty(), "no results for {open:?}");
    pairs
}

/// Lines of one answer share the id and the usage.
fn check_answers(lines: &[Value]) -> u64 {
    let mut usage: HashMap<&str, &Value> = HashMap::new();
    for line in lines.iter().filter(|line| line["type"] == "assistant") {
        let message = &line["message"];
        let first = usage.entry(message["id"].as_str().unwrap()).or_insert(&message["usage"]);
        assert_eq!(*first, &message["usage"]);
    }
    usage.len() as u64
}

fn check(session: &MadeSession) {
    let lines = lines(&session.path);
    let count = |is: &dyn Fn(&Value) -> bool| lines.iter().filter(|line| is(line)).count() as u64;
    assert_eq!(lines.len() as u64, session.lines);
    assert_eq!(fs::metadata(&session.path).unwrap().len(), session.bytes);
    assert_eq!(count(&is_message), session.messages);
    assert_eq!(count(&is_human), session.human_turns);
    assert_eq!(count(&|line| line["subtype"] == "compact_boundary"), session.compactions);
    assert_eq!(count(&|line| line["isCompactSummary"] == true), session.compactions);
    assert_eq!(count(&|line| line["turnOrigin"] == "task_notification"), session.notifications);
    check_chain(&lines, session.compactions + u64::from(session.messages > 0));
    assert_eq!(check_tools(&lines), session.tool_calls);
    assert_eq!(check_answers(&lines), session.answers);
    assert!(lines.iter().filter_map(|line| line["sessionId"].as_str()).all(|id| id == session.id));
    assert!(lines.iter().filter(|line| is_message(line)).all(|line| line["isSidechain"] == false));

    let times: Vec<&str> = lines.iter().filter_map(|line| line["timestamp"].as_str()).collect();
    assert!(times.is_sorted(), "time goes backwards in {}", session.path.display());
    check_agents(session);
}

fn check_agents(session: &MadeSession) {
    let calls = fs::read_to_string(&session.path).unwrap();
    let folder = session.path.with_extension("").join("subagents");
    let files = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect();
    assert_eq!(files.len() as u64, session.agents);
    let mut messages = 0;
    for file in files {
        let meta: Value = serde_json::from_str(&fs::read_to_string(file.with_extension("meta.json")).unwrap()).unwrap();
        assert!(calls.contains(meta["toolUseId"].as_str().unwrap()));
        let lines = lines(&file);
        check_chain(&lines, 1);
        check_tools(&lines);
        assert!(lines.iter().all(|line| line["sessionId"] == session.id.as_str()));
        messages += lines.iter().filter(|line| is_message(line)).count() as u64;
        assert!(lines.iter().filter(|line| is_message(line)).all(|line| line["isSidechain"] == true));
    }
    assert_eq!(messages, session.agent_messages);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_made_holds_together(kind in 0..Kind::ALL.len(), messages in 0u64..400, seed: u64) {
        let spec = Spec::new(Kind::ALL[kind], messages, seed);
        let (made, _out) = made(&spec);
        for session in &made.sessions {
            check(session);
        }
        let copied = if spec.kind == Kind::Resumed { made.sessions[0].messages } else { 0 };
        prop_assert_eq!(made.messages() - copied, messages);
        prop_assert!(messages == 0 || made.human_turns() > 0);
    }
}

#[test]
fn a_seed_decides_every_byte() {
    for kind in Kind::ALL {
        let files = |seed| {
            let (made, _out) = made(&Spec::new(kind, 300, seed));
            made.sessions.iter().map(|session| fs::read(&session.path).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(files(1), files(1));
        assert_ne!(files(1), files(2));
    }
}

#[test]
fn each_kind_has_what_it_is_named_for() {
    let of = |kind| made(&Spec::new(kind, 2_000, 11)).0;
    let chat = &of(Kind::Chat).sessions[0];
    assert!((2.6..2.9).contains(&(chat.messages as f64 / chat.human_turns as f64)), "{chat:?}");
    assert_eq!(of(Kind::OneTurn).human_turns(), 1);
    let tools = &of(Kind::Tools).sessions[0];
    assert!(tools.tool_calls * 3 > tools.messages, "{tools:?}");
    let agents = &of(Kind::Agents).sessions[0];
    assert!(agents.agents > 3 && agents.notifications == agents.agents, "{agents:?}");
    let compacted = &of(Kind::Compacted).sessions[0];
    assert!(compacted.compactions > 3 && compacted.command_lines > 0, "{compacted:?}");
    let resumed = of(Kind::Resumed);
    assert_eq!(resumed.sessions[1].copied_turns, resumed.sessions[0].human_turns);
    assert!(resumed.sessions[1].human_turns > resumed.sessions[1].copied_turns);
}

#[test]
fn a_copied_history_keeps_the_ids_of_its_lines() {
    let (made, _out) = made(&Spec::new(Kind::Resumed, 300, 5));
    let ids = |session: &MadeSession| -> Vec<String> {
        lines(&session.path).iter().filter(|line| is_message(line)).map(|line| line["uuid"].to_string()).collect()
    };
    let (first, second) = (ids(&made.sessions[0]), ids(&made.sessions[1]));
    assert_eq!(first, second[..first.len()]);
}

#[test]
fn the_size_is_what_was_asked_for() {
    for (kind, bytes) in [(Kind::Chat, 3_600_000), (Kind::Chat, 9_000_000), (Kind::Tools, 4_000_000), (Kind::OneTurn, 20_000_000)]
    {
        let (made, _out) = made(&Spec { bytes: Some(bytes), ..Spec::new(kind, 2_000, 3) });
        let off = made.bytes() as f64 / bytes as f64;
        assert!((0.95..1.05).contains(&off), "{kind:?} of {bytes} came out at {}", made.bytes());
    }
}

#[test]
fn a_turn_can_be_added() {
    let (made, _out) = made(&Spec::new(Kind::Chat, 50, 9));
    let before = &made.sessions[0];
    let added = append_turn(&before.path, 77).unwrap();
    assert_eq!((added.messages, added.human_turns), (3, 1));
    let all = MadeSession {
        lines: before.lines + added.lines,
        bytes: before.bytes + added.bytes,
        messages: 53,
        human_turns: before.human_turns + 1,
        answers: before.answers + added.answers,
        tool_calls: before.tool_calls + added.tool_calls,
        ..before.clone()
    };
    check(&all);
}

#[test]
fn a_turn_cannot_be_added_to_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = append_turn(file.path(), 1).unwrap_err().to_string();
    assert!(error.contains("generate the session first"), "{error}");
}
