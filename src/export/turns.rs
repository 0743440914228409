//! Reads stored turns into exported ones, with the work of the sub-agents that they started.

use std::collections::HashMap;

use rayon::prelude::*;

use super::conversation::{Agent, ExportedConversation, ExportedMessage, ExportedTurn, MessageBody, messages};
use ctxbridge_archive::store::{SegmentReader, Session, StoreError, StoreReader, StoredTurn, TurnSelection};
use ctxbridge_archive::{handle, turn_text};
use ctxbridge_transcript::SideTexts;

/// Number of turns whose bytes are in memory at once.
const TURNS_PER_BATCH: usize = 64;

/// Maximum depth of sub-agents that start sub-agents. The work of deeper ones is listed after the conversation.
const MAX_AGENT_DEPTH: usize = 8;

impl ExportedConversation {
    /// Reads the newest state of a session.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn read(store: &mut dyn StoreReader, session: &Session, thinking: bool) -> Result<Self, StoreError> {
        let turns = store.turns(session.key, TurnSelection::All)?;
        Self::of_turns(store, session, &turns, thinking)
    }

    /// Reads these turns of a session, which are one conversation.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn of_turns(
        store: &mut dyn StoreReader,
        session: &Session,
        turns: &[StoredTurn],
        thinking: bool,
    ) -> Result<Self, StoreError> {
        let before = match turns.first() {
            Some(first) => read_before(store, session, first, thinking)?,
            None => Vec::new(),
        };
        let agents = store.turns(session.key, TurnSelection::Agents)?;
        let (turns, agents) = read(store, turns, &agents, thinking)?;
        Ok(Self {
            session: session.session.clone(),
            title: session.title.clone(),
            state: None,
            folder: session.folder.clone(),
            model: session.model.clone(),
            version: session.version.clone(),
            before,
            turns,
            agents,
        })
    }
}

/// Reads turns, and the work of the sub-agents `agents`. Returns the work that no call of these turns has started apart.
///
/// # Errors
/// If the store cannot be read.
pub fn read(
    store: &mut dyn SegmentReader,
    turns: &[StoredTurn],
    agents: &[StoredTurn],
    thinking: bool,
) -> Result<(Vec<ExportedTurn>, Vec<Agent>), StoreError> {
    let main = read_all(store, turns, false, thinking)?;
    let work = read_all(store, agents, true, thinking)?;
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
        attach_agents(&mut messages, &mut waiting, 0);
        ExportedTurn { messages, ..without_messages(stored) }
    });
    let turns = turns.collect();
    let mut rest = Vec::new();
    for agent in by_id {
        if let Some(mut agent) = waiting.remove(&agent.id) {
            attach_agents(&mut agent.messages, &mut waiting, 1);
            rest.push(agent);
        }
    }
    Ok((turns, rest))
}

/// Reads the summary that a conversation begins with, if it continues another one. The start of a transcript belongs to no turn.
///
/// # Errors
/// If the store cannot be read.
pub fn read_before(
    store: &mut dyn SegmentReader,
    session: &Session,
    first: &StoredTurn,
    thinking: bool,
) -> Result<Vec<ExportedMessage>, StoreError> {
    let bytes = bytes(store, first, (0, first.turn.start))?;
    let mut before = messages(&bytes, &SideTexts::of_session(&session.session), false, thinking);
    // Only a summary there is a part of the conversation.
    before.retain(|message| matches!(message.body, MessageBody::Summary(_)));
    Ok(before)
}

/// Returns all that is known of a turn without reading its bytes.
pub fn without_messages(stored: &StoredTurn) -> ExportedTurn {
    let turn = &stored.turn;
    ExportedTurn {
        index: turn.index,
        is_rewound: stored.is_rewound,
        handle: handle::turn_handle(&turn.id),
        started_ms: turn.started_ms,
        ended_ms: turn.ended_ms,
        context_tokens: turn.context_tokens,
        output_tokens: turn.output_tokens,
        tools: turn.tools.clone(),
        files: turn.files.clone(),
        content_sha256: Some(turn.content_sha256),
        messages: Vec::new(),
    }
}

fn bytes(store: &mut dyn SegmentReader, turn: &StoredTurn, range: (u64, u64)) -> Result<Vec<u8>, StoreError> {
    store.read_shown(turn.transcript, turn.generation, range)
}

/// Reads the messages of each of these turns. The archive is read one turn at a time; lines are parsed in parallel.
fn read_all(
    store: &mut dyn SegmentReader,
    turns: &[StoredTurn],
    of_agent: bool,
    thinking: bool,
) -> Result<Vec<Vec<ExportedMessage>>, StoreError> {
    let mut all = Vec::with_capacity(turns.len());
    for some in turns.chunks(TURNS_PER_BATCH) {
        let raw = some.iter().map(|turn| {
            let bytes = bytes(store, turn, (turn.turn.start, turn.turn.end))?;
            let beside = turn_text::side_texts(store, turn, &bytes, u64::MAX)?;
            Ok::<_, StoreError>((bytes, beside))
        });
        let raw = raw.collect::<Result<Vec<_>, _>>()?;
        all.par_extend(raw.par_iter().map(|(bytes, beside)| messages(bytes, beside, of_agent, thinking)));
    }
    Ok(all)
}

/// Moves the work of sub-agents to the calls that started them.
fn attach_agents(messages: &mut [ExportedMessage], waiting: &mut HashMap<String, Agent>, depth: usize) {
    if depth >= MAX_AGENT_DEPTH {
        return;
    }
    for message in messages {
        let MessageBody::Call(call) = &mut message.body else { continue };
        for agent in &mut call.agents {
            if let Some(found) = waiting.remove(&agent.id) {
                *agent = found;
            }
            attach_agents(&mut agent.messages, waiting, depth + 1);
        }
        // One whose work is not archived, or stands elsewhere.
        call.agents.retain(|agent| !agent.messages.is_empty());
    }
}
