/*!
One line of a transcript.

Every release of the client adds types of lines and fields. So anything that is missing, unknown or of another type is
skipped, and only a line that is no JSON object is an error. Strings without escapes are borrowed from the line: an
archive pass reads megabytes of which it keeps little.
*/

use std::borrow::Cow;

use serde::de::{MapAccess, SeqAccess};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::lenient::{FromAny, Lenient, lenient_object};

type LenientText<'a> = Lenient<Cow<'a, str>>;

/// A line, with its known fields.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: LenientText<'a>,
    #[serde(borrow)]
    subtype: LenientText<'a>,
    #[serde(borrow)]
    uuid: LenientText<'a>,
    /// Absent, `null`, or the uuid of the line that it follows.
    #[serde(borrow)]
    parent_uuid: Link<'a>,
    #[serde(borrow)]
    logical_parent_uuid: LenientText<'a>,
    #[serde(borrow)]
    leaf_uuid: Link<'a>,
    explicit: Lenient<bool>,
    #[serde(borrow)]
    session_id: LenientText<'a>,
    #[serde(borrow)]
    timestamp: LenientText<'a>,
    #[serde(borrow)]
    cwd: LenientText<'a>,
    #[serde(borrow)]
    version: LenientText<'a>,
    is_meta: Lenient<bool>,
    is_sidechain: Lenient<bool>,
    is_compact_summary: Lenient<bool>,
    #[serde(borrow)]
    origin: Lenient<Origin<'a>>,
    #[serde(borrow)]
    prompt_source: LenientText<'a>,
    #[serde(borrow)]
    custom_title: LenientText<'a>,
    #[serde(borrow)]
    ai_title: LenientText<'a>,
    #[serde(borrow)]
    summary: LenientText<'a>,
    #[serde(borrow)]
    message: Lenient<RecordMessage<'a>>,
    #[serde(borrow)]
    tool_use_result: Lenient<ToolUseResult<'a>>,
    #[serde(borrow)]
    attachment: Lenient<Attachment<'a>>,
    model_usage: Lenient<Windows>,
    #[serde(borrow)]
    compact_metadata: Lenient<CompactMetadata<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RecordMessage<'a> {
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow)]
    role: LenientText<'a>,
    #[serde(borrow)]
    model: LenientText<'a>,
    #[serde(borrow)]
    content: Lenient<Content<'a>>,
    usage: Lenient<AnswerUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ToolUseResult<'a> {
    #[serde(borrow)]
    agent_id: LenientText<'a>,
    #[serde(borrow)]
    persisted_output_path: LenientText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Attachment<'a> {
    #[serde(borrow, rename = "type")]
    kind: LenientText<'a>,
    #[serde(borrow)]
    prompt: Lenient<Content<'a>>,
}

/// The sender of a prompt, since 2.1.33x.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Origin<'a> {
    #[serde(borrow)]
    kind: LenientText<'a>,
    as_user: Lenient<bool>,
}

/// A reference to another line.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "Option<LenientText<'_>>", bound(deserialize = "'de: 'a"))]
pub enum Link<'a> {
    /// The line has no such field: releases before the tree, and other tools, write none.
    #[default]
    Absent,
    /// `null`: it refers to nothing, as the first line of a conversation does.
    Null,
    /// The uuid of a line.
    To(Cow<'a, str>),
}

/// The client's data about a compaction; the last two fields exist since 2.1.112.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CompactMetadata<'a> {
    #[serde(borrow)]
    trigger: LenientText<'a>,
    pre_tokens: Lenient<u64>,
    post_tokens: Lenient<u64>,
    duration_ms: Lenient<u64>,
}

/// Tokens of one answer, as the API counted them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct AnswerUsage {
    input_tokens: Lenient<u64>,
    cache_read_input_tokens: Lenient<u64>,
    cache_creation_input_tokens: Lenient<u64>,
    output_tokens: Lenient<u64>,
}

impl Copy for Lenient<u64> {}

lenient_object!(
    RecordMessage<'a>,
    ToolUseResult<'a>,
    Attachment<'a>,
    CompactMetadata<'a>,
    Origin<'a>,
    AnswerUsage,
    MessageBlock<'a>,
    WindowOf
);

/// Content of a message: a string, or blocks.
#[derive(Debug)]
pub enum Content<'a> {
    /// A plain string.
    Text(Cow<'a, str>),
    /// Blocks; those that are no objects are left out.
    Blocks(Vec<MessageBlock<'a>>),
}

impl<'a> From<Option<LenientText<'a>>> for Link<'a> {
    fn from(value: Option<LenientText<'a>>) -> Self {
        match value {
            None => Self::Null,
            Some(Lenient(Some(uuid))) => Self::To(uuid),
            // Of another type: nothing is known.
            Some(Lenient(None)) => Self::Absent,
        }
    }
}

impl<'de: 'a, 'a> FromAny<'de> for Content<'a> {
    fn from_str(text: Cow<'de, str>) -> Option<Self> {
        Some(Self::Text(text))
    }
    fn from_seq<A: SeqAccess<'de>>(seq: A) -> Result<Option<Self>, A::Error> {
        Ok(<Vec<MessageBlock<'a>> as FromAny<'de>>::from_seq(seq)?.map(Self::Blocks))
    }
}

/// A content block; which fields it has depends on its type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct MessageBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: LenientText<'a>,
    #[serde(borrow)]
    id: LenientText<'a>,
    #[serde(borrow)]
    tool_use_id: LenientText<'a>,
    #[serde(borrow)]
    text: LenientText<'a>,
    #[serde(borrow)]
    thinking: LenientText<'a>,
    #[serde(borrow)]
    name: LenientText<'a>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    is_error: Lenient<bool>,
    #[serde(borrow)]
    source: Option<&'a RawValue>,
}

/// The window of each model that took part.
#[derive(Debug, Default)]
struct Windows(Option<u64>);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WindowOf {
    context_window: Lenient<u64>,
}

impl<'de> FromAny<'de> for Windows {
    fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        // Small models that help on the side have small windows; the conversation's model has the largest.
        let mut largest = None;
        while let Some((_, Lenient(window))) = map.next_entry::<serde::de::IgnoredAny, Lenient<WindowOf>>()? {
            largest = largest.max(window.and_then(|of| of.context_window.0));
        }
        Ok(Some(Self(largest)))
    }
}

/// Details of a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompactionDetails {
    /// `auto` or `manual`.
    pub cause: Option<String>,
    /// Size of the context before it, in tokens.
    pub tokens_before: Option<u64>,
    /// Size of the context after it.
    pub tokens_after: Option<u64>,
    /// Duration, in milliseconds.
    pub took_ms: Option<u64>,
}

/// Source of a session's title; a higher one replaces a lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TitleRank {
    /// The first prompt.
    Prompt,
    /// A summary of an older client.
    Summary,
    /// The model.
    Model,
    /// The user.
    Custom,
}

/// Kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A human typed it: a turn starts.
    Prompt,
    /// The model's answer or a part of it.
    Answer,
    /// Tool results.
    ToolResults,
    /// A command of the client itself and its output, a sub-agent's end, an interruption: no prompt, but not marked as such.
    Echo,
    /// The client's own additions, and instructions to sub-agents.
    Added,
    /// The summary that takes the conversation's place after a compaction.
    CompactSummary,
    /// The position of a compaction.
    CompactBoundary,
    /// Other records of the client.
    Bookkeeping,
}

/// Prefixes of echoes. A command of the client itself starts with its name; one that is a prompt starts with its message.
const ECHO_PREFIXES: [&str; 23] = [
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<bash-exit-code>",
    "<command-name>",
    "<task-notification>",
    "<teammate-message",
    "<cross-session-message",
    "<agent-message",
    "<coordinator-relay",
    "<remote-review",
    "<slack-ping",
    "<fetched-web-content",
    "<untrusted-widget-state",
    "<user-prompt-submit-hook>",
    "<forked-skill-launch",
    "<tick>",
    "[SYSTEM NOTIFICATION",
    "[Request interrupted by user",
    "Stop hook blocking error",
    // 2.0.76 in print mode.
    "Unknown slash command: ",
];

/// Senders of prompts that nobody typed, as newer clients name them.
const MACHINE_ORIGINS: [&str; 7] =
    ["auto-continuation", "task-notification", "peer", "coordinator", "observer", "observer-activity", "plugin"];

/// Sources of prompts that somebody typed, whatever they begin with.
const TYPED_SOURCES: [&str; 3] = ["typed", "queued", "suggestion_accepted"];

/// Rejects anything but an object: serde would take a list for the fields in their order.
fn is_object(line: &[u8]) -> Result<(), serde_json::Error> {
    if line.trim_ascii_start().first().is_some_and(|byte| *byte != b'{') {
        return Err(serde::de::Error::custom("it is no JSON object"));
    }
    Ok(())
}

impl<'a> Record<'a> {
    /// Reads a line.
    ///
    /// # Errors
    /// If it is no JSON object.
    pub fn parse(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        is_object(line)?;
        serde_json::from_slice(line)
    }

    /// Reads a line that is known to be UTF-8.
    ///
    /// # Errors
    /// If it is no JSON object.
    pub fn parse_text(line: &'a str) -> Result<Self, serde_json::Error> {
        is_object(line.as_bytes())?;
        serde_json::from_str(line)
    }

    /// Kind of the line.
    pub fn kind(&self) -> RecordKind {
        let is = |flag: &Lenient<bool>| flag.0 == Some(true);
        match self.kind.0.as_deref() {
            Some("assistant") => RecordKind::Answer,
            Some("user") if is(&self.is_compact_summary) => RecordKind::CompactSummary,
            Some("user") => match self.content() {
                Some(Content::Blocks(blocks)) if blocks.iter().any(|block| block.is("tool_result")) => RecordKind::ToolResults,
                Some(_) if is(&self.is_meta) || self.is_sidechain() => RecordKind::Added,
                Some(content) if self.is_from_machine(content) => RecordKind::Echo,
                Some(_) => RecordKind::Prompt,
                None => RecordKind::Bookkeeping,
            },
            Some("system") if self.subtype.0.as_deref() == Some("compact_boundary") => RecordKind::CompactBoundary,
            _ => RecordKind::Bookkeeping,
        }
    }

    /// `true` if nobody typed the prompt: the client says so, or it begins as only the client's own texts do.
    fn is_from_machine(&self, content: &Content<'_>) -> bool {
        if let Some(origin) = &self.origin.0
            && origin.as_user.0 != Some(true)
            && origin.kind.0.as_deref().is_some_and(|kind| MACHINE_ORIGINS.contains(&kind))
        {
            return true;
        }
        match self.prompt_source.0.as_deref() {
            Some("system") => true,
            Some(source) if TYPED_SOURCES.contains(&source) => false,
            _ => content.is_echo(),
        }
    }

    /// `true` if it asks the model something that nobody typed; the output of a command asks nothing.
    pub fn is_machine_prompt(&self) -> bool {
        let asks = |text: &str| {
            let is_output =
                text.starts_with("<local-command-") || text.starts_with("<command-name>") || text.starts_with("[Request");
            !is_output
        };
        self.kind() == RecordKind::Echo && self.content().and_then(|content| content.texts().next()).is_some_and(asks)
    }

    /// `true` if it belongs to a sub-agent's work, not to the conversation that the user sees.
    pub fn is_sidechain(&self) -> bool {
        self.is_sidechain.0 == Some(true)
    }

    /// Content of the message; `None` in lines outside of the conversation.
    pub fn content(&self) -> Option<&Content<'a>> {
        self.message.0.as_ref()?.content.0.as_ref()
    }

    /// Role of the message in the API: `user`, `assistant`. Lines outside of the conversation may have one as well.
    pub fn role(&self) -> Option<&str> {
        self.message.0.as_ref()?.role.0.as_deref()
    }

    /// The prompt that a human typed while the model was working.
    pub fn queued_prompt(&self) -> Option<&Content<'a>> {
        let attachment = self.attachment.0.as_ref()?;
        (attachment.kind.0.as_deref() == Some("queued_command")).then_some(attachment.prompt.0.as_ref()?)
    }

    /// Its id.
    pub fn uuid(&self) -> Option<&str> {
        self.uuid.0.as_deref()
    }

    /// The line that it follows in the conversation.
    pub fn parent(&self) -> &Link<'a> {
        &self.parent_uuid
    }

    /// The line before a compaction, of the line that marks its position.
    pub fn logical_parent(&self) -> Option<&str> {
        self.logical_parent_uuid.0.as_deref()
    }

    /// The newest line of the conversation, of a line that notes it (`last-prompt`), and `true` if the client left newer lines on
    /// purpose.
    pub fn leaf(&self) -> Option<(&Link<'a>, bool)> {
        let notes = self.kind.0.as_deref() == Some("last-prompt") && !matches!(self.leaf_uuid, Link::Absent);
        notes.then_some((&self.leaf_uuid, self.explicit.0 == Some(true)))
    }

    /// The type of the line, as the client calls it.
    pub fn type_name(&self) -> Option<&str> {
        self.kind.0.as_deref()
    }

    /// A name for the session, and its rank: the user's own is above the model's, which is above an older client's summary.
    pub fn title(&self) -> Option<(TitleRank, &str)> {
        let (rank, title) = match self.kind.0.as_deref()? {
            "custom-title" => (TitleRank::Custom, &self.custom_title),
            "ai-title" => (TitleRank::Model, &self.ai_title),
            "summary" => (TitleRank::Summary, &self.summary),
            _ => return None,
        };
        Some((rank, title.0.as_deref()?))
    }

    /// The line that a summary in the place of a title is about.
    pub fn summarized(&self) -> Option<&str> {
        match &self.leaf_uuid {
            Link::To(uuid) => Some(uuid),
            _ => None,
        }
    }

    /// The session that it says it belongs to.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.0.as_deref()
    }

    /// The folder that the client worked in.
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.0.as_deref()
    }

    /// The client's version.
    pub fn version(&self) -> Option<&str> {
        self.version.0.as_deref()
    }

    /// The model that answered; the client's own messages in its name do not count.
    pub fn model(&self) -> Option<&str> {
        self.message.0.as_ref()?.model.0.as_deref().filter(|model| !model.starts_with('<'))
    }

    /// The sub-agent whose result it brings.
    pub fn agent_id(&self) -> Option<&str> {
        self.tool_use_result.0.as_ref()?.agent_id.0.as_deref()
    }

    /// The file beside the transcript that has the whole result of a tool, of which the line has the start.
    pub fn output_file(&self) -> Option<&str> {
        self.tool_use_result.0.as_ref()?.persisted_output_path.0.as_deref()
    }

    /// Time when it was written, in milliseconds since 1970.
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp.0.as_ref()?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
    }

    /// The answer that it is a part of: one answer is several lines with the same id, and the same usage.
    pub fn message_id(&self) -> Option<&str> {
        self.message.0.as_ref()?.id.0.as_deref()
    }

    /// Tokens that the model read for this answer, from the cache or not: the size of the context.
    pub fn context_tokens(&self) -> Option<u64> {
        let usage = self.message.0.as_ref()?.usage.0?;
        let parts = [usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens];
        // The client writes answers of its own, about errors for one, with nothing but zeros.
        Some(parts.iter().filter_map(|part| part.0).fold(0, u64::saturating_add)).filter(|sum| *sum > 0)
    }

    /// Tokens of the answer.
    pub fn output_tokens(&self) -> Option<u64> {
        self.message.0.as_ref()?.usage.0?.output_tokens.0
    }

    /// Details of a compaction, from the line that marks its position.
    pub fn compacted(&self) -> CompactionDetails {
        let Some(metadata) = &self.compact_metadata.0 else { return CompactionDetails::default() };
        CompactionDetails {
            cause: metadata.trigger.0.as_deref().map(str::to_owned),
            tokens_before: metadata.pre_tokens.0,
            tokens_after: metadata.post_tokens.0,
            took_ms: metadata.duration_ms.0,
        }
    }

    /// Size of the model's window, if the client records it.
    pub fn window(&self) -> Option<u64> {
        self.model_usage.0.as_ref()?.0
    }
}

impl<'a> Content<'a> {
    /// Its texts: the string that it is, or its text blocks.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let (text, blocks) = match self {
            Self::Text(text) => (Some(&**text), None),
            Self::Blocks(blocks) => (None, Some(blocks.iter().filter_map(MessageBlock::text))),
        };
        text.into_iter().chain(blocks.into_iter().flatten())
    }

    /// Its blocks; a string is none.
    pub fn blocks(&self) -> &[MessageBlock<'a>] {
        if let Self::Blocks(blocks) = self { blocks } else { &[] }
    }

    fn is_echo(&self) -> bool {
        self.texts().next().is_some_and(is_echo)
    }
}

/// `true` if a text is an echo.
pub(super) fn is_echo(text: &str) -> bool {
    // `Stop hook feedback:`, and the like of other events.
    let is_hook = || {
        let event = text.lines().next().and_then(|line| line.split_once(" hook feedback:"));
        event.is_some_and(|(event, _)| !event.is_empty() && event.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    ECHO_PREFIXES.iter().any(|echo| text.starts_with(echo)) || is_hook()
}

impl<'a> MessageBlock<'a> {
    /// `true` if it has this type.
    pub fn is(&self, kind: &str) -> bool {
        self.kind.0.as_deref() == Some(kind)
    }

    /// Its type; empty if it has none.
    pub fn kind(&self) -> &str {
        self.kind.0.as_deref().unwrap_or_default()
    }

    /// The text of a text block.
    pub fn text(&self) -> Option<&str> {
        if self.is("text") { self.text.0.as_deref() } else { None }
    }

    /// The model's thinking.
    pub fn thinking(&self) -> Option<&str> {
        if self.is("thinking") { self.thinking.0.as_deref() } else { None }
    }

    /// Name and input (JSON) of a tool call, also of one that runs on the API's side.
    pub fn tool_call(&self) -> Option<(&str, &'a str)> {
        let is_call = self.is("tool_use") || self.is("server_tool_use");
        is_call.then_some((self.name.0.as_deref()?, self.input.map_or("{}", RawValue::get)))
    }

    /// Content of a tool result, and `true` if it is an error.
    pub fn tool_result(&self) -> Option<(Option<Content<'a>>, bool)> {
        let content = || serde_json::from_str::<Lenient<Content<'a>>>(self.content?.get()).ok()?.0;
        self.is("tool_result").then(|| (content(), self.is_error.0 == Some(true)))
    }

    /// The id of a tool call, which its result names.
    pub fn call_id(&self) -> Option<&str> {
        if self.is("tool_use") || self.is("server_tool_use") { self.id.0.as_deref() } else { None }
    }

    /// The id of the tool call that it is the result of.
    pub fn answers(&self) -> Option<&str> {
        if self.is("tool_result") { self.tool_use_id.0.as_deref() } else { None }
    }

    /// The source of an image or a document, as JSON.
    pub fn source(&self) -> Option<&'a str> {
        self.source.map(RawValue::get)
    }
}
