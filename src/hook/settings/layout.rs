//! How new text looks in a file: as the text around it does.

use std::ops::Range;

use serde_json::Value;

/// A file's habits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout<'a> {
    newline: &'a str,
    /// One step of indentation.
    unit: &'a str,
    colon: &'a str,
    comma: &'a str,
    /// Whether the top level is one line.
    one_line: bool,
}

/// How the items of one container are set.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Setting {
    /// Each on a line of its own, with this before it.
    Lines(String),
    OneLine,
}

/// Text to insert, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Splice {
    pub at: Range<usize>,
    pub text: String,
}

impl<'a> Layout<'a> {
    /// Of a text whose top-level object has these items. What cannot be told is as the client writes it.
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

    /// A new file.
    pub fn of_new_file() -> Self {
        Self::of("", 0..0, &[])
    }

    /// A value on lines of its own.
    pub fn whole(&self, value: &Value) -> String {
        let mut text = String::new();
        self.print(value, &Setting::Lines(String::new()), &mut text);
        text + self.newline
    }

    /// Puts `new` behind the items of a container, which is an object when they have keys.
    pub fn append(&self, text: &str, container: Range<usize>, items: &[Range<usize>], new: &[(Option<&str>, Value)]) -> Splice {
        let Some(last) = items.last() else { return self.fill(text, container, new) };
        let setting = match alone_on_line(text, container.start, last.start) {
            Some(indent) => Setting::Lines(indent.to_owned()),
            None => Setting::OneLine,
        };
        let mut inserted = String::new();
        for item in new {
            match &setting {
                Setting::Lines(indent) => inserted += &format!(",{}{indent}", self.newline),
                Setting::OneLine => inserted += separator(text, items).unwrap_or(self.comma),
            }
            self.print_item(item, &setting, &mut inserted);
        }
        Splice { at: last.end..last.end, text: inserted }
    }

    /// Puts `new` into an empty container; the white space in it stays.
    fn fill(&self, text: &str, container: Range<usize>, new: &[(Option<&str>, Value)]) -> Splice {
        let inside = container.start + 1..container.end - 1;
        let outer = indent_of_line(text, container.start);
        let closed_on_its_line = !text[inside.clone()].contains('\n');
        let mut inserted = String::new();
        if self.one_line && closed_on_its_line {
            for (index, item) in new.iter().enumerate() {
                inserted += if index == 0 { "" } else { self.comma };
                self.print_item(item, &Setting::OneLine, &mut inserted);
            }
        } else {
            let setting = Setting::Lines(format!("{outer}{}", self.unit));
            self.print_items(new, &setting, &mut inserted);
            if closed_on_its_line {
                inserted += &format!("{}{outer}", self.newline);
            }
        }
        Splice { at: inside.start..inside.start, text: inserted }
    }

    fn print_items(&self, items: &[(Option<&str>, Value)], setting: &Setting, out: &mut String) {
        for (index, item) in items.iter().enumerate() {
            match setting {
                Setting::Lines(indent) => *out += &format!("{}{}{indent}", if index == 0 { "" } else { "," }, self.newline),
                Setting::OneLine => *out += if index == 0 { "" } else { self.comma },
            }
            self.print_item(item, setting, out);
        }
    }

    fn print_item(&self, (key, value): &(Option<&str>, Value), setting: &Setting, out: &mut String) {
        if let Some(key) = key {
            *out += &string(key);
            *out += self.colon;
        }
        self.print(value, setting, out);
    }

    fn print(&self, value: &Value, setting: &Setting, out: &mut String) {
        let (open, close, items): (_, _, Vec<(Option<&str>, Value)>) = match value {
            Value::Object(map) => ('{', '}', map.iter().map(|(key, value)| (Some(key.as_str()), value.clone())).collect()),
            Value::Array(list) => ('[', ']', list.iter().map(|value| (None, value.clone())).collect()),
            Value::String(text) => return *out += &string(text),
            other => return *out += &other.to_string(),
        };
        out.push(open);
        let inner = match setting {
            Setting::Lines(indent) => Setting::Lines(format!("{indent}{}", self.unit)),
            Setting::OneLine => Setting::OneLine,
        };
        self.print_items(&items, &inner, out);
        if let Setting::Lines(indent) = setting.clone() {
            *out += &format!("{}{indent}", self.newline);
        }
        out.push(close);
    }
}

/// A string as JSON.
pub(super) fn string(text: &str) -> String {
    Value::from(text).to_string()
}

/// What stands between the last two items.
fn separator<'a>(text: &'a str, items: &[Range<usize>]) -> Option<&'a str> {
    let [.., before, last] = items else { return None };
    Some(&text[before.end..last.start])
}

/// The white space before an item that begins its line inside its container.
fn alone_on_line(text: &str, container: usize, item: usize) -> Option<&str> {
    let before = &text[container..item];
    let line = &before[before.rfind('\n')? + 1..];
    line.chars().all(|character| " \t\r".contains(character)).then_some(line)
}

/// The white space that the line of a position begins with.
fn indent_of_line(text: &str, position: usize) -> &str {
    let begin = text[..position].rfind('\n').map_or(0, |at| at + 1);
    let line = &text[begin..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Whether a property, as text, has no space behind its key.
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
