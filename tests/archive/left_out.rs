//! Folders that the user, or a project, leaves out: hooks do nothing there, and nothing of their sessions is in any file of ours.

use std::fs;
use std::path::Path;

use ctxbridge_testkit::sandbox::{Sandbox, Talk, run};
use serde_json::json;

use super::lines::Lines;
use super::stdin::EVENTS;

const PROMPT: &str = "Why does the parser hang on nested comments?";

fn talk(sandbox: &Sandbox) -> Talk {
    let mut lines = Lines::of("secret");
    sandbox.talk(1, lines.prompt(PROMPT) + &lines.answer("skip_comment never advances, so it loops for ever."))
}

/// Runs all hooks and the commands that the client runs by itself; returns what hooks said.
fn work(sandbox: &Sandbox, talk: &Talk) -> String {
    let more = json!({
        "source": "startup", "trigger": "auto", "prompt": PROMPT, "tool_name": "Bash", "tool_input": { "command": "make" },
        "tool_response": {}, "messages": [], "version": "2.1.330", "context_window": { "context_window_size": 200_000 },
    });
    let input = talk.input_with(more);
    let said = EVENTS.map(|event| sandbox.hook(event, &input).stdout).concat();
    for command in [&["statusline"][..], &["mod", "loaded"], &["mod", "answer"]] {
        run(sandbox.command(command), input.to_string().as_bytes()).done();
    }
    said
}

fn config(sandbox: &Sandbox, text: &str) {
    sandbox.write("home/.config/ctxbridge/config.toml", text);
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() { found.extend(files(&entry.path())) } else { found.push(entry.path().display().to_string()) }
    }
    found
}

#[test]
fn what_the_user_excludes_leaves_no_trace() {
    let sandbox = Sandbox::new();
    let talk = talk(&sandbox);
    config(&sandbox, "[archive]\nexclude = [\"/home/dev/src/*\"]\n[hooks]\nevent_log = true\n");
    assert_eq!(work(&sandbox, &talk), "");
    assert_eq!(files(&sandbox.data()), [""; 0]);
    let imported = sandbox.json(&["archive", "import"]);
    assert_eq!((&imported["turns"], &imported["left_out"]), (&json!(0), &json!(1)), "{imported}");
    let said = sandbox.cli(&["archive", "import"]).stdout;
    assert!(said.contains("1 transcript left out"), "{said}");
    // The same without: all of it is there.
    config(&sandbox, "");
    assert_eq!(sandbox.json(&["archive", "import"])["turns"], 1);
    work(&sandbox, &talk);
    assert!(!files(&sandbox.data()).is_empty());
}

#[test]
fn a_project_can_ask_for_less_and_its_user_is_told_once() {
    let sandbox = Sandbox::new();
    let project = sandbox.path("work");
    fs::create_dir_all(project.join(".ctxbridge")).unwrap();
    fs::write(project.join(".ctxbridge/config.toml"), "[archive]\nenabled = false\n").unwrap();
    let talk = talk(&sandbox);
    talk.write(String::from_utf8(talk.bytes()).unwrap().replace("/home/dev/src/ledger", &project.to_string_lossy()));
    let start = || {
        let mut command = sandbox.hook_command("session-start");
        command.env("CLAUDE_PROJECT_DIR", &project);
        run(command, talk.input_with(json!({ "source": "startup", "cwd": project })).to_string().as_bytes()).calm()
    };
    assert!(start().notice().unwrap().contains("`archive.enabled = false`"));
    assert_eq!(start().stdout, "", "once");
    let stop = talk.input_with(json!({ "cwd": project }));
    sandbox.quiet_hook("stop", &stop);
    assert_eq!(sandbox.json(&["archive", "import"])["left_out"], 1);
    assert!(!sandbox.database().exists() || sandbox.count("SELECT count(*) FROM turns") == 0);
    // It cannot ask for more.
    config(&sandbox, "[archive]\nenabled = false\n");
    fs::write(project.join(".ctxbridge/config.toml"), "[archive]\nenabled = true\nexclude = [\"/\"]\n").unwrap();
    sandbox.quiet_hook("stop", &stop);
    assert!(!sandbox.database().exists() || sandbox.count("SELECT count(*) FROM turns") == 0);
    let mut show = sandbox.command(&["config", "show"]);
    let shown = run(show.current_dir(&project), b"");
    assert!(shown.stderr.contains("archive.enabled is not for a project to raise"), "{shown:?}");
    assert!(shown.stderr.contains("archive.exclude is not for a project to set"), "{shown:?}");
}

#[test]
fn a_folder_without_recall_is_archived_all_the_same() {
    let sandbox = Sandbox::new();
    let told = |sandbox: &Sandbox| {
        let later = sandbox.talk(9, "");
        sandbox
            .hook("user-prompt-submit", &later.input_with(json!({ "prompt": "Why did the parser hang on nested comments?" })))
            .context()
    };
    let talk = talk(&sandbox);
    config(&sandbox, "[recall]\nexclude = [\"/home/dev/src/ledger\"]\n");
    sandbox.hook("stop", &talk.input());
    sandbox.cli(&["archive", "search", "parser"]);
    assert_eq!(told(&sandbox), None);
    config(&sandbox, "");
    assert!(told(&sandbox).is_some());
}

#[test]
fn a_glob_that_leaves_nothing_out_is_named() {
    let sandbox = Sandbox::new();
    config(&sandbox, "[archive]\nexclude = [\"clients/acme\"]\n");
    let shown = sandbox.run(&["config", "show"]);
    assert!(shown.stderr.contains("has `clients/acme`, which leaves nothing out"), "{shown}");
}
