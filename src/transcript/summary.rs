//! Summaries of turns, in at most 300 characters and without a model.

use super::content::{as_typed, records};
use super::record::{Record, RecordKind};
use super::turns::Turn;

/// Maximum number of characters of a summary.
pub const MAX_CHARS: usize = 300;

/// Maximum number of listed names; the rest is counted.
const MAX_LISTED_NAMES: usize = 6;

/// Maximum number of characters of a line: any further ones cannot be in a summary.
const MAX_LINE_CHARS: usize = MAX_CHARS;

/// Returns the summary of a turn from its bytes in the transcript: first line of the prompt, tools, files, first two lines of
/// the answer. File names are relative to the folder that the client worked in.
pub fn of_turn(turn: &Turn, bytes: &[u8]) -> String {
    let mut parts = SummaryParts::default();
    records(bytes, &mut |record| parts.take(record));
    parts.summary(&turn.tools, &turn.files)
}

/// The parts of a summary, collected line by line.
#[derive(Clone, Debug, Default)]
pub(super) struct SummaryParts {
    prompt: String,
    answer: String,
    /// `true` if it is a sub-agent's own file; known from the first line on.
    is_agent: Option<bool>,
    /// `true` if the model answers something else by now.
    is_answered: bool,
    /// The folder that the client last worked in.
    folder: Option<String>,
}

impl SummaryParts {
    pub fn take(&mut self, record: &Record<'_>) {
        if let Some(cwd) = record.cwd().filter(|cwd| self.folder.as_deref() != Some(cwd)) {
            self.folder = Some(cwd.to_owned());
        }
        let Some(content) = record.content() else { return };
        // A sub-agent's words are no answer to the user; but its own file begins with what it was told.
        if record.is_sidechain() && !*self.is_agent.get_or_insert(true) {
            return;
        }
        self.is_agent.get_or_insert(false);
        match record.kind() {
            RecordKind::Added if self.is_agent == Some(false) => {}
            RecordKind::Prompt | RecordKind::Added if self.prompt.is_empty() => {
                let mut typed = content.texts().map(as_typed);
                if let Some(typed) = typed.find(|typed| !typed.is_empty()) {
                    self.prompt(&typed);
                }
            }
            // What follows a text that nobody typed answers that one.
            RecordKind::Echo if !self.answer.is_empty() && record.is_machine_prompt() => self.is_answered = true,
            RecordKind::Answer if !self.is_answered => content.texts().for_each(|text| self.answer(text)),
            _ => {}
        }
    }

    /// Adds the first line of the prompt. Later prompts of the turn, queued while the model was working, do not count.
    fn prompt(&mut self, text: &str) {
        if self.prompt.is_empty() {
            self.prompt = first_lines(text, 1);
        }
    }

    /// Sets the answer to the model's last text: texts before tool calls only announce them.
    fn answer(&mut self, text: &str) {
        let lines = first_lines(text, 2);
        if !lines.is_empty() {
            self.answer = lines;
        }
    }

    /// Joins the first line of the prompt, tools, files and the first two lines of the answer. File names are relative to the
    /// folder.
    pub fn summary(&self, tools: &[String], files: &[String]) -> String {
        let files: Vec<&str> = files.iter().map(|file| below(file, self.folder.as_deref())).collect();
        let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
        let parts = [self.prompt.clone(), list("Tools: ", &tools), list("Files: ", &files), self.answer.clone()];
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        parts.join(" | ").chars().take(MAX_CHARS).collect()
    }
}

/// Returns the text of a compaction's summary, without the model's notes to itself and without the tags.
pub fn of_compaction(text: &str) -> String {
    let mut text = text.to_owned();
    if let (Some(start), Some(end)) = (text.find("<analysis>"), text.find("</analysis>"))
        && start < end
    {
        text.replace_range(start..end + "</analysis>".len(), "");
    }
    text.replace("<summary>", "").replace("</summary>", "").trim().to_owned()
}

/// Returns a path relative to a folder that contains it.
pub fn below<'a>(file: &'a str, folder: Option<&str>) -> &'a str {
    let inner = folder.and_then(|folder| file.strip_prefix(folder)?.strip_prefix(['/', '\\']));
    inner.filter(|inner| !inner.is_empty()).unwrap_or(file)
}

fn list(label: &str, names: &[&str]) -> String {
    match names {
        [] => String::new(),
        names if names.len() <= MAX_LISTED_NAMES => format!("{label}{}", names.join(", ")),
        names => format!("{label}{} +{}", names[..MAX_LISTED_NAMES].join(", "), names.len() - MAX_LISTED_NAMES),
    }
}

/// Joins the first lines that are not blank.
fn first_lines(text: &str, count: usize) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(count);
    let lines: Vec<String> = lines.map(|line| line.chars().take(MAX_LINE_CHARS).collect()).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn parts_are_joined() {
        let mut parts = SummaryParts { folder: Some("/p".to_owned()), ..SummaryParts::default() };
        parts.prompt("\n  Fix the parser.\nIt fails.");
        parts.prompt("And hurry.");
        parts.answer("I'll look.");
        parts.answer("Done.\n\nThe bug was in `lex`.\nMore.");
        parts.answer("  \n");
        let summary = parts.summary(&strings(&["Read", "Edit"]), &strings(&["/p/src/a.rs", "/etc/b"]));
        assert_eq!(summary, "Fix the parser. | Tools: Read, Edit | Files: src/a.rs, /etc/b | Done. The bug was in `lex`.");
        assert_eq!(SummaryParts::default().summary(&[], &[]), "");
        let many: Vec<String> = (0..9).map(|n| format!("f{n}")).collect();
        assert_eq!(SummaryParts::default().summary(&[], &many), "Files: f0, f1, f2, f3, f4, f5 +3");
    }

    #[test]
    fn a_compaction_says_what_is_between_the_tags() {
        assert_eq!(of_compaction("<analysis>\nHm.\n</analysis>\n\n<summary>\nAll done.\n</summary>"), "All done.");
        assert_eq!(of_compaction("</analysis> no tags <analysis>"), "</analysis> no tags <analysis>");
    }

    #[test]
    fn cut_between_characters() {
        let mut parts = SummaryParts::default();
        parts.prompt(&"ü🦀".repeat(400));
        assert_eq!(parts.summary(&[], &[]).chars().count(), MAX_CHARS);
    }
}
