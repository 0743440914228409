//! Text of a settings file, with the positions of the hooks in it.

use std::borrow::Cow;
use std::ops::Range;

use jsonc_parser::ast::{Array, Object, ObjectProp, ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::de::IgnoredAny;

use super::command;
use super::wiring::WIRED;
use crate::hook::Event;

/// Errors in the text of a settings file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The bytes are not text.
    #[error("it is not UTF-8; save it as UTF-8")]
    NotUtf8,
    /// The text is not JSON as the client reads it: comments and trailing commas are errors for it, too.
    #[error(
        "it is not valid JSON ({0}), so the client ignores it, too; correct it there. JSON allows no comments and no trailing commas"
    )]
    Json(String),
    /// A value of another type than the client expects.
    #[error("`{what}` is no {expected}, so that the client ignores the file; correct it")]
    Shape {
        /// Position, as keys joined with dots.
        what: String,
        /// Expected type.
        expected: &'static str,
    },
    /// A key occurs twice: the client sees only the last.
    #[error("`{0}` occurs twice, and the client reads only the last; merge the two")]
    Twice(String),
    /// The result of an edit is not as required.
    #[error("the edit would change more than the hooks of ctxbridge, which is a bug; please report it")]
    Unsound,
}

/// Hook of ours that was found in the text.
#[derive(Debug, Clone)]
pub(super) struct FoundHook {
    /// The event of its command.
    pub event: Event,
    /// The program of its command.
    pub program: String,
    /// The command, as a line for a shell also where it has the exec form.
    pub command: String,
    /// Index of the property with the arguments, in the exec form, and their position.
    pub args: Option<(usize, Range<usize>)>,
    /// Position of the hook, and those of its properties.
    pub handler_at: (Range<usize>, Vec<Range<usize>>),
    /// Text after the command's own three words.
    pub rest: String,
    /// Key under which it was found.
    pub under: String,
    /// Index of its group under that key, and of the hook in that group.
    pub index: (usize, usize),
    /// Position of the string with the command.
    pub command_at: Range<usize>,
    /// Timeout in seconds, with its position.
    pub timeout: Option<(f64, Range<usize>)>,
    /// Matcher of the group, with its position.
    pub matcher: Option<(String, Range<usize>)>,
    /// `true` if the group has nothing but hooks of ours and at most a matcher.
    pub is_alone: bool,
}

impl FoundHook {
    /// `true` if it is under its own event.
    pub fn is_at_home(&self) -> bool {
        self.under == self.event.name()
    }
}

/// A parsed settings file.
#[derive(Debug)]
pub(super) struct SettingsDocument<'a> {
    pub text: &'a str,
    /// The top-level object; `None` in an empty file.
    pub root: Option<Object<'a>>,
}

/// Decodes a file into its byte order mark and its text.
pub(super) fn decode(bytes: &[u8]) -> Result<(&str, &str), DocumentError> {
    let text = std::str::from_utf8(bytes).map_err(|_| DocumentError::NotUtf8)?;
    Ok(text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }))
}

impl<'a> SettingsDocument<'a> {
    /// Parses a text without byte order mark. Keys that matter here must not occur twice.
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

    /// Returns the property `hooks`.
    pub fn hooks(&self) -> Option<&ObjectProp<'a>> {
        self.root.as_ref()?.get("hooks")
    }

    /// Returns the events in `hooks`.
    pub fn events(&self) -> &[ObjectProp<'a>] {
        self.hooks().and_then(|hooks| hooks.value.as_object()).map_or(&[], |hooks| &hooks.properties)
    }

    /// Returns a boolean at the top level, if it is set.
    pub fn flag(&self, name: &str) -> Option<bool> {
        Some(last(self.root.as_ref()?, name)?.as_boolean_lit()?.value)
    }

    /// Checks that everything has the type that the client expects; otherwise it ignores the whole file.
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

    /// Returns our hooks, in the order of the text.
    pub fn ours(&self) -> Vec<FoundHook> {
        let mut found = Vec::new();
        self.each_command(|found_at, handler, command| found.extend(ours(found_at, handler, command)));
        found
    }

    /// Returns commands that contain ctxbridge, but do more than run a hook of ours.
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
                        tell((event, group, (group_index, index)), handler, &command);
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
) -> Option<FoundHook> {
    let ours = command::parse(command)?;
    let timeout = last(handler, "timeout").and_then(Value::as_number_lit);
    Some(FoundHook {
        event: ours.event,
        program: ours.program,
        command: command.to_owned(),
        rest: ours.rest.to_owned(),
        args: last_at(handler, "args").map(|(at, value)| (at, span(value))),
        handler_at: (span(handler), handler.properties.iter().map(span).collect()),
        under: event.name.as_str().to_owned(),
        index,
        command_at: last(handler, "command").map(span)?,
        timeout: timeout.and_then(|number| Some((number.value.parse().ok()?, span(number)))),
        matcher: last(group, "matcher").and_then(Value::as_string_lit).map(|text| (text.value.to_string(), span(text))),
        is_alone: is_shell(group, &event.name) && handlers(group)?.elements.iter().all(is_ours),
    })
}

/// `true` if a group has nothing but its list of hooks, and a matcher only under an event for which we write one.
pub(super) fn is_shell(group: &Object<'_>, event: &ObjectPropName<'_>) -> bool {
    let may_match = restricts(event.as_str());
    group.properties.iter().all(|property| match property.name.as_str() {
        "hooks" => true,
        "matcher" => may_match,
        _ => false,
    }) && group.properties.len() <= 2
}

/// `true` if our hook of this event has a matcher.
pub(super) fn restricts(event: &str) -> bool {
    WIRED.iter().any(|wiring| wiring.event.name() == event && wiring.matcher.is_some())
}

fn is_ours(handler: &Value<'_>) -> bool {
    handler.as_object().and_then(command_of).is_some_and(|command| command::parse(&command).is_some())
}

/// Returns the command of a handler, if it has one, as a line for a shell.
fn command_of<'b>(handler: &'b Object<'_>) -> Option<Cow<'b, str>> {
    let string = |key| last(handler, key).and_then(Value::as_string_lit).map(|text| text.value.as_ref());
    let command: &str = string("command").filter(|_| string("type") == Some("command"))?;
    let Some(args) = last(handler, "args") else { return Some(command.into()) };
    let args = args.as_array()?.elements.iter().map(|word| Some(word.as_string_lit()?.value.to_string()));
    Some(command::line(command, &args.collect::<Option<Vec<_>>>()?).into())
}

/// Returns the hooks of a group.
pub(super) fn handlers<'a, 'b>(group: &'b Object<'a>) -> Option<&'b Array<'a>> {
    last(group, "hooks")?.as_array()
}

/// Returns the last value of a key: it is the one that counts if the key occurs more than once.
fn last<'a, 'b>(object: &'b Object<'a>, name: &str) -> Option<&'b Value<'a>> {
    last_at(object, name).map(|(_, value)| value)
}

/// The same, with the property's index.
fn last_at<'a, 'b>(object: &'b Object<'a>, name: &str) -> Option<(usize, &'b Value<'a>)> {
    let at = object.properties.iter().rposition(|property| property.name.as_str() == name)?;
    Some((at, &object.properties[at].value))
}

fn once(object: &Object<'_>, name: &str, prefix: &str) -> Result<(), DocumentError> {
    match object.properties.iter().filter(|property| property.name.as_str() == name).count() {
        0 | 1 => Ok(()),
        _ => Err(DocumentError::Twice(format!("{prefix}{name}"))),
    }
}

/// Returns the byte range of a node.
pub(super) fn span(node: &impl Ranged) -> Range<usize> {
    let range = node.range();
    range.start..range.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        SettingsDocument::parse(text).and_then(|document| document.check_shape()).expect_err("an error").to_string()
    }

    #[test]
    fn what_the_client_would_not_read_is_refused() {
        insta::assert_snapshot!(error("{\n  \"hooks\": {},\n}"), @"it is not valid JSON (key must be a string at line 3 column 1), so the client ignores it, too; correct it there. JSON allows no comments and no trailing commas");
        insta::assert_snapshot!(error("{} // mine"), @"it is not valid JSON (trailing characters at line 1 column 4), so the client ignores it, too; correct it there. JSON allows no comments and no trailing commas");
        insta::assert_snapshot!(error("[]"), @"`the file` is no object, so that the client ignores the file; correct it");
        insta::assert_snapshot!(error(r#"{"hooks": []}"#), @"`hooks` is no object, so that the client ignores the file; correct it");
        insta::assert_snapshot!(error(r#"{"hooks": {"Stop": null}}"#), @"`hooks.Stop` is no list, so that the client ignores the file; correct it");
        insta::assert_snapshot!(error(r#"{"hooks": {"Stop": [{"matcher": ""}]}}"#), @"`hooks.Stop[0].hooks` is no list, so that the client ignores the file; correct it");
        insta::assert_snapshot!(error(r#"{"hooks": {}, "hooks": {}}"#), @"`hooks` occurs twice, and the client reads only the last; merge the two");
        insta::assert_snapshot!(error(r#"{"hooks": {"Stop": [], "St\u006fp": []}}"#), @"`hooks.Stop` occurs twice, and the client reads only the last; merge the two");
        assert_eq!(decode(b"\xff\xfe{\0}\0"), Err(DocumentError::NotUtf8));
        let deep = error(&("[".repeat(100_000) + &"]".repeat(100_000)));
        assert!(deep.contains("nesting depth"), "{deep}");
    }
}
