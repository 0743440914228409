//! What other sessions said about the same comes back unasked, and nothing else does.

use ctxbridge_testkit::sandbox::{Sandbox, Talk, run};
use serde_json::{Value, json};

use super::lines::Lines;

const ASKED: &str = "The parser hangs again on nested comments, does skip_comment count the depth?";

/// A session that had to do with it, one that did not, and some in between; indexed.
fn earlier(sandbox: &Sandbox) -> Talk {
    let mut lines = Lines::of("one").seed(1);
    let one = sandbox.talk(
        1,
        lines.prompt("Why does the parser hang on nested comments?")
            + &lines.answer("skip_comment never advances, so it loops for ever. I made it count the depth.")
            + &lines.turn("Thanks."),
    );
    let two = sandbox.talk(2, Lines::of("two").seed(2).turn("the upload fails at night"));
    let elsewhere = Lines::of("three").seed(3).turn(ASKED).replace("src/ledger", "src/other");
    let three = sandbox.talk(3, elsewhere);
    for talk in [&one, &two, &three] {
        sandbox.hook("stop", &talk.input());
    }
    run(sandbox.command(&["archive", "search", "parser"]), b"").done();
    one
}

fn restored(sandbox: &Sandbox, talk: &Talk) -> String {
    sandbox.hook("session-start", &talk.input_with(json!({ "source": "compact" }))).context().unwrap()
}

fn elsewhere(context: &str) -> Option<&str> {
    let elsewhere = context.split_once("From other sessions of this project, about the same:\n")?.1;
    elsewhere.strip_suffix("\n```")
}

#[test]
fn a_compaction_brings_what_other_sessions_said() {
    let sandbox = Sandbox::new();
    let one = earlier(&sandbox);
    let talk = sandbox.talk(9, Lines::of("now").seed(9).turn(ASKED));
    let context = restored(&sandbox, &talk);
    let found = elsewhere(&context).unwrap();
    assert!(found.contains("Why does the parser hang on nested comments?"), "{found}");
    assert_eq!(found.lines().count(), 1, "not from another folder, not what is of the session itself: {found}");
    let handle = found.split_whitespace().nth(1).unwrap();
    assert_eq!(sandbox.json(&["recall", handle])["session"], one.id);
    // With little room, what is its own comes first.
    let mut command = sandbox.hook_command("session-start");
    command.env("CTXBRIDGE_ARCHIVE_RESTORE_BUDGET", "400");
    let little = run(command, talk.input_with(json!({ "source": "compact" })).to_string().as_bytes()).context().unwrap();
    assert!(little.chars().count() <= 400 && little.contains("again on nested comments"), "{little}");
}

#[test]
fn what_is_shown_unasked_does_not_count_as_restored() {
    let sandbox = Sandbox::new();
    earlier(&sandbox);
    let counts = || -> i64 {
        let db = rusqlite::Connection::open(sandbox.database()).unwrap();
        db.query_row("SELECT sum(access_count) FROM entries", [], |row| row.get(0)).unwrap()
    };
    let talk = sandbox.talk(9, Lines::of("now").seed(9).turn(ASKED));
    let before = counts();
    assert!(elsewhere(&restored(&sandbox, &talk)).is_some());
    assert_eq!(counts(), before + 1, "its own turn");
}

#[test]
fn nothing_is_brought_where_nothing_is_about_the_same() {
    let sandbox = Sandbox::new();
    earlier(&sandbox);
    for text in ["Please write the release notes for September.", "Go on.", "Thanks."] {
        let talk = sandbox.talk(9, Lines::of("now").seed(9).turn(text));
        assert_eq!(elsewhere(&restored(&sandbox, &talk)), None, "{text}");
    }
    // A session that is of no folder.
    let root = Lines::of("now").seed(8).turn(ASKED).replace("/home/dev/src/ledger", "/");
    assert_eq!(elsewhere(&restored(&sandbox, &sandbox.talk(8, root))), None);
    // Without an index, a hook makes none.
    std::fs::remove_file(sandbox.data().join("search.db")).unwrap();
    let talk = sandbox.talk(7, Lines::of("now").seed(7).turn(ASKED));
    assert_eq!(elsewhere(&restored(&sandbox, &talk)), None);
    assert!(!sandbox.data().join("search.db").exists());
}

#[test]
fn what_a_fork_has_as_well_is_not_brought_twice() {
    let sandbox = Sandbox::new();
    let one = earlier(&sandbox);
    let fork = sandbox.talk(9, String::from_utf8(one.bytes()).unwrap() + &Lines::of("now").seed(9).turn(ASKED));
    assert_eq!(elsewhere(&restored(&sandbox, &fork)), None);
}

fn prompted(sandbox: &Sandbox, talk: &Talk, prompt: &str, recall: Option<&str>) -> Option<String> {
    let mut command = sandbox.hook_command("user-prompt-submit");
    command.envs(recall.map(|on| ("CTXBRIDGE_RECALL_PROMPTS", on)));
    let input: Value = talk.input_with(json!({ "prompt": prompt, "cwd": "/home/dev/src/ledger" }));
    run(command, input.to_string().as_bytes()).context()
}

#[test]
fn a_prompt_is_given_what_matters_unless_the_user_does_not_want_that() {
    let sandbox = Sandbox::new();
    earlier(&sandbox);
    let talk = sandbox.talk(9, "");
    assert_eq!(prompted(&sandbox, &talk, ASKED, Some("false")), None, "switched off");
    let context = prompted(&sandbox, &talk, ASKED, None).unwrap();
    assert!(context.contains("quoted history, not instructions") && context.contains("Why does the parser hang"), "{context}");
    assert_eq!(context.lines().count(), 4, "a label and a turn in its fence: {context}");
    assert_eq!(prompted(&sandbox, &talk, ASKED, None), None, "nothing is said twice");
    for prompt in ["/compact parser hangs nested comments skip_comment", "parser", "Write the release notes for September."] {
        assert_eq!(prompted(&sandbox, &talk, prompt, None), None, "{prompt}");
    }
}

#[test]
fn what_a_compaction_took_out_of_the_window_comes_back_for_a_prompt() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("now").seed(9);
    let mut text = lines.prompt("Why does the parser hang on nested comments?")
        + &lines.answer("skip_comment never advances, so it loops for ever. I made it count the depth.");
    text += &(0..14).map(|number| lines.turn(&format!("Something else, number {number}."))).collect::<String>();
    let talk = sandbox.talk(9, text);
    sandbox.hook("stop", &talk.input());
    sandbox.cli(&["archive", "search", "parser"]);
    assert_eq!(prompted(&sandbox, &talk, ASKED, None), None, "it is in the window");
    sandbox.hook("post-compact", &talk.input_with(json!({ "trigger": "manual", "compact_summary": "Many things were done." })));
    let context = prompted(&sandbox, &talk, ASKED, None).unwrap();
    assert!(context.contains("Why does the parser hang"), "{context}");
    assert_eq!(prompted(&sandbox, &talk, ASKED, None), None, "now it is there again");
}
