//! What is worth seeing of a tool call, whatever it is written as.

use std::borrow::Cow;

use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

use super::code::Language;
use super::conversation::Call;
use super::visible;
use ctxbridge_archive::quote;

/// Characters of a call's line.
const ABOUT_CHARS: usize = 120;

/// To compare texts takes as long as both have lines, times each other; longer ones are shown one behind the other.
const COMPARED: usize = 1_000_000;

/// A piece of a call's input.
pub(super) enum Shown<'c> {
    /// A file that is changed.
    File(&'c str),
    /// What it is for, in the model's words.
    Purpose(&'c str),
    /// Code.
    Code(Cow<'c, str>, Option<Language>),
    /// A text, and what takes its place.
    Change(&'c str, &'c str),
}

/// What a call is about, in one line.
pub(super) fn about(call: &Call) -> Option<String> {
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

/// The input of a call, the way that suits its tool.
pub(super) fn shown(call: &Call) -> Vec<Shown<'_>> {
    let Some(input) = call.input.as_object() else { return vec![json(&call.input)] };
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let file = text("file_path");
    let mut blocks = Vec::new();
    let mut used: Vec<&str> = Vec::new();
    if let (Some(old), Some(new)) = (text("old_string"), text("new_string")) {
        blocks.extend(file.map(Shown::File));
        blocks.push(Shown::Change(old, new));
        used.extend(["file_path", "old_string", "new_string"]);
    } else if let (Some(file), Some(edits)) = (file, edits(input)) {
        blocks.push(Shown::File(file));
        blocks.extend(edits.into_iter().map(|(old, new)| Shown::Change(old, new)));
        used.extend(["file_path", "edits"]);
    } else if let (Some(file), Some(content)) = (file, text("content")) {
        blocks.push(Shown::File(file));
        blocks.push(Shown::Code(content.into(), Language::of_file(file)));
        used.extend(["file_path", "content"]);
    } else if let Some(command) = text("command") {
        blocks.extend(text("description").map(Shown::Purpose));
        blocks.push(Shown::Code(command.into(), Some(Language::SHELL)));
        used.extend(["command", "description"]);
    } else if let (Some(file), "Read") = (file, call.tool.as_str()) {
        blocks.push(Shown::File(file));
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

/// The language of what a call returned: that of the file that was read.
pub(super) fn language_of(call: &Call) -> Option<Language> {
    let is_text = call.tool == "Read" && call.outcome.as_ref().is_some_and(|outcome| !outcome.is_error);
    Language::of_file(call.input.get("file_path")?.as_str()?).filter(|_| is_text)
}

/// Several changes of a file, when all are changes.
fn edits(input: &Map<String, Value>) -> Option<Vec<(&str, &str)>> {
    let edits = input.get("edits")?.as_array()?.iter();
    let edits = edits.map(|edit| Some((edit.get("old_string")?.as_str()?, edit.get("new_string")?.as_str()?)));
    edits.collect::<Option<Vec<_>>>().filter(|edits| !edits.is_empty())
}

fn json(value: &Value) -> Shown<'static> {
    Shown::Code(serde_json::to_string_pretty(value).unwrap_or_default().into(), Some(Language::JSON))
}

/// The lines of a change, without their ends.
pub(super) fn changes(old: &str, new: &str) -> Vec<(ChangeTag, String)> {
    let (before, after) = (old.lines().count(), new.lines().count());
    let whole = |tag, text: &str| text.lines().map(|line| (tag, line.to_owned())).collect::<Vec<_>>();
    if before * after > COMPARED {
        return [whole(ChangeTag::Delete, old), whole(ChangeTag::Insert, new)].concat();
    }
    let line = |text: &str| text.strip_suffix('\n').unwrap_or(text).to_owned();
    let diff = TextDiff::from_lines(old, new);
    diff.iter_all_changes().map(|change| (change.tag(), line(change.value()))).collect()
}
