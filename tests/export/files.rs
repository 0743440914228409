//! Where an export goes.

use std::fs;

use ctxbridge_testkit::files;
use ctxbridge_testkit::sandbox::{Sandbox, run};

use super::story;

#[test]
fn a_file_is_private_and_never_replaced_unasked() {
    let sandbox = Sandbox::new();
    let talk = story::archived(&sandbox);
    let path = sandbox.path("home/page.html");
    let name = path.to_str().unwrap();
    let ran = sandbox.cli(&["archive", "export", &talk.id, "-o", name]);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("3 turns in"), "{ran:?}");
    assert!(files::is_private(&path).unwrap());
    assert!(fs::read_to_string(&path).unwrap().starts_with("<!doctype html>"), "the format goes by the name");

    let refused = run(sandbox.command(&["archive", "export", &talk.id, "-o", name, "--format", "json"]), b"").with_code(3);
    assert!(refused.stderr.contains("exists; --force replaces it"), "{}", refused.stderr);
    assert!(fs::read_to_string(&path).unwrap().starts_with("<!doctype html>"));

    sandbox.cli(&["archive", "export", &talk.id, "-o", name, "--format", "json", "--force"]);
    assert!(fs::read_to_string(&path).unwrap().starts_with("{\"format\":1,"));
    assert!(files::is_private(&path).unwrap());
    let left: Vec<_> = fs::read_dir(sandbox.home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".ctxbridge-")), "{left:?}");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let sandbox = Sandbox::new();
    let talk = story::archived(&sandbox);
    let ran = run(sandbox.command(&["archive", "export", &talk.id, "-o", "none/page.html"]), b"").with_code(3);
    assert!(ran.stderr.contains("cannot write none/page.html"), "{}", ran.stderr);
}

#[test]
fn the_archive_stays_as_it_is() {
    let sandbox = Sandbox::new();
    let talk = story::archived(&sandbox);
    let before = sandbox.json(&["archive", "show", &talk.id, "--all"]);
    for format in ["html", "markdown", "json"] {
        sandbox.cli(&["archive", "export", &talk.id, "--format", format]);
    }
    run(sandbox.command(&["archive", "diff", &talk.id, &format!("{}@1", talk.id)]), b"").with_code(1);
    assert_eq!(sandbox.json(&["archive", "show", &talk.id, "--all"]), before);
}
