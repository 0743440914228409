//! Tool calls and their results: every call is answered once, at the start of the next message.
//!
//! The API merges neighbouring messages of one role before it looks, and so does this. What it
//! means by "immediately after" is narrower than it sounds: results have to stand before any text
//! of the answering message, and calls after any text of the calling one (a recorded exchange shows
//! `[tool_use, text]` refused although the result follows).

use std::collections::HashSet;

use serde_json::Value;

use super::{Verdict, refuse};

/// A block as far as pairing is concerned, with its message and place in it.
struct Part<'a> {
    kind: PartKind<'a>,
    message: usize,
    block: usize,
}

#[derive(Clone, Copy)]
enum PartKind<'a> {
    Call(&'a str),
    Result(&'a str),
    Text,
    Other,
}

/// The calls that the assistant's newest message leaves open.
#[derive(Default)]
struct Open<'a> {
    ids: Vec<&'a str>,
    /// The message that made the last of them.
    message: usize,
}

/// Checks the pairing in `messages`, whose shape is known to be right.
pub(super) fn check(messages: &[Value]) -> Verdict {
    let mut seen = HashSet::new();
    let mut open = Open::default();
    // Roles alternate between these groups, so the calls that are open at a user's group are those
    // of the group right before it.
    for group in messages_by_role(messages) {
        if group.assistant {
            open = calls(&group.parts, &mut seen)?;
        } else {
            answers(&group.parts, &open)?;
            open = Open::default();
        }
    }
    all_answered(&open, &HashSet::new())
}

fn calls<'a>(parts: &[Part<'a>], seen: &mut HashSet<&'a str>) -> Result<Open<'a>, super::Violation> {
    let mut open = Open::default();
    for part in parts {
        match part.kind {
            PartKind::Call(id) if !seen.insert(id) => {
                let Part { message, block, .. } = part;
                return refuse(format!("messages.{message}.content.{block}: `tool_use` ids must be unique"));
            }
            PartKind::Call(id) => {
                open.ids.push(id);
                open.message = part.message;
            }
            PartKind::Text => all_answered(&open, &HashSet::new())?,
            PartKind::Result(_) | PartKind::Other => {}
        }
    }
    Ok(open)
}

fn answers(parts: &[Part<'_>], open: &Open<'_>) -> Verdict {
    let leading = parts.iter().map_while(|part| match part.kind {
        PartKind::Result(id) => Some(id),
        _ => None,
    });
    all_answered(open, &leading.collect())?;

    let mut answered = HashSet::new();
    for Part { kind, message, block } in parts {
        let PartKind::Result(id) = *kind else {
            continue;
        };
        if !open.ids.contains(&id) {
            return refuse(format!(
                "messages.{message}.content.{block}: unexpected `tool_use_id` found in \
                 `tool_result` blocks: {id}. Each `tool_result` block must have a corresponding \
                 `tool_use` block in the previous message."
            ));
        }
        if !answered.insert(id) {
            return refuse(format!(
                "messages.{message}.content.{block}: each tool_use must have a single result. \
                 Found multiple `tool_result` blocks with id: {id}"
            ));
        }
    }
    Ok(())
}

fn all_answered(open: &Open<'_>, answered: &HashSet<&str>) -> Verdict {
    let missing: Vec<&str> = open.ids.iter().copied().filter(|id| !answered.contains(id)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    refuse(format!(
        "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. \
         Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        open.message,
        missing.join(", ")
    ))
}

/// Neighbouring messages of one role, as the API merges them.
struct Group<'a> {
    assistant: bool,
    parts: Vec<Part<'a>>,
}

fn messages_by_role(messages: &[Value]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let assistant = message["role"] == "assistant";
        let parts = parts(message, index);
        match groups.last_mut() {
            Some(group) if group.assistant == assistant => group.parts.extend(parts),
            _ => groups.push(Group { assistant, parts }),
        }
    }
    groups
}

fn parts(message: &Value, index: usize) -> Vec<Part<'_>> {
    let part = |kind, block| Part { kind, message: index, block };
    match &message["content"] {
        Value::Array(blocks) => {
            let kinds = blocks.iter().map(kind_of).enumerate();
            kinds.map(|(block, kind)| part(kind, block)).collect()
        }
        _ => vec![part(PartKind::Text, 0)],
    }
}

fn kind_of(block: &Value) -> PartKind<'_> {
    let id = |field| block[field].as_str().unwrap_or_default();
    match block["type"].as_str() {
        Some("tool_use") => PartKind::Call(id("id")),
        Some("tool_result") => PartKind::Result(id("tool_use_id")),
        Some("text") => PartKind::Text,
        _ => PartKind::Other,
    }
}
