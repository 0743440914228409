//! Check of an edited text before it is written: foreign parts must have the same meaning, and our hooks must be as wanted.
//!
//! It works on values, and shares only the recognition of our commands with the edits.

use serde_json::{Map, Value};

use super::command;
use super::document::{DocumentError, SettingsDocument, restricts};
use super::wiring::Hook;

pub(super) fn installed(before: &str, after: &str, wanted: &[Hook]) -> Result<(), DocumentError> {
    same_but_for_ours(before, after)?;
    let document = SettingsDocument::parse(after)?;
    document.check_shape()?;
    let ours = document.ours();
    let is_there = |hook: &&Hook| {
        ours.iter()
            .filter(|found| found.is_at_home() && found.event == hook.event && found.command.starts_with(&hook.command))
            .filter(|found| found.args.is_some() == hook.program.is_some() || !found.rest.is_empty())
            .filter(|found| {
                hook.matcher.is_none_or(|wanted| found.matcher.as_ref().is_some_and(|(matcher, _)| matcher == wanted))
            })
            .count()
            == 1
    };
    if ours.len() == wanted.len() && wanted.iter().filter(is_there).count() == wanted.len() {
        Ok(())
    } else {
        Err(DocumentError::Unsound)
    }
}

pub(super) fn uninstalled(before: &str, after: &str) -> Result<(), DocumentError> {
    same_but_for_ours(before, after)?;
    if SettingsDocument::parse(after)?.ours().is_empty() { Ok(()) } else { Err(DocumentError::Unsound) }
}

fn same_but_for_ours(before: &str, after: &str) -> Result<(), DocumentError> {
    if foreign(before)? == foreign(after)? { Ok(()) } else { Err(DocumentError::Unsound) }
}

/// Parses a text, without our hooks and the containers that they leave empty.
fn foreign(text: &str) -> Result<Value, DocumentError> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let mut value: Value = serde_json::from_str(text).map_err(|error| DocumentError::Json(error.to_string()))?;
    let Some(events) = value.get_mut("hooks").and_then(Value::as_object_mut) else { return Ok(value) };
    for (event, groups) in events.iter_mut() {
        let Some(groups) = groups.as_array_mut() else { continue };
        groups.retain_mut(|group| {
            let others = group.as_object().map_or(0, |group| group.keys().filter(|key| *key != "hooks").count());
            let Some(list) = group.get_mut("hooks").and_then(Value::as_array_mut) else { return true };
            let before = list.len();
            list.retain(|hook| {
                let text = |key: &str| hook.get(key).and_then(Value::as_str);
                let args = hook.get("args").map(|args| serde_json::from_value::<Vec<String>>(args.clone()));
                let line = match (text("command"), args) {
                    (Some(command), None) => Some(command.to_owned()),
                    (Some(command), Some(Ok(args))) => Some(command::line(command, &args)),
                    _ => None,
                };
                !(text("type") == Some("command") && line.is_some_and(|line| command::parse(&line).is_some()))
            });
            // A matcher that nothing of ours stood behind is the user's.
            let is_empty = list.is_empty();
            let was_ours = is_empty && before > 0 && others == 1 && restricts(event) && group.get("matcher").is_some();
            !(is_empty && others == 0 || was_ours)
        });
    }
    events.retain(|_, groups| !groups.as_array().is_some_and(Vec::is_empty));
    if events.is_empty()
        && let Some(root) = value.as_object_mut()
    {
        root.shift_remove("hooks");
    }
    Ok(value)
}
