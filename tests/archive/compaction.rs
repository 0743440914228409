//! Before and after a compaction: instructions, the gate, and the client's own summary.

use ctxbridge_testkit::sandbox::{Ran, Sandbox, Talk, run};
#[cfg(unix)]
use ctxbridge_testkit::sandbox::{is_root, set_mode};
use ctxbridge_testkit::transcript::Kind;
use serde_json::{Value, json};

use super::lines::Lines;

fn before(sandbox: &Sandbox, talk: &Talk, trigger: &str) -> Ran {
    sandbox.hook("pre-compact", &talk.input_with(json!({ "trigger": trigger, "custom_instructions": "" })))
}

/// Characters of instructions at most.
const BUDGET: usize = 2_000;

#[test]
fn instructions_are_plain_text_within_their_budget() {
    let sandbox = Sandbox::new();
    for (seed, kind) in (1..).zip([Kind::Chat, Kind::Tools, Kind::Agents, Kind::Compacted, Kind::OneTurn]) {
        let talk = Talk::from(&sandbox.generate(kind, 800, seed)[0]);
        // Nothing was archived before: this is the last chance.
        let text = before(&sandbox, &talk, "auto").stdout;
        sandbox.assert_archived(&talk);
        let size = text.trim_end().chars().count();
        assert!((200..=BUDGET).contains(&size), "{size} characters");
        assert!(!text.starts_with('{') && text.contains("Recent turns, newest first:\n- ctx:"), "{text}");
    }
    let talk = sandbox.talk(1, Lines::of("s").turn(&"漢".repeat(5_000)));
    assert!(before(&sandbox, &talk, "manual").stdout.trim_end().chars().count() <= BUDGET);
}

#[test]
fn instructions_name_files_tools_and_decisions() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let text = lines.prompt("Make it faster")
        + &lines.call("Edit", json!({ "file_path": "/home/dev/src/ledger/src/parse.rs", "old_string": "a", "new_string": "b" }))
        + &lines.result("ok")
        + &lines.answer("I decided to keep the index in memory because reading it took a second.");
    let talk = sandbox.talk(1, text);
    let text = before(&sandbox, &talk, "manual").stdout;
    for part in ["Files touched: src/parse.rs", "Tools used: Edit", "decided to keep the index in memory", "Make it faster"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn the_budget_of_instructions_can_be_set() {
    let sandbox = Sandbox::new();
    let talk = Talk::from(&sandbox.generate(Kind::Tools, 400, 1)[0]);
    for budget in [0, 1, 100, 500, 5_000] {
        let mut command = sandbox.hook_command("pre-compact");
        command.env("CLAUDE_FLOW_COMPACT_INSTRUCTION_BUDGET", budget.to_string());
        let text = run(command, talk.input_with(json!({ "trigger": "auto" })).to_string().as_bytes()).calm().stdout;
        assert!(text.trim_end().chars().count() <= budget, "{text}");
    }
}

/// A session of so many tokens, and a gate that is closed to automatic compactions.
struct Gated {
    sandbox: Sandbox,
    talk: Talk,
}

impl Gated {
    fn at(tokens: u64) -> Self {
        let sandbox = Sandbox::new();
        let mut lines = Lines::of("s");
        let talk = sandbox.talk(1, lines.prompt("Go on") + &lines.answer_of("Yes.", tokens));
        Self { sandbox, talk }
    }

    fn compact(&self, trigger: Value) -> i32 {
        let mut command = self.sandbox.hook_command("pre-compact");
        command.env("CTXBRIDGE_HOOKS_GATE", "block-auto");
        let ran = run(command, self.talk.input_with(json!({ "trigger": trigger })).to_string().as_bytes());
        if ran.code == Some(2) {
            assert!(ran.stdout.is_empty() && ran.stderr.contains("hooks.gate"), "{ran:?}");
            return 2;
        }
        assert!(!ran.calm().stdout.is_empty(), "a compaction that goes ahead gets instructions");
        0
    }

    fn prompt(&self) {
        self.sandbox.hook("user-prompt-submit", &self.talk.input());
    }

    /// The conversation goes on, as it does when the client lives with having been blocked.
    fn answered(&self, tokens: u64) {
        let mut lines = Lines::of("s").seed(tokens);
        self.talk.append(lines.prompt("And on") + &lines.answer_of("Yes, too.", tokens));
    }
}

#[test]
fn the_gate_holds_back_what_is_automatic_once() {
    let gated = Gated::at(150_000);
    assert_eq!(gated.compact(json!("manual")), 0);
    assert_eq!(gated.compact(json!("auto")), 2);
    assert_eq!(gated.compact(json!("auto")), 0, "never twice in a row");
    assert_eq!(gated.compact(json!("manual")), 0);
    assert_eq!(gated.compact(json!("auto")), 0, "still the same prompt");
    gated.prompt();
    assert_eq!(gated.compact(json!("auto")), 0, "no answer since: the client may refuse the prompt");
    gated.answered(151_000);
    gated.prompt();
    assert_eq!(gated.compact(json!("auto")), 2);
    assert_eq!(gated.compact(json!("manual")), 0);
    for (unknown, tokens) in [(json!("brand-new"), 152_000), (json!(null), 153_000), (json!(7), 154_000)] {
        gated.answered(tokens);
        gated.prompt();
        assert_eq!(gated.compact(unknown), 0);
    }
    gated.sandbox.assert_archived(&gated.talk);
}

#[test]
fn the_gate_is_open_near_the_limit() {
    // The client refuses a prompt from 177,000 of 200,000 on; what a turn adds at least has to fit before that. More needs a window of a million.
    for (tokens, code) in [(20_000, 2), (174_000, 2), (175_000, 0), (190_000, 0), (500_000, 2), (980_000, 0)] {
        assert_eq!(Gated::at(tokens).compact(json!("auto")), code, "{tokens} tokens");
    }
}

/// In a window of a million, as the client noted it down.
#[test]
fn the_gate_knows_the_window() {
    let gated = Gated::at(500_000);
    let mut lines = Lines::of("s").seed(5);
    gated.talk.append(lines.other(json!({ "type": "cost-state", "modelUsage": { "m": { "contextWindow": 1_000_000 } } })));
    assert_eq!(gated.compact(json!("auto")), 2);
}

#[test]
fn the_gate_is_open_unless_it_is_closed() {
    let gated = Gated::at(150_000);
    for _ in 0..2 {
        assert!(!before(&gated.sandbox, &gated.talk, "auto").stdout.is_empty());
    }
    let mut command = gated.sandbox.hook_command("pre-compact");
    command.env("CLAUDE_FLOW_BLOCK_COMPACTION", "true");
    assert_eq!(run(command, gated.talk.input_with(json!({ "trigger": "auto" })).to_string().as_bytes()).code, Some(2));
}

/// What cannot be remembered is not blocked: it could be blocked for ever.
#[cfg(unix)]
#[test]
fn the_gate_is_open_where_nothing_can_be_remembered() {
    let gated = Gated::at(150_000);
    std::fs::create_dir_all(gated.sandbox.data()).unwrap();
    std::fs::write(gated.sandbox.data().join("autopilot"), "a file where a folder should be").unwrap();
    assert_eq!(gated.compact(json!("auto")), 0);
    // Nor what is not safe.
    let gated = Gated::at(150_000);
    std::fs::create_dir_all(gated.sandbox.database()).unwrap();
    std::fs::write(gated.sandbox.data().join("archive.lock"), "").unwrap();
    set_mode(&gated.sandbox.data(), 0o555);
    if !is_root() {
        let mut command = gated.sandbox.hook_command("pre-compact");
        command.env("CTXBRIDGE_HOOKS_GATE", "block-auto");
        run(command, gated.talk.input_with(json!({ "trigger": "auto" })).to_string().as_bytes()).calm();
    }
    set_mode(&gated.sandbox.data(), 0o755);
}

/// Many at once: one of them is held back.
#[test]
fn the_gate_in_a_crowd() {
    let gated = Gated::at(150_000);
    gated.prompt();
    let codes: Vec<i32> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| gated.compact(json!("auto")))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().filter(|code| **code == 2).count(), 1, "{codes:?}");
}

const SUMMARY: &str = "1. The parser was rewritten.\n2. Tests are missing: </system-reminder> ü.";

fn after(sandbox: &Sandbox, talk: &Talk) {
    let told = format!("<analysis>\nHm.\n</analysis>\n\n<summary>\n{SUMMARY}\n</summary>");
    sandbox.quiet_hook("post-compact", &talk.input_with(json!({ "trigger": "auto", "compact_summary": told })));
}

/// What the transcript has: the summary in the client's own words around it.
fn wrapped() -> String {
    format!("This session is being continued from a previous conversation.\n\nSummary:\n{SUMMARY}\n\nPlease continue.")
}

/// The summaries of a session, as `archive show` has them.
fn summaries(sandbox: &Sandbox, talk: &Talk) -> Vec<String> {
    let shown = sandbox.json(&["archive", "show", &talk.id]);
    shown["summaries"].as_array().unwrap().iter().map(|summary| summary["text"].as_str().unwrap().to_owned()).collect()
}

/// The hook and the transcript both tell of it, in any order and more than once.
#[test]
fn a_summary_is_kept_once() {
    for order in ["hook transcript", "transcript hook", "hook hook transcript", "transcript", "hook", "transcript hook hook"] {
        let sandbox = Sandbox::new();
        let mut lines = Lines::of("s");
        let talk = sandbox.talk(1, lines.turns(4));
        before(&sandbox, &talk, "auto");
        for step in order.split(' ') {
            match step {
                "hook" => after(&sandbox, &talk),
                _ => {
                    talk.append(lines.summary(&wrapped()));
                    sandbox.quiet_hook("stop", &talk.input());
                }
            }
        }
        let found = summaries(&sandbox, &talk);
        assert_eq!(found.len(), 1, "{order}: {found:?}");
        assert!(found[0].contains(SUMMARY) && !found[0].contains("<analysis>"), "{order}: {found:?}");
        assert_eq!(sandbox.json(&["archive", "status"])["compactions"], 1, "{order}");
        assert!(sandbox.log().is_empty(), "{:?}", sandbox.log());
        sandbox.assert_sound();
        sandbox.assert_archived(&talk);
        // The next compaction has its own, though it says the same of a session that went on.
        talk.append(lines.turn("And on"));
        before(&sandbox, &talk, "manual");
        after(&sandbox, &talk);
        assert_eq!(summaries(&sandbox, &talk).len(), 2, "{order}");
    }
}

/// A summary is no turn, and starts none.
#[test]
fn a_summary_is_no_turn() {
    let sandbox = Sandbox::new();
    let mut lines = Lines::of("s");
    let talk = sandbox.talk(1, lines.turns(4) + &lines.summary(&wrapped()) + &lines.turns(2));
    sandbox.quiet_hook("stop", &talk.input());
    let shown = sandbox.json(&["archive", "show", &talk.id]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 6);
    assert_eq!(shown["summaries"][0]["turns_before"], 4);
    let context = sandbox.hook("session-start", &talk.input_with(json!({ "source": "compact" }))).context().unwrap();
    assert!(!context.contains("The parser was rewritten"), "what the model has in front of it need not come back: {context}");
}

#[test]
fn a_summary_that_is_none() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    for summary in [json!(""), json!(null), json!(7), json!({ "text": "x" })] {
        sandbox.quiet_hook("post-compact", &talk.input_with(json!({ "trigger": "auto", "compact_summary": summary })));
    }
    sandbox.quiet_hook("post-compact", &talk.input());
    assert!(summaries(&sandbox, &talk).is_empty());
}
