//! A conversation to read, and what leads to it: hits, learnings, and memory that was used.

use std::fs;

use ctxbridge_testkit::sandbox::Sandbox;
use ctxbridge_testkit::transcript::Kind;
use serde_json::{Value, json};

use crate::archive::lines::Lines;
use crate::dashboard::answers::import;
use crate::dashboard::place::Served;

const SESSION: &str = "5e551040-0000-4000-8000-00000000000d";

/// A conversation with a branch that was rewound, calls of tools of which one failed, and a learning.
pub fn branched(sandbox: &Sandbox) -> String {
    let mut lines = Lines::of(SESSION);
    let mut newest = Value::Null;
    let mut follow = |line: &str, after: Option<&Value>| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line["parentUuid"] = after.unwrap_or(&newest).clone();
        newest = line["uuid"].clone();
        (format!("{line}\n"), newest.clone())
    };
    let mut text = follow(&lines.prompt("Choose a store for the ledger"), None).0;
    let (answer, fork) = follow(&lines.answer_of("SQLite suits a ledger of this size.", 20_000), None);
    text += &answer;
    text += &follow(&lines.prompt("Take the walrus database instead"), None).0;
    text += &follow(&lines.answer_of("Walrus it is.", 90_000), None).0;
    text += &follow(&lines.prompt("Keep SQLite, and look for the quagga in its pages"), Some(&fork)).0;
    for (tool, input, result) in [
        ("Read", json!({ "file_path": "/work/ledger.rs" }), "The quagga hides in line seven.".to_owned()),
        ("Bash", json!({ "command": "cargo test", "description": "Run the tests" }), "x".repeat(5_000)),
    ] {
        text += &follow(&lines.call(tool, input), None).0;
        text += &follow(&lines.result(&result), None).0;
    }
    let said = "# Done\n\nI decided to keep SQLite because one writer is enough.\n\n```rust\nlet quagga = 7;\n```\n";
    text += &follow(&lines.answer_of(said, 30_000), None).0;
    sandbox.talk_named(SESSION, text);
    SESSION.to_owned()
}

fn kinds(turn: &Value) -> Vec<&str> {
    turn["messages"].as_array().unwrap().iter().map(|message| message["kind"].as_str().unwrap()).collect()
}

#[test]
fn a_turn_has_its_messages_and_a_branch_stands_where_it_was_left() {
    let sandbox = Sandbox::new();
    branched(&sandbox);
    import(&sandbox);
    let served = Served::start(&sandbox);
    let page = served.json(&format!("api/conversation/{SESSION}/0"), 200);
    assert_eq!((&page["total"], &page["rewound"], &page["superseded"]), (&json!(3), &json!(1), &json!(0)), "{page}");
    let turns = page["turns"].as_array().unwrap();
    let rewound: Vec<bool> = turns.iter().map(|turn| turn["is_rewound"].as_bool().unwrap()).collect();
    assert_eq!(rewound, [false, true, false]);
    assert_eq!(kinds(&turns[1]), ["prompt", "answer"]);
    assert_eq!(kinds(&turns[2]), ["prompt", "call", "call", "answer"]);
    let [read, bash] = [1, 2].map(|at| &turns[2]["messages"][at]);
    assert_eq!((&read["tool"], &read["about"]), (&json!("Read"), &json!("/work/ledger.rs")));
    assert_eq!(read["output"], "The quagga hides in line seven.");
    assert_eq!((bash["output"].as_str().unwrap().len(), &bash["cut_chars"]), (1_500, &json!(3_500)));
    assert_eq!(turns[2]["is_cut"], true);
    let whole = served.json(&format!("api/turn/{SESSION}/2"), 200);
    assert_eq!((whole["messages"][2]["output"].as_str().unwrap().len(), &whole["is_cut"]), (5_000, &json!(false)));
    for (path, told) in [
        (format!("api/turn/{SESSION}/3"), "no such turn"),
        (format!("api/conversation/{SESSION}/ctx:00000000"), "no such turn"),
        (format!("api/conversation/{SESSION}/nonsense"), "no such turn"),
        ("api/conversation/none/0".to_owned(), "no such session"),
    ] {
        let error = served.json(&path, 404)["error"].as_str().unwrap().to_owned();
        assert!(error.contains(told), "{path}: {error}");
    }
}

#[test]
fn a_long_conversation_is_read_page_by_page() {
    let sandbox = Sandbox::new();
    let id = sandbox.generate(Kind::Chat, 200, 1).remove(0).id;
    import(&sandbox);
    let served = Served::start(&sandbox);
    let page = |at: &str| served.json(&format!("api/conversation/{id}/{at}"), 200);
    let turns = sandbox.json(&["archive", "show", &id])["turns"].as_array().unwrap().len();
    assert!(turns > 40, "{turns} turns are few");
    let positions = |page: &Value| -> Vec<u64> {
        page["turns"].as_array().unwrap().iter().map(|turn| turn["position"].as_u64().unwrap()).collect()
    };
    let (mut forward, mut at) = (Vec::new(), 0);
    while at < turns as u64 {
        let page = page(&at.to_string());
        assert_eq!((&page["total"], page["turns"].as_array().unwrap().len() <= 20), (&json!(turns), true));
        forward.extend(positions(&page));
        at = page["to"].as_u64().unwrap();
    }
    assert_eq!(forward, (0..turns as u64).collect::<Vec<_>>(), "each once, in order");
    let (mut backward, mut end) = (Vec::new(), turns as u64);
    while end > 0 {
        let page = page(&format!("before-{end}"));
        backward.splice(0..0, positions(&page));
        end = page["from"].as_u64().unwrap();
    }
    assert_eq!(backward, forward);
    assert_eq!(positions(&page("last")).last(), Some(&(turns as u64 - 1)));
    assert_eq!(page("9999")["turns"], json!([]));
}

#[test]
fn a_hit_leads_to_the_turn_that_it_is_in() {
    let sandbox = Sandbox::new();
    branched(&sandbox);
    import(&sandbox);
    sandbox.cli(&["archive", "search", "quagga"]);
    let served = Served::start(&sandbox);
    for (words, position, is_rewound) in [("quagga", 2, false), ("walrus", 1, true)] {
        let hit = &served.json(&format!("api/search/{words}"), 200)["hits"][0];
        assert_eq!((&hit["title"], &hit["is_rewound"]), (&json!("Choose a store for the ledger"), &json!(is_rewound)), "{hit}");
        let handle = hit["handle"].as_str().unwrap();
        let page = served.json(&format!("api/conversation/{SESSION}/{handle}"), 200);
        assert_eq!((&page["target"], &page["turns"][0]["handle"]), (&json!(position), &json!(handle)));
        assert!(page["turns"][0].to_string().to_lowercase().contains(words), "{page}");
    }
}

/// A rewritten transcript loses turns; the archive does not, and the page shows them behind the others.
#[test]
fn turns_of_an_earlier_version_can_be_read() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of(SESSION);
    let talk = sandbox.talk_named(SESSION, lines.turn("The first version asks for an okapi") + &lines.turn("And for a zebra"));
    import(&sandbox);
    talk.write(Lines::of(SESSION).seed(5).turn("The second version asks for a tapir"));
    import(&sandbox);
    let page = Served::start(&sandbox).json(&format!("api/conversation/{SESSION}/0"), 200);
    assert_eq!((&page["total"], &page["superseded"]), (&json!(3), &json!(2)), "{page}");
    let said = |at: usize| page["turns"][at]["messages"][0]["text"].as_str().unwrap().to_owned();
    assert!(said(0).contains("tapir") && said(1).contains("okapi") && said(2).contains("zebra"));
    assert_eq!(page["turns"][1]["is_superseded"], true);
}

#[test]
fn the_work_of_a_sub_agent_is_in_the_call_that_started_it() {
    let sandbox = Sandbox::new();
    let session = sandbox.generate(Kind::Agents, 400, 2).remove(0);
    import(&sandbox);
    let served = Served::start(&sandbox);
    let (mut at, mut agents) = (0, Vec::new());
    loop {
        let page = served.json(&format!("api/conversation/{}/{at}", session.id), 200);
        for turn in page["turns"].as_array().unwrap() {
            let calls = turn["messages"].as_array().unwrap().iter().filter_map(|message| message.get("agents"));
            agents.extend(calls.flat_map(|agents| agents.as_array().unwrap().clone()));
        }
        at = page["to"].as_u64().unwrap();
        if page["total"] == at {
            break;
        }
    }
    assert!(!agents.is_empty() && agents.iter().all(|work| work[0]["kind"] == "prompt"), "{agents:?}");
}

#[test]
fn learnings_are_listed_by_kind_words_and_session() {
    let sandbox = Sandbox::new();
    branched(&sandbox);
    sandbox.talk(8, Lines::of(&ctxbridge_testkit::sandbox::session_id(8)).seed(9).turn("Hello"));
    import(&sandbox);
    sandbox.cli(&["archive", "optimize"]).done();
    let served = Served::start(&sandbox);
    let listed = |path: &str| served.json(path, 200)["learnings"].as_array().unwrap().clone();
    let all = listed("api/learnings/all");
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0]["sentence"], "I decided to keep SQLite because one writer is enough.");
    assert_eq!((&all[0]["kind"], &all[0]["title"]), (&json!("decision"), &json!("Choose a store for the ledger")));
    let command = sandbox.json(&["learnings", "list"]);
    assert_eq!(command["learnings"].as_array().unwrap().len(), 1, "as many as the command lists");
    assert_eq!(listed("api/learnings/decision"), all);
    assert_eq!(listed("api/learnings/outcome"), [] as [Value; 0]);
    assert_eq!(listed("api/learnings/all/one%20writer"), all);
    assert_eq!(listed("api/learnings/all/zyzzyva"), [] as [Value; 0]);
    assert_eq!(listed(&format!("api/learned/{SESSION}")), all);
    assert_eq!(listed(&format!("api/learned/{}", ctxbridge_testkit::sandbox::session_id(8))), [] as [Value; 0]);
    let turn = all[0]["turn"].as_str().unwrap();
    assert_eq!(served.json(&format!("api/conversation/{SESSION}/{turn}"), 200)["target"], 2);
}

#[test]
fn memory_that_was_used_is_counted_and_listed() {
    let sandbox = Sandbox::new();
    branched(&sandbox);
    import(&sandbox);
    let served = Served::start(&sandbox);
    assert_eq!(served.json("api/memory", 200), json!({ "turns": 0, "sessions": 0, "most": [] }));
    let turns = sandbox.json(&["archive", "show", SESSION])["turns"].clone();
    let [first, second] = [0, 1].map(|at| turns[at]["handle"].as_str().unwrap().to_owned());
    sandbox.cli(&["recall", &second]).done();
    // What hooks write for each session that they added turns to.
    let recalled = sandbox.data().join("recalled");
    fs::create_dir_all(&recalled).unwrap();
    fs::write(recalled.join("one"), format!("{first}\n0123456789abcdef\nwritten:77\n")).unwrap();
    fs::write(recalled.join("two"), format!("{first}\n{second}\n")).unwrap();
    fs::write(recalled.join("one.prompt"), format!("{first}\n")).unwrap();
    let used = served.json("api/memory", 200);
    assert_eq!((&used["turns"], &used["sessions"]), (&json!(3), &json!(2)), "{used}");
    let most: Vec<(&str, u64)> = used["most"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| (turn["handle"].as_str().unwrap(), turn["times"].as_u64().unwrap()))
        .collect();
    assert_eq!(most, [(first.as_str(), 2), (second.as_str(), 1)]);
    assert_eq!(used["most"][0]["title"], "Choose a store for the ledger");
}
