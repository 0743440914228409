//! When a session was compacted, and what was in the window each time.

use std::collections::HashSet;

use ctxbridge_testkit::sandbox::{Sandbox, Talk, run};
use ctxbridge_testkit::transcript::Kind;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::lines::Lines;

fn history(sandbox: &Sandbox, id: &str) -> Vec<Value> {
    sandbox.json(&["archive", "history", id])["compactions"].as_array().unwrap().clone()
}

/// About a venue, then about a telescope, each with a compaction behind it, and a turn behind these.
fn two_windows() -> String {
    let mut lines = Lines::of("s");
    lines.prompt("Why is the venue calendar booked twice?")
        + &lines.call("Read", json!({ "file_path": "src/calendar.rs" }))
        + &lines.result("fn book() {}")
        + &lines
            .answer_of("The venue calendar has no unique index, so a double booking can happen. I decided to add one.", 90_000)
        + &lines.summary("The calendar was mended.")
        + &lines.prompt("Now the telescope: its mount drifts.")
        + &lines.answer_of("The telescope mount drifts since the encoder of the telescope counts backwards.", 12_000)
        + &lines.answer_of("The encoder is turned round.", 70_000)
        + &lines.summary("The telescope was mended.")
        + &lines.turn("And now?")
}

#[test]
fn each_compaction_has_what_was_in_the_window() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, two_windows());
    sandbox.cli(&["archive", "import"]);
    let found = history(&sandbox, &talk.id);
    let of = |key: &str| found.iter().map(|one| one[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("number"), [json!(1), json!(2)]);
    assert_eq!(of("outcome"), [json!("done"), json!("done")]);
    assert_eq!(of("trigger"), [json!("auto"), json!("auto")]);
    assert_eq!(of("messages_before"), [json!(4), json!(3)], "prompts, answers and results since the one before");
    assert_eq!(of("turns_before"), [json!(1), json!(2)]);
    assert_eq!(of("tokens_before"), [json!(90_000), json!(70_000)], "as the API counted, not as the client guessed");
    assert_eq!(of("tokens_after"), [json!(12_000), json!(20_000)], "those of the first answer");
    assert_eq!(
        of("first_message"),
        [json!("Why is the venue calendar booked twice?"), json!("Now the telescope: its mount drifts.")]
    );
    assert_eq!(found[1]["last_message"], "The encoder is turned round.");
    let topics = |at: usize| found[at]["topics"].to_string();
    assert!(topics(0).contains("calendar") && !topics(0).contains("telescope"), "{}", topics(0));
    assert!(topics(1).contains("telescope") && !topics(1).contains("calendar"), "{}", topics(1));
    assert_eq!(of("learnings"), [json!(0), json!(0)]);

    sandbox.cli(&["archive", "optimize"]);
    assert_eq!(history(&sandbox, &talk.id)[0]["learnings"], 1, "what was decided is found later");
    let summary = found[1]["summary"].as_str().unwrap();
    assert!(sandbox.cli(&["recall", summary]).done().stdout.contains("The telescope was mended."));
    let text = sandbox.cli(&["archive", "history", &talk.id]).done().stdout;
    for part in ["@1  ", "4 messages", "1 turn before it", "90.0K → 12.0K tokens", "1 learning captured", "topics", summary] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn words_find_a_compaction() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, two_windows());
    let mut other = Lines::of("other").seed(3);
    sandbox.talk(2, other.turn("A kettle whistles") + &other.summary("K") + &other.turn("on"));
    sandbox.cli(&["archive", "import"]);
    let find = |words: &[&str]| {
        let ran = run(sandbox.command(&[&["archive", "history", "--json", "--search"], words].concat()), b"");
        let found = ran.json()["compactions"].as_array().unwrap().clone();
        assert_eq!(ran.code, Some(i32::from(found.is_empty())));
        found.iter().map(|one| (one["session"].as_str().unwrap().to_owned(), one["number"].as_u64().unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(find(&["telescope"]), [(talk.id.clone(), 2)]);
    assert_eq!(find(&["Why", "booked"]), [(talk.id.clone(), 1)], "the first message");
    assert_eq!(find(&["encoder", "turned"]), [(talk.id.clone(), 2)], "the last one");
    assert_eq!(find(&["kettle"]).len(), 1);
    assert_eq!(find(&["submarine"]), []);
    assert_eq!(find(&["\"turned round\""]), [(talk.id.clone(), 2)]);
    let inside = sandbox.json(&["archive", "history", &talk.id, "--search", "telescope", "calendar"]);
    assert_eq!(inside["compactions"].as_array().unwrap().len(), 2);
    let none = run(sandbox.command(&["archive", "history", "--search", "-"]), b"").with_code(2);
    assert!(none.stderr.contains("names no word"), "{}", none.stderr);
}

#[test]
fn hooks_announce_and_take_the_snapshot_before_anything_is_lost() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let begin = lines.prompt("Why does the ferry leak?") + &lines.answer_of("The ferry leaks at the stern ramp.", 60_000);
    let talk = sandbox.talk(1, &begin);
    sandbox.hook("pre-compact", &talk.input_with(json!({ "trigger": "manual" }))).calm();
    let db = Connection::open(sandbox.database()).unwrap();
    let first: String = db.query_row("SELECT first_message FROM compactions", [], |row| row.get(0)).unwrap();
    assert_eq!(first, "Why does the ferry leak?");
    let announced = &history(&sandbox, &talk.id)[0];
    assert_eq!((&announced["outcome"], &announced["number"]), (&json!("announced"), &Value::Null));
    assert_eq!((&announced["messages_before"], &announced["tokens_before"]), (&json!(2), &json!(60_000)));

    // The client writes the summary, and tells the hook of it as well: still one compaction, and the one that was announced.
    talk.append(lines.summary("The ferry leaks."));
    sandbox.hook("post-compact", &talk.input_with(json!({ "trigger": "manual", "compact_summary": "The ferry leaks." }))).calm();
    talk.append(lines.turn("Go on"));
    sandbox.hook("stop", &talk.input()).calm();
    let found = history(&sandbox, &talk.id);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["outcome"], &found[0]["number"], &found[0]["trigger"]), (&json!("done"), &json!(1), &json!("manual")));
    assert_eq!(found[0]["tokens_after"], 20_000);
}

/// An automatic compaction is made while a prompt waits, which some releases write down before the summary.
#[test]
fn a_prompt_that_waits_is_in_the_window_or_not() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turn("one") + &lines.turn("two"));
    sandbox.hook("pre-compact", &talk.input_with(json!({ "trigger": "auto" }))).calm();
    sandbox.hook("post-compact", &talk.input_with(json!({ "compact_summary": "One and two." }))).calm();
    talk.append(lines.prompt("three") + &lines.summary("One and two.") + &lines.answer("yes") + &lines.turn("four"));
    sandbox.hook("stop", &talk.input()).calm();
    let found = history(&sandbox, &talk.id);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["outcome"], &found[0]["number"]), (&json!("done"), &json!(1)));
    assert_eq!(
        (&found[0]["turns_before"], &found[0]["messages_before"]),
        (&json!(3), &json!(5)),
        "what the transcript has counts"
    );
    assert_eq!(found[0]["last_message"], "three");
}

/// Where there is no time for all, the one that is about to happen counts.
#[test]
fn a_hook_takes_its_own_first() {
    let sandbox = Sandbox::new();
    let talk = Talk::from(&sandbox.generate(Kind::Compacted, 3_000, 6)[0]);
    sandbox.cli(&["archive", "import"]);
    sandbox.hook("pre-compact", &talk.input_with(json!({ "trigger": "auto" }))).calm();
    let db = Connection::open(sandbox.database()).unwrap();
    let newest = "SELECT messages IS NOT NULL FROM compactions ORDER BY at_ms DESC LIMIT 1";
    assert!(db.query_row(newest, [], |row| row.get::<_, bool>(0)).unwrap());
}

#[test]
fn the_hooks_tell_how_long_it_took_where_the_client_does_not() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turn("one"));
    sandbox.hook("pre-compact", &talk.input_with(json!({ "trigger": "auto" }))).calm();
    // As if that had been 41 seconds ago.
    Connection::open(sandbox.database()).unwrap().execute("UPDATE compactions SET at_ms = at_ms - 41000", []).unwrap();
    sandbox.hook("post-compact", &talk.input_with(json!({ "compact_summary": "One was said." }))).calm();
    let took = history(&sandbox, &talk.id)[0]["took_ms"].as_u64().unwrap();
    assert!((41_000..=101_000).contains(&took), "{took}");
}

#[test]
fn the_clients_own_numbers() {
    let sandbox = Sandbox::new();
    let session = &sandbox.generate(Kind::Compacted, 1_500, 5)[0];
    sandbox.cli(&["archive", "import"]);
    let found = history(&sandbox, &session.id);
    assert_eq!(found.len() as u64, session.compactions);
    for (number, one) in (1..).zip(&found) {
        assert_eq!(one["number"], number);
        assert!((9_000..=60_000).contains(&one["took_ms"].as_u64().unwrap()), "{one}");
        assert!(one["tokens_after"].as_u64() < one["tokens_before"].as_u64(), "{one}");
        assert!(!one["first_message"].as_str().unwrap().is_empty() && !one["topics"].as_array().unwrap().is_empty(), "{one}");
        let turns = sandbox.json(&["archive", "show", &format!("{}@{number}", session.id)])["turns"].as_array().unwrap().len();
        assert_eq!(one["turns_before"], turns, "the state has the turns that the timeline says");
    }
    let messages: u64 = found.iter().map(|one| one["messages_before"].as_u64().unwrap()).sum();
    assert_eq!(messages, messages_before_the_last_summary(&Talk::from(session)));
}

/// Counted line by line: what a person or the model said, and what tools returned.
fn messages_before_the_last_summary(talk: &Talk) -> u64 {
    let (mut messages, mut until_then, mut answers) = (0, 0, HashSet::new());
    for line in String::from_utf8(talk.bytes()).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["isCompactSummary"] == true {
            until_then = messages;
        }
        let is_own = ["isMeta", "isCompactSummary", "isSidechain"].iter().any(|flag| line[flag] == true)
            || line["message"]["content"].as_str().is_some_and(|text| text.starts_with('<') || text.starts_with("[Request"));
        match line["type"].as_str() {
            Some("user") if !is_own => messages += 1,
            Some("assistant") if !is_own => messages += u64::from(answers.insert(line["message"]["id"].to_string())),
            _ => {}
        }
    }
    until_then
}

/// An archive of an earlier version knows only that there were compactions.
#[test]
fn compactions_of_before_are_found_in_what_is_archived() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, two_windows());
    sandbox.cli(&["archive", "import"]);
    let then = history(&sandbox, &talk.id);
    let db = Connection::open(sandbox.database()).unwrap();
    db.execute_batch(
        "UPDATE compactions SET transcript = NULL, start = NULL, context_after = NULL, context_tokens = NULL, cause = NULL,
            messages = NULL, first_message = NULL, last_message = NULL, topics = NULL;
         DELETE FROM snapshot_words;",
    )
    .unwrap();
    std::fs::remove_file(&talk.path).unwrap();
    assert_eq!(history(&sandbox, &talk.id), then);
    assert_eq!(sandbox.json(&["archive", "history", "--search", "telescope"])["compactions"].as_array().unwrap().len(), 1);
}

#[test]
fn a_rewritten_transcript_has_fewer() {
    let sandbox = Sandbox::new();
    let text = two_windows();
    let talk = sandbox.talk(1, &text);
    sandbox.cli(&["archive", "import"]);
    let back = text.find("Now the telescope").unwrap();
    let kept = &text[..text[..back].rfind('\n').unwrap() + 1];
    talk.write(kept.to_owned() + &Lines::of("s").seed(9).turn("Something else"));
    sandbox.cli(&["archive", "import"]);
    let found = history(&sandbox, &talk.id);
    let numbers: Vec<_> = found.iter().map(|one| one["number"].clone()).collect();
    assert_eq!(numbers, [json!(1), Value::Null], "it happened, but leads nowhere");
    let shown = sandbox.json(&["archive", "show", &format!("{}@1", talk.id)]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 1);
    let none = run(sandbox.command(&["archive", "show", &format!("{}@2", talk.id)]), b"").with_code(1);
    assert!(none.stderr.contains("it has 1 compaction"), "{}", none.stderr);
}

/// What a conversation lost is no part of the windows of what took its place.
#[test]
fn windows_of_a_rewritten_transcript() {
    for looks_first in [true, false] {
        let sandbox = Sandbox::new();
        let mut lines = Lines::of("s");
        let kept = lines.turns(2) + &lines.summary("The first window.");
        let talk = sandbox.talk(1, kept.clone() + &lines.turns(2) + &lines.summary("The second window, which was lost."));
        sandbox.cli(&["archive", "import"]);
        if looks_first {
            history(&sandbox, &talk.id);
        }
        let mut again = Lines::of("s").seed(4);
        talk.write(kept + &again.turn("Rewound") + &again.turns(3) + &again.summary("Another second window."));
        sandbox.cli(&["archive", "import"]);
        let found = history(&sandbox, &talk.id);
        let second = found.iter().find(|one| one["number"] == 2).unwrap();
        assert_eq!(
            (&second["messages_before"], &second["first_message"]),
            (&json!(8), &json!("Rewound")),
            "{looks_first}: {found:#?}"
        );
        let lost = found.iter().find(|one| one["number"].is_null()).unwrap();
        assert!(!lost["first_message"].to_string().contains("Rewound"), "{looks_first}: {found:#?}");
        let shown = sandbox.json(&["archive", "show", &talk.id])["summaries"].to_string();
        assert!(shown.contains("Another second") && !shown.contains("was lost"), "{shown}");
    }
}

#[test]
fn a_copy_that_was_rewritten_takes_nothing_from_the_other() {
    let sandbox = Sandbox::new();
    let text = two_windows();
    let talk = sandbox.talk(1, &text);
    let copy = talk.path.parent().unwrap().with_file_name("-elsewhere").join(talk.path.file_name().unwrap());
    std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
    std::fs::write(&copy, &text).unwrap();
    sandbox.cli(&["archive", "import"]);
    history(&sandbox, &talk.id);
    std::fs::write(&copy, text.lines().next().unwrap().to_owned() + "\n").unwrap();
    sandbox.cli(&["archive", "import"]);
    let shown = sandbox.json(&["archive", "show", &format!("{}@2", talk.id)]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 2);
    let numbers: Vec<_> = history(&sandbox, &talk.id).iter().map(|one| one["number"].clone()).collect();
    assert_eq!(numbers, [json!(1), json!(2)]);
}

/// Automatic compactions mostly happen while the model is at work.
#[test]
fn compactions_within_a_turn() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let text = lines.prompt("Go on until it is done")
        + &lines.answer("Begun.")
        + &lines.summary("It was begun.")
        + &lines.answer("Half of it.")
        + &lines.summary("Half of it was done.")
        + &lines.answer("Done.");
    let talk = sandbox.talk(1, text);
    sandbox.cli(&["archive", "import"]);
    let summaries = |what: &str| sandbox.json(&["archive", "show", what])["summaries"].to_string();
    let (one, two) = (summaries(&format!("{}@1", talk.id)), summaries(&format!("{}@2", talk.id)));
    assert!(!one.contains("begun") && two.contains("begun") && !two.contains("Half"), "{one}, {two}");
    assert!(
        sandbox.cli(&["archive", "history", &format!("{}@2", talk.id)]).done().stdout.contains("@2"),
        "as it is named elsewhere"
    );
}

#[test]
fn a_conversation_as_it_was() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, two_windows());
    sandbox.cli(&["archive", "import"]);
    let show = |what: &[&str]| run(sandbox.command(&[&["archive", "show", &talk.id[..8]], what].concat()), b"");
    let full = show(&["--before", "2026-06-01T08:03:30Z", "--full"]).done().stdout;
    assert!(full.contains("fn book() {}") && !full.contains("unique index"), "the answer came later: {full}");
    assert!(full.lines().next().unwrap().contains("at 2026-06-01T08:03:30Z"), "{full}");
    let value = sandbox.json(&["archive", "show", &talk.id, "--before", "2026-06-01T08:07:30Z"]);
    assert_eq!(value["turns"].as_array().unwrap().len(), 2);
    assert_eq!(value["summaries"].as_array().unwrap().len(), 1);
    assert_eq!(value["state"], "at 2026-06-01T08:07:30Z");
    let early = show(&["--before", "2026-05-01"]).with_code(1);
    assert!(early.stderr.contains("had not begun"), "{}", early.stderr);
    let wrong = show(&["--before", "never"]).with_code(2);
    assert!(wrong.stderr.contains("is no time"), "{}", wrong.stderr);
    let both = run(sandbox.command(&["archive", "show", &format!("{}@1", talk.id), "--before", "today"]), b"").with_code(2);
    assert!(both.stderr.contains("not both"), "{}", both.stderr);
}

#[test]
fn what_was_never_compacted() {
    let sandbox = Sandbox::new();
    let talk: Talk = sandbox.talk(1, Lines::of("s").turn("one"));
    sandbox.cli(&["archive", "import"]);
    let none = run(sandbox.command(&["archive", "history", &talk.id]), b"").with_code(1);
    assert!(none.stderr.contains("never compacted"), "{}", none.stderr);
    let missing = run(sandbox.command(&["archive", "history", "ffff"]), b"").with_code(1);
    assert!(missing.stderr.contains("no session begins with ffff"), "{}", missing.stderr);
    run(sandbox.command(&["archive", "history"]), b"").with_code(2);
}
