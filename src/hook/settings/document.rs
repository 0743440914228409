//! The text of a settings file, and where in it the hooks are.

use std::ops::Range;

use jsonc_parser::ast::{Array, Object, ObjectProp, ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::de::IgnoredAny;

use super::command;
use super::wiring::WIRED;
use crate::hook::Event;

/// A text that is not what the client reads settings from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Bytes that are no text.
    #[error("it is not UTF-8; save it as UTF-8")]
    NotUtf8,
    /// Not JSON as the client reads it: comments and trailing commas are errors to it, too.
    #[error(
        "it is not valid JSON ({0}), so that the client ignores it, too; correct it there. JSON has no comments and no trailing commas"
    )]
    Json(String),
    /// A value of another type than the client expects.
    #[error("`{what}` is no {expected}, so that the client ignores the file; correct it")]
    Shape {
        /// Where, as keys with dots between.
        what: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A key that is there twice: the client sees only the last.
    #[error("`{0}` is there twice, and the client sees only the last; put what is in both into one")]
    Twice(String),
    /// An edit whose result is not what it has to be.
    #[error("the edit would change more than the hooks of ctxbridge, which is a bug; please report it")]
    Unsound,
}

/// A hook of ours in the text.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The event of its command.
    pub event: Event,
    /// The program of its command.
    pub program: String,
    /// The command.
    pub command: String,
    /// What stands behind the command's own three words.
    pub rest: String,
    /// The key it stands under.
    pub under: String,
    /// Where among the groups of that key, and among the hooks of that group.
    pub index: (usize, usize),
    /// Where the string with the command is.
    pub command_at: Range<usize>,
    /// The number of seconds, and where it is.
    pub timeout: Option<(f64, Range<usize>)>,
    /// What the group is restricted to, and where that string is.
    pub matcher: Option<(String, Range<usize>)>,
    /// Whether the group has nothing but hooks of ours, and a matcher at most.
    pub is_alone: bool,
}

impl Found {
    /// Whether it stands under the event that it is for.
    pub fn is_at_home(&self) -> bool {
        self.under == self.event.name()
    }
}

/// A parsed settings file.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub text: &'a str,
    /// Nothing in an empty file.
    pub root: Option<Object<'a>>,
}

/// The text of a file, behind its byte order mark.
pub(super) fn decode(bytes: &[u8]) -> Result<(&str, &str), DocumentError> {
    let text = std::str::from_utf8(bytes).map_err(|_| DocumentError::NotUtf8)?;
    Ok(text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }))
}

impl<'a> Document<'a> {
    /// Parses a text without byte order mark. Keys that matter here have to be there once.
    pub fn parse(text: &'a str) -> Result<Self, DocumentError> {
        if text.trim_matches([' ', '\t', '\r', '\n']).is_empty() {
            return Ok(Self { text, root: None });
        }
        // What is JSON says a parser that knows nothing else; the other one knows where it stands.
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| DocumentError::Json(error.to_string()))?;
        let strict = ParseOptions {
            allow_comments: false,
            allow_loose_object_property_names: false,
            allow_trailing_commas: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        let parsed = parse_to_ast(text, &CollectOptions::default(), &strict);
        let value = parsed.map_err(|error| DocumentError::Json(error.to_string()))?.value;
        let root = match value {
            Some(Value::Object(root)) => root,
            _ => return Err(DocumentError::Shape { what: "the file".to_owned(), expected: "object" }),
        };
        once(&root, "hooks", "")?;
        if let Some(hooks) = root.get_object("hooks") {
            for property in &hooks.properties {
                once(hooks, property.name.as_str(), "hooks.")?;
            }
        }
        Ok(Self { text, root: Some(root) })
    }

    /// The property `hooks`.
    pub fn hooks(&self) -> Option<&ObjectProp<'a>> {
        self.root.as_ref()?.get("hooks")
    }

    /// The events in it.
    pub fn events(&self) -> &[ObjectProp<'a>] {
        self.hooks().and_then(|hooks| hooks.value.as_object()).map_or(&[], |hooks| &hooks.properties)
    }

    /// Whether a boolean at the top level is set.
    pub fn flag(&self, name: &str) -> Option<bool> {
        Some(last(self.root.as_ref()?, name)?.as_boolean_lit()?.value)
    }

    /// That everything is of the type that the client expects: of anything else it ignores the whole file.
    pub fn check_shape(&self) -> Result<(), DocumentError> {
        let wrong = |what: String, expected| DocumentError::Shape { what, expected };
        let Some(hooks) = self.hooks() else { return Ok(()) };
        hooks.value.as_object().ok_or_else(|| wrong("hooks".to_owned(), "object"))?;
        for event in self.events() {
            let name = format!("hooks.{}", event.name.as_str());
            let groups = event.value.as_array().ok_or_else(|| wrong(name.clone(), "list"))?;
            for (index, group) in groups.elements.iter().enumerate() {
                let name = format!("{name}[{index}]");
                let group = group.as_object().ok_or_else(|| wrong(name.clone(), "object"))?;
                handlers(group).ok_or_else(|| wrong(format!("{name}.hooks"), "list"))?;
            }
        }
        Ok(())
    }

    /// The hooks of ours, in the order of the text.
    pub fn ours(&self) -> Vec<Found> {
        let mut found = Vec::new();
        self.each_command(|found_at, handler, command| found.extend(ours(found_at, handler, command)));
        found
    }

    /// Commands that name ctxbridge, but are more than a hook of ours.
    pub fn related(&self) -> Vec<String> {
        let mut related = Vec::new();
        self.each_command(|_, _, command| {
            if command.contains("ctxbridge") && command::parse(command).is_none() {
                related.push(command.to_owned());
            }
        });
        related
    }

    fn each_command(&self, mut tell: impl FnMut((&ObjectProp<'_>, &Object<'_>, (usize, usize)), &Object<'_>, &str)) {
        for event in self.events() {
            for (group_index, group) in event.value.as_array().into_iter().flat_map(|groups| &groups.elements).enumerate() {
                let Some(group) = group.as_object() else { continue };
                for (index, handler) in handlers(group).into_iter().flat_map(|handlers| &handlers.elements).enumerate() {
                    let Some(handler) = handler.as_object() else { continue };
                    if let Some(command) = command_of(handler) {
                        tell((event, group, (group_index, index)), handler, command);
                    }
                }
            }
        }
    }
}

fn ours(
    (event, group, index): (&ObjectProp<'_>, &Object<'_>, (usize, usize)),
    handler: &Object<'_>,
    command: &str,
) -> Option<Found> {
    let ours = command::parse(command)?;
    let timeout = last(handler, "timeout").and_then(Value::as_number_lit);
    Some(Found {
        event: ours.event,
        program: ours.program,
        command: command.to_owned(),
        rest: ours.rest.to_owned(),
        under: event.name.as_str().to_owned(),
        index,
        command_at: last(handler, "command").map(span)?,
        timeout: timeout.and_then(|number| Some((number.value.parse().ok()?, span(number)))),
        matcher: last(group, "matcher").and_then(Value::as_string_lit).map(|text| (text.value.to_string(), span(text))),
        is_alone: is_shell(group, &event.name) && handlers(group)?.elements.iter().all(is_ours),
    })
}

/// Whether a group is no more than what stands around hooks of ours: with a matcher, only where we write one.
pub(super) fn is_shell(group: &Object<'_>, event: &ObjectPropName<'_>) -> bool {
    let may_match = restricts(event.as_str());
    group.properties.iter().all(|property| match property.name.as_str() {
        "hooks" => true,
        "matcher" => may_match,
        _ => false,
    }) && group.properties.len() <= 2
}

/// Whether ours are restricted to some tools under this key.
pub(super) fn restricts(event: &str) -> bool {
    WIRED.iter().any(|wiring| wiring.event.name() == event && wiring.matcher.is_some())
}

fn is_ours(handler: &Value<'_>) -> bool {
    handler.as_object().and_then(command_of).is_some_and(|command| command::parse(command).is_some())
}

/// What a handler runs, if it runs something.
fn command_of<'b>(handler: &'b Object<'_>) -> Option<&'b str> {
    let string = |key| last(handler, key).and_then(Value::as_string_lit).map(|text| text.value.as_ref());
    string("command").filter(|_| string("type") == Some("command"))
}

/// The hooks of a group.
pub(super) fn handlers<'a, 'b>(group: &'b Object<'a>) -> Option<&'b Array<'a>> {
    last(group, "hooks")?.as_array()
}

/// What a key means when it is there more than once.
fn last<'a, 'b>(object: &'b Object<'a>, name: &str) -> Option<&'b Value<'a>> {
    object.properties.iter().rev().find(|property| property.name.as_str() == name).map(|property| &property.value)
}

fn once(object: &Object<'_>, name: &str, prefix: &str) -> Result<(), DocumentError> {
    match object.properties.iter().filter(|property| property.name.as_str() == name).count() {
        0 | 1 => Ok(()),
        _ => Err(DocumentError::Twice(format!("{prefix}{name}"))),
    }
}

/// Where something is, in bytes.
pub(super) fn span(node: &impl Ranged) -> Range<usize> {
    let range = node.range();
    range.start..range.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Document::parse(text).and_then(|document| document.check_shape()).expect_err("an error").to_string()
    }

    #[test]
    fn what_the_client_would_not_read_is_refused() {
        insta::assert_snapshot!(error("{\n  \"hooks\": {},\n}"), @"it is not valid JSON (key must be a string at line 3 column 1), so that the client ignores it, too; correct it there. JSON has no comments and no trailing commas");
        insta::assert_snapshot!(error("{} // mine"), @"it is not valid JSON (trailing characters at line 1 column 4), so that the client ignores it, too; correct it there. JSON has no comments and no trailing commas");
        insta::assert_snapshot!(error("[]"), @"`the file` is no object, so that the client ignores the file; correct it");
        insta::assert_snapshot!(error(r#"{"hooks": []}"#), @"`hooks` is no object, so that the client ignores the file; correct it");
        insta::assert_snapshot!(error(r#"{"hooks": {"Stop": null}}"#), @"`hooks.Stop` is no list, so that the client ignores the file; correct it");
        insta::assert_snapshot!(error(r#"{"hooks": {"Stop": [{"matcher": ""}]}}"#), @"`hooks.Stop[0].hooks` is no list, so that the client ignores the file; correct it");
        insta::assert_snapshot!(error(r#"{"hooks": {}, "hooks": {}}"#), @"`hooks` is there twice, and the client sees only the last; put what is in both into one");
        insta::assert_snapshot!(error(r#"{"hooks": {"Stop": [], "St\u006fp": []}}"#), @"`hooks.Stop` is there twice, and the client sees only the last; put what is in both into one");
        assert_eq!(decode(b"\xff\xfe{\0}\0"), Err(DocumentError::NotUtf8));
        let deep = error(&("[".repeat(100_000) + &"]".repeat(100_000)));
        assert!(deep.contains("nesting depth"), "{deep}");
    }
}
