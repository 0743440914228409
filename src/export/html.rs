/*!
Export of a conversation as one self-contained page: no script, no network, styles inside.
Folded parts are `<details>`, which work without a script. The page forbids everything but its own styles, so that even a mistake
of ours runs nothing. Turns are rendered in parallel and written in order.
*/

use std::io::{self, Write};

use rayon::prelude::*;

use super::conversation::{Agent, ExportedConversation, ExportedMessage, ExportedTurn, MessageBody, MessagePart, ToolOutcome};
use super::escape::escape;
use super::{clock, format_timestamp, prose, visible};

mod tool;

/// The page around the conversation.
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

/// Number of turns that are rendered before any of them is written.
const RENDERED_TURNS_PER_BATCH: usize = 64;

/// Maximum bytes of code that are colored in all, and the least budget of a turn. Coloring costs more than everything else.
const COLOR_BUDGET_BYTES: usize = 512 << 10;
const MIN_TURN_COLOR_BYTES: usize = 2 << 10;

/// Writes the page.
///
/// # Errors
/// If the sink cannot be written.
pub fn write(conversation: &ExportedConversation, sink: &mut dyn Write) -> io::Result<()> {
    let title = title(conversation);
    let mut page = HtmlPage { html: String::new(), budget: 0 };
    let (head, tail) = PAGE.split_once("{{body}}").unwrap_or((PAGE, ""));
    let (head, style) = head.split_once("{{style}}").unwrap_or((head, ""));
    let (head, behind) = head.split_once("{{title}}").unwrap_or((head, ""));
    page.html.push_str(head);
    page.text(&title);
    page.raw(&[behind, STYLE, style]);
    page.facts(conversation, &title);
    page.contents(conversation);
    page.raw(&["<main id=\"conversation\">\n"]);
    let budget = (COLOR_BUDGET_BYTES / conversation.turns.len().max(1)).max(MIN_TURN_COLOR_BYTES);
    page.budget = budget;
    page.messages(&conversation.before);
    sink.write_all(page.html.as_bytes())?;
    let numbered: Vec<_> = conversation.turns.iter().enumerate().collect();
    for some in numbered.chunks(RENDERED_TURNS_PER_BATCH) {
        let rendered: Vec<String> = some.par_iter().map(|(number, turn)| of_turn(*number, turn, budget)).collect();
        for turn in rendered {
            sink.write_all(turn.as_bytes())?;
        }
    }
    let mut page = HtmlPage { html: String::new(), budget };
    if !conversation.agents.is_empty() {
        page.raw(&["<section class=\"others\" aria-labelledby=\"others\">\n<h2 id=\"others\">Other sub-agents</h2>\n"]);
        conversation.agents.iter().for_each(|agent| page.agent(agent));
        page.raw(&["</section>\n"]);
    }
    page.raw(&["</main>", tail]);
    sink.write_all(page.html.as_bytes())
}

/// Title of a conversation: its first prompt.
pub(super) fn title(conversation: &ExportedConversation) -> String {
    let first = || conversation.turns.iter().map(ExportedTurn::title).find(|title| !title.is_empty());
    let first = conversation.title.clone().filter(|_| conversation.state.is_none()).or_else(first);
    first.unwrap_or_else(|| format!("Session {}", conversation.session))
}

/// Names and values of a conversation's metadata.
pub(super) fn facts(conversation: &ExportedConversation) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Session", conversation.session.clone())];
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("State", conversation.state.clone());
    add("Folder", conversation.folder.clone());
    add("Model", conversation.model.clone());
    add("Claude Code", conversation.version.clone());
    add("From", conversation.first_ms().and_then(clock));
    add("To", conversation.last_ms().and_then(clock));
    let rewound = conversation.rewound();
    add("Turns", Some((conversation.turns.len() - rewound).to_string()));
    add("Rewound turns", Some(rewound).filter(|count| *count > 0).map(|count| count.to_string()));
    add("Compactions", Some(conversation.compactions()).filter(|count| *count > 0).map(|count| count.to_string()));
    facts
}

fn of_turn(number: usize, turn: &ExportedTurn, budget: usize) -> String {
    let mut page = HtmlPage { html: String::new(), budget };
    page.turn(number, turn);
    page.html
}

/// The HTML so far.
struct HtmlPage {
    html: String,
    /// Bytes of code that may still be colored.
    budget: usize,
}

impl HtmlPage {
    fn raw(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.html.push_str(part));
    }

    /// Adds foreign text, escaped and with hidden characters made visible.
    fn text(&mut self, text: &str) {
        escape(&mut self.html, &visible::text(text));
    }

    fn facts(&mut self, conversation: &ExportedConversation, title: &str) {
        self.raw(&["<header>\n<h1>"]);
        self.text(title);
        self.raw(&["</h1>\n<dl class=\"facts\">\n"]);
        for (name, value) in facts(conversation) {
            self.raw(&["<dt>", name, "</dt><dd>"]);
            self.text(&value);
            self.raw(&["</dd>\n"]);
        }
        self.raw(&["</dl>\n</header>\n"]);
    }

    fn contents(&mut self, conversation: &ExportedConversation) {
        self.raw(&[
            "<nav aria-labelledby=\"contents\">\n<details open><summary><h2 id=\"contents\">Turns</h2></summary>\n<ol>\n",
        ]);
        for (number, turn) in conversation.turns.iter().enumerate() {
            let (anchor, index) = (number.to_string(), turn.index.to_string());
            self.raw(&["<li><span class=\"number\">", &index, "</span><a href=\"#turn-", &anchor, "\">"]);
            self.text(&title_of(turn));
            self.raw(&[if turn.is_rewound { "</a> (rewound)</li>\n" } else { "</a></li>\n" }]);
        }
        self.raw(&["</ol>\n</details>\n</nav>\n"]);
    }

    fn turn(&mut self, number: usize, turn: &ExportedTurn) {
        let id = format!("turn-{number}");
        let class = if turn.is_rewound { "turn rewound" } else { "turn" };
        self.raw(&[
            "<article class=\"",
            class,
            "\" id=\"",
            &id,
            "\" aria-labelledby=\"",
            &id,
            "-title\">\n<header><h2 id=\"",
            &id,
        ]);
        self.raw(&["-title\"><a href=\"#", &id, "\">"]);
        self.text(&title_of(turn));
        self.raw(&["</a></h2> <span class=\"about\">"]);
        if let (Some(stamp), Some(clock)) = (format_timestamp(turn.started_ms), clock(turn.started_ms)) {
            self.raw(&["<time datetime=\"", &stamp, "\">", &clock, "</time> "]);
        }
        self.raw(&["<code>"]);
        self.text(&turn.handle);
        self.raw(&["</code></span></header>\n"]);
        if turn.is_rewound {
            self.raw(&["<details class=\"branch\"><summary>Rewound: the conversation went on without this turn</summary>\n"]);
        }
        self.messages(&turn.messages);
        self.raw(&[if turn.is_rewound { "</details>\n</article>\n" } else { "</article>\n" }]);
    }

    fn messages(&mut self, messages: &[ExportedMessage]) {
        messages.iter().for_each(|message| self.message(message));
    }

    fn message(&mut self, message: &ExportedMessage) {
        match &message.body {
            MessageBody::Prompt(parts) => self.section("prompt", "Prompt", |page| page.parts(parts)),
            MessageBody::Answer(parts) => self.section("answer", "Answer", |page| {
                for part in parts {
                    match part {
                        MessagePart::Text(text) => page.prose(text),
                        MessagePart::Other(_) => page.parts(std::slice::from_ref(part)),
                    }
                }
            }),
            MessageBody::Thinking(text) => self.folded("thinking", "Thinking", |page| page.lines(text)),
            MessageBody::Call(call) => self.call(call),
            MessageBody::Result(outcome) => self.section("result", "Result", |page| page.outcome(outcome, None)),
            MessageBody::Note(parts) => self.section("note", "Client", |page| page.parts(parts)),
            MessageBody::Summary(text) => {
                self.folded("summary", "Compacted: what came before became this summary", |page| page.prose(text))
            }
            MessageBody::Agent(agent) => self.agent(agent),
        }
    }

    fn section(&mut self, class: &str, name: &str, inside: impl FnOnce(&mut Self)) {
        self.raw(&["<section class=\"", class, "\"><h3>", name, "</h3>\n"]);
        inside(self);
        self.raw(&["</section>\n"]);
    }

    fn folded(&mut self, class: &str, name: &str, inside: impl FnOnce(&mut Self)) {
        self.raw(&["<details class=\"", class, "\"><summary><h3>", name, "</h3></summary>\n"]);
        inside(self);
        self.raw(&["</details>\n"]);
    }

    fn prose(&mut self, markdown: &str) {
        self.raw(&["<div class=\"prose\">\n"]);
        prose::render(&mut self.html, markdown, &mut self.budget);
        self.raw(&["</div>\n"]);
    }

    /// Adds text with its lines and blanks.
    fn lines(&mut self, text: &str) {
        self.raw(&["<div class=\"text\">"]);
        self.text(text);
        self.raw(&["</div>\n"]);
    }

    fn parts(&mut self, parts: &[MessagePart]) {
        for part in parts {
            match part {
                MessagePart::Text(text) => self.lines(text),
                MessagePart::Other(stand_in) => self.lines(&stand_in.label()),
            }
        }
    }

    fn agent(&mut self, agent: &Agent) {
        self.raw(&["<details class=\"agent\"><summary><h3>Sub-agent "]);
        self.text(&agent.id);
        self.raw(&["</h3> "]);
        self.text(&agent.title());
        self.raw(&["</summary>\n"]);
        self.messages(&agent.messages);
        self.raw(&["</details>\n"]);
    }
}

/// Title of a turn, with a default for turns without a prompt.
pub(super) fn title_of(turn: &ExportedTurn) -> String {
    let title = turn.title();
    if title.is_empty() { format!("Turn {}", turn.index) } else { title }
}

/// Number of lines of a tool result, and `true` if they are to be folded.
pub(super) fn outcome_length(outcome: &ToolOutcome) -> (usize, bool) {
    const SHORT_LINES: usize = 15;
    const SHORT_BYTES: usize = 1_500;
    let texts = || super::conversation::texts(&outcome.parts);
    let lines = texts().map(|text| text.lines().count()).sum();
    (lines, lines > SHORT_LINES || texts().map(str::len).sum::<usize>() > SHORT_BYTES)
}
