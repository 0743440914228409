/*!
What a session's answers needed of the text before them: how well a policy kept what mattered.

A *reference* is a rare name, path, number or quotation of an answer that stood in at most [`MAX_PLACES`] texts before. It is lost if
none of these texts still has it when the answer is given. A *blind edit* replaces text that stood before and is in none of the texts
that are left: the file has to be read again. Both are lexical: an answer may have done without, and would have been another one.

The rules are those of the study in the project's notes on pruning, so that the figures can be compared.
*/

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::conversation::ReplayConversation;

/// Maximum number of texts that a rare word stands in.
pub const MAX_PLACES: usize = 6;

/// Minimum characters of a line, a path or a name that is looked for.
const MIN_LINE_CHARS: usize = 12;
const MIN_WORD_CHARS: usize = 6;

/// Number of the longest lines of an edit that are looked for.
const EDIT_LINES: usize = 3;

/// Maximum number of texts that are known to have a line.
const MAX_LINE_PLACES: usize = 40;

/// Quotations, paths, names and numbers, in this order.
const WORDS: &str = concat!(
    r#"(?P<quote>"[^"\n]{8,60}"|`[^`\n]{8,60}`)|(?P<path>(?:[\w.~@+-]*/)+[\w.@+-]+)"#,
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_.-]{5,})|(?P<number>\b\d{4,}\b)"
);

#[expect(clippy::expect_used, reason = "the expressions are constant, and a test runs them")]
static WORDS_REGEX: LazyLock<Regex> = LazyLock::new(|| Regex::new(WORDS).expect("a valid expression"));

/// Index of a message in the conversation, and of a block in it.
pub type BlockPosition = (usize, usize);

/// A word and the texts that have it.
#[derive(Debug, Clone)]
pub struct ReferredWord {
    /// The word, by its number.
    pub word: usize,
    /// The places before the answer.
    pub places: Vec<BlockPosition>,
}

/// A line that an edit replaces, and the texts that have it.
#[derive(Debug, Clone)]
pub struct EditedLine {
    /// The line, without white space around it.
    pub line: String,
    /// The places before the answer.
    pub places: Vec<BlockPosition>,
}

/// The needs of one answer.
#[derive(Debug, Clone, Default)]
pub struct AnswerNeeds {
    /// The references.
    pub references: Vec<ReferredWord>,
    /// A line of each edit.
    pub edits: Vec<EditedLine>,
}

/// The needs of all answers of a session.
#[derive(Debug, Clone, Default)]
pub struct References {
    /// By the number of the answer.
    pub answers: Vec<AnswerNeeds>,
    words: HashMap<String, usize>,
    names: Vec<String>,
    /// Files that calls name, by the place of the call and of its result.
    files: HashMap<BlockPosition, String>,
    /// Places of what was read of files.
    reads: HashSet<BlockPosition>,
}

/// Texts so far, by their words and lines.
#[derive(Default)]
struct TextIndex {
    references: References,
    /// Places of each word, by its number, up to one more than are rare.
    words: Vec<Vec<BlockPosition>>,
    lines: HashMap<String, Vec<BlockPosition>>,
    /// Name and file of each call, by its id.
    calls: HashMap<String, (String, Option<String>)>,
}

impl References {
    /// Reads what the answers of a conversation needed.
    pub fn of(conversation: &ReplayConversation) -> Self {
        let mut index = TextIndex::default();
        let mut next = 0;
        for (number, call) in conversation.calls.iter().enumerate() {
            for message in next..call.messages_before {
                if !conversation.messages[message].is_stand_in {
                    each_block(&conversation.messages[message].value, &mut |block, value| index.add((message, block), value));
                }
            }
            next = call.messages_before;
            let end = conversation.calls.get(number + 1).map_or(conversation.messages.len(), |call| call.messages_before);
            let answer = conversation.messages[next..end].iter().filter(|message| message.value["type"] == "assistant");
            let needs = index.needs(answer.map(|message| &message.value));
            index.references.answers.push(needs);
        }
        index.references
    }

    /// A word by its number.
    pub fn word(&self, number: usize) -> &str {
        self.names.get(number).map_or("", String::as_str)
    }

    /// The file that a call or a result is about.
    pub fn file(&self, place: BlockPosition) -> Option<&str> {
        self.files.get(&place).map(String::as_str)
    }

    /// `true` if a block is what was read of a file.
    pub fn is_read(&self, place: BlockPosition) -> bool {
        self.reads.contains(&place)
    }

    /// The numbers of the known words of a text.
    pub fn words_of(&self, text: &str) -> HashSet<usize> {
        let mut found = HashSet::new();
        each_word(text, &mut |word| found.extend(self.words.get(word)));
        found
    }
}

impl TextIndex {
    fn add(&mut self, place: BlockPosition, block: &Value) {
        self.note_file(place, block);
        for text in texts(block) {
            let mut words = HashSet::new();
            each_word(text.text, &mut |word| {
                if let Some(number) = self.references.words.get(word) {
                    words.insert(*number);
                } else {
                    let number = self.references.names.len();
                    self.references.words.insert(word.to_owned(), number);
                    self.references.names.push(word.to_owned());
                    self.words.push(Vec::new());
                    words.insert(number);
                }
            });
            for word in words {
                let places = &mut self.words[word];
                if places.len() <= MAX_PLACES {
                    places.push(place);
                }
            }
            if text.may_be_edited {
                for line in text.text.split('\n') {
                    let line = without_number(line).trim();
                    if line.chars().count() >= MIN_LINE_CHARS {
                        let places = self.lines.entry(line.to_owned()).or_default();
                        if places.len() < MAX_LINE_PLACES {
                            places.push(place);
                        }
                    }
                }
            }
        }
    }

    fn note_file(&mut self, place: BlockPosition, block: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match block["type"].as_str() {
            Some("tool_use") => {
                let input = &block["input"];
                let file = ["file_path", "path", "notebook_path"].iter().find_map(|name| text(&input[*name]));
                self.references.files.extend(file.clone().map(|file| (place, file)));
                if let (Some(id), Some(name)) = (text(&block["id"]), text(&block["name"])) {
                    self.calls.insert(id, (name, file));
                }
            }
            Some("tool_result") => {
                let Some((name, file)) = block["tool_use_id"].as_str().and_then(|id| self.calls.get(id)) else { return };
                self.references.files.extend(file.clone().map(|file| (place, file)));
                if name == "Read" && file.is_some() {
                    self.references.reads.insert(place);
                }
            }
            _ => {}
        }
    }

    fn needs<'m>(&self, answer: impl Iterator<Item = &'m Value>) -> AnswerNeeds {
        let mut needs = AnswerNeeds::default();
        let mut seen = HashSet::new();
        for message in answer {
            each_block(message, &mut |_, block| {
                if !matches!(block["type"].as_str(), Some("text" | "tool_use")) && !block.is_string() {
                    return;
                }
                for text in texts(block) {
                    each_word(text.text, &mut |word| {
                        let Some(number) = self.references.words.get(word).filter(|number| seen.insert(**number)) else { return };
                        let places = &self.words[*number];
                        if places.len() <= MAX_PLACES {
                            needs.references.push(ReferredWord { word: *number, places: places.clone() });
                        }
                    });
                }
                needs.edits.extend(old_texts(block).into_iter().filter_map(|old| self.edited(old)));
            });
        }
        needs
    }

    /// The longest line of an edit's old text that stood before.
    fn edited(&self, old: &str) -> Option<EditedLine> {
        let mut lines: Vec<&str> = old.split('\n').map(str::trim).collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.chars().count()));
        let long = lines.into_iter().take(EDIT_LINES).filter(|line| line.chars().count() >= MIN_LINE_CHARS);
        long.filter_map(|line| Some(EditedLine { line: line.to_owned(), places: self.lines.get(line)?.clone() })).next()
    }
}

/// A text of a block.
struct BlockText<'v> {
    text: &'v str,
    /// `true` if an edit's old text may have been read here.
    may_be_edited: bool,
}

/// Calls back with each block of a message, and its number; a content that is a string is one.
fn each_block(message: &Value, take: &mut dyn FnMut(usize, &Value)) {
    match crate::message::conversation_content(message) {
        Some(Value::Array(blocks)) => blocks.iter().enumerate().for_each(|(number, block)| take(number, block)),
        Some(text @ Value::String(_)) => take(0, text),
        _ => {}
    }
}

/// The texts of a block: those that a cut may shorten, and what else a call says.
fn texts(block: &Value) -> Vec<BlockText<'_>> {
    if let Value::String(text) = block {
        return vec![BlockText { text, may_be_edited: true }];
    }
    // What a call says beside what it writes is never cut, and is no text of a file.
    let is_call = block["type"] == "tool_use";
    let all = crate::message::all_texts_of_block(block).into_iter();
    all.map(|(part, text)| BlockText { text, may_be_edited: !is_call || part.is_some() }).collect()
}

/// The texts that a call of `Edit` or `MultiEdit` replaces.
fn old_texts(block: &Value) -> Vec<&str> {
    let input = &block["input"];
    match block["name"].as_str() {
        Some("Edit") => input["old_string"].as_str().into_iter().collect(),
        Some("MultiEdit") => {
            input["edits"].as_array().into_iter().flatten().filter_map(|edit| edit["old_string"].as_str()).collect()
        }
        _ => Vec::new(),
    }
}

/// A line of a file without the number that `Read` puts before it.
fn without_number(line: &str) -> &str {
    let rest = line.trim_start().trim_start_matches(|digit: char| digit.is_ascii_digit());
    let is_numbered = rest.len() < line.trim_start().len();
    rest.strip_prefix(['→', '\t']).filter(|_| is_numbered).unwrap_or(line)
}

fn each_word<'t>(text: &'t str, take: &mut dyn FnMut(&'t str)) {
    for found in WORDS_REGEX.captures_iter(text) {
        let group = |name: &str| found.name(name).map(|found| found.as_str());
        if let Some(quoted) = group("quote") {
            take(quoted);
            each_word(&quoted[1..quoted.len() - 1], take);
        } else if let Some(path) = group("path") {
            if path.chars().count() >= MIN_WORD_CHARS {
                take(path);
                let name = path.rsplit('/').next().unwrap_or_default();
                if name.chars().count() >= MIN_WORD_CHARS {
                    take(name);
                }
            }
        } else if let Some(name) = group("name") {
            let name = name.trim_end_matches(['.', '-']);
            if name.len() >= MIN_WORD_CHARS && is_identifier(name) {
                take(name);
            }
        } else if let Some(number) = group("number") {
            take(number);
        }
    }
}

/// `true` for a name that no prose has: with a digit, a dot, an underscore, or a capital after a small letter.
fn is_identifier(name: &str) -> bool {
    name.contains(|letter: char| letter == '_' || letter == '.' || letter.is_ascii_digit())
        || name.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        each_word(text, &mut |word| found.push(word));
        found
    }

    #[test]
    fn rare_words_are_names_paths_numbers_and_quotations() {
        assert_eq!(
            words("see src/archive/mod_file.rs and `cargo build --all` in 12345 of compaction, readTurn, a_name."),
            ["src/archive/mod_file.rs", "mod_file.rs", "`cargo build --all`", "12345", "readTurn", "a_name",]
        );
        assert_eq!(words("say \"use findBoundary here\""), ["\"use findBoundary here\"", "findBoundary"]);
        assert_eq!(words("some/longer.name a/b 123"), ["some/longer.name", "longer.name"]);
    }

    #[test]
    fn an_answer_needs_what_stood_before() {
        let transcript: String = [
            json!({ "type": "user", "message": { "content": "look at findBoundary" } }),
            json!({ "type": "assistant", "message": { "id": "a", "model": "m", "content": [
                { "type": "tool_use", "id": "t", "name": "Read", "input": { "file_path": "src/main_file.rs" } }] } }),
            json!({ "type": "user", "message": { "content": [
                { "type": "tool_result", "tool_use_id": "t", "content": "   1→  let boundary = 7;\n   2\tlet other = 8;" }] } }),
            json!({ "type": "assistant", "message": { "id": "b", "model": "m", "content": [
                { "type": "text", "text": "findBoundary is in src/main_file.rs, not in newThing" },
                { "type": "tool_use", "id": "u", "name": "Edit", "input": { "file_path": "x", "old_string": "let boundary = 7;" } }] } }),
        ]
        .iter()
        .map(|line| format!("{line}\n"))
        .collect();
        let (conversation, _) = ReplayConversation::read(transcript.as_bytes());
        let references = References::of(&conversation);
        let needs = &references.answers[1];
        let found: Vec<_> = needs.references.iter().map(|found| (references.word(found.word), found.places.as_slice())).collect();
        assert_eq!(found, [("findBoundary", &[(0, 0)][..]), ("src/main_file.rs", &[(1, 0)]), ("main_file.rs", &[(1, 0)])]);
        assert_eq!(needs.edits[0].line, "let boundary = 7;");
        assert_eq!(needs.edits[0].places, [(2, 0)]);
        assert!(references.answers[0].references.is_empty());
    }
}
