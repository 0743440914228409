//! Makes answers in Markdown safe to embed. It neutralizes tags, images that would be loaded, and links that lead neither to the
//! web nor to mail. It also handles headings above those of the page, and fences that do not end.
//!
//! An answer is parsed, changed and parsed again, until nothing in it is more than text.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};

use super::{fenced, visible};

/// Maximum number of passes. A change may uncover something else; a text in which that goes on is shown in a fence.
const MAX_SANITIZING_PASSES: usize = 6;

/// Number of levels by which headings are moved down.
const HEADING_SHIFT: usize = 2;

/// Makes an answer safe to put between other parts of the page.
pub(super) fn sanitize(markdown: &str) -> String {
    let seen = visible::text(markdown);
    let mut text = apply(seen.trim_end(), demote_headings(seen.trim_end(), 7));
    for _ in 0..MAX_SANITIZING_PASSES {
        let mut edits = edits(&text);
        if edits.is_empty() {
            // Where a tag was, there may be a heading now.
            edits = demote_headings(&text, HEADING_SHIFT + 1);
        }
        if edits.is_empty() {
            return if ends(&text) { text } else { fenced(markdown, "markdown") };
        }
        text = apply(&text, edits);
    }
    fenced(markdown, "markdown")
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Edits that move down headings above this level.
fn demote_headings(text: &str, above: usize) -> Vec<(Range<usize>, String)> {
    let mut edits = Vec::new();
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        let Event::Start(Tag::Heading { level, .. }) = event else { continue };
        let level = level as usize;
        if level >= above {
            continue;
        }
        let heading = text[range.clone()].trim_end();
        if heading.starts_with('#') {
            edits.push((range.start..range.start, "#".repeat(HEADING_SHIFT.min(6 - level))));
        } else if let Some((said, _)) = heading.rsplit_once('\n') {
            // Underlined; of several lines, it is no heading any more.
            let mark = if said.contains('\n') { String::new() } else { "#".repeat(HEADING_SHIFT + level) + " " };
            edits.push((range.start..range.start, mark));
            edits.push((range.start + said.len()..range.start + heading.len(), String::new()));
        }
    }
    edits
}

/// Edits that turn tags, images and links of other kinds into text.
fn edits(text: &str) -> Vec<(Range<usize>, String)> {
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        let escaped = |from: &str, to: &str| {
            let at = text[range.clone()].find(from)? + range.start;
            Some((at..at + from.len(), to.to_owned()))
        };
        match event {
            Event::Html(_) | Event::InlineHtml(_) => {
                let tags = text[range.clone()].match_indices('<');
                edits.extend(tags.map(|(at, _)| (range.start + at..range.start + at + 1, "&lt;".to_owned())));
            }
            Event::Start(Tag::Image { .. }) => edits.extend(escaped("![", "\\!\\[")),
            Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                let scheme = dest_url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
                let is_fine = matches!(scheme.as_deref(), Some("http" | "https" | "mailto")) || link_type == LinkType::Email;
                if !is_fine {
                    let is_bare = link_type == LinkType::Autolink;
                    edits.extend(if is_bare { escaped("<", "&lt;") } else { escaped("[", "\\[") });
                }
            }
            _ => {}
        }
    }
    edits
}

/// `true` if no block is left open at the end of the text.
fn ends(text: &str) -> bool {
    const NEXT: &str = "<details>";
    let followed = format!("{text}\n\n{NEXT}");
    let mut depth = 0_usize;
    for event in Parser::new_ext(&followed, options()) {
        match event {
            // No other tag is left.
            Event::Start(Tag::HtmlBlock) => return depth == 0,
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    false
}

fn apply(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut changed = String::with_capacity(text.len());
    let mut done = 0;
    for (range, new) in edits {
        // A range that was changed already, as a part of another one.
        if range.start < done {
            continue;
        }
        changed.push_str(&text[done..range.start]);
        changed.push_str(&new);
        done = range.end;
    }
    changed + &text[done..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn markdown_stays_markdown() {
        for (said, shown) in [
            ("# A\n\ntext *b* `<c>`\n\n- [x] d", "### A\n\ntext *b* `<c>`\n\n- [x] d"),
            ("A\n=\nb", "### A\nb"),
            ("##### E", "###### E"),
            ("```rust\n<b>\n# no heading\n```", "```rust\n<b>\n# no heading\n```"),
            ("[a](https://e.org) <b>x</b>", "[a](https://e.org) &lt;b>x&lt;/b>"),
            ("![p](https://e.org/p.png)", "\\!\\[p](https://e.org/p.png)"),
            ("[a](javascript:x) [b](/etc)", "\\[a](javascript:x) \\[b](/etc)"),
            ("```\nnever closed", "````markdown\n```\nnever closed\n````\n"),
            ("<!-- open", "&lt;!-- open"),
        ] {
            assert_eq!(sanitize(said), shown);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_more_than_text(
            text in "(<script>|</details>|<!--|-->|```|~~~|!\\[a\\]\\(b\\)|\\[a\\]\\(javascript:b\\)|\\[a\\]: data:x|\\[a\\]|<b x='|# |==|---|> |- |    |\n|\n\n|`|<x:y>|\\\\|[a-z]| ){0,20}",
        ) {
            let page = format!("{}\n\n<details>\n", sanitize(&text));
            let mut ours = 0;
            for event in Parser::new_ext(&page, options()) {
                match event {
                    Event::Html(html) => {
                        prop_assert_eq!(html.trim(), "<details>", "{}", page);
                        ours += 1;
                    }
                    Event::InlineHtml(_) | Event::Start(Tag::Image { .. }) => prop_assert!(false, "{}", page),
                    Event::Start(Tag::Link { dest_url, .. }) => prop_assert!(dest_url.starts_with("http"), "{}", page),
                    Event::Start(Tag::Heading { level, .. }) => prop_assert!(level as usize > HEADING_SHIFT, "{}", page),
                    _ => {}
                }
            }
            prop_assert_eq!(ours, 1, "{}", page);
        }
    }
}
