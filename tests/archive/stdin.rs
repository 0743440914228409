//! What comes in on stdin need not be what the client sends.

use ctxbridge_testkit::sandbox::{Sandbox, run};
use serde_json::json;

use super::lines::Lines;

/// All hooks.
pub(super) const EVENTS: [&str; 9] = [
    "session-start",
    "user-prompt-submit",
    "pre-tool-use",
    "post-tool-use",
    "pre-compact",
    "post-compact",
    "stop",
    "subagent-stop",
    "session-end",
];

#[test]
fn garbage() {
    let sandbox = Sandbox::new();
    let inputs: [&[u8]; 12] = [
        b"",
        b"\n",
        b"garbage",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff\xfe\x00",
        b"{\"session_id\":7,\"transcript_path\":[],\"source\":{},\"trigger\":false}",
        b"{\"session_id\":\"../../etc\",\"transcript_path\":\"\",\"trigger\":\"auto\",\"source\":\"compact\"}",
        b"{\"session_id\":\"a\\u0000b\",\"transcript_path\":\"/tmp/a\\u0000b.jsonl\",\"source\":\"clear\",\"compact_summary\":\"x\"}",
        b"{\"session_id\":\"a\",\"session_id\":\"b\"}",
    ];
    for event in EVENTS {
        for input in inputs {
            run(sandbox.hook_command(event), input).calm();
        }
    }
    // Of all that, nothing is worth more than one word to the user, and all of it stands in the log.
    assert!(sandbox.log().len() > EVENTS.len());
}

#[test]
fn the_first_failure_is_told_and_the_first_after_something_worked() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    for _ in 0..2 {
        let told = (0..3).filter(|_| run(sandbox.hook_command("stop"), b"{}").calm().notice().is_some()).count();
        assert_eq!(told, 1);
        sandbox.quiet_hook("stop", &talk.input());
    }
    assert_eq!(sandbox.log().len(), 6);
}

#[test]
fn ten_megabytes() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(2));
    let prompt = "ü\n".repeat(4_000_000);
    let input = talk
        .input_with(json!({ "prompt": prompt, "source": "compact", "trigger": "manual", "compact_summary": prompt }))
        .to_string();
    assert!(input.len() > 10_000_000);
    for event in EVENTS {
        run(sandbox.hook_command(event), input.as_bytes()).calm();
    }
    sandbox.assert_sound();
    sandbox.assert_archived(&talk);
    // And as many that say nothing.
    let garbage = [vec![b'['; 10_000_000], vec![0; 10_000_000], b"{\"a\":".repeat(2_000_000)];
    for (event, garbage) in ["stop", "user-prompt-submit", "pre-compact"].into_iter().zip(garbage) {
        run(sandbox.hook_command(event), &garbage).calm();
    }
}

/// Nobody who closes the pipe early is told.
#[test]
fn nobody_reads_the_answer() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(20));
    sandbox.hook("stop", &talk.input());
    let hook = sandbox.hook_command("session-start");
    let input = sandbox.path("input");
    std::fs::write(&input, talk.input_with(json!({ "source": "compact" })).to_string()).unwrap();
    let mut command = hook;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command.stdin(std::fs::File::open(input).unwrap()).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
