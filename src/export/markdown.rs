/*!
Export of a conversation as Markdown that looks right on a code host.
Prompts and results are text. They are in a fence that is longer than any inside, or every character with a meaning is escaped.
Answers are Markdown already (`answer` removes what would be more than text). Tool calls are folded, which needs HTML; that HTML
is our own, on lines of its own.
*/

mod answer;

use std::io::{self, Write};

use similar::ChangeTag;

use super::code::CodeLanguage;
use super::conversation::{
    Agent, ExportedCall, ExportedConversation, ExportedMessage, ExportedTurn, MessageBody, MessagePart, ToolOutcome,
};
use super::escape::escape;
use super::html::{facts, outcome_length, title, title_of};
use super::tool::{InputBlock, call_summary, changed_lines, input_blocks, language_of};
use super::{clock, visible};

/// Writes the text.
///
/// # Errors
/// If the sink cannot be written.
pub fn write(conversation: &ExportedConversation, sink: &mut dyn Write) -> io::Result<()> {
    let mut page = MarkdownPage { text: format!("# {}\n\n", one_line(&title(conversation))) };
    for (name, value) in facts(conversation) {
        page.text += &format!("- **{name}**: {}\n", one_line(&value));
    }
    page.text.push('\n');
    page.messages(&conversation.before);
    for turn in &conversation.turns {
        page.turn(turn);
        sink.write_all(page.text.as_bytes())?;
        page.text.clear();
    }
    if !conversation.agents.is_empty() {
        page.text += "## Other sub-agents\n\n";
        conversation.agents.iter().for_each(|agent| page.agent(agent));
    }
    sink.write_all(page.text.as_bytes())
}

struct MarkdownPage {
    text: String,
}

impl MarkdownPage {
    fn turn(&mut self, turn: &ExportedTurn) {
        let rewound = if turn.is_rewound { " (rewound)" } else { "" };
        self.text += &format!("## {}. {}{rewound}\n\n", turn.index, one_line(&title_of(turn)));
        let at = clock(turn.started_ms).map(|at| format!(" · {at}")).unwrap_or_default();
        self.text += &format!("`{}`{at}\n\n", turn.handle);
        if turn.is_rewound {
            let title = "Rewound: the conversation went on without this turn";
            self.folded(title, |page| page.messages(&turn.messages));
        } else {
            self.messages(&turn.messages);
        }
    }

    fn messages(&mut self, messages: &[ExportedMessage]) {
        messages.iter().for_each(|message| self.message(message));
    }

    fn message(&mut self, message: &ExportedMessage) {
        match &message.body {
            MessageBody::Prompt(parts) => self.quoted("Prompt", parts),
            MessageBody::Note(parts) => self.quoted("Client", parts),
            MessageBody::Answer(parts) => {
                for part in parts {
                    match part {
                        MessagePart::Text(text) => self.text += &format!("{}\n\n", answer::sanitize(text)),
                        MessagePart::Other(stand_in) => self.text += &format!("{}\n\n", one_line(&stand_in.label())),
                    }
                }
            }
            MessageBody::Thinking(text) => self.folded("Thinking", |page| page.fenced(text, "text")),
            MessageBody::Call(call) => self.call(call),
            MessageBody::Result(outcome) => self.folded("Result", |page| page.outcome(outcome, None)),
            MessageBody::Summary(text) => self.folded("Compacted: what came before became this summary", |page| {
                page.text += &format!("{}\n\n", answer::sanitize(text));
            }),
            MessageBody::Agent(agent) => self.agent(agent),
        }
    }

    fn quoted(&mut self, who: &str, parts: &[MessagePart]) {
        self.text += &format!("> **{who}**\n");
        for part in parts {
            self.text += ">\n";
            let label;
            let text = match part {
                MessagePart::Text(text) => text,
                MessagePart::Other(stand_in) => {
                    label = stand_in.label();
                    &label
                }
            };
            for line in lines(text) {
                self.text += &format!("> {line}\n");
            }
        }
        self.text.push('\n');
    }

    /// Adds a folded part. `title` is HTML.
    fn folded(&mut self, title: &str, inside: impl FnOnce(&mut Self)) {
        self.text += &format!("<details><summary>{title}</summary>\n\n");
        inside(self);
        self.text += "</details>\n\n";
    }

    fn call(&mut self, call: &ExportedCall) {
        let mut title = format!("<b>{}</b>", html(&call.tool));
        if let Some(about) = call_summary(call) {
            title += &format!(" <code>{}</code>", html(&about));
        }
        match &call.outcome {
            None => title += " – no result",
            Some(outcome) if outcome.is_error => title += " – failed",
            Some(_) => {}
        }
        self.folded(&title, |page| {
            for block in input_blocks(call) {
                match block {
                    InputBlock::Purpose(text) => page.text += &format!("{}\n\n", one_line(text)),
                    InputBlock::File(path) => page.text += &format!("{}\n\n", one_line(path)),
                    InputBlock::Code(code, language) => page.fenced(&code, language.map_or("text", CodeLanguage::name)),
                    InputBlock::Change(old, new) => page.change(old, new),
                }
            }
            call.agents.iter().for_each(|agent| page.agent(agent));
            if let Some(outcome) = &call.outcome {
                page.outcome(outcome, language_of(call));
            }
        });
    }

    fn outcome(&mut self, outcome: &ToolOutcome, language: Option<CodeLanguage>) {
        let (lines, is_long) = outcome_length(outcome);
        let name = if outcome.is_error { "Error" } else { "Result" };
        let inside = |page: &mut Self| {
            for part in &outcome.parts {
                match part {
                    MessagePart::Text(text) => page.fenced(text, language.map_or("text", CodeLanguage::name)),
                    MessagePart::Other(stand_in) => page.text += &format!("{}\n\n", one_line(&stand_in.label())),
                }
            }
        };
        if is_long {
            self.folded(&format!("{name}, {lines} lines"), inside);
        } else {
            self.text += &format!("{name}:\n\n");
            inside(self);
        }
    }

    fn change(&mut self, old: &str, new: &str) {
        let lines = changed_lines(old, new).into_iter().map(|(tag, line)| {
            let sign = match tag {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            format!("{sign}{line}\n")
        });
        self.fenced(&lines.collect::<String>(), "diff");
    }

    fn agent(&mut self, agent: &Agent) {
        self.folded(&format!("Sub-agent {}: {}", html(&agent.id), html(&agent.title())), |page| page.messages(&agent.messages));
    }

    fn fenced(&mut self, text: &str, language: &str) {
        self.text += &fenced(text, language);
        self.text.push('\n');
    }
}

/// Puts text in a fence that nothing inside ends.
fn fenced(text: &str, language: &str) -> String {
    let seen = visible::text(text);
    let longest = seen.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    let end = if seen.ends_with('\n') || seen.is_empty() { "" } else { "\n" };
    format!("{fence}{language}\n{seen}{end}{fence}\n")
}

/// Escapes text for an HTML element of ours.
fn html(text: &str) -> String {
    let mut html = String::new();
    escape(&mut html, &visible::text(text).replace('\n', " "));
    html
}

/// Escapes text and puts it on one line.
fn one_line(text: &str) -> String {
    lines(text).collect::<Vec<_>>().join(" ").replace("\\ ", " ")
}

/// Escapes the lines of a text, and keeps their line breaks.
fn lines(text: &str) -> impl Iterator<Item = String> {
    let seen = visible::text(text).into_owned();
    let lines: Vec<String> = seen.lines().map(plain).collect();
    // Where a paragraph ends, a break would be a backslash.
    let goes_on: Vec<bool> = lines.iter().skip(1).map(|next| !next.is_empty()).chain([false]).collect();
    lines.into_iter().zip(goes_on).map(|(line, goes_on)| if goes_on && !line.is_empty() { line + "\\" } else { line })
}

/// Escapes a line, so that it has no Markdown or HTML.
fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len() + 8);
    let rest = line.trim_start();
    // Four blanks would make it code.
    for blank in line[..line.len() - rest.len()].chars() {
        plain.push_str(if blank == '\t' { "&nbsp;&nbsp;&nbsp;&nbsp;" } else { "&nbsp;" });
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    for (at, character) in rest.char_indices() {
        match character {
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '&' => plain.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '|' | '~' | '$' | '!' => plain.extend(['\\', character]),
            '-' | '+' | '=' if at == 0 => plain.extend(['\\', character]),
            '.' | ')' if at == digits && digits > 0 => plain.extend(['\\', character]),
            _ => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser, Tag};

    use super::*;

    #[test]
    fn fences_are_longer_than_what_is_in_them() {
        assert_eq!(fenced("a", "rs"), "```rs\na\n```\n");
        assert_eq!(fenced("````\n```\n", "text"), "`````text\n````\n```\n`````\n");
    }

    #[test]
    fn lines_end_where_they_did() {
        let mut page = MarkdownPage { text: String::new() };
        page.quoted("Prompt", &[MessagePart::Text("a\nb\n\nc".to_owned())]);
        assert_eq!(page.text, "> **Prompt**\n>\n> a\\\n> b\n> \n> c\n\n");
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_text(text in "([<>&*_`#~|!$=+\\-\\\\\\[\\]().:a1 \n\t]|\n\n|</details>|<script>|https://e\\.org/|    |1\\. |---){0,30}") {
            let mut page = MarkdownPage { text: String::new() };
            page.quoted("Prompt", &[MessagePart::Text(text.clone())]);
            let mut said = String::new();
            for event in Parser::new_ext(&page.text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
                match event {
                    Event::Text(text) => said += &text,
                    Event::Start(Tag::BlockQuote(_) | Tag::Paragraph | Tag::Strong) | Event::End(_) => {}
                    Event::SoftBreak | Event::HardBreak => {}
                    other => prop_assert!(false, "{other:?} in {:?}", page.text),
                }
            }
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&said), letters(&format!("Prompt{text}")));
        }

        #[test]
        fn nothing_ends_a_fence(text in "[`~a\n ]{0,40}") {
            let page = fenced(&text, "text");
            let mut said = String::new();
            for event in Parser::new(&page) {
                if let Event::Text(text) = event { said += &text } else {
                    prop_assert!(!matches!(event, Event::Start(Tag::Paragraph)), "{page:?}");
                }
            }
            prop_assert_eq!(said.trim_end_matches('\n'), text.trim_end_matches('\n'));
        }
    }
}
