//! What a turn was about, in at most 300 characters and with no model.

use super::content::{as_typed, records};
use super::record::{Kind, Record};
use super::turns::Turn;

/// Characters of a summary at most.
pub const MAX_CHARS: usize = 300;

/// Names that are listed before the rest is counted.
const LISTED: usize = 6;

/// Characters of a line that are kept: what is behind them cannot be in a summary.
const KEPT: usize = MAX_CHARS;

/// The summary of a turn, from the bytes that it takes in its transcript: first line of the prompt, tools, files, first two lines of
/// the answer. Files are named as seen from the folder that the client worked in.
pub fn of_turn(turn: &Turn, bytes: &[u8]) -> String {
    let mut parts = Parts::default();
    records(bytes, &mut |record| parts.take(record));
    parts.summary(&turn.tools, &turn.files)
}

/// The parts of a summary, collected line by line.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    prompt: String,
    answer: String,
    /// Whether it is a sub-agent's own file; known from the first line on.
    is_agent: Option<bool>,
    /// Where the client worked last.
    folder: Option<String>,
}

impl Parts {
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
            Kind::Added if self.is_agent == Some(false) => {}
            Kind::Prompt | Kind::Added if self.prompt.is_empty() => {
                let mut typed = content.texts().map(as_typed);
                if let Some(typed) = typed.find(|typed| !typed.is_empty()) {
                    self.prompt(&typed);
                }
            }
            Kind::Answer => content.texts().for_each(|text| self.answer(text)),
            _ => {}
        }
    }

    /// The first line of the prompt; later prompts of the turn, queued while the model was working, do not count.
    fn prompt(&mut self, text: &str) {
        if self.prompt.is_empty() {
            self.prompt = first_lines(text, 1);
        }
    }

    /// The answer is what the model said last: what it says before it calls tools is what it is going to do.
    fn answer(&mut self, text: &str) {
        let lines = first_lines(text, 2);
        if !lines.is_empty() {
            self.answer = lines;
        }
    }

    /// First line of the prompt, tools, files, first two lines of the answer. Files below the folder are named from there.
    pub fn summary(&self, tools: &[String], files: &[String]) -> String {
        let files: Vec<&str> = files.iter().map(|file| below(file, self.folder.as_deref())).collect();
        let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
        let parts = [self.prompt.clone(), list("Tools: ", &tools), list("Files: ", &files), self.answer.clone()];
        let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        parts.join(" | ").chars().take(MAX_CHARS).collect()
    }
}

/// What a compaction's summary says, without the model's notes to itself and without the tags around both.
pub fn of_compaction(text: &str) -> String {
    let mut text = text.to_owned();
    if let (Some(start), Some(end)) = (text.find("<analysis>"), text.find("</analysis>"))
        && start < end
    {
        text.replace_range(start..end + "</analysis>".len(), "");
    }
    text.replace("<summary>", "").replace("</summary>", "").trim().to_owned()
}

/// A path as seen from a folder that it lies in.
pub fn below<'a>(file: &'a str, folder: Option<&str>) -> &'a str {
    let inner = folder.and_then(|folder| file.strip_prefix(folder)?.strip_prefix(['/', '\\']));
    inner.filter(|inner| !inner.is_empty()).unwrap_or(file)
}

fn list(label: &str, names: &[&str]) -> String {
    match names {
        [] => String::new(),
        names if names.len() <= LISTED => format!("{label}{}", names.join(", ")),
        names => format!("{label}{} +{}", names[..LISTED].join(", "), names.len() - LISTED),
    }
}

/// The first lines that are not blank, as one.
fn first_lines(text: &str, count: usize) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(count);
    let lines: Vec<String> = lines.map(|line| line.chars().take(KEPT).collect()).collect();
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
        let mut parts = Parts { folder: Some("/p".to_owned()), ..Parts::default() };
        parts.prompt("\n  Fix the parser.\nIt fails.");
        parts.prompt("And hurry.");
        parts.answer("I'll look.");
        parts.answer("Done.\n\nThe bug was in `lex`.\nMore.");
        parts.answer("  \n");
        let summary = parts.summary(&strings(&["Read", "Edit"]), &strings(&["/p/src/a.rs", "/etc/b"]));
        assert_eq!(summary, "Fix the parser. | Tools: Read, Edit | Files: src/a.rs, /etc/b | Done. The bug was in `lex`.");
        assert_eq!(Parts::default().summary(&[], &[]), "");
        let many: Vec<String> = (0..9).map(|n| format!("f{n}")).collect();
        assert_eq!(Parts::default().summary(&[], &many), "Files: f0, f1, f2, f3, f4, f5 +3");
    }

    #[test]
    fn a_compaction_says_what_is_between_the_tags() {
        assert_eq!(of_compaction("<analysis>\nHm.\n</analysis>\n\n<summary>\nAll done.\n</summary>"), "All done.");
        assert_eq!(of_compaction("</analysis> no tags <analysis>"), "</analysis> no tags <analysis>");
    }

    #[test]
    fn cut_between_characters() {
        let mut parts = Parts::default();
        parts.prompt(&"ü🦀".repeat(400));
        assert_eq!(parts.summary(&[], &[]).chars().count(), MAX_CHARS);
    }
}
