//! Text in HTML.

/// Adds escaped text to HTML, for an element's content or an attribute in quotes.
pub(super) fn escape(html: &mut String, text: &str) {
    let mut done = 0;
    for (at, byte) in text.bytes().enumerate() {
        let entity = match byte {
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'&' => "&amp;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            _ => continue,
        };
        html.push_str(&text[done..at]);
        html.push_str(entity);
        done = at + 1;
    }
    html.push_str(&text[done..]);
}
