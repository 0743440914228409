//! The plugin in `plugin/`: it wires what `hooks install` wires.

use std::collections::BTreeSet;
use std::fs;

use ctxbridge::hook::Event;
use ctxbridge::hook::settings::wiring::{HookForm, WIRED, hooks};
use ctxbridge_testkit::files::source;
#[cfg(unix)]
use ctxbridge_testkit::sandbox::{Sandbox, program};
use serde_json::{Map, Value, json};

/// Up to 2.1.248 a release that does not know one event of a file runs no hook of that file, and PostCompact is the one that not all of
/// them know: it has a file of its own.
const FILES: [(&str, &str, bool); 2] = [
    ("hooks.json", "Archive what is said and done, and bring it back", false),
    (
        "post-compact.json",
        "In a file of its own: releases before 2.1.76 run no hook of a file with an event that they do not know",
        true,
    ),
];

/// The module that answers compactions.
const MODULE: &str = "./register.ts";

/// Set, the test writes the files instead of looking at them.
const RENEW: &str = "CTXBRIDGE_RENEW_PLUGIN";

fn json_of(path: &str) -> Value {
    serde_json::from_slice(&fs::read(source(path)).unwrap()).unwrap()
}

#[test]
fn the_plugin_wires_what_the_install_does() {
    for (name, description, is_post_compact) in FILES {
        let events: Vec<Event> =
            WIRED.iter().map(|wiring| wiring.event).filter(|event| (*event == Event::PostCompact) == is_post_compact).collect();
        let groups: Map<String, Value> = hooks(&events, "ctxbridge", HookForm::Shell)
            .iter()
            .map(|hook| {
                // The launcher, in a shell of Unix. PowerShell knows no `exec`, and goes on to what is on the PATH; whatever it finds,
                // the client must not take an error for a verdict.
                let run = &hook.command;
                let launcher = "exec sh -c 'test ! -r \"$0\" || exec sh \"$0\" \"$@\"' \"${CLAUDE_PLUGIN_ROOT}/bin/ctxbridge\"";
                let launch = run.replacen("ctxbridge", launcher, 1);
                // It may block a compaction.
                let end = if hook.event == Event::PreCompact { "exit $LASTEXITCODE" } else { "exit 0" };
                let handlers =
                    json!([{ "type": "command", "command": format!("{launch}; {run}; {end}"), "timeout": hook.timeout }]);
                let group = match hook.matcher {
                    Some(matcher) => json!({ "matcher": matcher, "hooks": handlers }),
                    None => json!({ "hooks": handlers }),
                };
                (hook.event.name().to_owned(), json!([group]))
            })
            .collect();
        let mut file = json!({ "description": description, "hooks": groups });
        if !is_post_compact {
            // Releases that know no modules pass over it.
            file["modules"] = json!([MODULE]);
        }
        let wanted = serde_json::to_string_pretty(&file).unwrap() + "\n";
        let path = source(&format!("plugin/hooks/{name}"));
        if std::env::var_os(RENEW).is_some() {
            fs::write(&path, &wanted).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text == wanted,
            "plugin/hooks/{name} is not what is wired; renew it with `{RENEW}=1 cargo nextest run --test it hooks_settings::plugin`"
        );
    }
}

#[test]
fn the_manifests_name_what_is_there() {
    let manifest = json_of("plugin/.claude-plugin/plugin.json");
    assert_eq!(manifest["name"], ctxbridge::hook::settings::plugin::NAME);
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"), "set it in plugin/.claude-plugin/plugin.json");
    // hooks.json is found by its name, and names the module; every other file has to be named.
    let named: BTreeSet<_> = [&manifest["hooks"]].map(|path| path.as_str().unwrap().to_owned()).into_iter().collect();
    let others: BTreeSet<_> = fs::read_dir(source("plugin/hooks"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "hooks.json" && format!("./{name}") != MODULE)
        .map(|name| format!("./hooks/{name}"))
        .collect();
    assert_eq!(named, others);

    let threshold = json_of("plugin-threshold/.claude-plugin/plugin.json");
    assert_eq!((&threshold["name"], &threshold["version"]), (&json!("ctxbridge-threshold"), &manifest["version"]));

    let marketplace = json_of(".claude-plugin/marketplace.json");
    let listed = &marketplace["plugins"][0];
    assert_eq!(listed["name"], manifest["name"]);
    assert!(source(listed["source"].as_str().unwrap()).join(".claude-plugin/plugin.json").is_file());

    // The command may call only what the server offers, by the name that the client makes of it.
    let server = json_of("plugin/.mcp.json");
    let (name, run) = server["mcpServers"].as_object().unwrap().iter().next().unwrap();
    assert_eq!((run["command"].as_str(), &run["args"]), (Some("${CLAUDE_PLUGIN_ROOT}/bin/ctxbridge"), &json!(["mcp"])));
    let command = fs::read_to_string(source("plugin/commands/recall.md")).unwrap();
    let prefix = format!("mcp__plugin_ctxbridge_{name}__");
    let allowed = command.lines().find_map(|line| line.strip_prefix("allowed-tools: ")).unwrap();
    for tool in allowed.split(", ") {
        assert!(["search", "recall"].contains(&tool.strip_prefix(&prefix).unwrap()), "{tool}");
    }
}

/// What the client leaves in the settings when the plugin is installed.
#[cfg(unix)]
#[test]
fn an_enabled_plugin_counts_as_wired() {
    let sandbox = Sandbox::new();
    let run = |args: &[&str]| sandbox.run(&[&["hooks"], args, &["--client-version", "2.1.330"]].concat());
    let settings = sandbox.path("home/.claude/settings.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let enabled = |enabled: bool| {
        fs::write(
            &settings,
            json!({ "enabledPlugins": { "ctxbridge@ctxbridge": enabled, "other@ctxbridge": true } }).to_string(),
        )
        .unwrap();
    };
    enabled(true);
    insta::assert_snapshot!(run(&["status", "--scope", "user"]), @"
    exit code: 1
    user     ~/.claude/settings.json (no hook of ctxbridge)
    plugin   ✗ the plugin is enabled, but finds no `ctxbridge`
    ✗ not wired: SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, PreCompact, PostCompact, Stop, SubagentStop, SessionEnd; `ctxbridge hooks install` wires them
    ");
    std::os::unix::fs::symlink(program(), sandbox.path("bin/ctxbridge")).unwrap();
    insta::assert_snapshot!(run(&["status", "--scope", "user"]), @"
    exit code: 0
    user     ~/.claude/settings.json (no hook of ctxbridge)
    plugin   ✓ the plugin is enabled, and wires all of them
    ✓ all is wired
    ");
    assert_eq!(run(&["status", "--json"]).json()["plugin"], true);
    insta::assert_snapshot!(run(&["install"]).stderr, @"note: the plugin is enabled, too: its hooks step back where settings wire the same, so one of both is enough");
    insta::assert_snapshot!(run(&["status", "--scope", "user"]), @"
    exit code: 0
    user     ~/.claude/settings.json 9 hooks
      ✓ SessionStart      [ROOT]/bin/ctxbridge
      ✓ UserPromptSubmit  [ROOT]/bin/ctxbridge
      ✓ PreToolUse        [ROOT]/bin/ctxbridge (only for `Write|Edit|MultiEdit|NotebookEdit|Task|Agent`)
      ✓ PostToolUse       [ROOT]/bin/ctxbridge (only for `Read|Write|Edit|MultiEdit|NotebookEdit|Bash|Task|Agent`)
      ✓ PreCompact        [ROOT]/bin/ctxbridge
      ✓ PostCompact       [ROOT]/bin/ctxbridge
      ✓ Stop              [ROOT]/bin/ctxbridge
      ✓ SubagentStop      [ROOT]/bin/ctxbridge
      ✓ SessionEnd        [ROOT]/bin/ctxbridge
    plugin   ✓ the plugin is enabled, and wires all of them
    ✓ all is wired
    ");
    enabled(false);
    assert_eq!(run(&["status", "--json"]).json()["plugin"], false);
    assert_eq!(run(&["status"]).code, Some(1));
}
