//! `ctxbridge mcp`, from outside: a message at a time by hand, and with the SDK's own client.

mod answers;
mod changes;
mod client;
mod protocol;
mod server;

use std::path::Path;

use ctxbridge::archive::ingest::ingest;
use ctxbridge::archive::store::Transcript;
use ctxbridge_testkit::sandbox::Sandbox;
use ctxbridge_testkit::transcript::{Kind, MadeSession};
use serde_json::json;

use crate::kinds::store;

/// The folder that the client works in, in sessions made here: another one than in generated sessions.
const BIRDS: &str = "/home/dev/src/birds";

fn archive(sandbox: &Sandbox, path: &Path) {
    ingest(&mut store(sandbox), &Transcript::at(path), path).unwrap();
}

/// Sessions of the generator, archived.
fn archive_generated(sandbox: &Sandbox, kind: Kind, messages: u64, seed: u64) -> Vec<MadeSession> {
    let sessions = sandbox.generate(kind, messages, seed);
    sessions.iter().for_each(|session| archive(sandbox, &session.path));
    sessions
}

/// A session of these prompts and answers, a minute each, archived. The turns' handles are `ctx:<number>00000<index>`.
fn archive_session(sandbox: &Sandbox, number: u32, turns: &[(&str, &str)]) -> String {
    let id = format!("{number}a000000-0000-4000-8000-000000000000");
    let mut lines = String::new();
    for (index, (prompt, answer)) in turns.iter().enumerate() {
        let common = json!({ "sessionId": id, "cwd": BIRDS, "version": "2.1.330", "isSidechain": false, "userType": "external" });
        let at = |second: u32| format!("2026-05-0{number}T10:{index:02}:{second:02}.000Z");
        let mut user = json!({
            "type": "user", "uuid": uuid(number, index, 0), "timestamp": at(0),
            "message": { "role": "user", "content": prompt },
        });
        let mut assistant = json!({
            "type": "assistant", "uuid": uuid(number, index, 1), "timestamp": at(5),
            "message": {
                "id": format!("msg_{number}_{index}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                "content": [{ "type": "text", "text": answer }], "stop_reason": "end_turn",
                "usage": { "input_tokens": 1000, "output_tokens": 10 },
            },
        });
        for line in [&mut user, &mut assistant] {
            line.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
            lines += &format!("{line}\n");
        }
    }
    archive(sandbox, &sandbox.talk_named(&id, lines).path);
    id
}

fn uuid(number: u32, index: usize, line: u32) -> String {
    format!("{number}00000{index:02x}-0000-4000-8000-00000000000{line}")
}

/// The handle of a turn of [`archive_session`].
fn handle(number: u32, index: usize) -> String {
    format!("ctx:{number}00000{index:02x}")
}
