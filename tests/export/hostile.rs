//! A transcript that wants to be more than text.

use ctxbridge::export::conversation::{
    ExportedCall, ExportedConversation, ExportedMessage, ExportedTurn, MessageBody, MessagePart, ToolOutcome,
};
use ctxbridge::export::{ExportFormat, visible, write};
use ctxbridge_testkit::sandbox::{Sandbox, run};
use proptest::prelude::*;
use serde_json::json;

use super::lines::Lines;
use super::page::{assert_harmless, texts};

const TEXTS: [&str; 12] = [
    "<script>alert(1)</script>",
    "</details></article></main><script>alert(2)</script>",
    "\"><img src=x onerror=alert(3)>",
    "' onmouseover='alert(4)",
    "`````\n```\n<b>no fence holds</b>\n~~~",
    "[click](javascript:alert(5)) <javascript:alert(6)> ![](https://e.org/pixel)",
    "\u{202e}txt.exe\u{2066} \u{200b}hidden \u{feff}",
    "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m",
    "]]> <!-- --> <![CDATA[ <?php ?> <!doctype html>",
    "</style><style>*{display:none}</style></title><base href=//e.org>",
    "[a]: javascript:alert(7)\n\n[a] <svg/onload=alert(8)>",
    "&lt;script&gt; &#60;script&#62; {{body}} {{style}} {{title}}",
];

fn hostile() -> String {
    let mut lines = Lines::of("s");
    let mut text = String::new();
    for evil in TEXTS {
        text += &lines.prompt(evil);
        text += &lines.answer(evil);
        text += &lines.call(evil, json!({ "file_path": evil, "old_string": evil, "new_string": format!("{evil}x") }));
        text += &lines.result(evil);
        text += &lines.call("Bash", json!({ "command": evil, evil: evil }));
        text += &lines.result(&evil.repeat(200));
        text += &lines.call("Write", json!({ "file_path": format!("{evil}.rs"), "content": evil }));
        text += &lines.summary(evil);
    }
    text
}

#[test]
fn a_page_shows_it_as_text() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, hostile());
    sandbox.cli(&["archive", "import"]);
    let page = sandbox.cli(&["archive", "export", &talk.id, "--format", "html"]).stdout;
    assert_harmless(&page);
    assert_eq!(texts(&page, "article").len(), TEXTS.len());
    let prompts: Vec<String> = TEXTS.iter().map(|evil| visible::text(evil).into_owned()).collect();
    assert_eq!(texts(&page, ".prompt .text"), prompts);
}

#[test]
fn markdown_shows_it_as_text() {
    use pulldown_cmark::{Event, Options, Parser, Tag};
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, hostile());
    sandbox.cli(&["archive", "import"]);
    let text = sandbox.cli(&["archive", "export", &talk.id]).stdout;
    let ours = ["<details>", "</details>"];
    let (mut open, mut most) = (0, 0);
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        match event {
            Event::Html(html) => {
                assert!(ours.iter().any(|tag| html.starts_with(tag)) || html.trim().is_empty(), "{html:?} in {text}");
                // What is in it is escaped.
                let rest = ["<details>", "</details>", "<summary>", "</summary>", "<b>", "</b>", "<code>", "</code>"];
                let rest = rest.iter().fold(html.to_string(), |html, tag| html.replacen(tag, "", 1));
                assert!(!rest.contains('<'), "{html:?}");
                open += html.matches("<details>").count();
                open -= html.matches("</details>").count();
                most = most.max(open);
            }
            Event::InlineHtml(html) => panic!("{html:?} in {text}"),
            Event::Start(Tag::Image { dest_url, .. }) => panic!("{dest_url} in {text}"),
            Event::Start(Tag::Link { dest_url, .. }) => {
                assert!(["http://", "https://", "mailto:"].iter().any(|scheme| dest_url.starts_with(scheme)), "{dest_url}");
            }
            _ => {}
        }
    }
    assert_eq!((open, most), (0, 2), "each block that is folded ends: {text}");
}

#[test]
fn a_terminal_gets_nothing_to_obey() {
    let sandbox = Sandbox::new();
    let (a, b) = (sandbox.talk(1, hostile()), sandbox.talk(2, hostile().replace("alert", "warn")));
    sandbox.cli(&["archive", "import"]);
    for text in [
        sandbox.cli(&["archive", "export", &a.id]).stdout,
        run(sandbox.command(&["archive", "diff", &a.id, &b.id]), b"").with_code(1).stdout,
    ] {
        assert!(!text.contains(|c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}'), "{text:?}");
    }
}

/// A conversation with this text wherever there can be one.
fn everywhere(text: &str) -> ExportedConversation {
    let parts = || vec![MessagePart::Text(text.to_owned())];
    let call = ExportedCall {
        id: text.to_owned(),
        tool: text.to_owned(),
        input: json!({ "file_path": text, "content": text, "more": text }),
        outcome: Some(ToolOutcome { at_ms: 1, is_error: true, parts: parts() }),
        agents: Vec::new(),
    };
    let bodies = [
        MessageBody::Prompt(parts()),
        MessageBody::Answer(parts()),
        MessageBody::Call(Box::new(call)),
        MessageBody::Note(parts()),
        MessageBody::Thinking(text.to_owned()),
        MessageBody::Summary(text.to_owned()),
    ];
    let messages = bodies.into_iter().map(|body| ExportedMessage { at_ms: 1_780_300_800_000, body }).collect();
    let turn = ExportedTurn { handle: text.to_owned(), messages, ..ExportedTurn::default() };
    ExportedConversation {
        session: text.to_owned(),
        folder: Some(text.to_owned()),
        turns: vec![turn],
        ..ExportedConversation::default()
    }
}

fn html(conversation: &ExportedConversation) -> String {
    let mut page = Vec::new();
    write(conversation, ExportFormat::Html, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]
    #[test]
    fn any_text_in_any_place_is_that_text(
        text in "([a-z<>&\"'`=/!\\-\\[\\](){}\\\\;:#* \n\t\r\u{1b}\u{202e}é]|<script>|</pre>|</details>|&amp;|&#0;|\\PC){0,40}|.{0,40}",
    ) {
        let page = html(&everywhere(&text));
        assert_harmless(&page);
        let seen = visible::text(&text).into_owned();
        let first = |selector| texts(&page, selector).into_iter().next();
        prop_assert_eq!(first(".prompt .text"), Some(seen.clone()));
        prop_assert_eq!(first(".note .text"), Some(seen.clone()));
        prop_assert_eq!(first(".thinking .text"), Some(seen.clone()));
        prop_assert_eq!(first(".call > summary h3"), Some(seen.clone()));
        prop_assert_eq!(first(".call > p code"), Some(seen.clone()));
        prop_assert_eq!(first(".call > pre code"), Some(seen.clone()));
        prop_assert_eq!(first(".turn > header .about code"), Some(seen.clone()));
        prop_assert_eq!(first(".facts dd"), Some(seen.clone()));
        prop_assert_eq!(texts(&page, ".call pre code").last().cloned(), Some(seen));
    }
}
