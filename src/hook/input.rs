//! What the client tells a hook on stdin.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use ctxbridge_transcript::lenient::{Lenient, lenient_object};
use ctxbridge_transcript::whole_characters;

/// The input of any event, as far as it is used. Anything may be missing or of another type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Input {
    /// The session.
    pub session: Option<String>,
    /// Its transcript.
    pub transcript: Option<PathBuf>,
    /// The folder that the client works in.
    pub cwd: Option<PathBuf>,
    /// What the user typed.
    pub prompt: Option<String>,
    /// Why a session starts: startup, resume, clear, compact.
    pub source: Option<String>,
    /// What causes a compaction: auto, manual.
    pub trigger: Option<String>,
    /// The summary that a compaction made.
    pub compact_summary: Option<String>,
    /// Why a session ends.
    pub reason: Option<String>,
    /// The transcript of a sub-agent that is done.
    pub agent_transcript: Option<PathBuf>,
    /// The tool that is about to run, or has run.
    pub tool: Option<String>,
    /// What it is called with; null where nothing is said.
    pub tool_input: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Raw<'a> {
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

lenient_object!(Raw<'a>);

impl Input {
    /// Reads what stood on stdin.
    ///
    /// # Errors
    /// When it is no JSON object.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        // A list would be taken for the fields in their order.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(serde::de::Error::custom("it is no JSON object"));
        }
        let bytes = whole_characters(bytes);
        let raw: Raw<'_> = serde_json::from_slice(&bytes)?;
        let text = |field: Lenient<Cow<'_, str>>| field.0.map(Cow::into_owned).filter(|text| !text.is_empty());
        Ok(Self {
            session: text(raw.session_id),
            transcript: text(raw.transcript_path).map(PathBuf::from),
            cwd: text(raw.cwd).map(PathBuf::from),
            prompt: text(raw.prompt),
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
