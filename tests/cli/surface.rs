//! What a person sees: lists that fit the terminal, empty ones that say so, errors for people and for programs, setup and its undoing.

use std::fs;

use ctxbridge_testkit::sandbox::{Ran, Sandbox, run};
use ctxbridge_testkit::transcript::Kind;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::text;

/// A sandbox with three archived sessions.
fn archived() -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    let ids = [1, 2, 3].map(|seed| sandbox.generate(Kind::Chat, 12, seed).remove(0).id);
    sandbox.cli(&["archive", "import"]);
    (sandbox, ids.into())
}

/// Runs a command for a terminal of 80 columns.
fn at_80(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    run(sandbox.command(arguments).env("COLUMNS", "80"), b"")
}

#[track_caller]
fn fits(ran: &Ran) {
    for line in ran.stdout.lines().chain(ran.stderr.lines()) {
        assert!(line.width() <= 80, "{} columns: {line}", line.width());
    }
}

#[test]
fn lists_fit_80_columns() {
    let (sandbox, ids) = archived();
    let sessions = at_80(&sandbox, &["sessions"]);
    fits(&sessions);
    let mut lines = sessions.stdout.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with("ID ") && head.ends_with("TITLE")), "{}", sessions.stdout);
    for id in &ids {
        assert!(sessions.stdout.lines().any(|line| line.starts_with(&id[..8])), "{id}: {}", sessions.stdout);
    }
    let whole = sandbox.cli(&["sessions", "-v"]).stdout;
    assert!(ids.iter().all(|id| whole.contains(id.as_str())), "{whole}");
    for arguments in
        [&["show", &ids[0]][..], &["archive", "status"], &["archive", "history", &ids[0]], &["config", "list"], &["stats"]]
    {
        let ran = at_80(&sandbox, arguments);
        assert!(ran.code == Some(0) || ran.code == Some(1), "{arguments:?}: {ran:?}");
        fits(&ran);
    }
    let turn = sandbox.json(&["show", &ids[0]])["turns"][0].clone();
    let word =
        turn["summary"].as_str().unwrap().split_whitespace().find(|word| word.len() > 4 && word.is_ascii()).unwrap().to_owned();
    let found = at_80(&sandbox, &["search", &word]);
    fits(&found);
    assert!(found.stdout.starts_with("ctx:") && found.stdout.contains(" ago  "), "{found:?}");
    assert!(!found.stdout.contains("score"), "reasons are for -v: {found:?}");
    assert_eq!(at_80(&sandbox, &["archive", "search", &word]).stdout, found.stdout, "the other spelling is the same command");
}

#[test]
fn an_empty_list_says_so() {
    let sandbox = Sandbox::new();
    for arguments in [&["sessions"][..], &["search", "anything"], &["learnings", "list"], &["stats"], &["pin"]] {
        let ran = sandbox.run(arguments).says_no();
        assert_eq!(ran.stdout, "", "{arguments:?}");
        assert!(!ran.stderr.trim().is_empty(), "{arguments:?} is silent");
    }
}

#[test]
fn errors_are_json_for_programs() {
    let sandbox = Sandbox::new();
    let error = |arguments: &[&str], code: i32| {
        let ran = sandbox.run(arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        let value: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {ran:?}"));
        assert!(value["error"].as_str().is_some_and(|error| !error.is_empty()), "{value}");
        value
    };
    assert!(error(&["sesions", "--json"], 2)["hint"].as_str().unwrap().contains("sessions")); // typos: ignore
    assert!(error(&["show", "0b9e", "--json"], 1)["hint"].as_str().unwrap().contains("ctxbridge sessions"));
    error(&["show", "ctx:zz", "--json"], 3);
    error(&["config", "get", "archive.nothing", "--json"], 2);
    error(&["patch", "verify", "/nowhere", "--json"], 3);
}

#[test]
fn settings_are_changed_in_place() {
    let sandbox = Sandbox::new();
    let file = sandbox.cli(&["config", "path"]).stdout.trim().to_owned();
    fs::create_dir_all(std::path::Path::new(&file).parent().unwrap()).unwrap();
    let before = "# mine\n[archive]\nrestore_budget = 3000 # less\n\n[recall]\nprompts = false\n";
    fs::write(&file, before).unwrap();
    sandbox.cli(&["config", "set", "archive.restore_budget", "6000"]);
    assert_eq!(sandbox.cli(&["config", "get", "archive.restore_budget"]).stdout, "6000\n");
    sandbox.cli(&["config", "set", "archive.exclude", "[\"~/clients/*\"]"]);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# mine\n[archive]\nrestore_budget = 6000") && text.contains("prompts = false"), "{text}");
    let refused = sandbox.run(&["config", "set", "archive.restore_budget", "many"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text, "a refused value changes nothing");
    let typo = sandbox.run(&["config", "set", "archive.restore_budgett", "1"]); // typos: ignore
    assert!(typo.stderr.contains("did you mean archive.restore_budget?"), "{typo:?}");
    sandbox.cli(&["config", "set", "archive.restore_budget", "--default"]);
    assert_eq!(sandbox.cli(&["config", "get", "archive.restore_budget"]).stdout, "4000\n");
}

#[test]
fn quiet_commands_say_nothing() {
    let sandbox = Sandbox::new();
    sandbox.generate(Kind::Chat, 4, 1);
    for arguments in
        [&["archive", "import", "-q"][..], &["archive", "optimize", "-q"], &["config", "set", "recall.prompts", "false", "-q"]]
    {
        let ran = sandbox.cli(arguments);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""), "{arguments:?}");
    }
}

#[test]
fn without_a_command_the_commands_are_listed_in_groups() {
    let ran = at_80(&Sandbox::new(), &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    fits(&ran);
    for group in ["Everyday commands:", "Claude Code:", "Memory and team:", "Maintenance:"] {
        assert!(ran.stderr.contains(group), "{}", ran.stderr);
    }
}

#[test]
fn setup_wants_an_answer_and_a_dry_run_changes_nothing() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["setup"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("--yes") && ran.stderr.contains("--dry-run"), "{ran:?}");
    sandbox.generate(Kind::Tools, 40, 1);
    let dry = at_80(&sandbox, &["setup", "--dry-run"]).done();
    fits(&dry);
    assert!(dry.stdout.contains("1 session since") && dry.stdout.contains("Nothing was changed."), "{dry:?}");
    assert!(!sandbox.path("home/.claude/settings.json").exists() && !sandbox.database().exists());
}

#[test]
fn setup_installs_once_and_uninstall_takes_it_out() {
    let sandbox = Sandbox::new();
    let settings = sandbox.write("home/.claude/settings.json", "{\n  \"model\": \"opus\"\n}\n");
    let before = fs::read(&settings).unwrap();
    sandbox.generate(Kind::Chat, 12, 1);
    let steps = |ran: &Value| {
        let state = |step: &Value| (step["step"].as_str().unwrap().to_owned(), step["state"].as_str().unwrap().to_owned());
        ran["steps"].as_array().unwrap().iter().map(state).collect::<std::collections::BTreeMap<_, _>>()
    };
    let import_only = ["setup", "--yes", "--no-mod", "--no-hooks", "--no-patch", "--no-model", "--no-bundle"];
    let first = steps(&sandbox.json(&import_only));
    assert_eq!(first["import"], "done", "{first:?}");
    let second = steps(&sandbox.json(&import_only));
    assert_eq!(second["import"], "already_done", "{second:?}");
    sandbox.cli(&["statusline", "install"]);
    assert_ne!(fs::read(&settings).unwrap(), before);
    let dry = at_80(&sandbox, &["uninstall", "--dry-run"]).done();
    fits(&dry);
    assert!(dry.stdout.contains("backups and logs") && dry.stdout.contains("Nothing was changed."), "{dry:?}");
    assert!(dry.stdout.contains("  status line in ~/.claude/settings.json\n"), "{dry:?}");
    sandbox.cli(&["uninstall", "--yes"]);
    assert!(sandbox.run(&["uninstall", "--dry-run"]).stdout.contains("Nothing of ctxbridge is in Claude Code."));
    assert_eq!(fs::read(&settings).unwrap(), before, "the settings are as they were");
    assert!(sandbox.database().exists(), "the data stays");
    sandbox.cli(&["uninstall", "--yes", "--purge"]);
    assert!(!sandbox.data().exists(), "the data is gone");
    assert!(sandbox.run(&["uninstall", "--yes", "--purge"]).code == Some(0), "once more is fine");
}

#[test]
fn uninstall_takes_hooks_out_of_other_projects_and_names_what_stays() {
    let sandbox = Sandbox::new();
    let settings = sandbox.write("other/.claude/settings.json", "{\"model\": \"opus\"}");
    let cold = sandbox.path("cold");
    fs::create_dir(&cold).unwrap();
    sandbox.cli(&["config", "set", "archive.cold_folder", text(&cold)]);
    let mut install = sandbox.command(&["hooks", "install", "--scope", "project", "--client-version", "2.1.330"]);
    run(install.current_dir(sandbox.path("other")), b"").done();
    assert!(fs::read_to_string(&settings).unwrap().contains(" hook stop"));
    let uninstalled = sandbox.json(&["uninstall", "--yes"]);
    assert_eq!(fs::read_to_string(&settings).unwrap(), "{\"model\": \"opus\"}");
    assert_eq!(uninstalled["kept"][0]["what"], "your archive.cold_folder", "{uninstalled}");
}

#[test]
fn a_purge_removes_what_is_ours_and_nothing_else() {
    let sandbox = Sandbox::new();
    sandbox.generate(Kind::Chat, 4, 1);
    sandbox.cli(&["archive", "import"]);
    let other = sandbox.data().join("Documents/letter.txt");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    fs::write(&other, "mine").unwrap();
    let ran = sandbox.run(&["uninstall", "--yes", "--purge"]).with_code(3);
    assert!(ran.stdout.contains("other files are in it and stay: Documents"), "{ran:?}");
    assert!(other.exists() && !sandbox.database().exists());
}

#[test]
fn a_purge_puts_back_a_client_that_is_anywhere() {
    let sandbox = Sandbox::new();
    let client = sandbox.install("e2", "aside");
    let original = fs::read(&client).unwrap();
    sandbox.cli(&["patch", "apply", "--no-smoke", text(&client)]);
    assert_ne!(fs::read(&client).unwrap(), original);
    sandbox.cli(&["uninstall", "--yes", "--purge"]);
    assert_eq!(fs::read(&client).unwrap(), original);
    assert!(!sandbox.data().exists());
    // Changed by somebody else since: its backup is needed, and stays.
    sandbox.cli(&["patch", "apply", "--no-smoke", text(&client)]);
    fs::write(&client, [&fs::read(&client).unwrap()[..], b"// more\n"].concat()).unwrap();
    let refused = sandbox.run(&["uninstall", "--yes", "--purge"]).with_code(3);
    assert!(refused.stderr.contains("the data stays"), "{refused:?}");
    assert!(sandbox.data().join("backups").exists());
}

#[test]
fn setup_goes_by_what_is_there_and_not_by_numbers() {
    let sandbox = Sandbox::new();
    for seed in 1..4 {
        sandbox.generate(Kind::Chat, 4, seed);
    }
    sandbox.cli(&["archive", "import"]);
    let steps = |sandbox: &Sandbox| sandbox.json(&["setup", "--dry-run"])["steps"].clone();
    let import =
        |sandbox: &Sandbox| steps(sandbox).as_array().unwrap().iter().find(|step| step["step"] == "import").unwrap().clone();
    assert_eq!(import(&sandbox)["state"], "already_done");
    let new = sandbox.generate(Kind::Chat, 4, 9).remove(0);
    assert_eq!(import(&sandbox)["state"], "done", "a dry run would import {}", new.id);
}
