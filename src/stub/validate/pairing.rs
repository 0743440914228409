//! Tool calls and their results: every call is answered once, at the start of the next message.
//!
//! The API merges neighboring messages of one role before it checks, and so does this. Its rule
//! "immediately after" is narrow: results must come before any text of the answering message, and
//! calls after any text of the calling one. A recorded exchange shows `[tool_use, text]` refused
//! although the result follows.

use std::collections::HashSet;

use serde_json::Value;

use super::{ValidationResult, refuse};

/// The part of a block that matters for pairing, with the indexes of its message and of itself.
struct PairingBlock<'a> {
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
struct OpenCalls<'a> {
    ids: Vec<&'a str>,
    /// Index of the message with the last of them.
    message: usize,
}

/// Checks the pairing in `messages`, whose shape was checked before.
pub(super) fn check(messages: &[Value]) -> ValidationResult {
    let mut seen = HashSet::new();
    let mut open = OpenCalls::default();
    // Roles alternate between these groups, so the calls that are open at a user's group are those
    // of the group right before it.
    for group in messages_by_role(messages) {
        if group.assistant {
            open = calls(&group.parts, &mut seen)?;
        } else {
            answers(&group.parts, &open)?;
            open = OpenCalls::default();
        }
    }
    all_answered(&open, &HashSet::new())
}

fn calls<'a>(parts: &[PairingBlock<'a>], seen: &mut HashSet<&'a str>) -> Result<OpenCalls<'a>, super::Violation> {
    let mut open = OpenCalls::default();
    for part in parts {
        match part.kind {
            PartKind::Call(id) if !seen.insert(id) => {
                let PairingBlock { message, block, .. } = part;
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

fn answers(parts: &[PairingBlock<'_>], open: &OpenCalls<'_>) -> ValidationResult {
    let leading = parts.iter().map_while(|part| match part.kind {
        PartKind::Result(id) => Some(id),
        _ => None,
    });
    all_answered(open, &leading.collect())?;

    let mut answered = HashSet::new();
    for PairingBlock { kind, message, block } in parts {
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

fn all_answered(open: &OpenCalls<'_>, answered: &HashSet<&str>) -> ValidationResult {
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

/// Neighboring messages of one role, as the API merges them.
struct RoleGroup<'a> {
    assistant: bool,
    parts: Vec<PairingBlock<'a>>,
}

fn messages_by_role(messages: &[Value]) -> Vec<RoleGroup<'_>> {
    let mut groups: Vec<RoleGroup<'_>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let assistant = message["role"] == "assistant";
        let parts = parts(message, index);
        match groups.last_mut() {
            Some(group) if group.assistant == assistant => group.parts.extend(parts),
            _ => groups.push(RoleGroup { assistant, parts }),
        }
    }
    groups
}

fn parts(message: &Value, index: usize) -> Vec<PairingBlock<'_>> {
    let part = |kind, block| PairingBlock { kind, message: index, block };
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
