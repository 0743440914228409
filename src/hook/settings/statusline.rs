//! The status line in the client's settings: `"statusLine": {"type": "command", "command": "… statusline"}`.

use std::path::Path;

use serde_json::{Value, json};

use super::HookSettingsError;
use super::command::{is_statusline, quoted};
use super::document::{DocumentError, SettingsDocument, decode, span};
use super::edit::{cuts, spliced};
use super::editor::Editor;
use super::file::SettingsFile;
use super::layout::{JsonStyle, Splice};

/// The key in the client's settings.
const KEY: &str = "statusLine";
/// The end of our command.
const COMMAND: &str = " statusline";

/// The status line that settings name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatuslineState {
    /// None.
    Absent,
    /// Ours.
    Ours,
    /// Another program's, by its command.
    Other(String),
}

/// Finds out which status line a settings file names. A file that does not exist names none.
///
/// # Errors
/// If it cannot be read, or the client could not read it.
pub fn statusline_state(file: &Path) -> Result<StatuslineState, HookSettingsError> {
    let current = SettingsFile::read(file)?;
    state_of(current.bytes()).map_err(|cause| HookSettingsError::Document { path: current.path.clone(), cause })
}

fn state_of(bytes: &[u8]) -> Result<StatuslineState, DocumentError> {
    let (_, text) = decode(bytes)?;
    let document = SettingsDocument::parse(text)?;
    let keys = document.root.iter().flat_map(|root| &root.properties).filter(|property| property.name.as_str() == KEY);
    if keys.count() > 1 {
        return Err(DocumentError::Twice(KEY.to_owned()));
    }
    let root: Value = serde_json::from_str(text).unwrap_or_default();
    let Some(line) = root.get(KEY).filter(|line| !line.is_null()) else { return Ok(StatuslineState::Absent) };
    let command = line.get("command").and_then(Value::as_str).unwrap_or_default();
    Ok(if is_statusline(command) { StatuslineState::Ours } else { StatuslineState::Other(command.to_owned()) })
}

/// Adds our status line to settings that have none. Settings with one stay as they are.
fn added(bytes: &[u8], program: &str) -> Result<Vec<u8>, DocumentError> {
    if state_of(bytes)? != StatuslineState::Absent {
        return Ok(bytes.to_owned());
    }
    let (mark, text) = decode(bytes)?;
    let document = SettingsDocument::parse(text)?;
    let program = quoted(program, cfg!(windows));
    let line = json!({ "type": "command", "command": format!("{program}{COMMAND}") });
    let result = match &document.root {
        None => JsonStyle::of_new_file().whole(&json!({ KEY: line })),
        // A null is replaced: two keys of one name would be one too many.
        Some(root) if root.get(KEY).is_some() => text.to_owned(),
        Some(root) => {
            let items: Vec<_> = root.properties.iter().map(span).collect();
            let style = JsonStyle::of(text, span(root), &items);
            spliced(text, vec![style.append(text, span(root), &items, &[(Some(KEY), line)])])
        }
    };
    Ok([mark, &result].concat().into_bytes())
}

/// Removes our status line. All else stays, byte for byte.
fn removed(bytes: &[u8]) -> Result<Vec<u8>, DocumentError> {
    if state_of(bytes)? != StatuslineState::Ours {
        return Ok(bytes.to_owned());
    }
    let (mark, text) = decode(bytes)?;
    let document = SettingsDocument::parse(text)?;
    let Some(root) = &document.root else { return Ok(bytes.to_owned()) };
    let gone: Vec<bool> = root.properties.iter().map(|property| property.name.as_str() == KEY).collect();
    let cut = cuts(span(root), root.properties.iter().map(span), &gone);
    let result = spliced(text, cut.into_iter().map(|at| Splice { at, text: String::new() }).collect());
    Ok([mark, &result].concat().into_bytes())
}

impl Editor<'_> {
    /// Adds our status line, run by `program`. Returns `false` if there is one already, ours or another's, which stays.
    ///
    /// # Errors
    /// If the file cannot be read or written, or the client could not read it; nothing is changed then.
    pub fn add_statusline(&self, named: &Path, program: &str, private: bool) -> Result<bool, HookSettingsError> {
        self.edit(named, private, |bytes| added(bytes, program))
    }

    /// Removes our status line. Returns `false` if there was none.
    ///
    /// # Errors
    /// As [`Self::add_statusline`].
    pub fn remove_statusline(&self, named: &Path) -> Result<bool, HookSettingsError> {
        self.edit(named, true, removed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_status_line_comes_and_goes() {
        for before in ["{}", "{\n  \"model\": \"opus\"\n}\n", "{\"a\": 1, \"b\": [2]}", "\u{feff}{\n\t\"x\": {}\n}", "{\n}"] {
            let with = added(before.as_bytes(), "/opt/bin/ctxbridge").unwrap();
            assert_eq!(state_of(&with).unwrap(), StatuslineState::Ours, "{}", text(&with));
            assert_eq!(added(&with, "/opt/bin/ctxbridge").unwrap(), with, "once");
            let without = removed(&with).unwrap();
            let meant = |bytes: &[u8]| serde_json::from_str::<Value>(text(bytes).trim_start_matches('\u{feff}')).unwrap();
            assert_eq!(meant(&without), meant(before.as_bytes()), "{before}");
        }
        let before = "{\n  \"model\": \"opus\",\n  \"theme\": \"dark\"\n}\n";
        assert_eq!(text(&removed(&added(before.as_bytes(), "ctxbridge").unwrap()).unwrap()), before, "byte for byte");
    }

    #[test]
    fn a_line_of_another_program_stays() {
        let other = br#"{"statusLine": {"type": "command", "command": "ccstatusline"}}"#;
        assert_eq!(state_of(other).unwrap(), StatuslineState::Other("ccstatusline".into()));
        assert_eq!(added(other, "ctxbridge").unwrap(), other);
        assert_eq!(removed(other).unwrap(), other);
        for command in
            ["tee log | ctxbridge statusline", "ctxbridge statusline; x", "ctxbridge hook stop", "xctxbridge statusline"]
        {
            assert!(!is_statusline(command), "{command}");
        }
        assert!(is_statusline("'/a b/ctxbridge' statusline --color never"));
        assert!(state_of(br#"{"statusLine": 1, "statusLine": 2}"#).is_err());
        let quoted = added(b"{}", "/home/a b/ctxbridge").unwrap();
        assert_eq!(state_of(&quoted).unwrap(), StatuslineState::Ours, "{}", text(&quoted));
    }

    proptest! {
        #[test]
        fn any_settings_come_back(keys in proptest::collection::btree_map("[a-z]{1,5}", 0..9_u8, 1..5), spaced in any::<bool>()) {
            let value = serde_json::to_value(&keys).unwrap();
            let before = if spaced { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let with = added(before.as_bytes(), "ctxbridge").unwrap();
            prop_assert_eq!(state_of(&with).unwrap(), StatuslineState::Ours);
            let without = removed(&with).unwrap();
            prop_assert_eq!(text(&without), before);
        }
    }
}
