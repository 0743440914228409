//! The commands as a user meets them.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;

use ctxbridge_testkit::sandbox::{Ran, Sandbox, program, run};
use insta::assert_snapshot;

const NEWEST: &[&str] = &["--client-version", "2.1.330"];

fn hooks(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let ran = sandbox.run(&[&["hooks"], args].concat());
    let own = program().display().to_string();
    let clean = |text: String| text.replace(&own, "[CTXBRIDGE]");
    let hash = |text: String| {
        let path = "backups/settings/";
        text.find(path).map_or(text.clone(), |at| text.replace(&text[at + path.len()..at + path.len() + 32], "[FILE]"))
    };
    Ran { stdout: hash(clean(ran.stdout)), stderr: clean(ran.stderr), ..ran }
}

fn write_settings(sandbox: &Sandbox, text: &str) {
    sandbox.write("home/.claude/settings.json", text);
}

fn settings(sandbox: &Sandbox) -> String {
    fs::read_to_string(sandbox.path("home/.claude/settings.json")).unwrap()
}

#[test]
fn a_life_of_hooks() {
    let sandbox = Sandbox::new();
    let text = "{\n  \"model\": \"opus\"\n}\n";
    write_settings(&sandbox, text);
    assert_snapshot!(hooks(&sandbox, &[&["status"], NEWEST].concat()), @"
    exit code: 1
    user     ~/.claude/settings.json (no hook of ctxbridge)
    project  [ROOT]/work/.claude/settings.json (no such file)
    local    [ROOT]/work/.claude/settings.local.json (no such file)
    ✗ not wired: SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, Stop, SubagentStop, SessionEnd; `ctxbridge hooks install` wires them
    ");
    assert_snapshot!(hooks(&sandbox, &[&["install"], NEWEST].concat()), @"
    exit code: 0
    installed: 9 hooks in ~/.claude/settings.json
    SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, Stop, SubagentStop, SessionEnd
    the original is kept in [ROOT]/data/backups/settings/[FILE].original.json
    ");
    assert_snapshot!(hooks(&sandbox, &[&["install"], NEWEST].concat()), @"
    exit code: 0
    nothing to do: 9 hooks are in ~/.claude/settings.json already
    SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, Stop, SubagentStop, SessionEnd
    ");
    assert_snapshot!(hooks(&sandbox, &[&["status"], NEWEST].concat()), @"
    exit code: 0
    user     ~/.claude/settings.json 9 hooks
      ✓ SessionStart      [CTXBRIDGE]
      ✓ UserPromptSubmit  [CTXBRIDGE]
      ✓ PreToolUse        [CTXBRIDGE] (only for `Write|Edit|MultiEdit|NotebookEdit|Task|Agent`)
      ✓ PostToolUse       [CTXBRIDGE] (only for `Read|Write|Edit|MultiEdit|NotebookEdit|Bash|Task|Agent`)
      ✓ PreCompact        [CTXBRIDGE]
      ✓ PostCompact       [CTXBRIDGE]
      ✓ Stop              [CTXBRIDGE]
      ✓ SubagentStop      [CTXBRIDGE]
      ✓ SessionEnd        [CTXBRIDGE]
    project  [ROOT]/work/.claude/settings.json (no such file)
    local    [ROOT]/work/.claude/settings.local.json (no such file)
    ✓ all is wired
    ");
    assert_snapshot!(hooks(&sandbox, &["status", "--client-version", "2.0.76"]), @"
    exit code: 1
    user     ~/.claude/settings.json 9 hooks
      ✓ SessionStart      [CTXBRIDGE]
      ✓ UserPromptSubmit  [CTXBRIDGE]
      ✓ PreToolUse        [CTXBRIDGE] (only for `Write|Edit|MultiEdit|NotebookEdit|Task|Agent`)
      ✓ PostToolUse       [CTXBRIDGE] (only for `Read|Write|Edit|MultiEdit|NotebookEdit|Bash|Task|Agent`)
      ✓ PreCompact        [CTXBRIDGE]
      ✓ PostCompact       [CTXBRIDGE]
      ✓ Stop              [CTXBRIDGE]
      ✓ SubagentStop      [CTXBRIDGE]
      ✓ SessionEnd        [CTXBRIDGE]
      ✗ PostCompact is not known to 2.0.76, which ignores this whole file because of it; `ctxbridge hooks install --scope user` takes it out
    project  [ROOT]/work/.claude/settings.json (no such file)
    local    [ROOT]/work/.claude/settings.local.json (no such file)
    left out: PostCompact, which 2.0.76 does not know
    ✗ wired, but not in effect, for the reasons above: SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, Stop, SubagentStop, SessionEnd
    ");
    assert_snapshot!(hooks(&sandbox, &["install", "--client-version", "2.0.76"]), @"
    exit code: 0
    updated: 8 hooks in ~/.claude/settings.json
    SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, Stop, SubagentStop, SessionEnd
    left out: PostCompact, which 2.0.76 does not know
    the original is kept in [ROOT]/data/backups/settings/[FILE].original.json
    ");
    assert_snapshot!(hooks(&sandbox, &["uninstall"]), @"
    exit code: 0
    uninstalled: ~/.claude/settings.json is as it was before the install
    ");
    assert_eq!(settings(&sandbox), text);
    assert_snapshot!(hooks(&sandbox, &["uninstall"]), @"
    exit code: 1
    not installed: ~/.claude/settings.json has no hook of ctxbridge in it
    ");
}

#[test]
fn the_same_as_json() {
    let sandbox = Sandbox::new();
    assert_snapshot!(hooks(&sandbox, &["install", "--json", "--client-version", "1.0.60"]), @r#"
    exit code: 0
    {
      "scope": "user",
      "file": "[ROOT]/home/.claude/settings.json",
      "state": "installed",
      "events": [
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PreCompact",
        "Stop",
        "SubagentStop"
      ],
      "left_out": [
        {
          "event": "SessionStart",
          "because_of": "1.0.60"
        },
        {
          "event": "PostCompact",
          "because_of": "1.0.60"
        },
        {
          "event": "SessionEnd",
          "because_of": "1.0.60"
        }
      ],
      "program": "[CTXBRIDGE]",
      "backup": null,
      "clients": [
        {
          "path": null,
          "version": "1.0.60"
        }
      ],
      "warnings": []
    }
    "#);
    assert_snapshot!(hooks(&sandbox, &["status", "--json", "--scope", "user", "--client-version", "1.0.80"]), @r#"
    exit code: 1
    {
      "bundles": null,
      "wired": false,
      "missing": [
        "SessionStart"
      ],
      "left_out": [
        {
          "event": "PostCompact",
          "because_of": "1.0.80"
        },
        {
          "event": "SessionEnd",
          "because_of": "1.0.80"
        }
      ],
      "disabled": false,
      "twice": [],
      "plugin": false,
      "scopes": [
        {
          "scope": "user",
          "file": "[ROOT]/home/.claude/settings.json",
          "exists": true,
          "hooks": [
            {
              "event": "UserPromptSubmit",
              "command": "[CTXBRIDGE] hook user-prompt-submit",
              "program": "[CTXBRIDGE]",
              "runs": true,
              "in_place": true,
              "matcher": null,
              "matcher_wanted": null,
              "timeout_s": 5.0
            },
            {
              "event": "PreToolUse",
              "command": "[CTXBRIDGE] hook pre-tool-use",
              "program": "[CTXBRIDGE]",
              "runs": true,
              "in_place": true,
              "matcher": "Write|Edit|MultiEdit|NotebookEdit|Task|Agent",
              "matcher_wanted": null,
              "timeout_s": 5.0
            },
            {
              "event": "PostToolUse",
              "command": "[CTXBRIDGE] hook post-tool-use",
              "program": "[CTXBRIDGE]",
              "runs": true,
              "in_place": true,
              "matcher": "Read|Write|Edit|MultiEdit|NotebookEdit|Bash|Task|Agent",
              "matcher_wanted": null,
              "timeout_s": 5.0
            },
            {
              "event": "PreCompact",
              "command": "[CTXBRIDGE] hook pre-compact",
              "program": "[CTXBRIDGE]",
              "runs": true,
              "in_place": true,
              "matcher": null,
              "matcher_wanted": null,
              "timeout_s": 30.0
            },
            {
              "event": "Stop",
              "command": "[CTXBRIDGE] hook stop",
              "program": "[CTXBRIDGE]",
              "runs": true,
              "in_place": true,
              "matcher": null,
              "matcher_wanted": null,
              "timeout_s": 15.0
            },
            {
              "event": "SubagentStop",
              "command": "[CTXBRIDGE] hook subagent-stop",
              "program": "[CTXBRIDGE]",
              "runs": true,
              "in_place": true,
              "matcher": null,
              "matcher_wanted": null,
              "timeout_s": 15.0
            }
          ],
          "missing": [
            "SessionStart"
          ],
          "unknown": [],
          "plugins": {},
          "disable_all_hooks": null,
          "trusted": null,
          "related": [],
          "problem": null
        }
      ],
      "clients": [
        {
          "path": null,
          "version": "1.0.80"
        }
      ],
      "project": "[ROOT]/work"
    }
    "#);
    assert_snapshot!(hooks(&sandbox, &["uninstall", "--json"]), @r#"
    exit code: 0
    {
      "scope": "user",
      "file": "[ROOT]/home/.claude/settings.json",
      "state": "deleted",
      "removed": 6,
      "backup": null
    }
    "#);
}

#[cfg(unix)]
#[test]
fn what_is_wired_fits_every_client_that_is_installed() {
    let sandbox = Sandbox::new();
    let script = sandbox.install("e1b", "client");
    symlink(&script, sandbox.path("bin/claude")).unwrap();
    let said = hooks(&sandbox, &["install", "--json"]);
    let json = said.json();
    let client = json["clients"].as_array().unwrap().iter().find(|client| client["path"] == "[ROOT]/client/cli.js").unwrap();
    let left_out = &json["left_out"][0];
    assert_eq!(left_out["event"], "PostCompact", "{said}");
    assert_eq!(left_out["because_of"], format!("[ROOT]/client/cli.js ({})", client["version"].as_str().unwrap()));
    assert!(!settings(&sandbox).contains("PostCompact"));
}

#[test]
fn settings_for_colleagues_call_the_bare_name() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("work/.git")).unwrap();
    fs::write(sandbox.path("home/.claude.json"), "{\"projects\": {}}").unwrap();
    assert_snapshot!(hooks(&sandbox, &[&["install", "--scope", "project"], NEWEST].concat()), @"
    exit code: 0
    installed: 9 hooks in [ROOT]/work/.claude/settings.json
    SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, Stop, SubagentStop, SessionEnd
    --- stderr
    note: the client does not trust this project yet: start `claude` in it once and say yes
    note: there is no `ctxbridge` on the PATH, which these settings call
    ");
    let text = fs::read_to_string(sandbox.path("work/.claude/settings.json")).unwrap();
    assert!(text.contains("\"ctxbridge hook stop\"") && !text.contains(&*sandbox.root().to_string_lossy()), "{text}");
    assert_snapshot!(hooks(&sandbox, &[&["status", "--scope", "project"], NEWEST].concat()), @"
    exit code: 1
    project  [ROOT]/work/.claude/settings.json 9 hooks
      ✗ SessionStart      ctxbridge (is not on the PATH)
      ✗ UserPromptSubmit  ctxbridge (is not on the PATH)
      ✗ PreToolUse        ctxbridge (is not on the PATH, only for `Write|Edit|MultiEdit|NotebookEdit|Task|Agent`)
      ✗ PostToolUse       ctxbridge (is not on the PATH, only for `Read|Write|Edit|MultiEdit|NotebookEdit|Bash|Task|Agent`)
      ✗ PreCompact        ctxbridge (is not on the PATH)
      ✗ PostCompact       ctxbridge (is not on the PATH)
      ✗ Stop              ctxbridge (is not on the PATH)
      ✗ SubagentStop      ctxbridge (is not on the PATH)
      ✗ SessionEnd        ctxbridge (is not on the PATH)
      ✗ the client does not trust this project, and ignores these; start `claude` in it once and say yes
    ✗ wired, but not in effect, for the reasons above: SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, Stop, SubagentStop, SessionEnd
    bundles: none in this project; `ctxbridge bundle init` starts them
    ");
    assert_snapshot!(hooks(&sandbox, &[&["install", "--scope", "local"], NEWEST].concat()), @"
    exit code: 0
    installed: 9 hooks in [ROOT]/work/.claude/settings.local.json
    SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, Stop, SubagentStop, SessionEnd
    --- stderr
    note: the client does not trust this project yet: start `claude` in it once and say yes
    ");
    assert_snapshot!(hooks(&sandbox, &["uninstall", "--scope", "local"]), @"
    exit code: 0
    uninstalled: [ROOT]/work/.claude/settings.local.json, which the install had made, is gone
    ");
    assert_snapshot!(hooks(&sandbox, &["uninstall", "--scope", "project"]), @"
    exit code: 0
    uninstalled: [ROOT]/work/.claude/settings.json, which the install had made, is gone
    ");
    assert!(!sandbox.path("work/.claude").exists());
}

#[test]
fn status_says_what_is_wrong() {
    let sandbox = Sandbox::new();
    write_settings(
        &sandbox,
        r#"{"disableAllHooks": true, "hooks": {
  "Stop": [{"matcher": "x", "hooks": [{"type": "command", "command": "/gone/ctxbridge hook stop"}]}],
  "SessionEnd": [{"hooks": [{"type": "command", "command": "ctxbridge hook session-start"}]}],
  "PreCompact": [{"hooks": [{"type": "command", "command": "ctxbridge hook pre-compact; date"}]}]
}}"#,
    );
    assert_snapshot!(hooks(&sandbox, &[&["status", "--scope", "user"], NEWEST].concat()), @"
    exit code: 1
    user     ~/.claude/settings.json 2 hooks
      ✗ Stop              /gone/ctxbridge (is not there or cannot be run, only for `x`)
      ✗ SessionStart      ctxbridge (stands under another event, is not on the PATH)
      not ours, since it does more than run a hook: ctxbridge hook pre-compact; date
    ✗ `disableAllHooks` is set: the client runs no hook at all
    ✗ wired, but not in effect, for the reasons above: Stop
    ✗ not wired: SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, SubagentStop, SessionEnd; `ctxbridge hooks install` wires them
    ");
    write_settings(&sandbox, "{,}");
    assert_snapshot!(hooks(&sandbox, &[&["status", "--scope", "user"], NEWEST].concat()), @"
    exit code: 1
    user     ~/.claude/settings.json (cannot be used)
      ✗ it is not valid JSON (key must be a string at line 1 column 2), so the client ignores it, too; correct it there. JSON allows no comments and no trailing commas
    ✗ not wired: SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, Stop, SubagentStop, SessionEnd; `ctxbridge hooks install` wires them
    ");
}

#[test]
fn refusals_say_what_to_do() {
    let sandbox = Sandbox::new();
    assert_snapshot!(hooks(&sandbox, &["install", "--client-version", "0.2.9"]), @"
    exit code: 3
    --- stderr
    error: no event of ctxbridge is known to 0.2.9; hooks need Claude Code 1.0.60 or newer
    ");
    write_settings(&sandbox, "{ \"a\": 1, }");
    assert_snapshot!(hooks(&sandbox, &[&["install"], NEWEST].concat()), @"
    exit code: 3
    --- stderr
    error: [ROOT]/home/.claude/settings.json was not changed: it is not valid JSON (key must be a string at line 1 column 11), so the client ignores it, too; correct it there. JSON allows no comments and no trailing commas
    ");
    assert_eq!(settings(&sandbox), "{ \"a\": 1, }");
    let said = hooks(&sandbox, &["install", "--client-version", "newest"]);
    assert_eq!(said.code, Some(2), "{said}");
    let mut command = sandbox.command(&[&["hooks", "install", "--scope", "project"], NEWEST].concat());
    assert_snapshot!(sandbox.masked(run(command.current_dir(sandbox.home()), b"")), @"
    exit code: 3
    --- stderr
    error: [ROOT]/home is the home directory, where the project's settings are the user's; use `--scope user`, or go to a project
    ");
}

/// Which hooks run, and that the answer and the exit code agree; that nothing is left of it.
#[test]
fn verify_runs_what_is_wired() {
    let sandbox = Sandbox::new();
    let run = || {
        let said = hooks(&sandbox, &["verify", "--json"]);
        let json = said.json();
        assert_eq!(said.code, Some(if json["ok"] == true { 0 } else { 1 }), "{said}");
        assert_eq!(fs::read_dir(sandbox.path("tmp")).unwrap().count(), 0, "something is left in the temporary folder");
        assert_eq!(json["ok"], true, "{said}");
        json["hooks"].as_array().unwrap().iter().map(|run| run["event"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(run().len(), 12, "all, when none is wired");
    write_settings(&sandbox, r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "ctxbridge hook stop"}]}]}}"#);
    assert_eq!(run(), ["Stop"]);
    assert!(hooks(&sandbox, &["verify"]).stdout.starts_with("1 hook in your settings;"));
    assert_snapshot!(hooks(&sandbox, &["verify"]).stdout.lines().skip(2).collect::<Vec<_>>().join("\n"), @"
    ✓ write                           1 hook into settings, and out again
    ✓ event log                       1 event logged
    ✓ archive                         1 session, 2 turns
    ✓ search                          the session is found by its words
    ✓ restore                         the transcript to the byte
    ");
    assert!(!sandbox.path("data/archive.db").exists(), "the user's own archive was touched");
}
