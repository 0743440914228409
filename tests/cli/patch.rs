//! `ctxbridge patch …` on an installed bundle.

use std::fs;

use ctxbridge_testkit::files::source;
#[cfg(unix)]
use ctxbridge_testkit::sandbox::Ran;
use ctxbridge_testkit::sandbox::Sandbox;
use insta::assert_snapshot;

use super::{filters, text};

#[test]
fn locate() {
    let _filters = filters();
    let sandbox = Sandbox::new();
    let client = sandbox.install("e2", "client");
    assert_snapshot!("locate", sandbox.run(&["patch", "locate", text(&client)]));
    assert_snapshot!("locate_json", sandbox.run(&["patch", "locate", "--json", text(&client)]));
    assert!(!sandbox.path("data").exists(), "looking leaves nothing behind");
}

#[test]
fn locate_says_what_is_missing() {
    let _filters = filters();
    let sandbox = Sandbox::new();
    let client = sandbox.install("renamed", "client");
    assert_snapshot!("locate_missing", sandbox.run(&["patch", "locate", text(&client)]));
    assert_snapshot!("locate_missing_json", sandbox.run(&["--json", "patch", "locate", text(&client)]));
}

/// The sites of a patched client are those of its original, or line and column would mean nothing to anybody.
#[test]
fn locate_sees_through_a_patch() {
    let sandbox = Sandbox::new();
    let client = sandbox.install("e3b", "client");
    let before = sandbox.run(&["patch", "locate", "--json", text(&client)]).json();
    assert_eq!(sandbox.run(&["patch", "apply", "--no-smoke", text(&client)]).code, Some(0));
    let after = sandbox.run(&["patch", "locate", "--json", text(&client)]).json();
    assert_eq!(before["sites"], after["sites"]);
    assert_ne!(before["sha256"], after["sha256"], "the hash is that of the file");
}

#[test]
fn a_dry_run_shows_and_changes_nothing() {
    let _filters = filters();
    let sandbox = Sandbox::new();
    let client = sandbox.install("e2", "client");
    let before = fs::read(&client).unwrap();
    let patches = ["--patch", "aggressive-text-prune", "--patch", "microcompact-thresholds"];
    let shown = sandbox.run(&[&["patch", "apply", "--dry-run", text(&client)], &patches[..]].concat());
    // The injected function is shown whole; it has tests of its own.
    let start = shown.stdout.find("+function ctxbridgeAggressiveTextPrune(").unwrap();
    let end = start + shown.stdout[start..].find("\n+}\n").unwrap();
    assert_snapshot!("dry_run", [&shown.stdout[..start], "[RUNTIME]", &shown.stdout[end + 3..]].concat());

    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));

    let said = sandbox.run(&["patch", "apply", "--dry-run", "--json", text(&client)]);
    let edits = said.json()["edits"].as_array().unwrap().clone();
    assert_eq!(edits.len(), 2);
    assert_eq!(edits[0]["removed"], "X");
    assert_eq!(edits[0]["inserted"], "X = ctxbridgeAggressiveTextPrune(X, \"usage\")");
    assert_eq!(before[edits[0]["offset"].as_u64().unwrap() as usize], b'X');
    assert_eq!(fs::read(&client).unwrap(), before);
    assert!(!sandbox.path("data/backups").exists());
}

#[test]
fn apply_verify_and_revert() {
    let _filters = filters();
    let sandbox = Sandbox::new();
    let client = sandbox.install("e1b", "client");
    let original = fs::read(&client).unwrap();
    let target = text(&client);
    assert_snapshot!("verify_unpatched", sandbox.run(&["patch", "verify", target]));
    assert_snapshot!("apply", sandbox.run(&["patch", "apply", target]));
    assert_snapshot!("verify", sandbox.run(&["patch", "verify", target]));
    assert_snapshot!("apply_again", sandbox.run(&["patch", "apply", target]));
    assert_ne!(fs::read(&client).unwrap(), original);
    assert_snapshot!("revert", sandbox.run(&["patch", "revert", target]));
    assert_eq!(fs::read(&client).unwrap(), original);
    assert_snapshot!("revert_again", sandbox.run(&["patch", "revert", target]));
}

#[test]
fn apply_verify_and_revert_in_json() {
    let _filters = filters();
    let sandbox = Sandbox::new();
    let client = sandbox.install("e3a", "client");
    let original = fs::read(&client).unwrap();
    let json = |args: &[&str]| sandbox.run(&[&["patch", "--json"], args, &[text(&client)]].concat());
    assert_snapshot!("verify_unpatched_json", json(&["verify"]));
    let applied = json(&["apply", "--patch", "microcompact-thresholds", "--patch", "aggressive-text-prune"]);
    assert_snapshot!("apply_json", applied);
    let grown = fs::read(&client).unwrap().len() - original.len();
    assert_eq!(applied.json()["grew_by_bytes"], grown);
    let verified = json(&["verify"]);
    assert_snapshot!("verify_json", verified);
    for key in ["original_sha256", "patched_sha256"] {
        assert_eq!(verified.json()[key], applied.json()[key]);
    }
    let again = json(&["apply", "--patch", "microcompact-thresholds", "--patch", "aggressive-text-prune"]).json();
    assert_eq!((&again["state"], &again["grew_by_bytes"]), (&"already_patched".into(), &grown.into()));
    assert_snapshot!("revert_json", json(&["revert"]));
    assert_eq!(fs::read(&client).unwrap(), original);
    assert_snapshot!("revert_again_json", json(&["revert"]));
}

/// Another set of patches goes back to the original first.
#[test]
fn apply_with_other_patches_starts_from_the_original() {
    let sandbox = Sandbox::new();
    let (one, other) = (sandbox.install("e2", "one"), sandbox.install("e2", "other"));
    let apply = |client, patch| sandbox.run(&["patch", "apply", "--no-smoke", "--patch", patch, text(client)]).code;
    assert_eq!(apply(&one, "microcompact-thresholds"), Some(0));
    assert_eq!(apply(&one, "aggressive-text-prune"), Some(0));
    assert_eq!(apply(&other, "aggressive-text-prune"), Some(0));
    assert_eq!(fs::read(one).unwrap(), fs::read(other).unwrap());
}

#[test]
fn what_cannot_be_done_says_why_and_changes_nothing() {
    let _filters = filters();
    let sandbox = Sandbox::new();
    let drifted = sandbox.install("twice", "drifted");
    let before = fs::read(&drifted).unwrap();
    assert_snapshot!("apply_drift", sandbox.run(&["patch", "apply", text(&drifted)]));
    assert_eq!(fs::read(&drifted).unwrap(), before);

    let client = sandbox.install("e3b", "client");
    let before = fs::read(&client).unwrap();
    let apply = |patch| sandbox.run(&["patch", "apply", "--patch", patch, text(&client)]);
    assert_snapshot!("apply_not_applicable", apply("microcompact-thresholds"));
    assert_snapshot!("apply_unknown_patch", apply("nonsense"));
    assert_eq!(fs::read(&client).unwrap(), before);

    assert_eq!(sandbox.run(&["patch", "apply", "--no-smoke", text(&client)]).code, Some(0));
    let changed = fs::read_to_string(&client).unwrap().replace("DEFAULT_KEEP_TURNS = 4", "DEFAULT_KEEP_TURNS = 1");
    fs::write(&client, &changed).unwrap();
    assert_snapshot!("verify_modified", sandbox.run(&["patch", "verify", text(&client)]));
    assert_snapshot!("apply_modified", sandbox.run(&["patch", "apply", text(&client)]));
    assert_snapshot!("revert_modified", sandbox.run(&["patch", "revert", text(&client)]));
    assert_eq!(fs::read_to_string(&client).unwrap(), changed);
}

/// A client that does not start once patched, seen by running it: here it looks for the marker in its own text.
#[test]
fn a_patched_client_that_does_not_start_replaces_nothing() {
    let _filters = filters();
    let sandbox = Sandbox::new();
    let client = sandbox.install("e2", "client");
    let refuses = r#"if(R4q(process.argv[1],"utf8").includes("/*! ctx"+"bridge"))throw Error("no patches here");switch(!0)"#;
    let bundle = fs::read_to_string(&client).unwrap();
    assert_eq!(bundle.matches("switch(!0)").count(), 1);
    let picky = bundle.replace("switch(!0)", refuses);
    fs::write(&client, &picky).unwrap();
    let said = sandbox.run(&["patch", "apply", text(&client)]);
    assert_eq!(said.code, Some(3), "{said}");
    assert!(said.stderr.contains("the patched client does not start") && said.stderr.contains("no patches here"), "{said}");
    assert_eq!(fs::read_to_string(&client).unwrap(), picky);
    let left: Vec<_> = fs::read_dir(client.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing is left beside it: {left:?}");
}

#[test]
fn check() {
    let _filters = filters();
    let sandbox = Sandbox::new();
    let [good, late, drifted] =
        [("e1a", "good"), ("e3b", "late"), ("quoted", "drifted")].map(|(bundle, folder)| sandbox.install(bundle, folder));
    assert_snapshot!("check", sandbox.run(&["patch", "check", text(&good), text(&late)]));
    assert_snapshot!("check_verbose", sandbox.run(&["patch", "check", "-v", text(&late)]));
    assert_snapshot!("check_drift", sandbox.run(&["patch", "check", text(&good), text(&drifted)]));
    assert_snapshot!("check_json", sandbox.run(&["patch", "check", "--json", text(&good), text(&late), text(&drifted)]));
    let missing = sandbox.run(&["patch", "check", text(&sandbox.path("nowhere"))]);
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(3), ""), "{missing}");
}

#[cfg(unix)]
#[test]
fn list() {
    let _filters = filters();
    let sandbox = Sandbox::new();
    let own = |said: Ran| {
        let installations = said.json()["installations"].as_array().unwrap().clone();
        // The machine may have clients where they are installed for all users.
        let own = installations.into_iter().filter(|found| found["path"].as_str().unwrap().starts_with("[ROOT]"));
        serde_json::to_string_pretty(&own.collect::<Vec<_>>()).unwrap()
    };
    assert_eq!(own(sandbox.run(&["patch", "list", "--json"])), "[]");
    sandbox.install("e1b", "home/.claude/local/node_modules/@anthropic-ai/claude-code");
    let project = sandbox.install("e2", "work/node_modules/@anthropic-ai/claude-code");
    let on_path = sandbox.install("e3b", "elsewhere");
    std::os::unix::fs::symlink(&on_path, sandbox.path("bin/claude")).unwrap();
    assert_eq!(sandbox.run(&["patch", "apply", "--no-smoke", text(&project)]).code, Some(0));
    assert_snapshot!("list_json", own(sandbox.run(&["patch", "list", "--json"])));
    assert_snapshot!("list", list_of_own(&sandbox));
}

/// The list for people: the lines of clients in the sandbox, each with those that are indented below.
fn list_of_own(sandbox: &Sandbox) -> String {
    let mut is_own = false;
    let said = sandbox.run(&["patch", "list"]).stdout;
    let lines = said.lines().filter(|line| {
        is_own = if line.starts_with("    ") { is_own } else { line.contains("[ROOT]") };
        is_own
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_list_says_where_the_mod_works() {
    let sandbox = Sandbox::new();
    for (folder, version) in [("a", "2.1.213"), ("b", "2.1.280"), ("c", "2.1.330")] {
        let client = sandbox.install("e4d", &format!("home/.claude/local/{folder}/node_modules/@anthropic-ai/claude-code"));
        for file in [client.clone(), client.with_file_name("package.json")] {
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replace("2.1.213", version)).unwrap();
        }
        let folder = sandbox.path("home/.local/share/claude/versions");
        fs::create_dir_all(&folder).unwrap();
        fs::rename(client.parent().unwrap(), folder.join(version)).unwrap();
    }
    let indented = || {
        let said = list_of_own(&sandbox);
        let lines: Vec<_> = said.lines().filter(|line| line.starts_with("    ")).map(str::to_owned).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{said}");
        let mut lines: Vec<_> = lines.iter().map(|line| line.trim().to_owned()).collect();
        // The system says in which order the folders are found.
        lines.sort();
        lines
    };
    let (old, variable) = ("the mod needs 2.1.295 or newer", "the mod needs CLAUDE_CODE_ENABLE_FUNCTION_HOOKS=1");
    assert_eq!(indented(), [old, variable, "the mod works here: `ctxbridge mod install`"]);
    sandbox.write("home/.claude/settings.json", r#"{ "enabledPlugins": { "ctxbridge@ctxbridge": true } }"#);
    assert_eq!(indented(), ["the mod is installed, not loaded: `ctxbridge doctor`", old, variable]);
    sandbox.write("data/mod/loaded.jsonl", "{\"at_ms\":1795000000000,\"session\":\"s\"}\n");
    assert_eq!(indented(), ["the mod answers its compactions", old, variable]);
    let all = sandbox.run(&["patch", "list", "--json"]).json();
    let mut mods: Vec<_> = all["installations"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|found| found["path"].as_str().unwrap().starts_with("[ROOT]"))
        .map(|found| found["mod"].to_string())
        .collect();
    mods.sort();
    assert_snapshot!(mods.join("\n"), @r#"
    {"support":"no","in_force":false,"state":"client_too_old"}
    {"support":"with_variable","in_force":false,"state":"loaded","at_ms":1795000000000}
    {"support":"yes","in_force":true,"state":"loaded","at_ms":1795000000000}
    "#);
}

#[test]
fn another_catalog_with_the_same_patches_does_the_same() {
    let sandbox = Sandbox::new();
    let copy = sandbox.path("patches");
    for file in [
        "aggressive-text-prune/patch.toml",
        "aggressive-text-prune/runtime.js",
        "microcompact-thresholds/patch.toml",
        "precompact-gate/patch.toml",
        "precompact-gate/runtime.js",
    ] {
        let to = copy.join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(source("patches").join(file), to).unwrap();
    }
    let (one, other) = (sandbox.install("e2", "one"), sandbox.install("e2", "other"));
    let located = |args: &[&str], client| sandbox.run(&[&["patch", "locate", "--json"], args, &[text(client)]].concat()).json();
    let catalog = ["--catalog", text(&copy)];
    assert_eq!(located(&[], &one)["sites"], located(&catalog, &other)["sites"]);
    let apply = |args: &[&str], client| sandbox.run(&[&["patch", "apply"], args, &[text(client)]].concat()).code;
    assert_eq!((apply(&[], &one), apply(&catalog, &other)), (Some(0), Some(0)));
    assert_eq!(fs::read(&one).unwrap(), fs::read(&other).unwrap());

    // And one with other patches does something else.
    fs::remove_dir_all(copy.join("aggressive-text-prune")).unwrap();
    let said = sandbox.run(&["patch", "apply", "--catalog", text(&copy), "--patch", "aggressive-text-prune", text(&one)]);
    assert_eq!(said.code, Some(2));
    assert!(
        said.stderr.contains("no patch named `aggressive-text-prune`; there are: microcompact-thresholds, precompact-gate"),
        "{said}"
    );
    fs::write(copy.join("microcompact-thresholds/patch.toml"), "title = 1").unwrap();
    let said = sandbox.run(&["patch", "check", "--catalog", text(&copy), text(&one)]);
    assert_eq!(said.code, Some(3));
    assert!(said.stderr.contains("microcompact-thresholds/patch.toml: TOML parse error at line 1"), "{said}");
}

#[test]
fn a_client_in_an_application_of_macos_is_refused_at_once() {
    let sandbox = Sandbox::new();
    let client = sandbox.install("e2", "ClaudeCode.app/Contents/MacOS");
    let original = fs::read(&client).unwrap();
    let refused = sandbox.run(&["patch", "apply", "--no-smoke", text(&client)]).with_code(3);
    assert!(refused.stderr.contains("is part of the application") && refused.stderr.contains("npm"), "{refused:?}");
    assert_eq!(fs::read(&client).unwrap(), original);
}
