//! Style of JSON text in a file, so that new text looks like the text around it.

use std::ops::Range;

use serde_json::Value;

/// JSON style of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonStyle<'a> {
    newline: &'a str,
    /// One step of indentation.
    unit: &'a str,
    colon: &'a str,
    comma: &'a str,
    /// `true` if the top level is on one line.
    one_line: bool,
}

/// Placement of the items of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ItemPlacement {
    /// Each on its own line, with this indentation.
    Lines(String),
    OneLine,
}

/// Text to insert, with the range that it replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Splice {
    pub at: Range<usize>,
    pub text: String,
}

impl<'a> JsonStyle<'a> {
    /// Detects the style of a text whose top-level object has these items. Defaults are those of the client.
    pub fn of(text: &'a str, root: Range<usize>, items: &[Range<usize>]) -> Self {
        let newline = match text.find('\n') {
            Some(at) if text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        };
        let inside = &text[root.clone()];
        let one_line = !inside.contains('\n') && !items.is_empty();
        let own = indent_of_line(text, root.start);
        let unit = items.first().and_then(|item| alone_on_line(text, root.start, item.start)?.strip_prefix(own));
        let colon = if items.first().is_some_and(|item| colon_is_tight(&text[item.clone()])) { ":" } else { ": " };
        let comma = separator(text, items).filter(|comma| !comma.contains('\n'));
        let comma = comma.unwrap_or(if colon == ":" { "," } else { ", " });
        Self { newline, unit: unit.filter(|unit| !unit.is_empty()).unwrap_or("  "), colon, comma, one_line }
    }

    /// Style of a new file.
    pub fn of_new_file() -> Self {
        Self::of("", 0..0, &[])
    }

    /// Formats a value over several lines.
    pub fn whole(&self, value: &Value) -> String {
        let mut text = String::new();
        self.print(value, &ItemPlacement::Lines(String::new()), &mut text);
        text + self.newline
    }

    /// Appends `new` to the items of a container, which is an object if they have keys.
    pub fn append(&self, text: &str, container: Range<usize>, items: &[Range<usize>], new: &[(Option<&str>, Value)]) -> Splice {
        let Some(last) = items.last() else { return self.fill(text, container, new) };
        let setting = match alone_on_line(text, container.start, last.start) {
            Some(indent) => ItemPlacement::Lines(indent.to_owned()),
            None => ItemPlacement::OneLine,
        };
        let mut inserted = String::new();
        for item in new {
            match &setting {
                ItemPlacement::Lines(indent) => inserted += &format!(",{}{indent}", self.newline),
                ItemPlacement::OneLine => inserted += separator(text, items).unwrap_or(self.comma),
            }
            self.print_item(item, &setting, &mut inserted);
        }
        Splice { at: last.end..last.end, text: inserted }
    }

    /// Inserts `new` into an empty container; the white space in it stays.
    fn fill(&self, text: &str, container: Range<usize>, new: &[(Option<&str>, Value)]) -> Splice {
        let inside = container.start + 1..container.end - 1;
        let outer = indent_of_line(text, container.start);
        let closed_on_its_line = !text[inside.clone()].contains('\n');
        let mut inserted = String::new();
        if self.one_line && closed_on_its_line {
            for (index, item) in new.iter().enumerate() {
                inserted += if index == 0 { "" } else { self.comma };
                self.print_item(item, &ItemPlacement::OneLine, &mut inserted);
            }
        } else {
            let setting = ItemPlacement::Lines(format!("{outer}{}", self.unit));
            self.print_items(new, &setting, &mut inserted);
            if closed_on_its_line {
                inserted += &format!("{}{outer}", self.newline);
            }
        }
        Splice { at: inside.start..inside.start, text: inserted }
    }

    fn print_items(&self, items: &[(Option<&str>, Value)], setting: &ItemPlacement, out: &mut String) {
        for (index, item) in items.iter().enumerate() {
            match setting {
                ItemPlacement::Lines(indent) => *out += &format!("{}{}{indent}", if index == 0 { "" } else { "," }, self.newline),
                ItemPlacement::OneLine => *out += if index == 0 { "" } else { self.comma },
            }
            self.print_item(item, setting, out);
        }
    }

    fn print_item(&self, (key, value): &(Option<&str>, Value), setting: &ItemPlacement, out: &mut String) {
        if let Some(key) = key {
            *out += &string(key);
            *out += self.colon;
        }
        self.print(value, setting, out);
    }

    fn print(&self, value: &Value, setting: &ItemPlacement, out: &mut String) {
        let (open, close, items): (_, _, Vec<(Option<&str>, Value)>) = match value {
            Value::Object(map) => ('{', '}', map.iter().map(|(key, value)| (Some(key.as_str()), value.clone())).collect()),
            Value::Array(list) => ('[', ']', list.iter().map(|value| (None, value.clone())).collect()),
            Value::String(text) => return *out += &string(text),
            other => return *out += &other.to_string(),
        };
        out.push(open);
        let inner = match setting {
            ItemPlacement::Lines(indent) => ItemPlacement::Lines(format!("{indent}{}", self.unit)),
            ItemPlacement::OneLine => ItemPlacement::OneLine,
        };
        self.print_items(&items, &inner, out);
        if let ItemPlacement::Lines(indent) = setting.clone() {
            *out += &format!("{}{indent}", self.newline);
        }
        out.push(close);
    }
}

/// Formats a string as JSON.
pub(super) fn string(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the text between the last two items.
fn separator<'a>(text: &'a str, items: &[Range<usize>]) -> Option<&'a str> {
    let [.., before, last] = items else { return None };
    Some(&text[before.end..last.start])
}

/// Returns the indentation of an item that is the first on its line inside its container.
fn alone_on_line(text: &str, container: usize, item: usize) -> Option<&str> {
    let before = &text[container..item];
    let line = &before[before.rfind('\n')? + 1..];
    line.chars().all(|character| " \t\r".contains(character)).then_some(line)
}

/// Returns the indentation of the line at a position.
fn indent_of_line(text: &str, position: usize) -> &str {
    let begin = text[..position].rfind('\n').map_or(0, |at| at + 1);
    let line = &text[begin..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// `true` if a property, as text, has no space after the colon.
fn colon_is_tight(property: &str) -> bool {
    let mut escaped = false;
    let end = property.char_indices().skip(1).find(|(_, character)| {
        let is_end = *character == '"' && !escaped;
        escaped = *character == '\\' && !escaped;
        is_end
    });
    let Some((end, _)) = end else { return false };
    property[end + 1..].trim_start().strip_prefix(':').is_some_and(|value| !value.starts_with([' ', '\t', '\r', '\n']))
}
