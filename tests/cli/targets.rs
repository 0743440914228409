//! What a user may name as the client, and what leads to none.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ctxbridge_testkit::sandbox::Sandbox;
use insta::assert_snapshot;

use super::{filters, text};

/// The real file that the command works on.
#[track_caller]
fn target(sandbox: &Sandbox, args: &[&str]) -> String {
    let said = sandbox.run(&[&["patch", "verify", "--json"], args].concat());
    assert_eq!(said.code, Some(1), "{said}");
    said.json()["target"].as_str().unwrap().to_owned()
}

fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn folders_links_and_launchers_lead_to_the_client() {
    let sandbox = Sandbox::new();
    let client = sandbox.install("e1b", "prefix/lib/node_modules/@anthropic-ai/claude-code");
    let expected = "[ROOT]/prefix/lib/node_modules/@anthropic-ai/claude-code/cli.js";
    let named = |path: &Path| target(&sandbox, &[text(path)]);
    assert_eq!(named(client.parent().unwrap()), expected, "the package folder");
    assert_eq!(named(&sandbox.path("prefix")), expected, "a prefix");

    let (one, two) = (sandbox.path("one"), sandbox.path("two"));
    symlink("prefix/lib/node_modules/@anthropic-ai/claude-code/cli.js", &one).unwrap();
    symlink("one", &two).unwrap();
    assert_eq!(named(&two), expected, "a link to a link");

    let launcher = sandbox.path("launcher");
    let exec =
        "basedir=$(dirname \"$0\")\nexec node \"$basedir/prefix/lib/node_modules/@anthropic-ai/claude-code/cli.js\" \"$@\"";
    script(&launcher, &format!("#!/bin/sh\n{exec}\n"));
    assert_eq!(named(&launcher), expected, "a launcher script");

    // Relative to where the command runs.
    symlink(&two, sandbox.path("work/here")).unwrap();
    assert_eq!(target(&sandbox, &["here"]), expected);
}

#[test]
fn without_a_target_it_is_the_claude_on_the_path() {
    let sandbox = Sandbox::new();
    let client = sandbox.install("e2", "elsewhere");
    symlink(&client, sandbox.path("bin/claude")).unwrap();
    assert_eq!(target(&sandbox, &[]), "[ROOT]/elsewhere/cli.js");
    assert_eq!(sandbox.run(&["patch", "apply"]).code, Some(0));
    assert!(fs::symlink_metadata(sandbox.path("bin/claude")).unwrap().is_symlink(), "the link stays a link");
    assert_eq!(sandbox.run(&["patch", "verify", text(&client)]).code, Some(0));
}

#[test]
fn what_leads_to_no_client_says_so() {
    let _filters = filters();
    let sandbox = Sandbox::new();
    let locate = |path: &str| sandbox.run(&["patch", "locate", path]);
    let write = |name: &str, text: &[u8]| fs::write(sandbox.path("work").join(name), text).unwrap();
    assert_snapshot!("target_not_on_path", sandbox.run(&["patch", "locate"]));
    assert_snapshot!("target_missing", locate("nowhere/cli.js"));
    assert_snapshot!("target_empty_folder", locate("."));
    symlink("gone", sandbox.path("work/dangling")).unwrap();
    assert_snapshot!("target_dangling", locate("dangling"));
    write("asdf", b"#!/usr/bin/env bash\nexec asdf exec claude \"$@\"\n");
    assert_snapshot!("target_launcher", locate("asdf"));
    write("empty.js", b"");
    assert_snapshot!("target_empty", locate("empty.js"));
    write("half.js", b"#!/usr/bin/env node\n// Version: 2.1.45\nfunction f(){if(a){");
    assert_snapshot!("target_half", locate("half.js"));
    write("odd.js", b"#!/usr/bin/env node\n// Version: latest\nf()\n");
    assert_snapshot!("target_odd_version", locate("odd.js"));
    write("old.js", b"#!/usr/bin/env node\n// Version: 0.2.9\nf()\n");
    assert_snapshot!("target_too_old", locate("old.js"));
}
