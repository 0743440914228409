//! What the user went back from: kept and found, marked as such, and no part of what was said. And sessions by their names.

use ctxbridge_testkit::sandbox::{Sandbox, Talk};
use serde_json::{Value, json};

use super::lines::Lines;

/// Lines that name the line that they follow, as the client writes them.
struct Branch {
    lines: Lines,
    newest: Option<String>,
}

impl Branch {
    fn of(talk: &str) -> Self {
        Self { lines: Lines::of(talk), newest: None }
    }

    /// Gives a line its parent.
    fn follow(&mut self, line: &str) -> String {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line["parentUuid"] = json!(self.newest);
        self.newest = Some(line["uuid"].as_str().unwrap().to_owned());
        format!("{line}\n")
    }

    fn turn(&mut self, prompt: &str, answer: &str, tokens: u64) -> String {
        let prompt = self.lines.prompt(prompt);
        let answer = self.lines.answer_of(answer, tokens);
        self.follow(&prompt) + &self.follow(&answer)
    }
}

const SESSION: &str = "5e551040-0000-4000-8000-00000000000b";

/// A session that was rewound after its hooks ran, and its transcript's other branch.
fn rewound() -> (Sandbox, Talk, Branch) {
    let sandbox = Sandbox::new();
    let mut branch = Branch::of(SESSION);
    let first = branch.turn("Choose a store for the ledger", "SQLite suits a ledger of this size.", 20_000);
    let fork = branch.newest.clone();
    let left = branch.turn("Take the walrus database instead", "I decided to go with Walrus because it scales; done.", 90_000);
    let talk = sandbox.talk_named(SESSION, first + &left);
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.cli(&["archive", "optimize"]).done();
    let learned = sandbox.json(&["learnings", "list"]);
    assert!(learned.to_string().contains("Walrus"), "{learned}");
    branch.newest = fork;
    (sandbox, talk, branch)
}

#[test]
fn what_was_rewound_does_not_count_as_said() {
    let (sandbox, talk, mut branch) = rewound();
    talk.append(branch.turn("Keep SQLite and switch on WAL", "I decided to keep SQLite because one writer is enough.", 30_000));
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.assert_archived(&talk);
    sandbox.assert_sound();

    insta::assert_snapshot!("folded", sandbox.masked(sandbox.cli(&["show", "-v", SESSION])).stdout);
    let opened = sandbox.cli(&["show", "-v", SESSION, "--branches"]).stdout;
    assert!(opened.contains("rewound  Take the walrus"), "{opened}");

    sandbox.cli(&["archive", "optimize"]).done();
    let learned = sandbox.json(&["learnings", "list"]).to_string();
    assert!(learned.contains("one writer") && !learned.contains("Walrus"), "{learned}");
    let all = sandbox.cli(&["learnings", "list", "--all", "-v"]).stdout;
    assert!(all.contains("Walrus") && all.contains("taken back: rewound"), "{all}");

    let found = sandbox.cli(&["search", "walrus"]).stdout;
    assert!(found.contains("  rewound"), "{found}");
    for format in ["markdown", "html", "json"] {
        let exported = sandbox.cli(&["archive", "export", SESSION, "--format", format]).stdout;
        assert!(exported.contains("walrus") && exported.to_lowercase().contains("rewound"), "{format}: {exported}");
    }

    let instructions = sandbox.hook("pre-compact", &talk.input_with(json!({ "trigger": "manual" }))).stdout;
    assert!(instructions.contains("SQLite") && !instructions.to_lowercase().contains("walrus"), "{instructions}");
    let restored = sandbox.hook("session-start", &talk.input_with(json!({ "source": "compact" }))).stdout;
    assert!(!restored.to_lowercase().contains("walrus"), "{restored}");
}

#[test]
fn a_branch_that_is_taken_up_again_counts_again() {
    let (sandbox, talk, mut branch) = rewound();
    let left = last_uuid(&talk);
    talk.append(branch.turn("Keep SQLite and switch on WAL", "I decided to keep SQLite because one writer is enough.", 30_000));
    sandbox.quiet_hook("stop", &talk.input());
    branch.newest = Some(left);
    talk.append(branch.turn("Back to the walrus", "Here it is again.", 95_000));
    sandbox.quiet_hook("stop", &talk.input());
    sandbox.assert_archived(&talk);
    let shown = sandbox.cli(&["archive", "show", SESSION]).stdout;
    assert!(shown.contains("Take the walrus") && !shown.contains("Keep SQLite"), "{shown}");
    assert!(sandbox.json(&["learnings", "list"]).to_string().contains("Walrus"));
}

fn last_uuid(talk: &Talk) -> String {
    let bytes = talk.bytes();
    let last = String::from_utf8(bytes).unwrap().lines().last().unwrap().to_owned();
    serde_json::from_str::<Value>(&last).unwrap()["uuid"].as_str().unwrap().to_owned()
}

/// Whether the hooks see the file grow or an import reads it at once.
#[test]
fn the_statusline_is_that_of_the_branch() {
    let (sandbox, talk, mut branch) = rewound();
    let prompt = branch.lines.prompt("Keep SQLite and switch on WAL");
    talk.append(branch.follow(&prompt));
    let input = json!({ "session_id": SESSION, "transcript_path": talk.path });
    let line = ctxbridge_testkit::sandbox::run(sandbox.command(&["statusline"]), input.to_string().as_bytes()).stdout;
    assert!(line.contains("20.0K"), "{line}");
}

#[test]
fn a_session_has_the_name_that_was_given_to_it() {
    let sandbox = Sandbox::new();
    let mut branch = Branch::of(SESSION);
    let turn = branch.turn("Deliveries to dead endpoints retry for ever", "Added an exponential back-off.", 20_000);
    let talk = sandbox.talk_named(SESSION, &turn);
    let title = |sandbox: &Sandbox| sandbox.json(&["archive", "sessions"])["sessions"][0]["title"].as_str().unwrap().to_owned();
    sandbox.quiet_hook("stop", &talk.input());
    assert_eq!(title(&sandbox), "Deliveries to dead endpoints retry for ever");
    for (line, shown) in [
        (json!({ "type": "summary", "summary": "Retries", "leafUuid": branch.newest }), "Retries"),
        (json!({ "type": "ai-title", "aiTitle": "Webhook backoff", "sessionId": SESSION }), "Webhook backoff"),
        (json!({ "type": "custom-title", "customTitle": "Flash talisman", "sessionId": SESSION }), "Flash talisman"),
        (json!({ "type": "ai-title", "aiTitle": "Another guess", "sessionId": SESSION }), "Flash talisman"),
        (json!({ "type": "summary", "summary": "Of another session", "leafUuid": "0" }), "Flash talisman"),
    ] {
        talk.append(format!("{line}\n"));
        sandbox.quiet_hook("stop", &talk.input());
        assert_eq!(title(&sandbox), shown, "{line}");
    }
    let found = sandbox.cli(&["search", "talisman", "-v"]).stdout;
    assert!(found.contains(SESSION) && found.contains("Flash talisman"), "{found}");
}

#[test]
fn a_transcript_that_became_a_stub_is_told() {
    let sandbox = Sandbox::new();
    let mut branch = Branch::of(SESSION);
    let turns: String = (0..3).map(|number| branch.turn(&format!("Question {number}"), "Yes.", 20_000)).collect();
    let talk = sandbox.talk_named(SESSION, &turns);
    sandbox.quiet_hook("stop", &talk.input());
    talk.write(Branch { lines: Lines::of(SESSION).seed(7), newest: None }.turn("Hello", "Hi.", 1_000));
    sandbox.quiet_hook("stop", &talk.input());
    assert_eq!(sandbox.json(&["archive", "sessions"])["sessions"][0]["turns"], 3);
    for command in [&["archive", "show", SESSION][..], &["archive", "export", SESSION], &["archive", "restore", SESSION]] {
        let told = sandbox.cli(command).stderr;
        assert!(told.contains("had 3 turns before (1 now)") && told.contains("--generation 0"), "{command:?}: {told}");
    }
    assert_eq!(sandbox.restored(SESSION, &["--generation", "0"]), turns.as_bytes());
}

/// Who goes back to the start and asks for something else has a session about that. A name that was given stays.
#[test]
fn a_rewound_prompt_gives_no_title() {
    for name in [None, Some("Ledger")] {
        let sandbox = Sandbox::new();
        let mut branch = Branch::of(SESSION);
        let named = name.map(|name| json!({ "type": "custom-title", "customTitle": name, "sessionId": SESSION }));
        let first =
            branch.turn("Take the walrus database", "Done.", 20_000) + &named.map(|line| format!("{line}\n")).unwrap_or_default();
        let talk = sandbox.talk_named(SESSION, first);
        sandbox.quiet_hook("stop", &talk.input());
        branch.newest = None;
        talk.append(branch.turn("Choose a store for the ledger", "SQLite.", 20_000));
        sandbox.quiet_hook("stop", &talk.input());
        let shown = sandbox.cli(&["archive", "sessions"]).stdout;
        assert!(shown.contains(name.unwrap_or("Choose a store for the ledger")), "{shown}");
        assert!(!shown.contains("walrus"), "{shown}");
    }
}
