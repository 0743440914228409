//! A request as the stub keeps it, and what can be measured on it.

use serde_json::Value;

use super::cache::Cached;
use super::validate::Violation;

/// Tools that start a sub-agent (`Task` in 2.1.50, `Agent` in 2.1.80). Up to 2.1.112 only the main
/// conversation is offered one; the rest has few tools or none.
const DELEGATING_TOOLS: [&str; 2] = ["Task", "Agent"];

/// How the system prompt of the main conversation says what the model is; a release that defers its
/// tools (2.1.69) offers no delegating one at first.
const MAIN_PROMPT: &str = "You are an interactive";

/// What the system prompt of a sub-agent says from 2.1.330 on at the latest, where sub-agents are offered [`DELEGATING_TOOLS`], too.
const SUB_AGENT_MARK: &str = "cc_is_subagent=true";

/// What the client wraps its own additions to a user message in.
const ADDED: [&str; 2] = ["system-reminder", "available-deferred-tools"];

/// How a client's request to be given a summary of the conversation words it.
const SUMMARY_REQUEST: &str = "create a detailed summary";

/// A request to `/v1/messages`.
#[derive(Clone, Debug)]
pub struct Request {
    /// Place among the requests of the same [`kind`](Self::kind), from 1, in order of arrival.
    pub number: usize,
    /// What the client wants with it.
    pub kind: Kind,
    /// The model asked for; empty when the request names none.
    pub model: String,
    /// Estimated input tokens of system prompt, tools and messages: what [`estimate_tokens`] makes
    /// of their JSON. The stub reports those that are not [`cached`](Self::cached) as `usage.input_tokens`, unless its script says
    /// otherwise.
    pub tokens: u64,
    /// How many of these were read from and written to the prompt cache; none where the stub keeps none.
    pub cached: Cached,
    /// Why it was refused, if it was.
    pub violation: Option<String>,
    /// The whole body.
    pub body: Value,
}

/// What a client wants with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The next answer of the conversation that the user sees.
    Main,
    /// A summary to continue from, in place of the conversation.
    Compaction,
    /// Anything else: warm-ups of sub-agents (2.0.30 to 2.1.0), sub-agents, titles, quota checks.
    Side,
}

/// Who says a message.
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
    /// Who says it.
    pub role: Role,
    /// What it says.
    pub text: &'a str,
}

impl Request {
    pub(super) fn new(number: usize, kind: Kind, body: Value, cached: Cached, violation: Option<&Violation>) -> Self {
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

    /// Whether it belongs to the conversation that the user sees.
    ///
    /// The model tells nothing, since side requests may use the same one, and neither does the mere
    /// presence of tools. A main request is one that is offered a tool to start sub-agents with, or
    /// whose system prompt is that of the interactive agent, that is not a sub-agent's, and that does not
    /// ask for a summary. Seen to hold in 1.0.60 – 2.1.112 and in 2.1.330.
    pub fn is_main(&self) -> bool {
        self.kind == Kind::Main
    }

    /// Whether the answer is wanted as an event stream.
    pub fn streams(&self) -> bool {
        self.body["stream"] == true
    }

    /// The messages as they were sent; none when `messages` is not an array.
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

    /// What the human said, turn by turn: the user messages that hold more than tool results,
    /// without the `<system-reminder>`s and the like that the client adds around the prompt, trimmed.
    ///
    /// A test of pruning reads this: the last few entries are whole prompts, the others cut ones.
    pub fn turns(&self) -> Vec<String> {
        let users = self.messages().iter().filter(|message| role(message) == Role::User);
        users
            .map(|message| {
                let spoken = texts(&message["content"]).into_iter().map(as_spoken);
                spoken.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
            })
            .filter(|turn| !turn.is_empty())
            .collect()
    }

    /// Whether the newest message brings the result of a tool: then a prompt is being worked on,
    /// and the script has called the tool already.
    pub fn brings_tool_result(&self) -> bool {
        let newest = self.messages().last().and_then(|message| message["content"].as_array());
        newest.is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"))
    }
}

impl Kind {
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

/// A rough token count: one for every 3.5 characters, rounded up.
pub fn estimate_tokens(chars: usize) -> u64 {
    (2 * chars as u64).div_ceil(7)
}

/// Estimated tokens of what the model would read: system prompt, tools and messages.
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

/// The text without what the client added; an addition that is never closed runs to the end.
fn as_spoken(text: &str) -> String {
    let mut spoken = text.to_owned();
    for tag in ADDED {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        while let Some(start) = spoken.find(&open) {
            let end = spoken[start..].find(&close).map_or(spoken.len(), |at| start + at + close.len());
            spoken.replace_range(start..end, "");
        }
    }
    spoken.trim().to_owned()
}
