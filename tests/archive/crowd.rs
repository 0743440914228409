//! Many hooks at once: on one session, and on several. Nothing is lost, nothing doubled.

use std::process::Child;

use ctxbridge_testkit::sandbox::{Sandbox, Talk, finish, start};
use ctxbridge_testkit::share_of;
use ctxbridge_testkit::transcript::{Kind, append_turn};

use serde_json::json;

/// Hooks as a session has them, in some order; each with what the client adds to its input.
const EVENTS: [&str; 8] =
    ["user-prompt-submit", "stop", "pre-compact", "stop", "subagent-stop", "user-prompt-submit", "post-compact", "session-start"];

fn start_hook(sandbox: &Sandbox, talk: &Talk, number: usize) -> Child {
    let event = EVENTS[number % EVENTS.len()];
    let more = match event {
        "pre-compact" => json!({ "trigger": "auto" }),
        "post-compact" => json!({ "trigger": "auto", "compact_summary": "<summary>What was said.</summary>" }),
        "session-start" => json!({ "source": "compact" }),
        "subagent-stop" => json!({ "agent_transcript_path": talk.path.with_extension("").join("subagents/agent-none.jsonl") }),
        _ => json!({}),
    };
    start(sandbox.hook_command(event), talk.input_with(more).to_string().as_bytes())
}

/// 50 at once, four times; the client goes on writing meanwhile.
#[test]
fn fifty_hooks_on_one_session() {
    let sandbox = Sandbox::new();
    let made = &sandbox.generate(Kind::Chat, 120, 1)[0];
    let (talk, mut turns) = (Talk::from(made), made.human_turns);
    for round in 0..4 {
        let begin = |number: usize| {
            if number.is_multiple_of(10) {
                turns += append_turn(&talk.path, 1_000 * round + number as u64).unwrap().human_turns;
            }
            start_hook(&sandbox, &talk, number + round as usize)
        };
        let children: Vec<Child> = (0..50).map(begin).collect();
        for child in children {
            finish(child).calm();
        }
        sandbox.hook("stop", &talk.input());
        sandbox.assert_sound();
        sandbox.assert_archived(&talk);
        assert_eq!(sandbox.json(&["archive", "show", &talk.id])["turns"].as_array().unwrap().len() as u64, turns);
    }
    // Some may have given up, since no hook waits for long, but none for another reason.
    for line in sandbox.log() {
        assert!(line["error"].as_str().unwrap().contains("is being written by another process"), "{line}");
    }
    assert_eq!(sandbox.aside(), [] as [std::path::PathBuf; 0]);
}

/// Eight clients, each with a session of its own and some rounds of a prompt and a hook or two (500 in a full run, which are 4,500 hooks of all kinds).
#[test]
fn eight_sessions_at_once() {
    let rounds = share_of(500) as usize;
    let sandbox = Sandbox::new();
    let play = |seed: u64| {
        let made = &sandbox.generate(Kind::Chat, 60, 100 + seed)[0];
        let (talk, mut turns) = (Talk::from(made), made.human_turns);
        for round in 0..rounds {
            turns += append_turn(&talk.path, seed << 32 | round as u64).unwrap().human_turns;
            // Some run beside each other.
            let hooks = if round.is_multiple_of(8) { 2 } else { 1 };
            let children: Vec<Child> = (0..hooks).map(|more| start_hook(&sandbox, &talk, round + more)).collect();
            for child in children {
                finish(child).calm();
            }
        }
        (talk, turns)
    };
    let talks: Vec<(Talk, u64)> = std::thread::scope(|scope| {
        let players: Vec<_> = (0..8).map(|seed| scope.spawn(move || play(seed))).collect();
        players.into_iter().map(|player| player.join().unwrap()).collect()
    });
    for (talk, _) in &talks {
        sandbox.hook("stop", &talk.input());
    }
    sandbox.assert_sound();
    let all = sandbox.json(&["archive", "sessions"]);
    assert_eq!(all["sessions"].as_array().unwrap().len(), talks.len());
    for (talk, turns) in &talks {
        sandbox.assert_archived(talk);
        let listed = all["sessions"].as_array().unwrap().iter().find(|session| session["session"] == talk.id.as_str()).unwrap();
        assert_eq!(listed["turns"].as_u64().unwrap(), *turns);
        assert_eq!(listed["rewritten"], 0, "taken for another file");
    }
    assert_eq!(
        sandbox.json(&["archive", "status"])["turns"].as_u64().unwrap(),
        talks.iter().map(|(_, turns)| turns).sum::<u64>()
    );
}
