//! The parts of a tool call to show, in every format.

use std::borrow::Cow;

use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

use super::code::CodeLanguage;
use super::conversation::ExportedCall;
use super::visible;
use ctxbridge_archive::quote;

/// Maximum characters of a call's summary.
const ABOUT_CHARS: usize = 120;

/// Maximum product of the line counts of two texts that are compared, since the time grows with it. Larger ones are shown in
/// sequence.
const MAX_CHANGE_LINE_PAIRS: usize = 1_000_000;

/// A piece of a call's input.
pub(super) enum InputBlock<'c> {
    /// A file that is changed or read.
    File(&'c str),
    /// The purpose, in the model's words.
    Purpose(&'c str),
    /// Code.
    Code(Cow<'c, str>, Option<CodeLanguage>),
    /// A text and its replacement.
    Change(&'c str, &'c str),
}

/// Summary of a call in one line.
pub fn call_summary(call: &ExportedCall) -> Option<String> {
    const TOLD: [&str; 12] = [
        "file_path",
        "notebook_path",
        "command",
        "pattern",
        "query",
        "url",
        "description",
        "path",
        "skill",
        "subject",
        "prompt",
        "name",
    ];
    let input = call.input.as_object()?;
    let told = TOLD.iter().find_map(|key| input.get(*key)?.as_str().filter(|text| !text.trim().is_empty()))?;
    let line = quote::head(told.trim(), 4 * ABOUT_CHARS).lines().next().unwrap_or_default();
    Some(quote::cut(&visible::text(line), ABOUT_CHARS))
}

/// The input of a call, in a form that suits its tool.
pub(super) fn input_blocks(call: &ExportedCall) -> Vec<InputBlock<'_>> {
    let Some(input) = call.input.as_object() else { return vec![json(&call.input)] };
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let file = text("file_path");
    let mut blocks = Vec::new();
    let mut used: Vec<&str> = Vec::new();
    if let (Some(old), Some(new)) = (text("old_string"), text("new_string")) {
        blocks.extend(file.map(InputBlock::File));
        blocks.push(InputBlock::Change(old, new));
        used.extend(["file_path", "old_string", "new_string"]);
    } else if let (Some(file), Some(edits)) = (file, edits(input)) {
        blocks.push(InputBlock::File(file));
        blocks.extend(edits.into_iter().map(|(old, new)| InputBlock::Change(old, new)));
        used.extend(["file_path", "edits"]);
    } else if let (Some(file), Some(content)) = (file, text("content")) {
        blocks.push(InputBlock::File(file));
        blocks.push(InputBlock::Code(content.into(), CodeLanguage::of_file(file)));
        used.extend(["file_path", "content"]);
    } else if let Some(command) = text("command") {
        blocks.extend(text("description").map(InputBlock::Purpose));
        blocks.push(InputBlock::Code(command.into(), Some(CodeLanguage::SHELL)));
        used.extend(["command", "description"]);
    } else if let (Some(file), "Read") = (file, call.tool.as_str()) {
        blocks.push(InputBlock::File(file));
        used.push("file_path");
    }
    let rest: Map<String, Value> = input
        .iter()
        .filter(|(key, value)| {
            let says_nothing = *key == "replace_all" && **value == Value::Bool(false);
            !says_nothing && !used.contains(&key.as_str())
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if blocks.is_empty() || !rest.is_empty() {
        blocks.push(json(&Value::Object(rest)));
    }
    blocks
}

/// The language of a call's result: that of the file that was read.
pub(super) fn language_of(call: &ExportedCall) -> Option<CodeLanguage> {
    let is_text = call.tool == "Read" && call.outcome.as_ref().is_some_and(|outcome| !outcome.is_error);
    CodeLanguage::of_file(call.input.get("file_path")?.as_str()?).filter(|_| is_text)
}

/// The edits of a file; none if any of them has another form.
fn edits(input: &Map<String, Value>) -> Option<Vec<(&str, &str)>> {
    let edits = input.get("edits")?.as_array()?.iter();
    let edits = edits.map(|edit| Some((edit.get("old_string")?.as_str()?, edit.get("new_string")?.as_str()?)));
    edits.collect::<Option<Vec<_>>>().filter(|edits| !edits.is_empty())
}

fn json(value: &Value) -> InputBlock<'static> {
    InputBlock::Code(serde_json::to_string_pretty(value).unwrap_or_default().into(), Some(CodeLanguage::JSON))
}

/// The lines of a change, without their line breaks.
pub(super) fn changed_lines(old: &str, new: &str) -> Vec<(ChangeTag, String)> {
    let (before, after) = (old.lines().count(), new.lines().count());
    let whole = |tag, text: &str| text.lines().map(|line| (tag, line.to_owned())).collect::<Vec<_>>();
    if before * after > MAX_CHANGE_LINE_PAIRS {
        return [whole(ChangeTag::Delete, old), whole(ChangeTag::Insert, new)].concat();
    }
    let line = |text: &str| text.strip_suffix('\n').unwrap_or(text).to_owned();
    let diff = TextDiff::from_lines(old, new);
    diff.iter_all_changes().map(|change| (change.tag(), line(change.value()))).collect()
}
