//! Input of a hook: JSON from the client on stdin.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use ctxbridge_transcript::blank::without_private;
use ctxbridge_transcript::lenient::{Lenient, lenient_object};
use ctxbridge_transcript::{is_typed, replace_lone_surrogates};

/// Input of any event, with the fields that are used. Any field may be missing or of another type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookInput {
    /// The session.
    pub session: Option<String>,
    /// Its transcript.
    pub transcript: Option<PathBuf>,
    /// The folder that the client works in.
    pub cwd: Option<PathBuf>,
    /// Prompt that the user typed, without what is marked as private.
    pub prompt: Option<String>,
    /// Reason for the start of a session: startup, resume, clear, compact. Or the sender of a prompt, since 2.1.33x: user, sdk, system,
    /// loop_wakeup, schedule_wakeup, poll_event.
    pub source: Option<String>,
    /// Trigger of a compaction: auto, manual.
    pub trigger: Option<String>,
    /// The summary that a compaction made.
    pub compact_summary: Option<String>,
    /// Reason for the end of a session.
    pub reason: Option<String>,
    /// The transcript of a sub-agent that is done.
    pub agent_transcript: Option<PathBuf>,
    /// The tool that is about to run, or has run.
    pub tool: Option<String>,
    /// Input of the tool; null if missing.
    pub tool_input: Value,
}

/// Senders of prompts that nobody typed.
const MACHINE_SOURCES: [&str; 4] = ["system", "loop_wakeup", "schedule_wakeup", "poll_event"];

impl HookInput {
    /// The prompt, if somebody typed it: the client says who sent it, or its text tells.
    pub fn typed_prompt(&self) -> Option<&str> {
        let is_machine = self.source.as_deref().is_some_and(|source| MACHINE_SOURCES.contains(&source));
        self.prompt.as_deref().filter(|prompt| !is_machine && is_typed(prompt.trim()))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawHookInput<'a> {
    #[serde(borrow)]
    session_id: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    transcript_path: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    cwd: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    prompt: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    source: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    trigger: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    compact_summary: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    reason: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    agent_transcript_path: Lenient<Cow<'a, str>>,
    #[serde(borrow)]
    tool_name: Lenient<Cow<'a, str>>,
    tool_input: Value,
}

lenient_object!(RawHookInput<'a>);

impl HookInput {
    /// Parses the input from stdin.
    ///
    /// # Errors
    /// If it is not a JSON object.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        // A list would be taken for the fields in their order.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(serde::de::Error::custom("it is no JSON object"));
        }
        let bytes = replace_lone_surrogates(bytes);
        let raw: RawHookInput<'_> = serde_json::from_slice(&bytes)?;
        let text = |field: Lenient<Cow<'_, str>>| field.0.map(Cow::into_owned).filter(|text| !text.is_empty());
        Ok(Self {
            session: text(raw.session_id),
            transcript: text(raw.transcript_path).map(PathBuf::from),
            cwd: text(raw.cwd).map(PathBuf::from),
            // What is private goes to the model, and nowhere else.
            prompt: text(raw.prompt).map(|prompt| without_private(&prompt)).filter(|prompt| !prompt.is_empty()),
            source: text(raw.source),
            trigger: text(raw.trigger),
            compact_summary: text(raw.compact_summary),
            reason: text(raw.reason),
            agent_transcript: text(raw.agent_transcript_path).map(PathBuf::from),
            tool: text(raw.tool_name),
            tool_input: raw.tool_input,
        })
    }
}
