//! The words of a turn, for searching, showing and hashing it: human prompts, the model's answers, tool calls and their
//! results. Ids, times and the model's thinking are not among them.

use std::fmt::Write as _;

use memchr::memchr_iter;

use super::lines::read_line;
use super::record::{Content, MessageBlock, Record, RecordKind, is_echo};
use super::repeated::RepeatedRows;
use ctxbridge_common::digest;

/// Passes the pieces of a line to `sink`, in order. Joined, the pieces of all lines of a turn are its content.
pub(super) fn pieces(record: &Record<'_>, kind: RecordKind, sink: &mut dyn FnMut(&str)) {
    let Some(content) = record.content() else {
        if let Some(prompt) = record.queued_prompt() {
            said("Human", prompt, sink);
        }
        return;
    };
    match kind {
        RecordKind::Prompt => said("Human", content, sink),
        RecordKind::Echo => said("Output", content, sink),
        RecordKind::Answer => match content {
            Content::Text(text) => piece(&["Assistant: ", text], sink),
            Content::Blocks(blocks) => blocks.iter().for_each(|block| answered(block, sink)),
        },
        RecordKind::ToolResults => {
            for block in content.blocks() {
                match block.tool_result() {
                    Some((result, is_error)) => returned(result.as_ref(), is_error, sink),
                    None => said_block("Human", block, sink),
                }
            }
        }
        RecordKind::Added | RecordKind::CompactSummary | RecordKind::CompactBoundary | RecordKind::Bookkeeping => {}
    }
}

/// Returns the content of a turn from its bytes in the transcript; lines that cannot be read are left out.
pub fn text_of(bytes: &[u8]) -> String {
    let mut text = String::new();
    records(bytes, &mut |record| pieces(record, record.kind(), &mut |piece| text.push_str(piece)));
    trimmed(text)
}

/// Removes the blank lines at the end of a content.
pub(super) fn trimmed(mut text: String) -> String {
    text.truncate(text.trim_end().len());
    text
}

/// Returns the model's texts for the user in the bytes of a turn, without tool results.
pub fn answers_of(bytes: &[u8]) -> Vec<String> {
    let mut answers = Vec::new();
    records(bytes, &mut |record| {
        if record.kind() == RecordKind::Answer
            && !record.is_sidechain()
            && let Some(content) = record.content()
        {
            answers.extend(content.texts().map(str::to_owned));
        }
    });
    answers
}

/// Passes each record that can be read to `sink`, but for those that were said before ([`RepeatedRows`]).
pub fn records(bytes: &[u8], sink: &mut dyn FnMut(&Record<'_>)) {
    let (mut start, mut repeated) = (0, RepeatedRows::default());
    for end in memchr_iter(b'\n', bytes).chain([bytes.len()]) {
        read_line(&bytes[start..end], &mut |_, record| {
            if !repeated.includes(record) {
                sink(record);
            }
        });
        start = end + 1;
    }
}

fn piece(parts: &[&str], sink: &mut dyn FnMut(&str)) {
    parts.iter().for_each(|part| sink(part));
    sink("\n\n");
}

fn said(who: &str, content: &Content<'_>, sink: &mut dyn FnMut(&str)) {
    match content {
        Content::Text(text) => piece(&[who, ": ", text], sink),
        Content::Blocks(blocks) => blocks.iter().for_each(|block| said_block(who, block, sink)),
    }
}

fn said_block(who: &str, block: &MessageBlock<'_>, sink: &mut dyn FnMut(&str)) {
    match block.text() {
        Some(text) => piece(&[who, ": ", text], sink),
        None => piece(&[who, ": ", &stand_in(block)], sink),
    }
}

fn answered(block: &MessageBlock<'_>, sink: &mut dyn FnMut(&str)) {
    if let Some((name, input)) = block.tool_call() {
        piece(&["Tool ", name, ": ", input], sink);
    } else if !block.is("thinking") && !block.is("redacted_thinking") {
        said_block("Assistant", block, sink);
    }
}

fn returned(result: Option<&Content<'_>>, is_error: bool, sink: &mut dyn FnMut(&str)) {
    let label = if is_error { "Error" } else { "Result" };
    match result {
        None => piece(&[label, ":"], sink),
        Some(content) => said(label, content, sink),
    }
}

/// Returns a placeholder for a block that is no text: an image is as large as a book, and its letters mean nothing.
fn stand_in(block: &MessageBlock<'_>) -> String {
    let mut text = format!("[{}", block.kind());
    if let Some(source) = block.source() {
        // Enough of the hash to tell two images apart.
        let _ = write!(text, ", {} bytes, sha256 {}", source.len(), &digest::of_bytes(source.as_bytes())[..16]);
    }
    text + "]"
}

/// Elements that the client puts before a prompt.
const PUT_BEFORE: [&str; 5] =
    ["system-reminder", "ide_opened_file", "ide_selection", "local-command-caveat", "available-deferred-tools"];

/// `true` if a person wrote the prompt to the model. Commands are for the client, and the client writes its own texts in tags. A
/// path is no command, and an HTML tag is not the client's.
pub fn is_typed(prompt: &str) -> bool {
    const OTHERS: [&str; 5] = ["<command-", "<bash-input>", "<user-memory-input>", "<teammate-message", "<tick>"];
    let is_command = || {
        let name = prompt.strip_prefix('/').map(|rest| rest.split(char::is_whitespace).next().unwrap_or_default());
        name.is_some_and(|name| !name.contains('/'))
    };
    let is_element = || prompt.strip_prefix('<').is_some_and(|rest| PUT_BEFORE.iter().any(|tag| rest.starts_with(tag)));
    let is_own = || is_echo(prompt) || is_element() || OTHERS.iter().any(|begin| prompt.starts_with(begin));
    !is_command() && !is_own()
}

/// The tag with which a prompt asks to pin its turn.
pub const PIN_TAG: &str = "#keep";

/// `true` if a prompt contains the tag as a separate word, in any case.
pub fn asks_to_pin(prompt: &str) -> bool {
    // ASCII alone, as the patched client looks for it with an expression.
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-/#".contains(byte);
    memchr::memchr_iter(b'#', prompt.as_bytes()).any(|at| {
        let (before, behind) = prompt.as_bytes().split_at(at);
        let tag = behind.get(..PIN_TAG.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(PIN_TAG.as_bytes()));
        let is_begin = before.last().is_none_or(|byte| b" \t\r\n".contains(byte));
        tag && is_begin && !behind.get(PIN_TAG.len()).is_some_and(goes_on)
    })
}

/// Returns a prompt as it was typed: without elements that the client puts before it, a slash command as `/name arguments`.
pub fn as_typed(text: &str) -> String {
    let mut rest = text.trim_start();
    while let Some(tag) = PUT_BEFORE.iter().find(|tag| inside(rest, tag).is_some_and(|(at, _)| at == 0)) {
        let close = format!("</{tag}>");
        rest = rest.find(&close).map_or("", |at| rest[at + close.len()..].trim_start());
    }
    match inside(rest, "command-name") {
        Some((_, name)) if rest.starts_with("<command-") => {
            let arguments = inside(rest, "command-args").map_or("", |(_, arguments)| arguments);
            format!("{} {}", name.trim(), arguments.trim()).trim_end().to_owned()
        }
        _ => rest.to_owned(),
    }
}

/// Returns the start of an element, and its content.
fn inside<'a>(text: &'a str, tag: &str) -> Option<(usize, &'a str)> {
    let open = format!("<{tag}>");
    let at = text.find(&open)?;
    let rest = &text[at + open.len()..];
    Some((at, rest.find(&format!("</{tag}>")).map_or(rest, |end| &rest[..end])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_a_word_of_its_own() {
        for asks in [
            "#keep",
            "Remember the port. #keep",
            "#keep: the port is 8080",
            "so\n#keep\nit",
            "(all) #keep, please",
            "Never! #KEEP",
        ] {
            assert!(asks_to_pin(asks), "{asks}");
        }
        for says in ["", "keep", "# keep", "#keeper", "#keep-alive", "#keep_it", "x#keep", "a/#keep/b", "##keep", "#kéép", "#kee"]
        {
            assert!(!asks_to_pin(says), "{says}");
        }
    }

    #[test]
    fn people_type_paths_and_tags() {
        for typed in ["/usr/bin/env fails", "<div> is not closed", "# Plan", "!important is ignored", "a /review", ""] {
            assert!(is_typed(typed), "{typed}");
        }
        for own in [
            "/review src",
            "/ctxbridge:recall x",
            "/",
            "<task-notification>done</task-notification>",
            "<command-message>x</command-message>",
            "<system-reminder>x",
            "<bash-input>ls</bash-input>",
        ] {
            assert!(!is_typed(own), "{own}");
        }
    }

    #[test]
    fn prompts_as_they_were_typed() {
        for (text, typed) in [
            ("Fix it.", "Fix it."),
            ("<system-reminder>x</system-reminder>\n<ide_opened_file>y</ide_opened_file> Fix it.", "Fix it."),
            (
                "<command-message>review</command-message>\n<command-name>/review</command-name>\n<command-args>now </command-args>",
                "/review now",
            ),
            ("<command-name>/compact</command-name><command-args></command-args>", "/compact"),
            ("Why is <command-name>x</command-name> here?", "Why is <command-name>x</command-name> here?"),
            ("<system-reminder>never closed", ""),
        ] {
            assert_eq!(as_typed(text), typed);
        }
    }
}
