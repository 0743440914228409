//! The same for generated files: any content, any formatting.

use ctxbridge::hook::Event;
use ctxbridge::hook::settings::edit::{install, uninstall};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::hooks_settings::{all, some};

const FOREIGN: &[&str] = &[
    "echo \"hi\"",
    "~/.claude/hooks/guard.py",
    "npx other hook stop",
    "ctxbridge archive status",
    "ctxbridge hook stop || true",
    "\\\"}],\n\tü",
];
const OURS: &[&str] = &[
    "ctxbridge hook stop",
    "'/old place/ctxbridge' hook session-start -x",
    "C:\\t\\ctxbridge.exe hook pre-compact",
    "/o/ctxbridge hook pre-tool-use",
    "ctxbridge hook post-tool-use -y",
];
const EVENTS: &[&str] = &["Stop", "SessionStart", "PreCompact", "PreToolUse", "PostToolUse", "Notification", "FutureEvent"];

/// How a file is written.
#[derive(Debug, Clone)]
struct Style {
    /// White space to choose from, anywhere between two tokens; with a seed.
    odd: Option<(u64, Vec<&'static str>)>,
    /// Otherwise: the step of indentation, or one line with or without spaces.
    indent: Option<&'static str>,
    tight: bool,
    newline: &'static str,
    mark: bool,
    end: &'static str,
}

fn style() -> impl Strategy<Value = Style> {
    let odd = proptest::option::of((
        any::<u64>(),
        proptest::collection::vec(select(vec!["", " ", "\n", "\r\n", "\t", "\n\n    "]), 1..5),
    ));
    let indent = select(vec![None, Some(" "), Some("  "), Some("    "), Some("\t")]);
    let newline = select(vec!["\n", "\r\n"]);
    (odd, indent, any::<bool>(), newline, any::<bool>(), select(vec!["", "\n", "\r\n", "\n\n"]))
        .prop_map(|(odd, indent, tight, newline, mark, end)| Style { odd, indent, tight, newline, mark, end })
}

impl Style {
    fn write(&self, value: &Value) -> Vec<u8> {
        let mut text = String::from(if self.mark { "\u{feff}" } else { "" });
        let mut state = self.odd.as_ref().map_or(0, |(seed, _)| *seed | 1);
        self.put(value, 0, &mut state, &mut text);
        (text + self.end).into_bytes()
    }

    fn space(&self, regular: &str, state: &mut u64) -> String {
        let Some((_, choices)) = &self.odd else { return regular.to_owned() };
        // xorshift64: any sequence will do.
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        choices[(*state % choices.len() as u64) as usize].to_owned()
    }

    fn line(&self, depth: usize, one_line: &str) -> String {
        self.indent.map_or_else(|| one_line.to_owned(), |step| format!("{}{}", self.newline, step.repeat(depth)))
    }

    fn put(&self, value: &Value, depth: usize, state: &mut u64, out: &mut String) {
        let (open, close, items): (_, _, Vec<(Option<&String>, &Value)>) = match value {
            Value::Object(map) => ('{', '}', map.iter().map(|(key, value)| (Some(key), value)).collect()),
            Value::Array(list) => ('[', ']', list.iter().map(|value| (None, value)).collect()),
            other => return *out += &other.to_string(),
        };
        out.push(open);
        for (index, (key, value)) in items.iter().enumerate() {
            if index > 0 {
                *out += &self.space("", state);
                out.push(',');
            }
            let between = if index > 0 && !self.tight { " " } else { "" };
            *out += &self.space(&self.line(depth + 1, between), state);
            if let Some(key) = key {
                *out +=
                    &format!("{}{}:{}", json!(key), self.space("", state), self.space(if self.tight { "" } else { " " }, state));
            }
            self.put(value, depth + 1, state, out);
        }
        let last = if items.is_empty() { String::new() } else { self.line(depth, "") };
        *out += &self.space(&last, state);
        out.push(close);
    }
}

fn handler(commands: &'static [&'static str]) -> impl Strategy<Value = Value> {
    (select(commands), proptest::option::of(1..100u32)).prop_map(|(command, timeout)| {
        let mut handler = json!({ "type": "command", "command": command });
        if let Some(timeout) = timeout {
            handler["timeout"] = timeout.into();
        }
        handler
    })
}

fn group(handler: impl Strategy<Value = Value>, least: usize) -> impl Strategy<Value = Value> {
    let matcher = proptest::option::of(select(vec!["", "*", "Bash", "Write|Edit|MultiEdit|NotebookEdit|Task|Agent"]));
    (matcher, proptest::collection::vec(handler, least..4)).prop_map(|(matcher, handlers)| match matcher {
        Some(matcher) => json!({ "matcher": matcher, "hooks": handlers }),
        None => json!({ "hooks": handlers }),
    })
}

fn other() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let values = vec![
        ("model", json!("opus")),
        ("env", json!({ "A": "b, c: d", "E": {} })),
        ("permissions", json!({ "allow": ["Bash(ls:*)", "x\"y\\"], "deny": [] })),
        ("é", json!([1.5e10, -0.0, null, true, [[]]])),
        ("includeCoAuthoredBy", json!(false)),
    ];
    proptest::sample::subsequence(values, 0..=5)
}

/// Settings; `least` is the number of items that no list or object of hooks goes below.
fn settings(handler: impl Strategy<Value = Value>, least: usize) -> impl Strategy<Value = Value> {
    let events =
        proptest::collection::vec((select(EVENTS), proptest::collection::vec(group(handler, least), least..3)), least..4);
    let hooks = events
        .prop_map(|events| events.into_iter().map(|(event, groups)| (event.to_owned(), groups.into())).collect::<Map<_, _>>());
    (other(), proptest::option::of(hooks), any::<bool>()).prop_map(|(other, hooks, first)| {
        let mut all: Vec<(String, Value)> = other.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        if let Some(hooks) = hooks {
            let at = if first { 0 } else { all.len() };
            all.insert(at, ("hooks".to_owned(), hooks.into()));
        }
        Value::Object(all.into_iter().collect())
    })
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_str(std::str::from_utf8(bytes).unwrap().trim_start_matches('\u{feff}')).unwrap()
}

/// Every command in the settings, with the event and what belongs to it.
fn commands(settings: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (event, groups) in settings["hooks"].as_object().into_iter().flatten() {
        for group in groups.as_array().unwrap() {
            for handler in group["hooks"].as_array().unwrap() {
                found.push(format!("{event} {} {handler}", group["matcher"]));
            }
        }
    }
    found
}

fn is_ours(line: &str) -> bool {
    // As the test's own files have them: ours are few, and known.
    let line = line.replace("\\\\", "\\");
    OURS.iter()
        .chain(["/new/ctxbridge hook", "'/a place/ctxbridge' hook"].iter())
        .any(|ours| line.contains(&format!("\"command\":\"{ours}")))
        && !line.contains("|| true")
}

fn foreign(settings: &Value) -> Vec<String> {
    commands(settings).into_iter().filter(|line| !is_ours(line)).collect()
}

/// Everything but hooks.
fn rest(settings: &Value) -> Value {
    let mut rest = settings.clone();
    rest.as_object_mut().unwrap().shift_remove("hooks");
    rest
}

/// What the client accepts; it ignores the whole file otherwise.
#[track_caller]
fn assert_accepted(settings: &Value) {
    for (event, groups) in settings["hooks"].as_object().into_iter().flatten() {
        for group in groups.as_array().unwrap_or_else(|| panic!("{event}")) {
            assert!(group.get("matcher").is_none_or(Value::is_string));
            for handler in group["hooks"].as_array().unwrap() {
                assert!(handler["type"] == "command" && handler["command"].is_string());
                assert!(handler.get("timeout").is_none_or(|timeout| timeout.as_u64().is_some_and(|seconds| seconds > 0)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ctxbridge_testkit::share_of(512), failure_persistence: None, ..ProptestConfig::default() })]

    /// With nothing of ours in it and no empty list in the way, taking out what was put in gives the very bytes.
    #[test]
    fn out_is_the_inverse_of_in(settings in settings(handler(FOREIGN), 1), style in style()) {
        let before = style.write(&settings);
        let hooks = all("/new/ctxbridge");
        let wired = install(&before, &hooks).unwrap();
        assert_accepted(&parse(&wired));
        prop_assert_eq!(&install(&wired, &hooks).unwrap(), &wired);
        prop_assert_eq!(foreign(&parse(&wired)), foreign(&settings));
        prop_assert_eq!(commands(&parse(&wired)).len(), foreign(&settings).len() + hooks.len());
        let after = uninstall(&wired).unwrap();
        // An object with nothing in it may have had white space there.
        if settings.as_object().unwrap().is_empty() {
            prop_assert_eq!(parse(&after), json!({}));
        } else {
            prop_assert_eq!(String::from_utf8(after).unwrap(), String::from_utf8(before).unwrap());
        }
    }

    /// Also through a change of the program and of the events.
    #[test]
    fn updates_leave_no_trace_either(settings in settings(handler(FOREIGN), 1), style in style(), old in 0..512u16, new in 0..512u16) {
        let before = style.write(&settings);
        let chosen = |bits: u16| move |event: Event| bits >> (event as u16) & 1 == 1;
        let first = install(&before, &some("/a place/ctxbridge", chosen(old))).unwrap();
        let second = install(&first, &some("/new/ctxbridge", chosen(new))).unwrap();
        prop_assert_eq!(foreign(&parse(&second)), foreign(&settings));
        let after = uninstall(&second).unwrap();
        if settings.as_object().unwrap().is_empty() {
            prop_assert_eq!(parse(&after), json!({}));
        } else {
            prop_assert_eq!(String::from_utf8(after).unwrap(), String::from_utf8(before).unwrap());
        }
    }

    /// Whatever was there, of ours too and in lists that may be empty: all that is not ours keeps its place and its text.
    #[test]
    fn what_is_foreign_stays(settings in settings(prop_oneof![handler(FOREIGN), handler(OURS)].boxed(), 0), style in style()) {
        let before = style.write(&settings);
        let hooks = all("/new/ctxbridge");
        let wired = install(&before, &hooks).unwrap();
        let value = parse(&wired);
        assert_accepted(&value);
        prop_assert_eq!(&install(&wired, &hooks).unwrap(), &wired);
        prop_assert_eq!(foreign(&value), foreign(&settings));
        prop_assert_eq!(rest(&value), rest(&settings));
        for hook in &hooks {
            let begin = hook.matcher.map_or(hook.event.name().to_owned(), |matcher| format!("{} {matcher:?} ", hook.event.name()));
            let line = format!("{{\"type\":\"command\",\"command\":\"{}", hook.command);
            let count = commands(&value).iter().filter(|command| command.contains(&line) && command.starts_with(&begin)).count();
            prop_assert_eq!(count, 1, "{} {}", begin, line);
        }
        let after = parse(&uninstall(&wired).unwrap());
        prop_assert_eq!(commands(&after), foreign(&settings));
        prop_assert_eq!(rest(&after), rest(&settings));
        prop_assert_eq!(commands(&parse(&uninstall(&before).unwrap())), foreign(&settings));
    }

    /// Any bytes are taken or refused.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..40), text in "[\\[\\]{}\",:a1 \\\\\n]{0,30}") {
        for bytes in [&bytes[..], text.as_bytes()] {
            if let Ok(wired) = install(bytes, &all("/new/ctxbridge")) {
                prop_assert!(install(&wired, &all("/new/ctxbridge")).unwrap() == wired);
            }
            uninstall(bytes).ok();
        }
    }
}
