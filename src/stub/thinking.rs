//! Thinking: the stub gives some, and knows what it was bound to.
//!
//! Newer models sign their thinking together with all that they had read before it. Who changes that may not send the thinking back:
//! the request is refused as one with a signature that is not the API's.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::cache::{BILLING_LINE, unmarked};
use super::validate::Violation;
use ctxbridge_common::digest::{Hasher, Sha256Digest};

/// Rules for the thinking of a stub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingRules {
    /// It gives none, and takes any back.
    #[default]
    None,
    /// Each answer to a request that asks for thinking begins with some. Any is taken back.
    Free,
    /// The same, but it is taken back only behind what it was given for: system prompt and messages, without `cache_control`.
    Bound,
}

impl ThinkingRules {
    /// The rules for a request: who does not ask for thinking gets none.
    fn gives_for(self, body: &Value) -> bool {
        self != Self::None && ["enabled", "adaptive"].iter().any(|kind| body["thinking"]["type"] == *kind)
    }
}

/// Signatures that a stub has given.
#[derive(Debug, Default)]
pub(super) struct Signatures {
    rules: ThinkingRules,
    /// Prefix that each is bound to.
    given: HashMap<String, Sha256Digest>,
}

impl Signatures {
    pub(super) fn new(rules: ThinkingRules) -> Self {
        Self { rules, given: HashMap::new() }
    }

    /// Refuses thinking behind another prefix than its own, or with a signature that was never given.
    pub(super) fn check(&self, body: &Value) -> Result<(), Violation> {
        if self.rules != ThinkingRules::Bound {
            return Ok(());
        }
        let mut prefix = Prefix::of_system(body);
        for (number, message) in messages(body).enumerate() {
            for (at, block) in blocks(&message["content"]).iter().enumerate() {
                let signature = block["signature"].as_str().filter(|_| block["type"] == "thinking");
                if signature.is_some_and(|signature| self.given.get(signature) != Some(&prefix.digest())) {
                    return Err(Violation::of_signature(&format!("messages.{number}.content.{at}")));
                }
                prefix.add(&message["role"], block);
            }
        }
        Ok(())
    }

    /// The block that the answer to a request begins with, if any. `serial` makes it unique.
    pub(super) fn give(&mut self, serial: usize, body: &Value) -> Option<Value> {
        if !self.rules.gives_for(body) {
            return None;
        }
        let signature = format!("stub-signature-{serial:04}");
        let mut prefix = Prefix::of_system(body);
        for message in messages(body) {
            blocks(&message["content"]).iter().for_each(|block| prefix.add(&message["role"], block));
        }
        self.given.insert(signature.clone(), prefix.digest());
        Some(json!({ "type": "thinking", "thinking": format!("Thought {serial}."), "signature": signature }))
    }
}

/// Content before a block.
struct Prefix(Hasher);

impl Prefix {
    fn of_system(body: &Value) -> Self {
        let mut prefix = Self(Hasher::default());
        blocks(&body["system"]).iter().for_each(|block| {
            let is_billing = block["text"].as_str().is_some_and(|text| text.starts_with(BILLING_LINE));
            prefix.add(&json!("system"), if is_billing { &Value::Null } else { block });
        });
        prefix
    }

    fn add(&mut self, speaker: &Value, block: &Value) {
        // Each on a line of its own, which JSON has no end of.
        self.0.update(format!("{speaker}\n{}\n", unmarked(block)).as_bytes());
    }

    fn digest(&self) -> Sha256Digest {
        self.0.clone().finish_bytes()
    }
}

fn messages(body: &Value) -> impl Iterator<Item = &Value> {
    body["messages"].as_array().into_iter().flatten()
}

/// The blocks of a content; a string is one of text.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(system: &str, messages: &Value) -> Value {
        json!({ "system": system, "messages": messages, "thinking": { "type": "enabled", "budget_tokens": 2_000 } })
    }

    #[test]
    fn thinking_is_taken_back_behind_its_prefix_alone() {
        let mut signatures = Signatures::new(ThinkingRules::Bound);
        let prompt = json!({ "role": "user", "content": "Hello." });
        let thought = signatures.give(1, &request("Be kind.", &json!([prompt]))).expect("thinking");
        let answer = json!({ "role": "assistant", "content": [thought, { "type": "text", "text": "Hello!" }] });
        let marked = json!({ "role": "user", "content": [{ "type": "text", "text": "Hello.", "cache_control": { "type": "ephemeral" } }] });
        let next = json!({ "role": "user", "content": "And now?" });
        for prompt in [&prompt, &marked] {
            assert_eq!(signatures.check(&request("Be kind.", &json!([prompt, answer, next]))), Ok(()));
        }
        let refused = |system: &str, messages: Value| signatures.check(&request(system, &messages)).map_err(|it| it.to_string());
        let expected = |at: &str| Err(format!("{at}: Invalid `signature` in `thinking` block"));
        assert_eq!(refused("Be short.", json!([prompt, answer, next])), expected("messages.1.content.0"));
        assert_eq!(refused("Be kind.", json!([next, answer, next])), expected("messages.1.content.0"));
        assert_eq!(refused("Be kind.", json!([prompt, next, answer])), expected("messages.2.content.0"));
        let foreign = json!({ "role": "assistant", "content": [{ "type": "thinking", "thinking": "…", "signature": "other" }] });
        assert_eq!(refused("Be kind.", json!([prompt, foreign])), expected("messages.1.content.0"));
    }

    #[test]
    fn who_does_not_ask_gets_none() {
        let body = json!({ "messages": [{ "role": "user", "content": "Hello." }] });
        assert_eq!(Signatures::new(ThinkingRules::Free).give(1, &body), None);
        let body = request("", &body["messages"]);
        assert_eq!(Signatures::new(ThinkingRules::None).give(1, &body), None);
        assert!(Signatures::new(ThinkingRules::Free).give(1, &body).is_some());
    }
}
