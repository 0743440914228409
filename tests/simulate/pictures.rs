//! Pictures of the context.

use std::fs;

use ctxbridge_testkit::sandbox::Sandbox;
use ctxbridge_testkit::transcript::Kind;

use super::{prune, session};

#[test]
fn a_line_for_each_policy() {
    let sandbox = Sandbox::new();
    session(&sandbox, "tools.jsonl", Kind::Tools, 120);
    for name in ["picture.svg", "picture.SVG", "picture.png"] {
        let said = prune(&sandbox, &["simulate", "tools.jsonl", "--plot", name]);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said}");
    }
    let svg = fs::read_to_string(sandbox.path("work/picture.svg")).unwrap();
    for word in ["Context of tools.jsonl", "none", "reference", "fold", "call", "tokens in the context"] {
        assert!(svg.contains(word), "{word}");
    }
    assert_eq!(svg, fs::read_to_string(sandbox.path("work/picture.SVG")).unwrap());
    assert!(fs::read(sandbox.path("work/picture.png")).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    let said = prune(&sandbox, &["simulate", "tools.jsonl", "--json", "--plot", "picture.svg"]).calm().json();
    assert_eq!(said["plot"], "picture.svg");
}
