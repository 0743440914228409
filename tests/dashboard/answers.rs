//! What is answered: shapes, hostile text, and archives that are missing, damaged or in use.

use std::fs;
use std::time::Duration;

use ctxbridge_testkit::sandbox::{Sandbox, session_id};
use ctxbridge_testkit::transcript::Kind;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::dashboard::place::Served;

/// What is typed by somebody who wants to be a script.
const HOSTILE: &str = "<img src=x onerror=alert(1)></script><script>alert(2)</script>";

/// Keys, and the kind of each value, in order; of a list, its first.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("bool"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("text"),
        Value::Array(list) => Value::Array(list.first().map(shape).into_iter().collect()),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
    }
}

/// Compactions that the mod was asked about, one of them with a hostile reason.
pub fn asked_compactions(sandbox: &Sandbox) {
    let line = |after: Option<u32>, reason: Option<&str>| json!({ "at_ms": 1_795_000_000_000_i64, "session": HOSTILE, "cause": "auto", "messages_before": 90, "messages_after": after, "reason": reason });
    let lines = [line(Some(12), None), line(None, Some(&format!("{HOSTILE}\u{1b}[31m\n")))];
    sandbox.write("data/mod/answers.jsonl", lines.map(|line| format!("{line}\n")).concat());
}

/// Two turns in a folder with a hostile name.
pub fn hostile(sandbox: &Sandbox) -> String {
    let id = session_id(7);
    let line = |kind: &str, number: u32, message: Value| {
        let uuid = format!("00000000-0000-4000-8000-{number:012}");
        json!({ "type": kind, "uuid": uuid, "sessionId": id, "cwd": format!("/home/dev/{HOSTILE}"), "isSidechain": false, "version": "2.1.0",
            "timestamp": format!("2026-11-20T10:00:{number:02}.000Z"), "message": message })
        .to_string()
            + "\n"
    };
    let usage =
        json!({ "input_tokens": 1000, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 5 });
    let answer = |number: u32| {
        json!({ "id": format!("msg_{number}"), "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "end_turn", "usage": usage,
            "content": [{ "type": "text", "text": format!("The quokka says {HOSTILE}") }] })
    };
    let prompt = |text: &str| json!({ "role": "user", "content": text });
    let lines = [
        line("user", 1, prompt(&format!("Tell the quokka {HOSTILE}"))),
        line("assistant", 2, answer(2)),
        line("user", 3, prompt("Once more")),
        line("assistant", 4, answer(4)),
    ];
    sandbox.talk(7, lines.concat());
    id
}

pub fn import(sandbox: &Sandbox) {
    sandbox.cli(&["archive", "import", sandbox.project().to_str().unwrap()]);
}

pub fn metrics(sandbox: &Sandbox, count: i64) {
    let now = jiff::Timestamp::now();
    let line = |at: i64| {
        let ts = now - jiff::SignedDuration::from_hours(at * 6);
        json!({ "ts": format!("{ts:.3}"), "event": if at % 2 == 0 { "Stop" } else { "PreCompact" }, "session": "s", "ms": 5 + at % 9,
            "bytes": 10, "turns": 1, "learnings": 0, "ok": at != 3, "error": null })
        .to_string()
            + "\n"
    };
    let logs = sandbox.data().join("logs");
    fs::create_dir_all(&logs).unwrap();
    fs::write(logs.join("metrics.jsonl"), (0..count).map(line).collect::<String>() + "{\"ts\":\"2026").unwrap();
}

#[test]
fn a_new_user_is_told_what_to_do_and_nothing_is_made() {
    let sandbox = Sandbox::new();
    let served = Served::start(&sandbox);
    let overview = served.json("api/overview", 200);
    assert_eq!((&overview["is_empty"], &overview["turns"], &overview["capture"]["all"]), (&json!(true), &json!(0), &Value::Null));
    assert_eq!(served.json("api/sessions/0", 200), json!({ "sessions": [], "has_more": false }));
    assert_eq!(served.json("api/search/anything", 200), json!({ "hits": [], "notes": [] }));
    assert!(served.json("api/session/none", 404)["error"].as_str().unwrap().contains("no such session"));
    assert!(served.json("api/savings/none", 404)["error"].as_str().unwrap().contains("no such session"));
    assert!(!sandbox.database().exists());
}

#[test]
fn answers_have_their_shapes() {
    let sandbox = Sandbox::new();
    let id = sandbox.generate(Kind::Chat, 60, 1).remove(0).id;
    import(&sandbox);
    metrics(&sandbox, 20);
    asked_compactions(&sandbox);
    sandbox.cli(&["archive", "search", "the"]);
    let served = Served::start(&sandbox);
    let overview = served.json("api/overview", 200);
    assert_eq!(overview["capture"]["all"]["runs"], 20);
    assert_eq!(overview["capture"]["all"]["failed"], 1);
    assert_eq!(overview["days"].as_array().unwrap().len(), 30);
    let all = json!({
        "overview": shape(&overview),
        "sessions": shape(&served.json("api/sessions/0", 200)),
        "session": shape(&served.json(&format!("api/session/{id}"), 200)),
        "savings": shape(&served.json(&format!("api/savings/{id}"), 200)),
        "total": shape(&served.json("api/total", 200)),
        "conversation": shape(&served.json(&format!("api/conversation/{id}/0"), 200)),
        "learnings": shape(&served.json("api/learnings/all", 200)),
        "memory": shape(&served.json("api/memory", 200)),
        "search": shape(&served.json("api/search/the%20journal", 200)),
        "state": shape(&served.json("api/state", 200)),
    });
    assert_snapshot!(serde_json::to_string(&all).unwrap().replace("},\"", "},\n\""), @r#"
    {"overview":{"is_empty":"bool","sessions":"number","turns":"number","compactions":"number","bytes_raw":"number","bytes_stored":"number","bytes_on_disk":"number","tiers":[{"tier":"text","segments_bytes":"number","database_bytes":"number","index_bytes":"number","vectors_bytes":"number"}],"days":[{"day":"text","done":"number","blocked":"number","announced":"number"}],"learnings":[],"capture":{"all":{"name":"text","runs":"number","failed":"number","recall_timeouts":"number","p50_ms":"number","p95_ms":"number"},
    "events":[{"name":"text","runs":"number","failed":"number","recall_timeouts":"number","p50_ms":"number","p95_ms":"number"}],"days":[{"name":"text","runs":"number","failed":"number","recall_timeouts":"number","p50_ms":"number","p95_ms":"number"}]}},
    "sessions":{"sessions":[{"session":"text","turns":"number","saved":"null","title":"text","folder":"text","first_ms":"number","last_ms":"number","model":"text","context_tokens":"number","window_tokens":"null","optimized":"number"}],"has_more":"bool"},
    "session":{"session":{"session":"text","turns":"number","saved":"null","title":"text","folder":"text","first_ms":"number","last_ms":"number","model":"text","context_tokens":"number","window_tokens":"null","optimized":"number"},
    "unit":"text","count":"number","points":[["number"]],"marks":[]},
    "savings":{"session":"text","answers":"number","model":"text","prices_dated":"text","price_note":"null","window_tokens":"number","threshold_tokens":"number","without":{"calls":"number","input_tokens":"number","cache_read_tokens":"number","cache_write_tokens":"number","uncached_tokens":"number","output_tokens":"number","cost_usd":"number","peak_tokens":"number","compactions":"number","answered":"number","prefix_changes":"number","text_chars":"number","verbatim_chars":"number","references":"number","lost_references":"number","edits":"number","blind_edits":"number","contexts":[["number"]]},
    "pruned":{"calls":"number","input_tokens":"number","cache_read_tokens":"number","cache_write_tokens":"number","uncached_tokens":"number","output_tokens":"number","cost_usd":"number","peak_tokens":"number","compactions":"number","answered":"number","prefix_changes":"number","text_chars":"number","verbatim_chars":"number","references":"number","lost_references":"number","edits":"number","blind_edits":"number","contexts":[["number"]]},
    "saved_tokens":"number","saved_usd":"number"},
    "total":{"sessions":"number","pending":"number","left_out":"number","compactions_avoided":"number","saved_tokens":"number","saved_usd":"number","over_time":{"length":"text","periods":[]},
    "tally":"text","prices_dated":"text","without":{"calls":"number","input_tokens":"number","cache_read_tokens":"number","cache_write_tokens":"number","uncached_tokens":"number","output_tokens":"number","cost_usd":"number","peak_tokens":"number","compactions":"number","answered":"number","prefix_changes":"number","text_chars":"number","verbatim_chars":"number","references":"number","lost_references":"number","edits":"number","blind_edits":"number"},
    "pruned":{"calls":"number","input_tokens":"number","cache_read_tokens":"number","cache_write_tokens":"number","uncached_tokens":"number","output_tokens":"number","cost_usd":"number","peak_tokens":"number","compactions":"number","answered":"number","prefix_changes":"number","text_chars":"number","verbatim_chars":"number","references":"number","lost_references":"number","edits":"number","blind_edits":"number"}},
    "conversation":{"session":{"session":"text","turns":"number","saved":"null","title":"text","folder":"text","first_ms":"number","last_ms":"number","model":"text","context_tokens":"number","window_tokens":"null","optimized":"number"},
    "total":"number","rewound":"number","superseded":"number","from":"number","to":"number","target":"null","before":[],"turns":[{"position":"number","handle":"text","at_ms":"number","is_rewound":"bool","is_superseded":"bool","is_pinned":"bool","agent":"null","context_tokens":"number","messages":[{"kind":"text","at_ms":"number","text":"text","cut_chars":"number","is_error":"bool"}],"omitted":"number","is_cut":"bool","trouble":"null"}]},
    "learnings":{"learnings":[],"has_more":"bool"},
    "memory":{"turns":"number","sessions":"number","most":[]},
    "search":{"hits":[{"handle":"text","session":"text","title":"text","folder":"text","is_rewound":"bool","at_ms":"number","summary":"text","pieces":["text"]}],"notes":[]},
    "state":{"checks":[{"id":"text","status":"text","detail":"text","next":"null"}],"compactions":{"answered":"number","left":"number","newest":[{"at_ms":"number","session":"text","cause":"text","messages_before":"number","messages_after":"null","reason":"text"}]}}}
    "#);
}

#[test]
fn savings_are_those_of_prune_simulate() {
    let sandbox = Sandbox::new();
    let session = sandbox.generate(Kind::Chat, 200, 3).remove(0);
    import(&sandbox);
    let served = Served::start(&sandbox);
    let savings = served.json(&format!("api/savings/{}", session.id), 200);
    let simulated = sandbox.json(&["prune", "simulate", session.path.to_str().unwrap()]);
    let policy = |name: &str| simulated["policies"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
    for (ours, theirs) in [("without", policy("none")), ("pruned", policy("fold"))] {
        for key in ["calls", "input_tokens", "cache_read_tokens", "peak_tokens", "compactions"] {
            assert_eq!(savings[ours][key], theirs[key], "{ours} {key}: {savings}");
        }
    }
}

/// Replays are made in the background, once for each state of a session, and kept for the next start.
#[test]
fn the_total_is_that_of_prune_simulate_and_kept() {
    let sandbox = Sandbox::new();
    for seed in [3, 4] {
        sandbox.generate(Kind::Compacted, 400, seed);
    }
    sandbox.talk(9, "{\"type\":\"user\",\"uuid\":\"1\",\"message\":{\"role\":\"user\",\"content\":\"Nobody answers.\"}}\n");
    import(&sandbox);
    let served = Served::start(&sandbox);
    let finished = |served: &Served| {
        let asked = std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(50));
            served.json("api/total", 200)
        });
        asked.take(600).find(|total| total["pending"] == 0).expect("replayed within half a minute")
    };
    let total = finished(&served);
    assert_eq!((&total["sessions"], &total["left_out"]), (&json!(2), &json!(1)), "{total}");
    let simulated = sandbox.json(&["prune", "simulate", "--all"]);
    let policy = |name: &str| simulated["policies"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
    for (ours, theirs) in [("without", policy("none")), ("pruned", policy("fold"))] {
        for key in ["calls", "input_tokens", "cache_read_tokens", "peak_tokens", "compactions"] {
            assert_eq!(total[ours][key], theirs[key], "{ours} {key}: {total}");
        }
    }
    let file = sandbox.data().join("savings.json");
    let written = || fs::read_to_string(&file).is_ok_and(|text| text.matches("\"bytes\"").count() == 3);
    assert!(
        (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            written()
        }),
        "it is kept"
    );
    drop(served);
    let served = Served::start(&sandbox);
    assert_eq!(served.json("api/total", 200), total, "nothing is replayed again");
    // A damaged file is only a file less, and other settings are another question.
    drop(served);
    fs::write(&file, "{\"basis\":7").unwrap();
    assert_eq!(finished(&Served::start(&sandbox)), total);
    let settings = sandbox.home().join(".config/ctxbridge");
    fs::create_dir_all(&settings).unwrap();
    fs::write(settings.join("config.toml"), "[prune]\npolicy = \"reference\"\n").unwrap();
    let other = finished(&Served::start(&sandbox));
    assert!(other["without"] == total["without"] && other["pruned"] != total["pruned"], "{other}");
}

#[test]
pub fn hostile_text_comes_back_as_json_text() {
    let sandbox = Sandbox::new();
    let id = hostile(&sandbox);
    import(&sandbox);
    sandbox.cli(&["archive", "search", "quokka"]);
    let served = Served::start(&sandbox);
    for path in [
        "api/sessions/0",
        "api/search/quokka",
        &format!("api/session/{id}"),
        &format!("api/conversation/{id}/0"),
        &format!("api/search/{}", "%3Cscript%3E%27%22%28"),
        &format!("api/learnings/all/{}", "%3Cscript%3E%27%22%28"),
    ] {
        let answer = served.get(path);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{path}: {answer:?}");
        serde_json::from_str::<Value>(&answer.body).unwrap();
    }
    asked_compactions(&sandbox);
    let compactions = &served.json("api/state", 200)["compactions"];
    assert_eq!((&compactions["answered"], &compactions["left"]), (&json!(1), &json!(1)));
    assert_eq!(compactions["newest"][0]["reason"], json!(format!("{HOSTILE}\\u{{1b}}[31m")), "{compactions}");
    let session = &served.json("api/sessions/0", 200)["sessions"][0];
    assert!(
        session["folder"].as_str().unwrap().contains(HOSTILE) && session["title"].as_str().unwrap().contains(HOSTILE),
        "{session}"
    );
    let turn = &served.json(&format!("api/conversation/{id}/0"), 200)["turns"][0];
    assert_eq!(turn["messages"][1]["text"], json!(format!("The quokka says {HOSTILE}")));
    let hits = served.json("api/search/quokka", 200);
    let pieces = hits["hits"][0]["pieces"].as_array().unwrap();
    assert!(pieces.len() >= 3 && pieces[1].as_str().unwrap().to_lowercase().contains("quokka"), "{hits}");
}

#[test]
fn a_change_is_seen_by_its_mark() {
    let sandbox = Sandbox::new();
    let served = Served::start(&sandbox);
    let mark = || served.json("api/changes", 200)["mark"].clone();
    let nothing = mark();
    assert_eq!(mark(), nothing);
    sandbox.generate(Kind::Chat, 20, 1);
    import(&sandbox);
    let something = mark();
    assert_ne!(something, nothing);
    assert_eq!(served.json("api/overview", 200)["sessions"], 1);
    metrics(&sandbox, 2);
    assert_ne!(mark(), something);
    assert_eq!(served.json("api/overview", 200)["capture"]["all"]["runs"], 2);
}

#[test]
fn learnings_are_counted_by_kind() {
    let sandbox = Sandbox::new();
    let line = |number: u32, kind: &str, text: &str| {
        let content = json!([{ "type": "text", "text": text }]);
        let uuid = format!("{number:08x}-0000-4000-8000-000000000000");
        let line = json!({ "type": kind, "uuid": uuid, "timestamp": format!("2026-11-20T10:00:{number:02}.000Z"),
            "cwd": "/home/dev/src/ledger", "message": { "role": kind, "content": content } });
        format!("{line}\n")
    };
    let said = "I went with zstd.\n\nWe decided to keep the index.\n\nThe root cause was a missing lock.";
    sandbox.talk(7, line(1, "user", "How?") + &line(2, "assistant", said));
    import(&sandbox);
    assert_eq!(Served::start(&sandbox).json("api/overview", 200)["learnings"], json!([]));
    sandbox.cli(&["archive", "optimize"]);
    assert_eq!(Served::start(&sandbox).json("api/overview", 200)["learnings"], json!([["decision", 2], ["solution", 1]]));
}

#[test]
fn a_damaged_archive_is_told_and_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.generate(Kind::Chat, 20, 1);
    import(&sandbox);
    let served = Served::start(&sandbox);
    let junk = vec![0x5a_u8; 8192];
    for left in ["archive.db-wal", "archive.db-shm"] {
        fs::remove_file(sandbox.data().join(left)).ok();
    }
    fs::write(sandbox.database(), &junk).unwrap();
    for path in ["api/overview", "api/sessions/0", "api/search/the"] {
        let told = served.json(path, 503)["error"].as_str().unwrap().to_owned();
        assert!(told.contains("archive.db"), "{told}");
    }
    assert_eq!(served.get("").status, 200);
    assert_eq!(fs::read(sandbox.database()).unwrap(), junk);
    assert!(sandbox.aside().is_empty());
}

#[test]
fn one_who_writes_is_in_nobodys_way_and_no_archive_is_held_open() {
    let sandbox = Sandbox::new();
    sandbox.generate(Kind::Chat, 20, 1);
    import(&sandbox);
    let served = Served::start(&sandbox);
    let writer = rusqlite::Connection::open(sandbox.database()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE; UPDATE sessions SET model = 'half'").unwrap();
    let sessions = served.json("api/sessions/0", 200);
    assert_ne!(sessions["sessions"][0]["model"], "half");
    writer.execute_batch("ROLLBACK").unwrap();
    // Only who has it to themselves may leave WAL mode.
    let mode: String = writer.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
}
