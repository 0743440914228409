//! What the three formats look like, for a conversation with everything.

use ctxbridge_testkit::sandbox::{Sandbox, run};

use super::page::assert_harmless;
use super::story;

fn exported(arguments: &[&str]) -> String {
    let sandbox = Sandbox::new();
    let talk = story::archived(&sandbox);
    sandbox.cli(&[&["archive", "export", &talk.id], arguments].concat()).stdout
}

#[test]
fn a_page() {
    let page = exported(&["--format", "html"]);
    assert_harmless(&page);
    // The style is in a file of its own.
    let body = page.find("<body>").unwrap();
    assert!(page[..body].contains("default-src 'none'; style-src 'unsafe-inline'; img-src data:"));
    assert!(page[..body].contains("prefers-color-scheme: dark") && page[..body].contains("@media print"));
    assert!(page[..body].contains("<title>Why is *this* slow? &lt;T&gt; &amp; co</title>"), "{}", &page[..body]);
    insta::assert_snapshot!("page", &page[body..]);
}

#[test]
fn markdown() {
    insta::assert_snapshot!("markdown", exported(&["--format", "markdown"]));
}

#[test]
fn json() {
    insta::assert_snapshot!("json", exported(&["--format", "json"]));
}

#[test]
fn thinking_is_left_out_unless_it_is_asked_for() {
    for format in ["html", "markdown", "json"] {
        let thought = "It must be the parser.";
        assert!(!exported(&["--format", format]).contains(thought), "{format}");
        assert!(exported(&["--format", format, "--thinking"]).contains(thought), "{format}");
    }
}

#[test]
fn json_is_one_value_whichever_option_asks_for_it() {
    let sandbox = Sandbox::new();
    let talk = story::archived(&sandbox);
    assert_eq!(
        sandbox.json(&["archive", "export", &talk.id]),
        sandbox.cli(&["archive", "export", &talk.id, "--format", "json"]).json()
    );
    run(sandbox.command(&["archive", "export", &talk.id, "--format", "html", "--json"]), b"").with_code(2);
}

#[test]
fn secrets_are_taken_out_everywhere() {
    const TOKEN: &str = "ghp_0123456789abcdefABCDEF0123456789abcd";
    let sandbox = Sandbox::new();
    let mut lines = super::lines::Lines::of("s");
    let text = lines.prompt(&format!("Use {TOKEN}"))
        + &lines.answer(&format!("I use {TOKEN}."))
        + &lines.call("Bash", serde_json::json!({ "command": format!("curl -H 'Authorization: Bearer {TOKEN}' https://e.org") }))
        + &lines.result(&format!("token={TOKEN}"));
    let talk = sandbox.talk(1, text);
    sandbox.cli(&["archive", "import"]);
    for format in ["html", "markdown", "json"] {
        assert!(sandbox.cli(&["archive", "export", &talk.id, "--format", format]).stdout.contains(TOKEN));
        let ran = sandbox.cli(&["archive", "export", &talk.id, "--format", format, "--redact"]);
        assert!(!ran.stdout.contains("0123456789abcdef"), "{}", ran.stdout);
        assert!(ran.stdout.matches("redacted:").count() >= 4, "{}", ran.stdout);
        assert!(ran.stderr.starts_with("redacted 5 secrets: "), "{}", ran.stderr);
    }
}
