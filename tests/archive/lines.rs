//! Lines of transcripts, written by hand in the shape of the client's.

use ctxbridge_testkit::sandbox::FOLDER;
use serde_json::{Value, json};

/// When the first of them was written, in milliseconds since 1970: 1 June 2026.
const BEGIN: i64 = 1_780_300_800_000;

/// Makes lines of one session, a minute apart.
pub struct Lines {
    session: String,
    seed: u64,
    written: u64,
}

impl Lines {
    pub fn of(session: &str) -> Self {
        Self { session: session.to_owned(), seed: 0, written: 0 }
    }

    /// Others than those of another seed.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    fn line(&mut self, more: Value) -> String {
        self.written += 1;
        let time = jiff::Timestamp::from_millisecond(BEGIN + self.written as i64 * 60_000).unwrap();
        let mut line = json!({
            "parentUuid": null, "isSidechain": false, "userType": "external", "cwd": FOLDER, "sessionId": self.session,
            "version": "2.1.330", "gitBranch": "main",
            // The front of it is in the turn's handle.
            "uuid": format!("{:08x}-{:04x}-4000-8000-000000000000", spread(self.seed << 32 | self.written), self.written),
            "timestamp": time.to_string(),
        });
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{line}\n")
    }

    pub fn prompt(&mut self, text: &str) -> String {
        self.line(json!({ "type": "user", "message": { "role": "user", "content": text } }))
    }

    pub fn answer(&mut self, text: &str) -> String {
        self.answer_of(text, 20_000)
    }

    /// An answer to a request of so many tokens.
    pub fn answer_of(&mut self, text: &str, tokens: u64) -> String {
        self.blocks(json!([{ "type": "text", "text": text }]), tokens)
    }

    pub fn call(&mut self, tool: &str, input: Value) -> String {
        let id = format!("toolu_{:020}", self.written);
        self.blocks(json!([{ "type": "tool_use", "id": id, "name": tool, "input": input }]), 20_000)
    }

    fn blocks(&mut self, content: Value, tokens: u64) -> String {
        let id = format!("msg_{:020}", self.written);
        self.line(json!({ "type": "assistant", "message": {
            "id": id, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": content,
            "usage": { "input_tokens": 10, "cache_read_input_tokens": tokens - 10, "cache_creation_input_tokens": 0, "output_tokens": 50 },
        } }))
    }

    pub fn result(&mut self, text: &str) -> String {
        let id = format!("toolu_{:020}", self.written - 1);
        let content = json!([{ "type": "tool_result", "tool_use_id": id, "content": text }]);
        self.line(json!({ "type": "user", "message": { "role": "user", "content": content } }))
    }

    /// The summary that a compaction leaves behind.
    pub fn summary(&mut self, text: &str) -> String {
        let boundary = self.line(json!({
            "type": "system", "subtype": "compact_boundary", "content": "Conversation compacted",
            "compactMetadata": { "trigger": "auto", "preTokens": 150_000 },
        }));
        boundary + &self.line(json!({ "type": "user", "isCompactSummary": true, "message": { "role": "user", "content": text } }))
    }

    /// A line of any other kind.
    pub fn other(&mut self, more: Value) -> String {
        self.line(more)
    }

    /// A prompt with its answer.
    pub fn turn(&mut self, text: &str) -> String {
        self.prompt(text) + &self.answer(&format!("This is the answer to: {text}"))
    }

    /// So many of them.
    pub fn turns(&mut self, count: usize) -> String {
        (0..count).map(|number| self.turn(&format!("Question number {number} of seed {}", self.seed))).collect()
    }
}

/// Numbers that follow each other become such that have nothing in common.
fn spread(number: u64) -> u32 {
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}
