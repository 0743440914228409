/*!
A conversation as it is shown: turns, in each of them what was said and done, in order.

A tool call has its result, and the work of the sub-agents that it started. Lines that are no conversation (bookkeeping, what the
client adds by itself) are left out, thinking as well unless it is asked for; the transcript itself has them (`archive restore`).
*/

use std::collections::HashMap;

use rayon::prelude::*;
use serde_json::Value;

use super::visible;
use ctxbridge_archive::store::{Session, Store, StoreError, StoredTurn, Turns};
use ctxbridge_archive::{context, quote};
use ctxbridge_common::digest;
use ctxbridge_transcript::{Block, Content, Kind, Record, as_typed, records};

/// Turns whose bytes are in memory at once.
const AT_ONCE: usize = 64;

/// Sub-agents start sub-agents; deeper than this, their work is listed beside the conversation.
const DEEPEST: usize = 8;

/// Characters of a turn's title.
const TITLE_CHARS: usize = 100;

/// A conversation, or a part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// The client's id of the session.
    pub session: String,
    /// Which state of it, in words; nothing for the newest.
    pub state: Option<String>,
    /// The folder that the client worked in.
    pub folder: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// The client's version.
    pub version: Option<String>,
    /// What stands before the first turn: the summary of a conversation that this one goes on from.
    pub before: Vec<Message>,
    /// In order.
    pub turns: Vec<Turn>,
    /// Work of sub-agents whose call is not in the conversation.
    pub agents: Vec<Agent>,
}

/// A human prompt, and everything up to the next one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Its place in the conversation, from 0.
    pub index: u32,
    /// `ctx:1a2b3c4d`.
    pub handle: String,
    /// When it began, in milliseconds since 1970; 0 where no line says.
    pub started_ms: i64,
    /// When it ended.
    pub ended_ms: i64,
    /// Size of the context at its last answer, in tokens.
    pub context_tokens: Option<u64>,
    /// Tokens of its answers.
    pub output_tokens: u64,
    /// Tools used, in order of first use.
    pub tools: Vec<String>,
    /// Files read or written, as the tools were told.
    pub files: Vec<String>,
    /// SHA-256 of its content in the archive; nothing for a part of a turn.
    pub content_sha256: Option<digest::Bytes>,
    /// What was said and done.
    pub messages: Vec<Message>,
}

/// Something that was said or done.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// When it was written, in milliseconds since 1970; 0 where no line says.
    pub at_ms: i64,
    /// What.
    pub body: Body,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A human typed it; in a sub-agent's work, what it was told.
    Prompt(Vec<Part>),
    /// The model said it, in Markdown.
    Answer(Vec<Part>),
    /// The model thought it.
    Thinking(String),
    /// The model called a tool.
    Call(Box<Call>),
    /// What a tool returned whose call is not here.
    Result(Outcome),
    /// A command of the client and what it printed, or an interruption.
    Note(Vec<Part>),
    /// The summary that took the place of what precedes.
    Summary(String),
    /// Work of a sub-agent that older clients wrote into the same file, and whose call is not here.
    Agent(Agent),
}

/// A piece of what is said.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// Something else: an image, a document.
    Other(StandIn),
}

/// What is known of a block that is no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandIn {
    /// Its type: `image`, `document`.
    pub kind: String,
    /// Its media type, where it says one.
    pub media: Option<String>,
    /// Its bytes, where they are in the transcript.
    pub bytes: Option<u64>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its id; empty where it has none.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What it was given.
    pub input: Value,
    /// What it returned; nothing when there is no result.
    pub outcome: Option<Outcome>,
    /// Sub-agents that worked for it.
    pub agents: Vec<Agent>,
}

/// What a tool returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When, in milliseconds since 1970; 0 where no line says.
    pub at_ms: i64,
    /// Whether it is an error.
    pub is_error: bool,
    /// What it says.
    pub parts: Vec<Part>,
}

/// The work of a sub-agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent {
    /// Its id; empty where its work stands in the conversation's own file.
    pub id: String,
    /// What it was told, said and did.
    pub messages: Vec<Message>,
}

impl Conversation {
    /// Reads a session as it is now.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn read(store: &mut dyn Store, session: &Session, thinking: bool) -> Result<Self, StoreError> {
        let turns = store.turns(session.key, Turns::All)?;
        Self::of_turns(store, session, &turns, thinking)
    }

    /// Reads these turns of a session, which are one conversation.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn of_turns(store: &mut dyn Store, session: &Session, turns: &[StoredTurn], thinking: bool) -> Result<Self, StoreError> {
        let mut before = Vec::new();
        if let Some(first) = turns.first() {
            let bytes = bytes(store, first, (0, first.turn.start))?;
            before = messages(&bytes, false, thinking);
            // The begin of a transcript belongs to no turn; of what stands there only a summary is a part of the conversation.
            before.retain(|message| matches!(message.body, Body::Summary(_)));
        }
        let main = read_all(store, turns, false, thinking)?;
        let agents = store.turns(session.key, Turns::Agents)?;
        let work = read_all(store, &agents, true, thinking)?;
        let mut by_id: Vec<Agent> = Vec::new();
        for (agent, messages) in agents.iter().zip(work) {
            let id = agent.agent.clone().unwrap_or_default();
            match by_id.iter_mut().find(|known| known.id == id) {
                Some(known) => known.messages.extend(messages),
                None => by_id.push(Agent { id, messages }),
            }
        }
        let mut waiting: HashMap<String, Agent> = by_id.iter().map(|agent| (agent.id.clone(), agent.clone())).collect();
        let turns = turns.iter().zip(main).map(|(stored, mut messages)| {
            place(&mut messages, &mut waiting, 0);
            let turn = &stored.turn;
            Turn {
                index: turn.index,
                handle: context::handle(&turn.id),
                started_ms: turn.started_ms,
                ended_ms: turn.ended_ms,
                context_tokens: turn.context_tokens,
                output_tokens: turn.output_tokens,
                tools: turn.tools.clone(),
                files: turn.files.clone(),
                content_sha256: Some(turn.content_sha256),
                messages,
            }
        });
        let turns = turns.collect();
        let mut agents = Vec::new();
        for agent in by_id {
            if let Some(mut agent) = waiting.remove(&agent.id) {
                place(&mut agent.messages, &mut waiting, 1);
                agents.push(agent);
            }
        }
        Ok(Self {
            session: session.session.clone(),
            state: None,
            folder: session.folder.clone(),
            model: session.model.clone(),
            version: session.version.clone(),
            before,
            turns,
            agents,
        })
    }

    /// When it began, in milliseconds since 1970.
    pub fn first_ms(&self) -> Option<i64> {
        self.turns.iter().map(|turn| turn.started_ms).find(|ms| *ms > 0)
    }

    /// When it ended.
    pub fn last_ms(&self) -> Option<i64> {
        self.turns.iter().rev().map(|turn| turn.ended_ms).find(|ms| *ms > 0)
    }

    /// Compactions in it.
    pub fn compactions(&self) -> usize {
        let all = self.before.iter().chain(self.turns.iter().flat_map(|turn| &turn.messages));
        all.filter(|message| matches!(message.body, Body::Summary(_))).count()
    }
}

impl Turn {
    /// What it was asked, in one line; empty where nobody asked.
    pub fn title(&self) -> String {
        let prompt = self.messages.iter().find_map(|message| match &message.body {
            Body::Prompt(parts) => Some(texts(parts).collect::<Vec<_>>().join(" ")),
            _ => None,
        });
        let prompt = prompt.unwrap_or_default();
        let typed = visible::text(as_typed(quote::head(&prompt, 100 * TITLE_CHARS)).trim()).into_owned();
        quote::cut(&typed.split_whitespace().collect::<Vec<_>>().join(" "), TITLE_CHARS)
    }
}

impl Agent {
    /// What it was told first, in one line.
    pub fn title(&self) -> String {
        Turn { messages: self.messages.iter().take(1).cloned().collect(), ..Turn::default() }.title()
    }
}

/// The texts among these parts.
pub fn texts(parts: &[Part]) -> impl Iterator<Item = &str> {
    parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Other(_) => None,
    })
}

impl StandIn {
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

fn bytes(store: &mut dyn Store, turn: &StoredTurn, range: (u64, u64)) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    store.raw(turn.transcript, turn.generation, range, &mut bytes)?;
    Ok(bytes)
}

/// What each of these turns has. Reading the archive is one at a time, reading lines is not.
fn read_all(
    store: &mut dyn Store,
    turns: &[StoredTurn],
    of_agent: bool,
    thinking: bool,
) -> Result<Vec<Vec<Message>>, StoreError> {
    let mut all = Vec::with_capacity(turns.len());
    for some in turns.chunks(AT_ONCE) {
        let raw = some.iter().map(|turn| bytes(store, turn, (turn.turn.start, turn.turn.end)));
        let raw = raw.collect::<Result<Vec<_>, _>>()?;
        all.par_extend(raw.par_iter().map(|bytes| messages(bytes, of_agent, thinking)));
    }
    Ok(all)
}

/// Puts sub-agents where their call is.
fn place(messages: &mut [Message], waiting: &mut HashMap<String, Agent>, depth: usize) {
    if depth >= DEEPEST {
        return;
    }
    for message in messages {
        let Body::Call(call) = &mut message.body else { continue };
        for agent in &mut call.agents {
            if let Some(found) = waiting.remove(&agent.id) {
                *agent = found;
            }
            place(&mut agent.messages, waiting, depth + 1);
        }
        // One whose work is not archived, or stands elsewhere.
        call.agents.retain(|agent| !agent.messages.is_empty());
    }
}

/// What lines say, in order.
fn messages(bytes: &[u8], of_agent: bool, thinking: bool) -> Vec<Message> {
    let mut reader = Reader { thinking, of_agent, ..Reader::default() };
    let mut side: Option<Reader> = None;
    records(bytes, &mut |record| {
        if record.is_sidechain() && !of_agent {
            side.get_or_insert_with(|| Reader { thinking, of_agent: true, ..Reader::default() }).take(record);
            return;
        }
        let call = reader.take(record);
        // Older clients write a sub-agent's lines before the result of its call, which is the end of its work.
        if let Some(call) = call.filter(|at| reader.is_agent(*at))
            && let Some(side) = side.take()
            && let Some(Message { body: Body::Call(call), .. }) = reader.messages.get_mut(call)
        {
            call.agents.push(Agent { id: String::new(), messages: side.messages });
        }
    });
    if let Some(side) = side {
        let at_ms = side.messages.first().map_or(0, |message| message.at_ms);
        reader.messages.push(Message { at_ms, body: Body::Agent(Agent { id: String::new(), messages: side.messages }) });
    }
    reader.messages
}

#[derive(Default)]
struct Reader {
    of_agent: bool,
    thinking: bool,
    messages: Vec<Message>,
    /// Where the calls are that have no result yet, by id.
    open: HashMap<String, usize>,
    now_ms: i64,
}

impl Reader {
    /// Takes a line, and says which call it brings the result of.
    fn take(&mut self, record: &Record<'_>) -> Option<usize> {
        self.now_ms = record.timestamp().unwrap_or(self.now_ms);
        let Some(content) = record.content() else {
            if let Some(prompt) = record.queued_prompt() {
                self.push(Body::Prompt(parts(prompt)));
            }
            return None;
        };
        match record.kind() {
            Kind::Prompt => self.push(Body::Prompt(parts(content))),
            Kind::Added if self.of_agent => self.push(Body::Prompt(parts(content))),
            Kind::Echo => self.push(Body::Note(parts(content))),
            Kind::CompactSummary => self.push(Body::Summary(content.texts().collect::<Vec<_>>().join("\n"))),
            Kind::Answer => match content {
                Content::Text(text) => self.push(Body::Answer(vec![Part::Text(text.to_string())])),
                Content::Blocks(blocks) => blocks.iter().for_each(|block| self.answer(block)),
            },
            Kind::ToolResults => {
                let mut answered = None;
                for block in content.blocks() {
                    answered = self.result(block, record).or(answered);
                }
                return answered;
            }
            Kind::Added | Kind::CompactBoundary | Kind::Bookkeeping => {}
        }
        None
    }

    fn push(&mut self, body: Body) {
        self.messages.push(Message { at_ms: self.now_ms, body });
    }

    fn answer(&mut self, block: &Block<'_>) {
        if let Some((tool, input)) = block.tool_call() {
            let id = block.call_id().unwrap_or_default().to_owned();
            if !id.is_empty() {
                self.open.insert(id.clone(), self.messages.len());
            }
            // What is nested too deeply to be read is shown as it is.
            let input = serde_json::from_str(input).unwrap_or_else(|_| Value::String(input.to_owned()));
            self.push(Body::Call(Box::new(Call { id, tool: tool.to_owned(), input, outcome: None, agents: Vec::new() })));
        } else if block.is("thinking") {
            if let Some(text) = block.thinking().filter(|text| self.thinking && !text.is_empty()) {
                self.push(Body::Thinking(text.to_owned()));
            }
        } else if !block.is("redacted_thinking") {
            self.push(Body::Answer(vec![part(block)]));
        }
    }

    fn result(&mut self, block: &Block<'_>, record: &Record<'_>) -> Option<usize> {
        let Some((content, is_error)) = block.tool_result() else {
            self.push(Body::Prompt(vec![part(block)]));
            return None;
        };
        let outcome = Outcome { at_ms: self.now_ms, is_error, parts: content.as_ref().map(parts).unwrap_or_default() };
        let at = block.answers().and_then(|id| self.open.remove(id));
        match at.and_then(|at| self.messages.get_mut(at)) {
            Some(Message { body: Body::Call(call), .. }) => {
                call.outcome = Some(outcome);
                // Its work is in a file of its own, and comes later.
                call.agents.extend(record.agent_id().map(|id| Agent { id: id.to_owned(), messages: Vec::new() }));
            }
            _ => self.push(Body::Result(outcome)),
        }
        at
    }

    fn is_agent(&self, at: usize) -> bool {
        let body = self.messages.get(at).map(|message| &message.body);
        matches!(body, Some(Body::Call(call)) if matches!(call.tool.as_str(), "Task" | "Agent"))
    }
}

fn parts(content: &Content<'_>) -> Vec<Part> {
    match content {
        Content::Text(text) => vec![Part::Text(text.to_string())],
        Content::Blocks(blocks) => blocks.iter().map(part).collect(),
    }
}

fn part(block: &Block<'_>) -> Part {
    block.text().map_or_else(|| Part::Other(stand_in(block)), |text| Part::Text(text.to_owned()))
}

fn stand_in(block: &Block<'_>) -> StandIn {
    #[derive(serde::Deserialize)]
    struct Source {
        media_type: Option<String>,
        data: Option<String>,
    }
    let source = block.source().and_then(|source| serde_json::from_str::<Source>(source).ok());
    let (media, data) = source.map_or((None, None), |source| (source.media_type, source.data));
    // Base64: 4 characters for 3 bytes.
    let bytes = data.map(|data| data.trim_end_matches('=').len() as u64 * 3 / 4);
    StandIn { kind: block.kind().to_owned(), media, bytes }
}
