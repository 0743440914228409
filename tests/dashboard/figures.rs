//! Figures agree: with the commands, with each other, and with the files on disk.

use std::fs;

use ctxbridge_testkit::sandbox::{Sandbox, wait_until};
use ctxbridge_testkit::transcript::Kind;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::dashboard::answers::{hostile, import};
use crate::dashboard::conversations::branched;
use crate::dashboard::place::Served;

#[test]
fn counts_are_those_of_the_commands() {
    let sandbox = Sandbox::new();
    for seed in [3, 4] {
        sandbox.generate(Kind::Compacted, 300, seed);
    }
    branched(&sandbox);
    import(&sandbox);
    let served = Served::start(&sandbox);
    let (overview, status) = (served.json("api/overview", 200), sandbox.json(&["archive", "status"]));
    for key in ["sessions", "turns", "compactions", "bytes_raw", "bytes_stored"] {
        assert_eq!(overview[key], status[key], "{key}");
    }
    let [ours, theirs] = [served.json("api/sessions/0", 200), sandbox.json(&["archive", "sessions"])]
        .map(|all| all["sessions"].as_array().unwrap().clone());
    let told =
        |all: &[Value]| -> Vec<Value> { all.iter().map(|one| json!([one["session"], one["turns"], one["folder"]])).collect() };
    assert_eq!(told(&ours), told(&theirs));
    assert!(ours.iter().all(|session| session["title"].is_string()), "each has a title: {ours:?}");
    let rest = served.json("api/sessions/2", 200);
    assert_eq!(rest["sessions"].as_array().unwrap()[..], ours[2..], "the newest two are skipped");
}

#[test]
fn context_is_told_by_call() {
    let sandbox = Sandbox::new();
    let hostile = hostile(&sandbox);
    let branched = branched(&sandbox);
    import(&sandbox);
    let served = Served::start(&sandbox);
    let series = |id: &str| served.json(&format!("api/session/{id}"), 200);
    let sizes = |series: &Value| -> Vec<(u64, u64)> {
        series["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| (point[0].as_u64().unwrap(), point[2].as_u64().unwrap()))
            .collect()
    };
    let two = series(&hostile);
    assert_eq!((&two["unit"], &two["count"]), (&json!("call"), &json!(2)));
    assert_eq!(sizes(&two), [(1, 1_000), (2, 1_000)]);
    // Of its three turns one was rewound, and the last made three calls.
    assert_eq!(sizes(&series(&branched)), [(1, 20_000), (2, 20_000), (3, 20_000), (4, 30_000)]);
}

/// They are in the file of the index, which must not count them as words.
#[test]
fn vectors_have_their_size() {
    let sandbox = Sandbox::new();
    sandbox.generate(Kind::Chat, 20, 1);
    import(&sandbox);
    sandbox.cli(&["archive", "search", "the"]);
    let sizes = || {
        let tier = Served::start(&sandbox).json("api/overview", 200)["tiers"][0].clone();
        ["index_bytes", "vectors_bytes"].map(|key| tier[key].as_u64().unwrap())
    };
    let made = sizes()[1];
    assert!(made > 0);
    let file = sandbox.data().join("search.db");
    let db = Connection::open(&file).unwrap();
    db.execute_batch("INSERT INTO vectors (entry, data) VALUES (1, zeroblob(388)), (1, zeroblob(388)), (2, zeroblob(388))")
        .unwrap();
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(db);
    fs::write(sandbox.data().join("search.nearest"), [0; 1_000]).unwrap();
    let [index, vectors] = sizes();
    assert_eq!(vectors, made + 3 * 388 + 1_000);
    let length = |name: &str| sandbox.data().join(name).metadata().map_or(0, |file| file.len());
    assert_eq!(index + vectors, length("search.db") + length("search.db-wal") + 1_000);
}

#[test]
fn savings_add_up_over_sessions_and_time() {
    let sandbox = Sandbox::new();
    for seed in [3, 4] {
        sandbox.generate(Kind::Compacted, 400, seed);
    }
    hostile(&sandbox);
    import(&sandbox);
    let served = Served::start(&sandbox);
    wait_until("all are replayed", || served.json("api/total", 200)["pending"] == 0);
    let total = served.json("api/total", 200);
    let difference = |key: &str| total["without"][key].as_f64().unwrap() - total["pruned"][key].as_f64().unwrap();
    let periods = total["over_time"]["periods"].as_array().unwrap();
    assert_eq!(periods.iter().map(|period| period["sessions"].as_u64().unwrap()).sum::<u64>(), 3, "{total}");
    let sessions = served.json("api/sessions/0", 200)["sessions"].as_array().unwrap().clone();
    for (key, of) in [("compactions_avoided", "compactions"), ("saved_tokens", "input_tokens"), ("saved_usd", "cost_usd")] {
        let sum = |of: &[Value]| of.iter().map(|one| one[key].as_f64().unwrap()).sum::<f64>();
        let saved: Vec<Value> = sessions.iter().map(|session| session["saved"].clone()).collect();
        for (what, found) in [("all", total[key].as_f64().unwrap()), ("over time", sum(periods)), ("by session", sum(&saved))] {
            assert!((found - difference(of)).abs() < 1e-6, "{key} {what}: {found} is not {}", difference(of));
        }
    }
    assert!(total["saved_tokens"].as_i64().unwrap() > 0, "{total}");
}
