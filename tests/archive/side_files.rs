//! Files beside the transcript: archived with it, found by their words, and brought back where they were.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ctxbridge_testkit::files;
use ctxbridge_testkit::sandbox::{Sandbox, Talk, run, session_id};
use serde_json::{Value, json};

use super::lines::Lines;

/// A word that stands in a side file alone.
const NEEDLE: &str = "kittiwakerookery";

/// A large result: its middle is not in the preview.
fn log() -> String {
    let lines = |range: std::ops::Range<u32>| range.map(|n| format!("ledge {n} counted\n")).collect::<String>();
    format!("{}one {NEEDLE} more\n{}", lines(0..2_000), lines(2_000..4_000))
}

/// A session whose second line points to a file in its own folder, below another home.
fn lines(number: u32) -> (Lines, String) {
    let session = session_id(number);
    let mut lines = Lines::of(&session).seed(number.into());
    let text = lines.prompt(&format!("Count the ledges of cliff {number}."))
        + &lines.call("Bash", json!({ "command": "count ledges" }))
        + &lines.result(&format!(
            "<persisted-output>\nOutput too large (74 KB). Full output saved to: \
             /home/somebody/.claude/projects/-w/{session}/tool-results/b1.txt\n\nPreview (first 2KB):\nledge 0 counted\n...\n\
             </persisted-output>"
        ))
        + &lines.answer("All are counted.");
    (lines, text)
}

fn own_folder(talk: &Talk) -> PathBuf {
    talk.path.with_extension("")
}

fn write(talk: &Talk, name: &str, bytes: impl AsRef<[u8]>) {
    let path = own_folder(talk).join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn talk(sandbox: &Sandbox, number: u32) -> Talk {
    let talk = sandbox.talk(number, lines(number).1);
    write(&talk, "tool-results/b1.txt", log());
    talk
}

fn sessions_with(sandbox: &Sandbox, words: &str) -> Vec<String> {
    let ran = run(sandbox.command(&["archive", "search", "--json", "--mode", "lexical", words]), b"");
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    let session = |result: &Value| result["session"].as_str().unwrap().to_owned();
    found["results"].as_array().unwrap().iter().map(session).collect()
}

/// All files below a folder, with their bytes.
fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                found.push((name, fs::read(entry.path()).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_hook_of_a_prompt_archives_them_and_search_finds_them() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox, 1);
    sandbox.quiet_hook("user-prompt-submit", &talk.input_with(json!({ "prompt": "Go on." })));
    assert_eq!(sessions_with(&sandbox, NEEDLE), [talk.id.as_str()]);
    sandbox.assert_archived(&talk);
    let listed = sandbox.json(&["archive", "sessions"]);
    assert_eq!((&listed["sessions"][0]["side_files"], &listed["sessions"][0]["agents"]), (&json!(1), &json!(0)));
    assert_eq!(listed["sessions"][0]["bad_lines"], 0);
}

#[test]
fn large_ones_wait_for_a_hook_that_nobody_waits_for() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox, 1);
    write(&talk, "tool-results/b1.txt", format!("{}{}", log(), "x ".repeat(3 << 20)));
    let count = "SELECT count(*) FROM transcripts WHERE agent = '/tool-results/b1.txt'";
    sandbox.quiet_hook("user-prompt-submit", &talk.input_with(json!({ "prompt": "Go on." })));
    assert_eq!((sandbox.count(count), sessions_with(&sandbox, NEEDLE)), (0, Vec::<String>::new()));
    // The turn was indexed without it, and is indexed again.
    sandbox.quiet_hook("stop", &talk.input());
    assert_eq!(sandbox.count(count), 1);
    assert_eq!(sessions_with(&sandbox, NEEDLE), [talk.id.as_str()]);
}

#[test]
fn those_of_an_older_archive_come_with_an_import() {
    let sandbox = Sandbox::new();
    let talks: Vec<Talk> = (1..4).map(|number| sandbox.talk(number, lines(number).1)).collect();
    sandbox.cli(&["archive", "import"]);
    assert!(sessions_with(&sandbox, NEEDLE).is_empty());
    talks.iter().for_each(|talk| write(talk, "tool-results/b1.txt", log()));
    let imported = sandbox.json(&["archive", "import"]);
    assert_eq!((&imported["side_files"], &imported["turns"]), (&json!(3), &json!(0)));
    assert_eq!(sessions_with(&sandbox, NEEDLE).len(), 3);
    assert_eq!(sandbox.json(&["archive", "import"])["side_files"], 0);
}

#[test]
fn all_of_a_session_comes_back_below_a_folder() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox, 1);
    let agent = |id: &str| {
        let mut lines = Lines::of(&talk.id).seed(id.len() as u64);
        (lines.prompt(&format!("Task of {id}.")) + &lines.answer("Done."))
            .replace("\"isSidechain\":false", "\"isSidechain\":true")
    };
    for (name, bytes) in [
        ("tool-results/picture.png", b"\x89PNG\r\n\x1a\n\0\xff\xfe".to_vec()),
        ("tool-results/empty.txt", Vec::new()),
        ("tool-results/lines.jsonl", b"{\"sessionId\":\"another\"}\nnot json\n".to_vec()),
        ("subagents/agent-a1.jsonl", agent("a1").into_bytes()),
        ("subagents/agent-a1.meta.json", b"{\"agentType\":\"Explore\"}".to_vec()),
        ("subagents/workflows/w1/agent-b22.jsonl", agent("b22").into_bytes()),
        ("subagents/workflows/w1/journal.jsonl", b"{\"step\":1}\n".to_vec()),
    ] {
        write(&talk, name, bytes);
    }
    let expected = tree(talk.path.parent().unwrap());
    for archived_by in ["stop", "import"] {
        let sandbox_data = sandbox.data();
        fs::remove_dir_all(&sandbox_data).ok();
        match archived_by {
            "stop" => sandbox.quiet_hook("stop", &talk.input()),
            _ => drop(sandbox.cli(&["archive", "import"])),
        }
        let listed = sandbox.json(&["archive", "sessions"]);
        let sessions = listed["sessions"].as_array().unwrap();
        assert_eq!(sessions.len(), 1, "{archived_by}: {listed}");
        assert_eq!((&sessions[0]["agents"], &sessions[0]["side_files"]), (&json!(2), &json!(6)), "{archived_by}");

        let alone = run(sandbox.command(&["archive", "restore", &talk.id]), b"").done();
        assert!(alone.stdout.as_bytes() == talk.bytes());
        assert!(alone.stderr.contains("6 files beside the transcript"), "{}", alone.stderr);

        let out = sandbox.path(&format!("out-{archived_by}"));
        sandbox.cli(&["archive", "restore", &talk.id, "-o", out.to_str().unwrap()]);
        assert!(tree(&out) == expected, "{archived_by}: {:?}", tree(&out).iter().map(|(name, _)| name).collect::<Vec<_>>());
        assert!(files::is_private(&out.join(&talk.id).join("tool-results/b1.txt")).unwrap());
        // Nothing is replaced.
        let again = run(sandbox.command(&["archive", "restore", &talk.id, "-o", out.to_str().unwrap()]), b"").with_code(3);
        assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    }
    sandbox.assert_sound();
}

#[test]
fn one_that_changes_is_a_new_generation() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox, 1);
    sandbox.quiet_hook("stop", &talk.input());
    write(&talk, "tool-results/b1.txt", format!("Rewritten: {}", log()));
    sandbox.quiet_hook("stop", &talk.input());
    // Of the same size.
    write(&talk, "tool-results/b1.txt", format!("REWRITTEN: {}", log()));
    sandbox.cli(&["archive", "import"]);
    assert_eq!(sandbox.count("SELECT generation FROM transcripts WHERE agent = '/tool-results/b1.txt'"), 2);
    let restored = |more: &[&str]| {
        let path = ctxbridge::common::paths::real(own_folder(&talk).join("tool-results/b1.txt")).unwrap();
        sandbox.restored(&talk.id, &[&["--path", path.to_str().unwrap()], more].concat())
    };
    assert!(restored(&[]).starts_with(b"REWRITTEN"));
    assert!(restored(&["--generation", "1"]).starts_with(b"Rewritten"));
    assert!(restored(&["--generation", "0"]) == log().as_bytes());
    assert_eq!(sandbox.json(&["archive", "sessions"])["sessions"][0]["rewritten"], 0, "the transcript was not");
    sandbox.assert_sound();
}

#[test]
fn equal_ones_are_kept_once() {
    let sandbox = Sandbox::new();
    let talks = [talk(&sandbox, 1), talk(&sandbox, 2)];
    sandbox.cli(&["archive", "import"]);
    let layout = "SELECT count(*) FROM layout JOIN transcripts ON transcripts.id = transcript WHERE agent GLOB '/*'";
    assert_eq!(sandbox.count(layout), 2);
    assert_eq!(sandbox.count(&layout.replace("count(*)", "count(DISTINCT segment)")), 1);
    talks.iter().for_each(|talk| sandbox.assert_archived(talk));
}

#[test]
#[cfg(unix)]
fn links_are_not_followed() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox, 1);
    let secret = sandbox.write("secret/word.txt", "mustnotbearchived");
    symlink(&secret, own_folder(&talk).join("tool-results/link.txt")).unwrap();
    symlink(secret.parent().unwrap(), own_folder(&talk).join("linked")).unwrap();
    let linked = sandbox.talk(2, lines(2).1);
    symlink(secret.parent().unwrap(), own_folder(&linked)).unwrap();
    sandbox.cli(&["archive", "import"]);
    [&talk, &linked].iter().for_each(|talk| sandbox.quiet_hook("stop", &talk.input()));
    assert_eq!(sandbox.count("SELECT count(*) FROM transcripts WHERE agent GLOB '/*'"), 1);
    assert!(sessions_with(&sandbox, "mustnotbearchived").is_empty());
}

#[test]
fn one_that_is_too_large_is_noted() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox, 1);
    let large = own_folder(&talk).join("tool-results/large.bin");
    fs::File::create(&large).unwrap().set_len((256 << 20) + 1).unwrap();
    sandbox.quiet_hook("stop", &talk.input());
    let notes = "SELECT count(*) FROM transcripts WHERE agent = '//tool-results/large.bin'";
    assert_eq!(sandbox.count(notes), 0, "no hook reads it");
    let imported = sandbox.json(&["archive", "import"]);
    let sha256 = imported["omitted"][0]["sha256"].as_str().unwrap();
    assert_eq!((&imported["omitted"][0]["bytes"], sha256.len()), (&json!((256 << 20) + 1), 64));
    assert_eq!(sandbox.count(notes), 1);
    let shown = sandbox.cli(&["archive", "show", &talk.id]);
    assert!(shown.stdout.contains("1 file beside the transcript") && shown.stderr.contains(sha256), "{shown:?}");
    let out = sandbox.path("out");
    let restored = sandbox.cli(&["archive", "restore", &talk.id, "-o", out.to_str().unwrap()]);
    assert!(restored.stderr.contains("tool-results/large.bin") && restored.stderr.contains(sha256), "{}", restored.stderr);
    assert!(!out.join(&talk.id).join("tool-results/large.bin").exists());
    assert!(out.join(&talk.id).join("tool-results/b1.txt").exists());
}

#[test]
fn recall_and_show_give_all_of_it_and_exports_fold_it() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox, 1);
    sandbox.quiet_hook("stop", &talk.input());
    let shown = sandbox.json(&["archive", "show", &talk.id, "--full"]);
    let handle = shown["turns"][0]["handle"].as_str().unwrap();
    assert!(shown["turns"][0]["text"].as_str().unwrap().contains(log().trim_end()));
    let recalled = sandbox.cli(&["recall", handle]);
    assert!(recalled.stdout.contains(log().trim_end()));
    let html = sandbox.cli(&["archive", "export", &talk.id, "--format", "html"]).stdout;
    let needle = html.find(NEEDLE).expect("it is there");
    let (opened, closed) = (html[..needle].matches("<details").count(), html[..needle].matches("</details>").count());
    assert!(opened > closed, "it is not folded");
    let markdown = sandbox.cli(&["archive", "export", &talk.id, "--format", "markdown"]).stdout;
    assert!(markdown.contains(NEEDLE));
    assert!(sandbox.cli(&["archive", "export", &talk.id, "--format", "json"]).stdout.contains(NEEDLE));
    assert!(sandbox.cli(&["archive", "diff", &talk.id, &talk.id]).stdout.contains("0 changed"));
}

#[test]
fn nothing_is_learned_from_them() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox, 1);
    let answer = json!({
        "type": "assistant", "uuid": "00000001-0000-4000-8000-000000000000", "sessionId": talk.id,
        "message": { "role": "assistant", "content": [{ "type": "text", "text": "We decided to use gannets instead of gulls." }] },
    });
    write(&talk, "tool-results/decisions.jsonl", format!("{answer}\n"));
    sandbox.cli(&["archive", "import"]);
    sandbox.cli(&["archive", "optimize"]);
    assert_eq!(sandbox.count("SELECT count(*) FROM learnings"), 0);
    assert_eq!(sandbox.count("SELECT count(*) FROM learning_progress"), 1);
    sandbox.assert_archived(&talk);
}

#[test]
fn one_that_cannot_be_read_is_named_and_takes_nothing_with_it() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox, 1);
    let mut deep = String::from("deep");
    (0..10).for_each(|_| deep += "/er");
    write(&talk, &format!("{deep}/file"), "too deep");
    let imported = sandbox.json(&["archive", "import"]);
    let failed = imported["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{imported}");
    assert!(failed[0]["path"].as_str().unwrap().contains("deep/er"), "{imported}");
    assert_eq!((&imported["transcripts"], &imported["side_files"]), (&json!(1), &json!(1)));
    sandbox.assert_archived(&talk);
}
