//! Renders the Markdown of answers as HTML: its tags become text, its links lead to the web or to mail, and nothing is loaded.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, html};

use super::code::{CodeLanguage, highlight};
use super::escape::escape;
use super::visible;

/// Maximum bytes of a text that is rendered. Longer ones are shown as they are: no answer is that long.
const MAX_RENDERED_BYTES: usize = 1 << 20;

/// Adds a text in Markdown. Its headings start at level 4, below those of the page.
pub(super) fn render(page: &mut String, markdown: &str, budget: &mut usize) {
    let seen = visible::text(markdown);
    if seen.len() > MAX_RENDERED_BYTES {
        page.push_str("<pre>");
        escape(page, &seen);
        page.push_str("</pre>");
        return;
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut events = Vec::new();
    let mut code: Option<(Option<CodeLanguage>, String)> = None;
    let mut links = Vec::new();
    for event in Parser::new_ext(&seen, options) {
        let event = match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => info.split([' ', ',', '{']).next().and_then(CodeLanguage::named),
                    CodeBlockKind::Indented => None,
                };
                code = Some((language, String::new()));
                continue;
            }
            Event::Text(text) if code.is_some() => {
                if let Some((_, block)) = &mut code {
                    block.push_str(&text);
                }
                continue;
            }
            Event::End(TagEnd::CodeBlock) => {
                let (language, block) = code.take().unwrap_or_default();
                let mut html = String::from("<pre><code>");
                highlight(&mut html, &block, language, budget);
                html.push_str("</code></pre>\n");
                Event::Html(html.into())
            }
            // A tag is a text here, as everything that is said.
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            // Blocks of HTML have no element around them.
            Event::Start(Tag::HtmlBlock) => Event::Html("<p class=\"raw\">".into()),
            Event::End(TagEnd::HtmlBlock) => Event::Html("</p>\n".into()),
            Event::Start(Tag::Heading { level, .. }) => Event::Html(format!("<h{}>", demoted(level)).into()),
            Event::End(TagEnd::Heading(level)) => Event::Html(format!("</h{}>\n", demoted(level)).into()),
            Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                let target = target(link_type, &dest_url);
                links.push(target.is_some());
                match target {
                    Some(target) => Event::Html(format!("<a href=\"{target}\" rel=\"noopener noreferrer\">").into()),
                    None => continue,
                }
            }
            Event::End(TagEnd::Link) => match links.pop() {
                Some(true) => Event::Html("</a>".into()),
                _ => continue,
            },
            Event::Start(Tag::Image { .. }) => Event::Text("[image: ".into()),
            Event::End(TagEnd::Image) => Event::Text("]".into()),
            Event::TaskListMarker(done) => Event::Text(if done { "☑ " } else { "☐ " }.into()),
            other => other,
        };
        events.push(event);
    }
    html::push_html(page, events.into_iter());
}

/// Moves a heading down, since the page has three levels of its own.
fn demoted(level: HeadingLevel) -> u8 {
    (level as u8 + 3).min(6)
}

/// Target of a link, escaped for an attribute; none if it is neither the web nor mail.
fn target(kind: LinkType, url: &CowStr<'_>) -> Option<String> {
    let mut target = String::new();
    if kind == LinkType::Email {
        target.push_str("mailto:");
    }
    escape(&mut target, url);
    let scheme = target.split_once(':')?.0.to_ascii_lowercase();
    matches!(scheme.as_str(), "http" | "https" | "mailto").then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(markdown: &str) -> String {
        let mut page = String::new();
        render(&mut page, markdown, &mut usize::MAX.clone());
        page
    }

    #[test]
    fn markdown_is_rendered() {
        insta::assert_snapshot!(html("# Title\n\nSome *text*, `code <b>` and ~~more~~.\n\n- [x] done\n- [ ] open\n\n```rust\nlet x = 1;\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"), @r#"
        <h4>Title</h4>
        <p>Some <em>text</em>, <code>code &lt;b&gt;</code> and <del>more</del>.</p>
        <ul>
        <li>☑ done</li>
        <li>☐ open</li>
        </ul>
        <pre><code><span class="k">let</span> x = <span class="n">1</span>;
        </code></pre>
        <table><thead><tr><th>a</th><th style="text-align: right">b</th></tr></thead><tbody>
        <tr><td>1</td><td style="text-align: right">2</td></tr>
        </tbody></table>
        "#);
    }

    #[test]
    fn nothing_in_it_is_obeyed() {
        insta::assert_snapshot!(html("<script>alert(1)</script>\n\nA <b onclick=x>tag</b>, [a](javascript:alert(1)), [b](JavaScript:x), [c](https://e.org/?a=1&b=\"x\"), \
            ![pixel](https://e.org/p.png), <me@e.org>, [d](data:text/html,x), [e](/etc/passwd)\n"), @r#"
        <p class="raw">&lt;script&gt;alert(1)&lt;/script&gt;
        </p>
        <p>A &lt;b onclick=x&gt;tag&lt;/b&gt;, a, b, <a href="https://e.org/?a=1&amp;b=&quot;x&quot;" rel="noopener noreferrer">c</a>, [image: pixel], <a href="mailto:me@e.org" rel="noopener noreferrer">me@e.org</a>, d, e</p>
        "#);
    }
}
