//! The files of the page, which are inside the binary. The page inserts all data as text, never as HTML.

/// Content type and bytes of a file of the page, by its name. The page itself has the empty name.
pub(super) fn named(name: &str) -> Option<(&'static str, &'static [u8])> {
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    const STYLE: &str = "text/css; charset=utf-8";
    Some(match name {
        "" => ("text/html; charset=utf-8", include_bytes!("assets/index.html")),
        "app.js" => (SCRIPT, include_bytes!("assets/app.js")),
        "charts.js" => (SCRIPT, include_bytes!("assets/charts.js")),
        "dom.js" => (SCRIPT, include_bytes!("assets/dom.js")),
        "style.css" => (STYLE, include_bytes!("assets/style.css")),
        "vendor/uPlot.esm.js" => (SCRIPT, include_bytes!("assets/vendor/uPlot.esm.js")),
        "vendor/uPlot.min.css" => (STYLE, include_bytes!("assets/vendor/uPlot.min.css")),
        "vendor/uPlot.LICENSE" => ("text/plain; charset=utf-8", include_bytes!("assets/vendor/uPlot.LICENSE")),
        _ => return None,
    })
}
