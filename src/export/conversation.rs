/*!
The model of an exported conversation: turns, and in each of them the messages in order. All formats and the comparison share it.

A tool call has its result, and the work of the sub-agents that it started. Lines that are no conversation (bookkeeping, the
client's own additions) are left out. So is thinking, unless it is asked for. The transcript itself has them (`archive restore`).
*/

use std::collections::HashMap;

use serde_json::Value;

use super::visible;
use ctxbridge_archive::quote;
use ctxbridge_common::digest;
use ctxbridge_transcript::{Content, MessageBlock, Record, RecordKind, SideTexts, as_typed, records};

/// Maximum characters of a turn's title.
const TITLE_CHARS: usize = 100;

/// A conversation, or a part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportedConversation {
    /// The client's id of the session.
    pub session: String,
    /// Its title: the user's, the model's, or the first prompt.
    pub title: Option<String>,
    /// The state of the session, in words; none for the newest.
    pub state: Option<String>,
    /// The folder that the client worked in.
    pub folder: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// The client's version.
    pub version: Option<String>,
    /// Messages before the first turn: the summary of a conversation that this one continues.
    pub before: Vec<ExportedMessage>,
    /// The turns, in order.
    pub turns: Vec<ExportedTurn>,
    /// Work of sub-agents whose call is not in the conversation.
    pub agents: Vec<Agent>,
}

/// A human prompt, and everything up to the next one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportedTurn {
    /// Position in the conversation, from 0.
    pub index: u32,
    /// `true` if the conversation went on without it.
    pub is_rewound: bool,
    /// The handle: `ctx:1a2b3c4d`.
    pub handle: String,
    /// Start time, in milliseconds since 1970; 0 if no line says.
    pub started_ms: i64,
    /// End time, in milliseconds since 1970; 0 if no line says.
    pub ended_ms: i64,
    /// Size of the context at the last answer, in tokens.
    pub context_tokens: Option<u64>,
    /// Tokens of the answers.
    pub output_tokens: u64,
    /// Tools used, in order of first use.
    pub tools: Vec<String>,
    /// Files read or written, as given to the tools.
    pub files: Vec<String>,
    /// SHA-256 of the content in the archive; none for a part of a turn.
    pub content_sha256: Option<digest::Sha256Digest>,
    /// The messages, in order.
    pub messages: Vec<ExportedMessage>,
}

/// A prompt, an answer, a tool call, or another message.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedMessage {
    /// Time of writing, in milliseconds since 1970; 0 if no line says.
    pub at_ms: i64,
    /// The content.
    pub body: MessageBody,
}

/// Kind and content of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageBody {
    /// A prompt that a human typed, or the task of a sub-agent.
    Prompt(Vec<MessagePart>),
    /// An answer of the model, in Markdown.
    Answer(Vec<MessagePart>),
    /// Thinking of the model.
    Thinking(String),
    /// A tool call by the model.
    Call(Box<ExportedCall>),
    /// A tool result without its call.
    Result(ToolOutcome),
    /// A command of the client with its output, or an interruption.
    Note(Vec<MessagePart>),
    /// The summary of a compaction, which replaced the messages before.
    Summary(String),
    /// Work of a sub-agent that an older client wrote into the same file, without its call.
    Agent(Agent),
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum MessagePart {
    /// Text.
    Text(String),
    /// Something else: an image, a document.
    Other(BlockPlaceholder),
}

/// Description of a block that is no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPlaceholder {
    /// The type: `image`, `document`.
    pub kind: String,
    /// The media type, if it has one.
    pub media: Option<String>,
    /// Number of its bytes, if they are in the transcript.
    pub bytes: Option<u64>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedCall {
    /// The id; empty if it has none.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The input.
    pub input: Value,
    /// The result; none if there is none.
    pub outcome: Option<ToolOutcome>,
    /// Sub-agents that it started.
    pub agents: Vec<Agent>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutcome {
    /// Time of the result, in milliseconds since 1970; 0 if no line says.
    pub at_ms: i64,
    /// `true` if it is an error.
    pub is_error: bool,
    /// The content.
    pub parts: Vec<MessagePart>,
}

/// The work of a sub-agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent {
    /// The id; empty if the work is in the conversation's own file.
    pub id: String,
    /// The messages, beginning with the task.
    pub messages: Vec<ExportedMessage>,
}

impl ExportedConversation {
    /// Start time, in milliseconds since 1970.
    pub fn first_ms(&self) -> Option<i64> {
        self.turns.iter().map(|turn| turn.started_ms).find(|ms| *ms > 0)
    }

    /// End time, in milliseconds since 1970.
    pub fn last_ms(&self) -> Option<i64> {
        self.turns.iter().rev().map(|turn| turn.ended_ms).find(|ms| *ms > 0)
    }

    /// Number of turns that were rewound.
    pub fn rewound(&self) -> usize {
        self.turns.iter().filter(|turn| turn.is_rewound).count()
    }

    /// Number of compactions.
    pub fn compactions(&self) -> usize {
        let told = self.turns.iter().filter(|turn| !turn.is_rewound);
        let all = self.before.iter().chain(told.flat_map(|turn| &turn.messages));
        all.filter(|message| matches!(message.body, MessageBody::Summary(_))).count()
    }
}

impl ExportedTurn {
    /// The prompt in one line; empty if there is none.
    pub fn title(&self) -> String {
        let prompt = self.messages.iter().find_map(|message| match &message.body {
            MessageBody::Prompt(parts) => Some(texts(parts).collect::<Vec<_>>().join(" ")),
            _ => None,
        });
        let prompt = prompt.unwrap_or_default();
        let typed = visible::text(as_typed(quote::head(&prompt, 100 * TITLE_CHARS)).trim()).into_owned();
        quote::cut(&typed.split_whitespace().collect::<Vec<_>>().join(" "), TITLE_CHARS)
    }
}

impl Agent {
    /// The task in one line.
    pub fn title(&self) -> String {
        ExportedTurn { messages: self.messages.iter().take(1).cloned().collect(), ..ExportedTurn::default() }.title()
    }
}

/// The texts among these parts.
pub fn texts(parts: &[MessagePart]) -> impl Iterator<Item = &str> {
    parts.iter().filter_map(|part| match part {
        MessagePart::Text(text) => Some(text.as_str()),
        MessagePart::Other(_) => None,
    })
}

impl BlockPlaceholder {
    /// `[image: image/png, 12 KB]`
    pub fn label(&self) -> String {
        let media = self.media.as_deref().unwrap_or("unknown type");
        let bytes = match self.bytes {
            None => String::new(),
            Some(bytes @ 0..1_024) => format!(", {bytes} bytes"),
            Some(bytes) => format!(", {} KB", bytes.div_ceil(1_024)),
        };
        format!("[{}: {media}{bytes}]", self.kind)
    }
}

/// Converts lines to messages, in order.
pub(super) fn messages(bytes: &[u8], beside: &SideTexts<'_>, of_agent: bool, thinking: bool) -> Vec<ExportedMessage> {
    let mut reader = ConversationReader::new(beside, thinking, of_agent);
    let mut side: Option<ConversationReader<'_>> = None;
    records(bytes, &mut |record| {
        if record.is_sidechain() && !of_agent {
            side.get_or_insert_with(|| ConversationReader::new(beside, thinking, true)).take(record);
            return;
        }
        let call = reader.take(record);
        // Older clients write a sub-agent's lines before the result of its call, which is the end of its work.
        if let Some(call) = call.filter(|at| reader.is_agent(*at))
            && let Some(side) = side.take()
            && let Some(ExportedMessage { body: MessageBody::Call(call), .. }) = reader.messages.get_mut(call)
        {
            call.agents.push(Agent { id: String::new(), messages: side.messages });
        }
    });
    if let Some(side) = side {
        let at_ms = side.messages.first().map_or(0, |message| message.at_ms);
        reader
            .messages
            .push(ExportedMessage { at_ms, body: MessageBody::Agent(Agent { id: String::new(), messages: side.messages }) });
    }
    reader.messages
}

struct ConversationReader<'b> {
    beside: &'b SideTexts<'b>,
    of_agent: bool,
    thinking: bool,
    messages: Vec<ExportedMessage>,
    /// Positions of the calls that have no result yet, by id.
    open: HashMap<String, usize>,
    now_ms: i64,
}

impl<'b> ConversationReader<'b> {
    fn new(beside: &'b SideTexts<'b>, thinking: bool, of_agent: bool) -> Self {
        Self { beside, of_agent, thinking, messages: Vec::new(), open: HashMap::new(), now_ms: 0 }
    }

    /// Adds a line, and returns the position of the call whose result it has.
    fn take(&mut self, record: &Record<'_>) -> Option<usize> {
        self.now_ms = record.timestamp().unwrap_or(self.now_ms);
        let Some(content) = record.content() else {
            if let Some(prompt) = record.queued_prompt() {
                self.push(MessageBody::Prompt(parts(prompt)));
            }
            return None;
        };
        match record.kind() {
            RecordKind::Prompt => self.push(MessageBody::Prompt(parts(content))),
            RecordKind::Added if self.of_agent => self.push(MessageBody::Prompt(parts(content))),
            RecordKind::Echo => self.push(MessageBody::Note(parts(content))),
            RecordKind::CompactSummary => self.push(MessageBody::Summary(content.texts().collect::<Vec<_>>().join("\n"))),
            RecordKind::Answer => match content {
                Content::Text(text) => self.push(MessageBody::Answer(vec![MessagePart::Text(text.to_string())])),
                Content::Blocks(blocks) => blocks.iter().for_each(|block| self.answer(block)),
            },
            RecordKind::ToolResults => {
                let mut answered = None;
                for block in content.blocks() {
                    answered = self.result(block, record).or(answered);
                }
                return answered;
            }
            RecordKind::Added | RecordKind::CompactBoundary | RecordKind::Bookkeeping => {}
        }
        None
    }

    fn push(&mut self, body: MessageBody) {
        self.messages.push(ExportedMessage { at_ms: self.now_ms, body });
    }

    fn answer(&mut self, block: &MessageBlock<'_>) {
        if let Some((tool, input)) = block.tool_call() {
            let id = block.call_id().unwrap_or_default().to_owned();
            if !id.is_empty() {
                self.open.insert(id.clone(), self.messages.len());
            }
            // What is nested too deeply to be read is shown as it is.
            let input = serde_json::from_str(input).unwrap_or_else(|_| Value::String(input.to_owned()));
            self.push(MessageBody::Call(Box::new(ExportedCall {
                id,
                tool: tool.to_owned(),
                input,
                outcome: None,
                agents: Vec::new(),
            })));
        } else if block.is("thinking") {
            if let Some(text) = block.thinking().filter(|text| self.thinking && !text.is_empty()) {
                self.push(MessageBody::Thinking(text.to_owned()));
            }
        } else if !block.is("redacted_thinking") {
            self.push(MessageBody::Answer(vec![part(block)]));
        }
    }

    fn result(&mut self, block: &MessageBlock<'_>, record: &Record<'_>) -> Option<usize> {
        let Some((content, is_error)) = block.tool_result() else {
            self.push(MessageBody::Prompt(vec![part(block)]));
            return None;
        };
        let mut parts = content.as_ref().map(parts).unwrap_or_default();
        let beside = self.beside.of_record(record).into_iter();
        parts.extend(beside.map(|(path, text)| MessagePart::Text(format!("\n[{path}]\n{text}"))));
        let outcome = ToolOutcome { at_ms: self.now_ms, is_error, parts };
        let at = block.answers().and_then(|id| self.open.remove(id));
        match at.and_then(|at| self.messages.get_mut(at)) {
            Some(ExportedMessage { body: MessageBody::Call(call), .. }) => {
                call.outcome = Some(outcome);
                // Its work is in a file of its own, and comes later.
                call.agents.extend(record.agent_id().map(|id| Agent { id: id.to_owned(), messages: Vec::new() }));
            }
            _ => self.push(MessageBody::Result(outcome)),
        }
        at
    }

    fn is_agent(&self, at: usize) -> bool {
        let body = self.messages.get(at).map(|message| &message.body);
        matches!(body, Some(MessageBody::Call(call)) if matches!(call.tool.as_str(), "Task" | "Agent"))
    }
}

fn parts(content: &Content<'_>) -> Vec<MessagePart> {
    match content {
        Content::Text(text) => vec![MessagePart::Text(text.to_string())],
        Content::Blocks(blocks) => blocks.iter().map(part).collect(),
    }
}

fn part(block: &MessageBlock<'_>) -> MessagePart {
    block.text().map_or_else(|| MessagePart::Other(placeholder(block)), |text| MessagePart::Text(text.to_owned()))
}

fn placeholder(block: &MessageBlock<'_>) -> BlockPlaceholder {
    #[derive(serde::Deserialize)]
    struct BlockSource {
        media_type: Option<String>,
        data: Option<String>,
    }
    let source = block.source().and_then(|source| serde_json::from_str::<BlockSource>(source).ok());
    let (media, data) = source.map_or((None, None), |source| (source.media_type, source.data));
    // Base64: 4 characters for 3 bytes.
    let bytes = data.map(|data| data.trim_end_matches('=').len() as u64 * 3 / 4);
    BlockPlaceholder { kind: block.kind().to_owned(), media, bytes }
}
