//! `session`

use rmcp::model::JsonObject;
use rmcp::schemars::JsonSchema;
use serde::Serialize;

use super::answer::ToolAnswer;
use super::error::ToolError;
use super::page::{self, ResultPage};
use super::{Library, NOTHING_YET, NOTICE, arguments, when};
use ctxbridge_archive::quote;
use ctxbridge_archive::store::{Session, SessionReader, StoreReader};

/// Maximum number of sessions that are named if an id is ambiguous.
const MAX_AMBIGUOUS_IDS: usize = 5;

/// The output of the tool: sessions with their metadata.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct SessionsOutput {
    /// The nature of this output.
    notice: &'static str,
    /// The sessions, the newest first.
    sessions: Vec<SessionItem>,
    /// Notes on the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Metadata of a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct SessionItem {
    /// The id, for `timeline` and `search`.
    pub session: String,
    /// The folder that the client worked in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Start of its first turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// End of its last turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// Number of turns.
    turns: u64,
    /// Number of sub-agents that worked for it.
    agents: u64,
    /// Number of compactions with a summary.
    compactions: usize,
    /// The model that answered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The client's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Size of the context at the last answer, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    context_tokens: Option<u64>,
    /// The client's reason for ending it, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    end_reason: Option<String>,
}

impl SessionItem {
    /// Looks up the metadata of a session.
    pub fn of(store: &mut dyn StoreReader, session: &Session) -> Result<Self, ToolError> {
        let size = store.session_stats(session.key)?;
        let quoted = |text: &Option<String>| text.as_deref().map(quote::line);
        Ok(Self {
            session: quote::line(&session.session),
            project: quoted(&session.folder),
            title: quoted(&session.title),
            first: session.first_ms.and_then(when),
            last: session.last_ms.and_then(when),
            turns: size.turns,
            agents: size.agents,
            compactions: store.summaries(session.key)?.len(),
            model: quoted(&session.model),
            version: quoted(&session.version),
            context_tokens: session.context_tokens,
            end_reason: quoted(&session.end_reason),
        })
    }

    /// Formats it as one line.
    pub fn line(&self) -> String {
        let mut line = format!("- {}", self.session);
        for (before, part) in [(" in ", &self.project), (", ", &self.first), (" to ", &self.last), (", model ", &self.model)] {
            if let Some(part) = part {
                line.push_str(before);
                line.push_str(part);
            }
        }
        for (count, what) in [(self.turns, "turns"), (self.agents, "sub-agents"), (self.compactions as u64, "compactions")] {
            if count > 0 {
                line.push_str(&format!(", {count} {what}"));
            }
        }
        if let Some(tokens) = self.context_tokens {
            line.push_str(&format!(", {tokens} tokens of context"));
        }
        if let Some(reason) = &self.end_reason {
            line.push_str(&format!(", ended: {reason}"));
        }
        if let Some(title) = &self.title {
            line.push_str(&format!(": {title}"));
        }
        line
    }
}

pub(super) fn run(library: &mut Library, given: &JsonObject) -> Result<ToolAnswer, ToolError> {
    let arguments: arguments::SessionArguments = arguments::read(given)?;
    let chars = page::budget_chars(arguments.max_tokens)?;
    let asked = arguments::request_key("session", given);
    let begin = page::page_start(&asked, arguments.cursor.as_deref())?;
    let Some(mut opened) = library.open()? else {
        let frame = SessionsOutput { notice: NOTICE, notes: vec![NOTHING_YET.to_owned()], ..SessionsOutput::default() };
        return ToolAnswer::new(NOTHING_YET.to_owned(), &frame);
    };
    let is_empty = opened.store.sessions("", None, 1)?.is_empty();
    if is_empty {
        opened.notes.push(NOTHING_YET.to_owned());
    }
    // Where there is none, no name can be wrong.
    let named = arguments.project.as_deref().filter(|_| !is_empty);
    let project = arguments::project(named, library, &mut *opened.store)?;
    let sessions = opened.store.sessions(arguments.session.as_deref().unwrap_or_default(), project.as_ref(), usize::MAX)?;

    let mut frame = SessionsOutput { notice: NOTICE, notes: opened.notes, ..SessionsOutput::default() };
    let mut head = if sessions.is_empty() { "No such session is archived.".to_owned() } else { NOTICE.to_owned() };
    page::add_notes(&mut head, &frame.notes);
    let mut page = ResultPage::new(chars, head, &frame);
    for session in sessions.iter().skip(begin) {
        let facts = SessionItem::of(&mut *opened.store, session)?;
        if !page.add(&facts.line(), facts) {
            break;
        }
    }
    let text;
    (text, frame.sessions, frame.next_cursor) = page.finish(&asked, begin, sessions.len());
    ToolAnswer::new(text, &frame)
}

/// Finds the only session whose id begins with `prefix`.
pub(super) fn find_session(store: &mut dyn SessionReader, name: &str, prefix: &str) -> Result<Session, ToolError> {
    let prefix = prefix.trim();
    if prefix.is_empty() {
        return Err(ToolError::invalid_argument(name, "it is empty; the tool `session` lists ids"));
    }
    if let Some(exact) = store.session(prefix)? {
        return Ok(exact);
    }
    let mut found = store.sessions(prefix, None, MAX_AMBIGUOUS_IDS)?;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            let ids: Vec<_> = found.iter().chain([&last]).map(|session| quote::line(&session.session)).collect();
            Err(ToolError::invalid_argument(name, format!("several sessions begin with it: {}", ids.join(", "))))
        }
        (None, _) => {
            Err(ToolError::NotFound(format!("no session begins with {}; the tool `session` lists them", quote::line(prefix))))
        }
    }
}
