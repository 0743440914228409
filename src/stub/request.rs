//! A request as the stub keeps it, and measurements on it.

use serde_json::Value;

use super::tokens::{CacheUsage, estimate_tokens};
use super::validate::Violation;

/// Tools that start a sub-agent (`Task` in 2.1.50, `Agent` in 2.1.80). Up to 2.1.112 only the main
/// conversation is offered one; other requests have few tools or none.
const DELEGATING_TOOLS: [&str; 2] = ["Task", "Agent"];

/// Words of the system prompt that tell the main conversation: a release that defers its tools
/// (2.1.69) offers no delegating one at first.
const MAIN_PROMPT: &str = "You are an interactive";

/// Words of a sub-agent's system prompt, since 2.1.330 or earlier: sub-agents are offered [`DELEGATING_TOOLS`] there, too.
const SUB_AGENT_MARK: &str = "cc_is_subagent=true";

/// Tags around the client's own additions to a user message.
const ADDED_TAGS: [&str; 2] = ["system-reminder", "available-deferred-tools"];

/// Words of a client's request for a summary of the conversation.
const SUMMARY_REQUEST: &str = "create a detailed summary";

/// A request to `/v1/messages`.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// Number among the requests of the same [`kind`](Self::kind), from 1, in order of arrival.
    pub number: usize,
    /// Purpose of the request.
    pub kind: RequestKind,
    /// The model asked for; empty when the request names none.
    pub model: String,
    /// Estimated input tokens of system prompt, tools and messages: [`estimate_tokens`] of their JSON. The stub reports those that
    /// are not [`cached`](Self::cached) as `usage.input_tokens`, unless its script sets other numbers.
    pub tokens: u64,
    /// Number of these that were read from and written to the prompt cache; 0 if the stub keeps no cache.
    pub cached: CacheUsage,
    /// The reason why it was refused, if it was.
    pub violation: Option<String>,
    /// The whole body.
    pub body: Value,
}

/// Purpose of a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// The next answer of the conversation that the user sees.
    Main,
    /// A summary to continue from, in place of the conversation.
    Compaction,
    /// Anything else: warm-ups of sub-agents (2.0.30 to 2.1.0), sub-agents, titles, quota checks.
    Side,
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The human, tool results, and what the client adds in their name.
    User,
    /// The model.
    Assistant,
}

/// A text block, or a whole content string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextBlock<'a> {
    /// Index of its message, from 0.
    pub message: usize,
    /// Author of the message.
    pub role: Role,
    /// The text.
    pub text: &'a str,
}

impl ApiRequest {
    pub(super) fn new(number: usize, kind: RequestKind, body: Value, cached: CacheUsage, violation: Option<&Violation>) -> Self {
        Self {
            number,
            kind,
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            tokens: prompt_tokens(&body),
            cached,
            violation: violation.map(Violation::to_string),
            body,
        }
    }

    /// `true` if it belongs to the conversation that the user sees.
    ///
    /// The model does not tell, since side requests may use the same one; the presence of tools does
    /// not, either. A main request is offered a tool to start sub-agents with, or has the system prompt of
    /// the interactive agent. It is not a sub-agent's, and it does not ask for a summary. This holds in
    /// 1.0.60 – 2.1.112 and in 2.1.330.
    pub fn is_main(&self) -> bool {
        self.kind == RequestKind::Main
    }

    /// `true` if the client asks for an event stream.
    pub fn streams(&self) -> bool {
        self.body["stream"] == true
    }

    /// The messages as they were sent; none if `messages` is not an array.
    pub fn messages(&self) -> &[Value] {
        messages(&self.body)
    }

    /// Every text block of every message, in order. Texts inside tool results are not among them.
    pub fn text_blocks(&self) -> Vec<TextBlock<'_>> {
        let messages = self.messages().iter().enumerate();
        messages
            .flat_map(|(index, message)| {
                let role = role(message);
                let text = move |text| TextBlock { message: index, role, text };
                texts(&message["content"]).into_iter().map(text)
            })
            .collect()
    }

    /// Characters in all text blocks of `role`.
    pub fn text_chars(&self, role: Role) -> usize {
        let blocks = self.text_blocks();
        let blocks = blocks.iter().filter(|block| block.role == role);
        blocks.map(|block| block.text.chars().count()).sum()
    }

    /// The human's prompts, turn by turn: the user messages that hold more than tool results,
    /// without the `<system-reminder>`s and the like that the client adds around the prompt, trimmed.
    ///
    /// Tests of pruning use it: the last few entries are whole prompts, the others cut ones.
    pub fn human_prompts(&self) -> Vec<String> {
        let users = self.messages().iter().filter(|message| role(message) == Role::User);
        users
            .map(|message| {
                let spoken = texts(&message["content"]).into_iter().map(without_additions);
                spoken.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
            })
            .filter(|turn| !turn.is_empty())
            .collect()
    }

    /// `true` if the newest message holds the result of a tool: then a prompt is in progress, and
    /// the script has called the tool already.
    pub fn brings_tool_result(&self) -> bool {
        let newest = self.messages().last().and_then(|message| message["content"].as_array());
        newest.is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"))
    }
}

impl RequestKind {
    pub(super) fn of(body: &Value) -> Self {
        let newest = messages(body).last().map_or(&Value::Null, |message| &message["content"]);
        let newest = texts(newest);
        if newest.last().is_some_and(|text| text.contains(SUMMARY_REQUEST)) {
            return Self::Compaction;
        }
        let system = texts(&body["system"]);
        if system.iter().any(|text| text.contains(SUB_AGENT_MARK)) {
            return Self::Side;
        }
        let tools = body["tools"].as_array().into_iter().flatten();
        let mut tools = tools.filter_map(|tool| tool["name"].as_str());
        if tools.any(|tool| DELEGATING_TOOLS.contains(&tool)) || system.iter().any(|text| text.contains(MAIN_PROMPT)) {
            Self::Main
        } else {
            Self::Side
        }
    }
}

/// Estimated tokens of the model's input: system prompt, tools and messages.
pub(super) fn prompt_tokens(body: &Value) -> u64 {
    let parts = ["system", "tools", "messages"].into_iter().filter_map(|part| body.get(part));
    estimate_tokens(parts.map(|part| part.to_string().chars().count()).sum())
}

fn messages(body: &Value) -> &[Value] {
    body["messages"].as_array().map_or(&[], Vec::as_slice)
}

fn role(message: &Value) -> Role {
    if message["role"] == "assistant" { Role::Assistant } else { Role::User }
}

/// The texts of a content or a system prompt: the string that it is, or its text blocks.
fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => {
            let blocks = blocks.iter().filter(|block| block["type"] == "text");
            blocks.filter_map(|block| block["text"].as_str()).collect()
        }
        _ => Vec::new(),
    }
}

/// The text without the client's additions; an addition that is never closed runs to the end.
fn without_additions(text: &str) -> String {
    let mut spoken = text.to_owned();
    for tag in ADDED_TAGS {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        while let Some(start) = spoken.find(&open) {
            let end = spoken[start..].find(&close).map_or(spoken.len(), |at| start + at + close.len());
            spoken.replace_range(start..end, "");
        }
    }
    spoken.trim().to_owned()
}
