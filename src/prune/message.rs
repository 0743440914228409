//! Reading Claude Code's internal messages. Anything may be missing or of another type:
//! foreign data is not an error, it is ignored.

use serde_json::Value;

use ctxbridge_transcript as transcript;

/// `message.content` of a user or assistant message: the conversation that the API sees.
/// Other types (`system`, `attachment`, `progress`, …) have none in this sense.
pub(super) fn conversation_content(message: &Value) -> Option<&Value> {
    let is_conversation = is_type(message, "user") || is_type(message, "assistant");
    is_conversation.then(|| message.get("message")?.get("content")).flatten()
}

/// The texts of a message that the model or a person said, by the index of their block: its content, or that of its `text` blocks.
pub(super) fn plain_texts(message: &Value) -> Vec<(usize, &str)> {
    match conversation_content(message) {
        Some(Value::String(text)) => vec![(0, text)],
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().enumerate().filter(|(_, block)| is_type(block, "text"));
            texts.filter_map(|(index, block)| Some((index, block.get("text")?.as_str()?))).collect()
        }
        _ => Vec::new(),
    }
}

/// Replaces one of the [`plain_texts`].
pub(super) fn set_plain_text(message: &mut Value, block: usize, text: String) {
    let content = &mut message["message"]["content"];
    let place = if content.is_string() { content } else { &mut content[block]["text"] };
    *place = text.into();
}

/// Text at the start of each digest.
pub const DIGEST_BEGIN: &str = "[earlier context folded: ";

/// `true` if a human turn starts here. Tool results are user messages too, and so are digests that stayed after a compaction, but nobody
/// typed them.
pub(super) fn is_human_prompt(message: &Value) -> bool {
    is_type(message, "user")
        && !is_synthetic(message)
        && match conversation_content(message) {
            Some(Value::String(text)) => !text.starts_with(DIGEST_BEGIN),
            Some(Value::Array(blocks)) => {
                let is_digest = |text: &Value| text.as_str().is_some_and(|text| text.starts_with(DIGEST_BEGIN));
                let is_none =
                    |block: &Value| is_type(block, "tool_result") || (is_type(block, "text") && is_digest(&block["text"]));
                !blocks.iter().any(is_none)
            }
            _ => false,
        }
}

/// `true` if a human turn starts here that stays whole: its prompt says `#keep`.
pub(super) fn is_pinning_prompt(message: &Value) -> bool {
    is_human_prompt(message) && plain_texts(message).into_iter().any(|(_, text)| transcript::asks_to_pin(text))
}

/// `true` if the client wrote this message, rather than a person or the model.
pub(super) fn is_synthetic(message: &Value) -> bool {
    ["isMeta", "isCompactSummary"].iter().any(|flag| message.get(flag).is_some_and(is_truthy))
}

/// Arguments of tools that write files, which can hold whole files, in the order of their numbers.
const LARGE_ARGUMENTS: [&str; 4] = ["content", "old_string", "new_string", "new_source"];
/// The argument that holds several edits, and the fields of each that are numbered after [`LARGE_ARGUMENTS`].
const EDITS: &str = "edits";
const EDIT_ARGUMENTS: [&str; 2] = ["old_string", "new_string"];
/// The tools that have these arguments.
const WRITERS: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];

/// The large texts of a block, each with its number if the block can have several. They are those of `text` blocks, of tool results, and
/// the large inputs of tools that write.
pub(super) fn texts_of_block(block: &Value) -> Vec<(Option<usize>, &str)> {
    let field = |name: &str| block.get(name).unwrap_or(&Value::Null);
    match field("type").as_str() {
        Some("text") => field("text").as_str().map(|text| (None, text)).into_iter().collect(),
        Some("tool_result") => match field("content") {
            Value::String(text) => vec![(None, text)],
            Value::Array(parts) => {
                let parts = parts.iter().enumerate().filter(|(_, part)| is_type(part, "text"));
                parts.filter_map(|(index, part)| Some((Some(index), part.get("text")?.as_str()?))).collect()
            }
            _ => Vec::new(),
        },
        Some("tool_use") if field("name").as_str().is_some_and(|name| WRITERS.contains(&name)) => texts_of_input(field("input")),
        _ => Vec::new(),
    }
}

/// All texts of a block: the large ones, with their numbers, and what else a call says, without.
pub(super) fn all_texts_of_block(block: &Value) -> Vec<(Option<usize>, &str)> {
    let mut texts = texts_of_block(block);
    if is_type(block, "tool_use") {
        let cut: Vec<*const u8> = texts.iter().map(|(_, text)| text.as_ptr()).collect();
        let mut all = Vec::new();
        strings(block.get("input").unwrap_or(&Value::Null), &mut all);
        texts.extend(all.into_iter().filter(|text| !cut.contains(&text.as_ptr())).map(|text| (None, text)));
    }
    texts
}

fn strings<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, found)),
        _ => {}
    }
}

/// The large arguments of a tool that writes: `content` is number 0, `old_string` 1, `new_string` 2, `new_source` 3; of the n-th of
/// `edits`, `old_string` is 4 + 2n and `new_string` 5 + 2n.
fn texts_of_input(input: &Value) -> Vec<(Option<usize>, &str)> {
    let numbers =
        0..LARGE_ARGUMENTS.len() + EDIT_ARGUMENTS.len() * input.get(EDITS).and_then(Value::as_array).map_or(0, Vec::len);
    numbers.filter_map(|number| Some((Some(number), input.pointer(&argument(number))?.as_str()?))).collect()
}

/// Location of an argument in the input, as a JSON pointer.
fn argument(number: usize) -> String {
    match number.checked_sub(LARGE_ARGUMENTS.len()) {
        None => format!("/{}", LARGE_ARGUMENTS[number]),
        Some(number) => format!("/{EDITS}/{}/{}", number / EDIT_ARGUMENTS.len(), EDIT_ARGUMENTS[number % EDIT_ARGUMENTS.len()]),
    }
}

pub(super) fn is_type(value: &Value, name: &str) -> bool {
    value.get("type").is_some_and(|found| found == name)
}

/// `true` if a value is truthy in JavaScript, which is how the client reads its flags.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Returns a text of a message, by the index of its block and its number there. The texts of a tool's result are one, without a number.
pub fn text_at(message: &Value, block_index: usize, part: Option<usize>) -> Option<String> {
    let texts = match conversation_content(message)? {
        Value::String(text) => return (block_index == 0 && part.is_none()).then(|| text.clone()),
        Value::Array(blocks) => texts_of_block(blocks.get(block_index)?),
        _ => return None,
    };
    let wanted: Vec<&str> =
        texts.into_iter().filter(|(number, _)| part.is_none() || *number == part).map(|(_, text)| text).collect();
    (!wanted.is_empty()).then(|| wanted.join("\n"))
}
