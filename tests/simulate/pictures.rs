//! Pictures of the context.

use std::fs;

use ctxbridge_testkit::transcript::Kind;

use crate::simulate::sandbox::Sandbox;

#[test]
fn a_line_for_each_policy() {
    let sandbox = Sandbox::new();
    sandbox.session("tools.jsonl", Kind::Tools, 120);
    for name in ["picture.svg", "picture.SVG", "picture.png"] {
        let said = sandbox.run(&["simulate", "tools.jsonl", "--plot", name]);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said}");
    }
    let svg = fs::read_to_string(sandbox.path("picture.svg")).unwrap();
    for word in ["Context of tools.jsonl", "none", "reference", "text", "all", "call", "tokens in the context"] {
        assert!(svg.contains(word), "{word}");
    }
    assert_eq!(svg, fs::read_to_string(sandbox.path("picture.SVG")).unwrap());
    assert!(fs::read(sandbox.path("picture.png")).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
    let said = sandbox.run(&["simulate", "tools.jsonl", "--json", "--plot", "picture.svg"]).json();
    assert_eq!(said["plot"], "picture.svg");
}
