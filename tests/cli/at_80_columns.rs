//! Every list and every error, as a terminal of 80 columns shows it.

use std::fmt::Write as _;
use std::path::Path;

use ctxbridge_testkit::sandbox::{Ran, Sandbox, run};
use ctxbridge_testkit::transcript::Kind;
use unicode_width::UnicodeWidthStr;

/// A sandbox with two archived sessions, hooks, a setting and a project.
fn lived_in() -> (Sandbox, [String; 2]) {
    // Lines break by the length of paths.
    let sandbox = Sandbox::below(Path::new("/tmp"));
    let ids = [(Kind::Tools, 1), (Kind::Chat, 2)].map(|(kind, seed)| sandbox.generate(kind, 24, seed).remove(0).id);
    sandbox.cli(&["archive", "import"]);
    sandbox.cli(&["hooks", "install", "--client-version", "2.1.330"]);
    sandbox.cli(&["config", "set", "recall.agents", "false"]);
    sandbox.git(&sandbox.path("work"), &["init", "-q"]);
    sandbox.cli(&["bundle", "init"]);
    (sandbox, ids)
}

/// The output of commands, each behind its name. No line is too long.
#[track_caller]
fn shown(sandbox: &Sandbox, commands: &[&[&str]]) -> String {
    let mut all = String::new();
    for arguments in commands {
        let ran = run(sandbox.command(arguments).env("COLUMNS", "80"), b"");
        let name = arguments.join(" ").replace(super::text(sandbox.root()), "[ROOT]");
        for line in ran.stdout.lines().chain(ran.stderr.lines()) {
            assert!(line.width() <= 80, "{name}: {} columns: {line}", line.width());
        }
        let Ran { code, stdout, stderr } = sandbox.masked(ran);
        let code = code.map_or("a signal".to_owned(), |code| code.to_string());
        writeln!(all, "$ ctxbridge {name}\n{stdout}{stderr}[{code}]\n").unwrap();
    }
    all
}

/// Filters of what differs from run to run, or from machine to machine.
fn filters() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b\d+ (minute|hour|day|month|year)s? ago\b", "[AGO]");
    settings.add_filter(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "[TIME]");
    settings.add_filter(r"\bsince \p{L}+ \d{4}\b", "since [MONTH]");
    settings.add_filter(r" +\d+(\.\d+)? (ms|s)\b", " [TOOK]");
    settings.add_filter(r"\b\d+(\.\d+)? (KB|MB|GB)\b", "[SIZE]");
    settings.add_filter(r"\b\d{4,} bytes\b", "[SIZE]");
    settings.add_filter(env!("CARGO_PKG_VERSION"), "[VERSION]");
    settings.bind_to_scope()
}

#[test]
fn lists() {
    let (sandbox, [tools, chat]) = lived_in();
    let turn = sandbox.json(&["show", &tools])["turns"][0]["handle"].as_str().unwrap().to_owned();
    let file = sandbox.path("session.jsonl");
    let _filters = filters();
    let commands: &[&[&str]] = &[
        &["sessions"],
        &["archive", "restore", &tools, "-o", super::text(&file)],
        &["show", &chat],
        &["diff", &tools, &chat],
        &["pin", &turn],
        &["pin"],
        &["stats"],
        &["archive", "status"],
        &["archive", "history", &tools],
        &["archive", "optimize"],
        &["autopilot", "status"],
        &["mod", "status"],
        &["patch", "list"],
        &["learnings", "list"],
        &["learnings", "stats", &tools],
        &["learnings", "patterns"],
        &["bundle", "show"],
        &["bundle", "check"],
        &["model", "status"],
        &["config", "show"],
        &["config", "list"],
        &["config", "path"],
        &["prune", "preview", &tools],
        &["forget", &chat, "--dry-run"],
        &["uninstall", "--dry-run"],
        &["setup", "--dry-run", "--yes"],
    ];
    insta::assert_snapshot!(shown(&sandbox, commands));
    // It names this program, wherever that was built.
    shown(&sandbox, &[&["hooks", "status"]]);
}

#[test]
fn errors() {
    let (sandbox, [tools, _]) = lived_in();
    let broken = sandbox.write("broken.js", "function (");
    let broken = broken.to_str().unwrap();
    let _filters = filters();
    let commands: &[&[&str]] = &[
        &["nonsense"],
        &["sesions"],          // typos: ignore
        &["archive", "impot"], // typos: ignore
        &["search"],
        &["search", "xyzzyplugh"],
        &["search", "--since", "someday", "word"],
        &["search", "--project", "/nowhere/at/all", "word"],
        &["sessions", "--project", "/nowhere/at/all"],
        &["show", "ffffffff"],
        &["show", "not-an-id"],
        &["show", "ctx:zzzz"],
        &["recall", "ctx:00000000"],
        &["recall", "nonsense"],
        &["diff", &tools, "ffffffff"],
        &["export", "ffffffff"],
        &["pin", "ctx:00000000"],
        &["forget"],
        &["forget", "ffffffff"],
        &["forget", "--match", "("],
        &["archive", "restore", "ffffffff"],
        &["archive", "history", "ffffffff"],
        &["archive", "import", "/nowhere/at/all"],
        &["archive", "sync"],
        &["archive", "move", "/nowhere/at/all", "/nowhere/else"],
        &["config", "get", "archive.enabeld"], // typos: ignore
        &["config", "set", "archive.enabled", "perhaps"],
        &["config", "set", "prune.keep_turns", "-1"],
        &["patch", "verify"],
        &["patch", "verify", "/nowhere/at/all"],
        &["patch", "apply", broken],
        &["patch", "locate", broken],
        &["patch", "check", "/nowhere/at/all"],
        &["prune", "preview", "ffffffff"],
        &["learnings", "show", "ffffffff"],
        &["learnings", "search", "xyzzyplugh"],
        &["bundle", "search", "xyzzyplugh"],
        &["demo", "--client", "/nowhere/at/all"],
        &["demo", "--client", broken, "--release", "2.1.330"],
        &["mod", "install"],
        &["mod", "verify"],
        &["uninstall"],
        &["setup"],
        &["completions", "nonsense"],
    ];
    insta::assert_snapshot!(shown(&sandbox, commands));
}
