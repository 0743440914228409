//! A page, read by a parser of HTML that is not ours.

use scraper::{Html, Selector};

/// Elements that a page may have.
const ELEMENTS: &[&str] = &[
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "a",
    "header",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "dl",
    "dt",
    "dd",
    "nav",
    "details",
    "summary",
    "ol",
    "ul",
    "li",
    "span",
    "main",
    "article",
    "section",
    "div",
    "p",
    "time",
    "code",
    "pre",
    "ins",
    "del",
    "em",
    "strong",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "blockquote",
    "br",
    "hr",
];

/// Attributes, and how their values begin.
const ATTRIBUTES: &[(&str, &[&str])] = &[
    ("class", &[""]),
    ("id", &["turn-", "contents", "conversation", "others"]),
    ("href", &["#", "http://", "https://", "mailto:"]),
    ("rel", &["noopener noreferrer"]),
    ("datetime", &["2"]),
    ("aria-labelledby", &["turn-", "contents", "others"]),
    ("open", &[""]),
    ("start", &[""]),
    ("style", &["text-align: "]),
    ("lang", &["en"]),
    ("charset", &["utf-8"]),
    ("http-equiv", &["Content-Security-Policy"]),
    ("name", &["viewport", "referrer", "color-scheme", "generator"]),
    ("content", &["default-src 'none'", "width=", "no-referrer", "light dark", "ctxbridge"]),
];

/// Nothing on the page can run, load or lead astray.
#[track_caller]
pub fn assert_harmless(page: &str) {
    let parsed = Html::parse_document(page);
    for element in parsed.tree.nodes().filter_map(|node| node.value().as_element()) {
        assert!(ELEMENTS.contains(&element.name()), "<{}> in {page}", element.name());
        for (name, value) in element.attrs() {
            let begins = ATTRIBUTES.iter().find(|(known, _)| *known == name);
            let begins = begins.unwrap_or_else(|| panic!("<{} {name}={value:?}> in {page}", element.name()));
            assert!(begins.1.iter().any(|begin| value.starts_with(begin)), "{name}={value:?} in {page}");
        }
    }
    assert_eq!(parsed.select(&Selector::parse("article article, style style").unwrap()).count(), 0);
    let hidden =
        |c: char| (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!page.contains(hidden), "something is hidden in {page}");
}

/// The texts of the elements that a selector finds.
pub fn texts(page: &str, selector: &str) -> Vec<String> {
    let parsed = Html::parse_document(page);
    parsed.select(&Selector::parse(selector).unwrap()).map(|element| element.text().collect()).collect()
}
