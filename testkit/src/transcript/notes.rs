//! Records of the client: the usage of an answer, the requests that were sent, and the notes at its end.

use std::io;

use serde_json::{Value, json};

use super::session::{MODEL, START, VERSION, Writer, joined};
use crate::rng::Rng;

/// Tokens of the model's window.
const WINDOW: u64 = 1_000_000;

impl Writer<'_> {
    /// Usage of an answer as the API reports it, with a cache that holds everything that was sent before.
    pub(super) fn usage(&mut self, output: u64) -> Value {
        let input = self.rng.between(3, 40) as u64;
        let read = std::mem::replace(&mut self.cached, self.context - input).min(self.context - input);
        let written = self.context - input - read;
        self.context += output;
        for (sum, more) in self.tokens.iter_mut().zip([input, output, read, written]) {
            *sum += more;
        }
        json!({
            "input_tokens": input, "cache_creation_input_tokens": written, "cache_read_input_tokens": read, "output_tokens": output,
            "output_tokens_details": { "thinking_tokens": output / 3 },
            "server_tool_use": { "web_search_requests": 0, "web_fetch_requests": 0 }, "service_tier": "standard",
            "cache_creation": { "ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": written },
            "inference_geo": "", "iterations": [], "speed": "standard", "fallback_credit": null,
        })
    }

    /// Writes the record of a request: its new parts, by hash.
    pub(super) fn record(&mut self, id: &str) -> io::Result<()> {
        let hash = self.rng.hex(64);
        let (shape, digest) = (Rng::new(7).hex(64), self.rng.hex(64));
        let reminder = format!(
            "<system-reminder>\n<total_tokens>{} tokens left</total_tokens>\n</system-reminder>\n",
            WINDOW.saturating_sub(self.context)
        );
        let message = json!({ "role": "user", "content": [{ "type": "text", "text": reminder }] });
        let agent = |line: Value| match &self.agent {
            Some(agent) => joined([json!({ "agentId": agent }), line]),
            None => line,
        };
        let blob = agent(json!({ "hash": hash, "message": message }));
        let request = agent(json!({
            "id": id, "timestamp": self.now(), "version": VERSION, "querySource": "sdk", "shapeHash": shape,
            "params": { "model": MODEL, "max_tokens": 32_000, "thinking": { "budget_tokens": 31_999, "type": "enabled" } },
            "keep": self.made.messages, "tail": [hash], "cacheControl": [{ "path": ["system", 0], "value": { "type": "ephemeral" } }],
            "requestDigest": digest,
        }));
        self.aside(json!({ "type": "api-request-blob" }), blob)?;
        self.aside(json!({ "type": "api-request" }), request)
    }

    /// Writes the client's notes at its end, and at its next start on the same session.
    pub(super) fn process_ends(&mut self, prompt: &str) -> io::Result<()> {
        let leaf = self.parent.clone();
        self.aside(json!({ "type": "last-prompt", "lastPrompt": prompt, "leafUuid": leaf }), json!({}))?;
        self.aside(json!({ "type": "mode", "mode": "normal" }), json!({}))?;
        self.aside(json!({ "type": "atis-latch", "atis": "" }), json!({}))?;
        let [input, output, read, written] = self.tokens;
        let cost = (input * 300 + output * 1_500 + read * 30 + written * 375) as f64 / 1e8;
        let of_model = json!({
            "inputTokens": input, "outputTokens": output, "thinkingTokens": output / 3, "cacheReadInputTokens": read,
            "cacheCreationInputTokens": written, "webSearchRequests": 0, "costUSD": cost,
        });
        let cost = json!({
            "totalCostUSD": cost, "totalAPIDuration": self.made.answers * 3_100, "totalToolDuration": self.made.tool_calls * 700,
            "totalDuration": self.made.answers * 9_000, "startTime": START, "modelUsage": { MODEL: of_model },
            "hasUnknownModelCost": false,
        });
        self.aside(json!({ "type": "cost-state" }), cost)
    }
}
