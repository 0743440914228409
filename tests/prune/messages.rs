//! Claude Code's internal messages, as tests write them.

use serde_json::{Value, json};

/// A user message with the given content.
pub fn user<C: Into<Value>>(content: C) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": content.into()}, "uuid": ""})
}

/// A message of the model with the given content.
pub fn assistant<C: Into<Value>>(content: C) -> Value {
    let usage = json!({"input_tokens": 7, "output_tokens": 3});
    let message = json!({"id": "msg_1", "role": "assistant", "content": content.into(), "usage": usage});
    json!({"type": "assistant", "message": message, "uuid": "", "requestId": "req_1"})
}

/// A text block.
pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A conversation as it is made: each message has its id, its time, and an answer its usage.
#[derive(Debug, Default)]
pub struct Talk {
    /// The messages.
    pub messages: Vec<Value>,
    /// Seconds since the first one.
    pub seconds: u64,
    answers: usize,
}

impl Talk {
    fn add(&mut self, mut message: Value) -> &mut Self {
        self.seconds += 5;
        let (hours, minutes, seconds) = (self.seconds / 3_600, self.seconds / 60 % 60, self.seconds % 60);
        message["uuid"] = format!("{:08x}-0000-4000-8000-000000000000", 0x1000 + self.messages.len()).into();
        message["timestamp"] = format!("2026-11-{:02}T{:02}:{minutes:02}:{seconds:02}.000Z", 1 + hours / 24, hours % 24).into();
        self.messages.push(message);
        self
    }

    pub fn prompt(&mut self, text: &str) -> &mut Self {
        self.add(user(text))
    }

    /// A message of the client's own.
    pub fn meta(&mut self, text: &str) -> &mut Self {
        let mut message = user(text);
        message["isMeta"] = true.into();
        self.add(message)
    }

    /// An answer without calls.
    pub fn says(&mut self, said: &str) -> &mut Self {
        self.answers += 1;
        let mut message = assistant(json!([text(said)]));
        message["message"]["id"] = format!("msg_{}", self.answers).into();
        self.add(message)
    }

    /// An answer that thinks, says something and calls a tool, a block a line as the client has them, and the result.
    pub fn calls(&mut self, name: &str, input: &Value, result: Value) -> &mut Self {
        self.answers += 1;
        let (id, call) = (format!("msg_{}", self.answers), format!("toolu_{}", self.answers));
        let blocks = [
            json!({"type": "thinking", "thinking": "I have to look at this.", "signature": "c2ln"}),
            text("Let me look."),
            json!({"type": "tool_use", "id": call, "name": name, "input": input}),
        ];
        for block in blocks {
            let mut message = assistant(json!([block]));
            message["message"]["id"] = id.clone().into();
            self.add(message);
        }
        self.add(user(json!([{"type": "tool_result", "tool_use_id": call, "content": result}])))
    }

    /// So many reads of files, each of this many characters.
    pub fn reads(&mut self, count: usize, chars: usize) -> &mut Self {
        for number in 0..count {
            let path = format!("/src/file{number}.rs");
            self.calls("Read", &json!({"file_path": path}), "x".repeat(chars).into());
        }
        self
    }

    /// Waits before the next message.
    pub fn waits(&mut self, seconds: u64) -> &mut Self {
        self.seconds += seconds;
        self
    }

    /// Sets what the newest answer's request had.
    pub fn with_usage(&mut self, tokens: u64) -> &mut Self {
        let id = format!("msg_{}", self.answers);
        for message in self.messages.iter_mut().filter(|message| message["message"]["id"] == *id) {
            message["message"]["usage"]["cache_read_input_tokens"] = tokens.into();
        }
        self
    }
}

/// The digests of a pruned conversation, line by line.
pub fn digests(messages: &[Value]) -> Vec<Vec<&str>> {
    let texts = messages.iter().filter_map(|message| message["message"]["content"].as_str());
    texts.filter(|text| text.starts_with("[earlier context folded: ")).map(|text| text.lines().collect()).collect()
}
