//! The files of the page, which are inside the binary. The page inserts all data as text, never as HTML.

/// Content type and bytes of a file of the page, by its name. The page itself has the empty name.
pub(super) fn named(name: &str) -> Option<(&'static str, &'static [u8])> {
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    const STYLE: &str = "text/css; charset=utf-8";
    Some(match name {
        "" => ("text/html; charset=utf-8", include_bytes!("assets/index.html")),
        "api.js" => (SCRIPT, include_bytes!("assets/api.js")),
        "app.js" => (SCRIPT, include_bytes!("assets/app.js")),
        "charts.js" => (SCRIPT, include_bytes!("assets/charts.js")),
        "conversation.js" => (SCRIPT, include_bytes!("assets/conversation.js")),
        "dom.js" => (SCRIPT, include_bytes!("assets/dom.js")),
        "learnings.js" => (SCRIPT, include_bytes!("assets/learnings.js")),
        "markdown.js" => (SCRIPT, include_bytes!("assets/markdown.js")),
        "overview.js" => (SCRIPT, include_bytes!("assets/overview.js")),
        "session.js" => (SCRIPT, include_bytes!("assets/session.js")),
        "sessions.js" => (SCRIPT, include_bytes!("assets/sessions.js")),
        "system.js" => (SCRIPT, include_bytes!("assets/system.js")),
        "conversation.css" => (STYLE, include_bytes!("assets/conversation.css")),
        "style.css" => (STYLE, include_bytes!("assets/style.css")),
        "vendor/uPlot.esm.js" => (SCRIPT, include_bytes!("assets/vendor/uPlot.esm.js")),
        "vendor/uPlot.min.css" => (STYLE, include_bytes!("assets/vendor/uPlot.min.css")),
        "vendor/uPlot.LICENSE" => ("text/plain; charset=utf-8", include_bytes!("assets/vendor/uPlot.LICENSE")),
        _ => return None,
    })
}
