/*!
Files beside the transcript that tool results point to.

The client writes a large result to a file in the session's own folder; the line has its path and the start of the text. Paths are
absolute, and the home in them may be another one by now, so that only what stands behind the session's id counts.
*/

use std::collections::HashMap;

use memchr::memmem;

use super::content::{pieces, records, trimmed};
use super::record::{Record, RecordKind};
use super::searchable_text::SearchableText;

/// Characters at the start of a result among which a path is looked for: it stands before the preview.
const LOOKED_THROUGH_CHARS: usize = 1_024;

/// Words that a path follows.
const BEFORE_PATH: &str = "saved to";

/// Texts of side files, by their paths in the session's own folder.
#[derive(Clone, Debug, Default)]
pub struct SideTexts<'s> {
    session: &'s str,
    texts: HashMap<String, String>,
}

impl<'s> SideTexts<'s> {
    /// Creates the texts of a session, without any.
    pub fn of_session(session: &'s str) -> Self {
        Self { session, texts: HashMap::new() }
    }

    /// `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Adds a text.
    pub fn add(&mut self, path: String, text: String) {
        self.texts.insert(path, text);
    }

    /// The texts of the files that a record points to, with their paths.
    pub fn of_record(&self, record: &Record<'_>) -> Vec<(String, &str)> {
        if self.texts.is_empty() {
            return Vec::new();
        }
        let paths = side_files_of_record(record, self.session).into_iter();
        paths.filter_map(|path| self.texts.get(&path).map(|text| (path, text.as_str()))).collect()
    }

    /// Returns the text of a turn, with that of the files that it points to behind each result.
    pub fn text_of(&self, bytes: &[u8]) -> String {
        let mut text = String::new();
        records(bytes, &mut |record| {
            pieces(record, record.kind(), &mut |piece| text.push_str(piece));
            for (path, whole) in self.of_record(record) {
                text.extend(["Result in full (", &path, "): ", whole, "\n\n"]);
            }
        });
        trimmed(text)
    }

    /// Returns the searchable text of a turn, with that of the files that it points to.
    pub fn searchable(&self, bytes: &[u8], is_agent: bool) -> SearchableText {
        let mut fields = SearchableText::default();
        records(bytes, &mut |record| {
            fields.take(record, is_agent);
            for (_, whole) in self.of_record(record) {
                fields.output.extend(["\n", whole]);
            }
        });
        fields
    }
}

/// The side files that the tool results in the bytes of a turn point to, each once.
pub fn side_files_of(bytes: &[u8], session: &str) -> Vec<String> {
    // Most turns have none, and need not be read for that.
    if memmem::find(bytes, BEFORE_PATH.as_bytes()).is_none() && memmem::find(bytes, b"persistedOutputPath").is_none() {
        return Vec::new();
    }
    let mut found: Vec<String> = Vec::new();
    records(bytes, &mut |record| {
        for path in side_files_of_record(record, session) {
            if !found.contains(&path) {
                found.push(path);
            }
        }
    });
    found
}

/// The side files that a tool result points to.
fn side_files_of_record(record: &Record<'_>, session: &str) -> Vec<String> {
    if record.kind() != RecordKind::ToolResults {
        return Vec::new();
    }
    let mut found: Vec<String> = Vec::new();
    let mut add = |path: Option<String>| found.extend(path.filter(|path| !found.contains(path)));
    add(record.output_file().and_then(|path| path_in_session(path, session)));
    for block in record.content().into_iter().flat_map(|content| content.blocks()) {
        let Some((Some(result), _)) = block.tool_result() else { continue };
        for text in result.texts() {
            let start = text.char_indices().nth(LOOKED_THROUGH_CHARS).map_or(text, |(end, _)| &text[..end]);
            for line in start.lines() {
                let path = line.split_once(BEFORE_PATH).map(|(_, behind)| behind.trim_start_matches([':', ' ']));
                add(path.and_then(|path| path_in_session(path.trim_end_matches(['.', ' ']), session)));
            }
        }
    }
    found
}

/// The part of a path that is inside the session's own folder, with slashes, if it is a plain one.
fn path_in_session(path: &str, session: &str) -> Option<String> {
    let parts: Vec<&str> = path.split(['/', '\\']).collect();
    let at = parts.iter().rposition(|part| *part == session && !session.is_empty())?;
    let inside = &parts[at + 1..];
    let is_plain = |part: &&str| !part.is_empty() && *part != "." && *part != ".." && !part.contains('\0');
    (!inside.is_empty() && inside.iter().all(is_plain)).then(|| inside.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";

    fn line(content: &str, result: &str) -> Vec<u8> {
        format!(
            r#"{{"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":{content}}}]}},"toolUseResult":{result}}}"#
        )
        .into_bytes()
    }

    #[test]
    fn only_what_is_in_the_own_folder_counts() {
        for (path, inside) in [
            ("/home/a/.claude/projects/-w/SESSION/tool-results/b1.txt", Some("tool-results/b1.txt")),
            ("C:\\Users\\a\\projects\\SESSION\\tool-results\\b1.txt", Some("tool-results/b1.txt")),
            ("SESSION/tool-results/b1.txt", Some("tool-results/b1.txt")),
            ("/home/a/.claude/projects/-w/another/tool-results/b1.txt", None),
            ("/home/a/SESSION/../../../etc/passwd", None),
            ("/home/a/SESSION//b1.txt", None),
            ("/home/a/SESSION", None),
        ] {
            assert_eq!(path_in_session(&path.replace("SESSION", SESSION), SESSION).as_deref(), inside, "{path}");
        }
        assert_eq!(path_in_session("/a//b", ""), None);
    }

    #[test]
    fn a_result_points_by_its_field_or_by_its_text() {
        let text = format!(
            r#""<persisted-output>\nOutput too large (9 KB). Full output saved to: /h/{SESSION}/tool-results/a.txt\n\nPreview""#
        );
        let field = format!(r#"{{"persistedOutputPath":"/h/{SESSION}/tool-results/a.txt"}}"#);
        let sentence = format!(r#""Error: too long. Output has been saved to /h/{SESSION}/tool-results/a.txt.\nFormat: text""#);
        for (content, result) in [(text.as_str(), "{}"), ("\"x\"", field.as_str()), (&text, &field), (&sentence, "\"x\"")] {
            assert_eq!(side_files_of(&line(content, result), SESSION), ["tool-results/a.txt"], "{content}");
        }
        assert!(side_files_of(&line("\"a saved to b\"", "{}"), SESSION).is_empty());
    }

    #[test]
    fn the_text_stands_behind_its_preview() {
        let field = format!(r#"{{"persistedOutputPath":"/h/{SESSION}/tool-results/a.txt"}}"#);
        let bytes = line("\"the start\"", &field);
        let mut texts = SideTexts::of_session(SESSION);
        assert_eq!(texts.text_of(&bytes), "Result: the start");
        texts.add("tool-results/a.txt".to_owned(), "the start and the rest".to_owned());
        assert_eq!(texts.text_of(&bytes), "Result: the start\n\nResult in full (tool-results/a.txt): the start and the rest");
        assert_eq!(texts.searchable(&bytes, false).output, "the start\nthe start and the rest");
    }
}
