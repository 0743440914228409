//! What cannot be read, and what was asked wrongly.

use std::fs;

use ctxbridge_testkit::sandbox::Sandbox;
use ctxbridge_testkit::transcript::Kind;

use super::{prune, session};

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("work/empty.jsonl", "");
    sandbox.write("work/blank.jsonl", "\n  \n");
    sandbox.write("work/prose.jsonl", "Dear diary,\nnothing happened.\n");
    sandbox.write("work/bytes.jsonl", b"\xff\xfe\x00\x01\n[1, 2]\n7\n");
    sandbox.write("work/unanswered.jsonl", "{\"type\":\"user\",\"message\":{\"content\":\"hello?\"}}\n");
    sandbox.write("work/other.jsonl", "{\"id\":1}\n{\"id\":2}\n");
    session(&sandbox, "good.jsonl", Kind::Chat, 10);
    fs::create_dir(sandbox.path("work/folder")).unwrap();
    sandbox
}

#[test]
fn files_that_are_no_transcripts() {
    let sandbox = sandbox();
    for command in ["simulate", "preview"] {
        for (file, code, why) in [
            ("missing.jsonl", 3, "error: missing.jsonl does not exist; transcripts are in ~/.claude/projects\n"),
            ("folder", 3, "error: folder is a folder; give the path of a transcript in it\n"),
            ("prose.jsonl", 3, "error: prose.jsonl is no transcript: none of its 2 lines is a JSON object\n"),
            ("bytes.jsonl", 3, "error: bytes.jsonl is no transcript: none of its 3 lines is a JSON object\n"),
            ("empty.jsonl", 1, "empty.jsonl has no requests to look at: it is empty\n"),
            ("blank.jsonl", 1, "blank.jsonl has no requests to look at: it is empty\n"),
            ("unanswered.jsonl", 1, "unanswered.jsonl has no requests to look at: the model never answered in it\n"),
            ("other.jsonl", 1, "other.jsonl has no requests to look at: the model never answered in it\n"),
        ] {
            for json in [&[][..], &["--json"]] {
                let said = prune(&sandbox, &[&[command, file], json].concat());
                assert_eq!((said.code, said.stderr.as_str()), (Some(code), why), "{command} {file}");
                let is_told = said.stdout.contains("\"error\": ");
                assert!(if json.is_empty() { said.stdout.is_empty() } else { is_told }, "{command} {file}: {}", said.stdout);
            }
        }
    }
}

#[test]
fn wrong_usage() {
    let sandbox = sandbox();
    for args in [
        &["simulate"][..],
        &["simulate", "--all", "good.jsonl"],
        &["preview"],
        &["preview", "good.jsonl", "--at", "0"],
        &["preview", "good.jsonl", "other.jsonl"],
        &["simulate", "good.jsonl", "--plot", "picture.jpeg"],
        &["simulate", "good.jsonl", "--cache", "perfect"],
        &["simulate", "good.jsonl", "--window", "0"],
        &["simulate", "good.jsonl", "--threshold", "0"],
        &["simulate", "good.jsonl", "--threshold", "101%"],
        &["simulate", "good.jsonl", "--threshold", "much"],
    ] {
        let said = prune(&sandbox, args);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{args:?}: {said}");
    }
}

#[test]
fn what_goes_wrong_otherwise() {
    let sandbox = sandbox();
    sandbox.write("work/prices.toml", "dated = 7");
    for (args, code, why) in [
        (&["preview", "good.jsonl", "--at", "99"][..], 1, "there is no request 99; the session has "),
        (&["simulate", "good.jsonl", "--prices", "missing.toml"], 3, "error: the prices in missing.toml cannot be read"),
        (&["simulate", "good.jsonl", "--prices", "prices.toml"], 3, "error: prices.toml is no table of prices"),
        (&["simulate", "good.jsonl", "--plot", "nowhere/picture.svg"], 3, "error: nowhere/picture.svg cannot be written"),
    ] {
        let said = prune(&sandbox, args);
        assert_eq!(said.code, Some(code), "{said}");
        assert!(said.stdout.is_empty() && said.stderr.starts_with(why), "{said}");
    }
}

/// A line that was cut off, or damaged, costs no more than itself.
#[test]
fn a_damaged_line_is_left_out_and_said() {
    let sandbox = sandbox();
    let mut text = fs::read_to_string(sandbox.path("work/good.jsonl")).unwrap();
    let whole = prune(&sandbox, &["simulate", "good.jsonl"]).stdout;
    text.insert_str(0, "{\"type\":\"us\n");
    text += "{\"type\":\"assistant\",\"mess";
    sandbox.write("work/good.jsonl", text);
    let said = prune(&sandbox, &["simulate", "good.jsonl"]);
    assert_eq!((said.code, said.stdout), (Some(0), whole));
    assert_eq!(said.stderr, "good.jsonl: 2 lines could not be read and left out, the first is line 1\n");
}

/// What is bad among good ones does not keep them from being counted, unless it cannot be read at all.
#[test]
fn one_of_several() {
    let sandbox = sandbox();
    let said = prune(&sandbox, &["simulate", "empty.jsonl", "good.jsonl"]);
    assert!(said.code == Some(0) && said.stdout.starts_with("good.jsonl\n"), "{said}");
    assert_eq!(prune(&sandbox, &["simulate", "good.jsonl", "missing.jsonl"]).code, Some(3));
}
