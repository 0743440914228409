//! Tool calls on the page: their input, such as commands and changes, and their results.

use similar::ChangeTag;

use super::{HtmlPage, outcome_length};
use crate::export::code::{CodeLanguage, highlight};
use crate::export::conversation::{ExportedCall, MessagePart, ToolOutcome};
use crate::export::tool::{InputBlock, call_summary, changed_lines, input_blocks, language_of};
use crate::export::visible;

impl HtmlPage {
    pub(super) fn call(&mut self, call: &ExportedCall) {
        let failed = call.outcome.as_ref().is_some_and(|outcome| outcome.is_error);
        self.raw(&["<details class=\"call", if failed { " error" } else { "" }, "\"><summary><h3>"]);
        self.text(&call.tool);
        self.raw(&["</h3>"]);
        if let Some(about) = call_summary(call) {
            self.raw(&["<code>"]);
            self.text(&about);
            self.raw(&["</code>"]);
        }
        match &call.outcome {
            Some(_) if failed => self.raw(&[" <span class=\"state\">failed</span>"]),
            None => self.raw(&[" <span class=\"state\">no result</span>"]),
            Some(_) => {}
        }
        self.raw(&["</summary>\n"]);
        for block in input_blocks(call) {
            match block {
                InputBlock::Code(code, language) => self.code(&code, language),
                InputBlock::Change(old, new) => self.change(old, new),
                InputBlock::Purpose(text) => self.lines(text),
                InputBlock::File(path) => {
                    self.raw(&["<p><code>"]);
                    self.text(path);
                    self.raw(&["</code></p>\n"]);
                }
            }
        }
        if !call.agents.is_empty() {
            self.raw(&["<div class=\"agents\">\n"]);
            call.agents.iter().for_each(|agent| self.agent(agent));
            self.raw(&["</div>\n"]);
        }
        if let Some(outcome) = &call.outcome {
            self.outcome(outcome, language_of(call));
        }
        self.raw(&["</details>\n"]);
    }

    /// Adds the result of a tool; folded if it is long.
    pub(super) fn outcome(&mut self, outcome: &ToolOutcome, language: Option<CodeLanguage>) {
        let (lines, is_long) = outcome_length(outcome);
        let name = if outcome.is_error { "Error" } else { "Result" };
        let class = if outcome.is_error { " class=\"bad\"" } else { "" };
        if outcome.parts.is_empty() {
            self.raw(&["<p", class, ">", name, ": empty</p>\n"]);
            return;
        }
        if is_long {
            self.raw(&["<details class=\"long\"><summary", class, ">", name, ", ", &lines.to_string(), " lines</summary>\n"]);
        } else {
            self.raw(&["<h4", class, ">", name, "</h4>\n"]);
        }
        for part in &outcome.parts {
            match part {
                MessagePart::Text(text) => self.code(text, language),
                MessagePart::Other(stand_in) => self.lines(&stand_in.label()),
            }
        }
        if is_long {
            self.raw(&["</details>\n"]);
        }
    }

    fn code(&mut self, code: &str, language: Option<CodeLanguage>) {
        // The parser drops a line break right behind the tag.
        self.raw(&["<pre>\n<code>"]);
        highlight(&mut self.html, &visible::text(code), language, &mut self.budget);
        self.raw(&["</code></pre>\n"]);
    }

    fn change(&mut self, old: &str, new: &str) {
        self.raw(&["<pre class=\"diff\">\n<code>"]);
        for (tag, line) in changed_lines(&visible::text(old), &visible::text(new)) {
            let (open, sign, close) = match tag {
                ChangeTag::Delete => ("<del>", "-", "</del>"),
                ChangeTag::Insert => ("<ins>", "+", "</ins>"),
                ChangeTag::Equal => ("", " ", "\n"),
            };
            self.raw(&[open, sign]);
            super::escape(&mut self.html, &line);
            self.raw(&[close]);
        }
        self.raw(&["</code></pre>\n"]);
    }
}
