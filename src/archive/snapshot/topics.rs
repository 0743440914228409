/*!
Topics of a conversation, in a few words and with no model.

YAKE (Campos et al., 2020) finds words and pairs of words that are prominent in a single text: by frequency, position, number of
sentences, and number of different neighbors. It needs no other texts to compare with, so a hook can run it.
*/

use std::sync::LazyLock;

use yake_rust::{Config, StopWords, get_n_best};

use crate::learn::sentences;

/// Maximum bytes of a text to read: some 50 ms, for which a compaction waits.
pub const MAX_TOPIC_TEXT_BYTES: usize = 32 << 10;

/// Maximum number of topics.
const MAX_TOPICS: usize = 8;

/// Maximum characters of a topic: anything longer is no word.
const MAX_TOPIC_CHARS: usize = 40;

/// Words of every conversation of this kind, which are never a topic.
const ROUTINE: &[&str] = &[
    "add",
    "added",
    "adding",
    "answer",
    "approach",
    "bit",
    "bug",
    "bugs",
    "call",
    "calls",
    "change",
    "changed",
    "changes",
    "check",
    "checked",
    "checks",
    "clean",
    "code",
    "command",
    "commands",
    "commit",
    "committed",
    "complete",
    "completed",
    "confirm",
    "count",
    "create",
    "created",
    "decided",
    "declaration",
    "default",
    "diff",
    "directory",
    "done",
    "edit",
    "error",
    "errors",
    "example",
    "expected",
    "fail",
    "failed",
    "failing",
    "fails",
    "failure",
    "file",
    "files",
    "find",
    "fine",
    "finish",
    "finished",
    "fix",
    "fixed",
    "fixes",
    "folder",
    "found",
    "function",
    "functions",
    "git",
    "good",
    "green",
    "handoff",
    "implement",
    "implemented",
    "issue",
    "issues",
    "job",
    "keep",
    "kept",
    "line",
    "lines",
    "list",
    "look",
    "looked",
    "looking",
    "looks",
    "make",
    "makes",
    "method",
    "module",
    "move",
    "moved",
    "name",
    "named",
    "new",
    "note",
    "number",
    "old",
    "output",
    "part",
    "pass",
    "passed",
    "passes",
    "path",
    "place",
    "plan",
    "point",
    "print",
    "problem",
    "project",
    "push",
    "question",
    "read",
    "reading",
    "ready",
    "real",
    "reason",
    "remove",
    "removed",
    "repo",
    "resolved",
    "rest",
    "result",
    "results",
    "review",
    "right",
    "root",
    "run",
    "running",
    "runs",
    "save",
    "saved",
    "set",
    "show",
    "shows",
    "side",
    "single",
    "small",
    "sort",
    "start",
    "started",
    "starts",
    "state",
    "step",
    "steps",
    "stop",
    "task",
    "test",
    "tested",
    "testing",
    "tests",
    "thing",
    "things",
    "time",
    "times",
    "todo",
    "tool",
    "tools",
    "try",
    "turn",
    "turned",
    "turns",
    "type",
    "types",
    "update",
    "updated",
    "user",
    "value",
    "values",
    "version",
    "warning",
    "warnings",
    "work",
    "worked",
    "working",
    "works",
    "write",
    "writing",
    "wrong",
    "wrote",
];

static STOP_WORDS: LazyLock<StopWords> = LazyLock::new(|| {
    let mut words = StopWords::predefined("en").unwrap_or_default();
    words.extend(ROUTINE.iter().map(|word| (*word).to_owned()));
    words
});

/// Topics of a text, most relevant first, in lower case. Code and quotations do not count.
pub fn topics(text: &str) -> Vec<String> {
    let mut said = String::new();
    for sentence in sentences(text) {
        // A path is a place, and its folders are those of every other one.
        let words = text[sentence.range].split_whitespace().filter(|word| !word.contains(['/', '\\']));
        said.extend(words.flat_map(|word| [word, " "]));
        said.push('\n');
    }
    let config = Config { ngrams: 2, ..Config::default() };
    let found = get_n_best(4 * MAX_TOPICS, &said, &STOP_WORDS, &config);
    let mut topics: Vec<String> = Vec::new();
    for keyword in found.into_iter().map(|found| found.keyword) {
        if topics.len() == MAX_TOPICS {
            break;
        }
        let is_word = keyword.chars().count() <= MAX_TOPIC_CHARS && keyword.chars().any(char::is_alphabetic);
        // A pair says more than one of its words, and whichever came first stands for the other.
        let is_said = topics.iter().any(|topic| has_words(topic, &keyword) || has_words(&keyword, topic));
        if is_word && !is_said {
            topics.push(keyword);
        }
    }
    topics
}

/// `true` if `topic` has all words of `other`.
fn has_words(topic: &str, other: &str) -> bool {
    other.split(' ').all(|word| topic.split(' ').any(|known| known == word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "The venue calendar books a slot twice when two coordinators press the button at once.\n\n\
        A double booking happens between reading the calendar and writing the slot. I added a unique index on venue and slot, \
        so the second coordinator gets a conflict instead of a double booking.\n\n\
        ```rust\nlet telescope = telescope(telescope);\ntelescope();\n```\n\n> telescope telescope telescope\n\n\
        The calendar page in src/telescope/page.rs shows the conflict, and the coordinator picks another slot of the venue.";

    #[test]
    fn what_stands_out_is_named_and_code_is_not() {
        let topics = topics(TEXT);
        assert!(topics.len() <= MAX_TOPICS, "{topics:?}");
        for word in ["calendar", "slot", "booking"] {
            assert!(topics.iter().any(|topic| topic.contains(word)), "{word} in {topics:?}");
        }
        for word in ["telescope", "added", "the"] {
            assert!(topics.iter().all(|topic| !topic.split(' ').any(|known| known == word)), "{word} in {topics:?}");
        }
    }

    #[test]
    fn nothing_is_about_nothing() {
        assert!(topics("").is_empty());
        assert!(topics("```\ncode\n```\n\n> quoted\n").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_will_do(text in "(\\PC|\\n|[.!?] |[A-Z]\\. |Mr\\. |\\d\\. ){0,200}") {
            for topic in topics(&text) {
                prop_assert!(topic.chars().count() <= MAX_TOPIC_CHARS, "{topic}");
            }
        }
    }
}
