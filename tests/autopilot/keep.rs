//! Keeping the client patched, without a hook or a real client.

use std::fs;
use std::time::Duration;

use ctxbridge::patch::catalog::Catalog;
use ctxbridge::patch::keep::{is_due, keep, take_news};
use ctxbridge::patch::notice::lost_patch;
use ctxbridge::patch::patcher::Patcher;
use ctxbridge_testkit::sandbox::Sandbox;
use serde_json::json;

use super::notice::{lead_to, text_of, version};

/// The line for the user, by the program's own patches.
fn kept(sandbox: &Sandbox) -> Option<String> {
    let data = sandbox.data();
    let patcher = Patcher::new(&data, Catalog::embedded().unwrap(), &|_| {});
    keep(&data, Some(sandbox.path("bin").as_os_str()), patcher, Duration::ZERO).unwrap()
}

/// `true` if a hook would start it.
fn would_start(sandbox: &Sandbox) -> bool {
    lost_patch(&sandbox.data(), Some(sandbox.path("bin").as_os_str())).is_some_and(|lost| is_due(&sandbox.data(), &lost))
}

/// A sandbox with a client that is patched.
fn patched() -> Sandbox {
    let sandbox = Sandbox::new();
    version(&sandbox, "e2", "2.1.20");
    sandbox.cli(&["patch", "-q", "apply", "--no-smoke"]);
    sandbox
}

#[test]
fn a_patched_client_is_left_alone() {
    let sandbox = patched();
    assert_eq!((kept(&sandbox), would_start(&sandbox), take_news(&sandbox.data())), (None, false, None));
}

#[test]
fn a_reverted_client_is_left_alone() {
    let sandbox = patched();
    sandbox.cli(&["patch", "-q", "revert"]);
    assert_eq!((kept(&sandbox), would_start(&sandbox)), (None, false));
}

#[test]
fn an_upgrade_is_patched_with_the_same_patches() {
    let sandbox = Sandbox::new();
    version(&sandbox, "e2", "2.1.20");
    sandbox.cli(&["patch", "-q", "apply", "--no-smoke", "--patch", "microcompact-thresholds"]);
    version(&sandbox, "e2", "2.1.21");
    assert!(would_start(&sandbox));
    let told = kept(&sandbox).unwrap();
    insta::assert_snapshot!(told, @"Claude Code 2.1.21 patched; `ctxbridge patch revert` undoes it");
    let verified = sandbox.cli(&["patch", "verify", "--json"]).json();
    assert_eq!((&verified["state"], &verified["patches"]), (&"patched".into(), &json!(["microcompact-thresholds"])));
    assert_eq!((take_news(&sandbox.data()), take_news(&sandbox.data())), (Some(told), None));
    assert!(!would_start(&sandbox));
}

#[test]
fn unknown_code_is_told_once_and_not_tried_again() {
    let sandbox = patched();
    let path = version(&sandbox, "e2", "2.1.21");
    fs::write(&path, text_of("e2", "2.1.21").replace("await ", "void ")).unwrap();
    let before = fs::read(&path).unwrap();
    assert!(would_start(&sandbox));
    let told = kept(&sandbox).unwrap();
    insta::assert_snapshot!(told, @"Claude Code 2.1.21 is not patched: this ctxbridge does not know its code; a newer one may. Hooks, archive and plugin work without the patch");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(!would_start(&sandbox), "the same file would fail again");
    assert_eq!((kept(&sandbox), take_news(&sandbox.data()), take_news(&sandbox.data())), (None, Some(told), None));
    // Another file may do better.
    version(&sandbox, "e2", "2.1.22");
    assert!(would_start(&sandbox));
}

/// A thing that is missing here may come back, but not at once, and the user is not told of it again and again.
#[test]
fn a_client_that_does_not_start_is_tried_again_later() {
    let sandbox = patched();
    let text = text_of("e2", "2.1.21");
    let stated = text.lines().find(|line| line.starts_with("// Version: ")).unwrap();
    let path = version(&sandbox, "e2", "2.1.21");
    fs::write(&path, text.replace(stated, &format!("{stated}\nprocess.exit(3);"))).unwrap();
    let told = kept(&sandbox).unwrap();
    assert!(told.starts_with("Claude Code 2.1.21 is not patched: it does not start here, patched or not. "), "{told}");
    assert!(!would_start(&sandbox));
    assert_eq!(take_news(&sandbox.data()), Some(told.clone()));
    let file = sandbox.data().join("patch-keep.json");
    let mut result: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    result["tried_at"] = json!(result["tried_at"].as_i64().unwrap() - 2 * 60 * 60);
    fs::write(&file, result.to_string()).unwrap();
    assert!(would_start(&sandbox));
    assert_eq!((kept(&sandbox), take_news(&sandbox.data())), (Some(told), None));
}

#[test]
fn a_client_that_is_no_upgrade_is_left_alone() {
    // An older one.
    let sandbox = patched();
    version(&sandbox, "e2", "2.1.19");
    assert_eq!((kept(&sandbox), would_start(&sandbox)), (None, false));
    // A newer one of another installation.
    let other = sandbox.write("elsewhere/versions/2.1.21/cli.js", text_of("e2", "2.1.21"));
    lead_to(&sandbox, &other);
    assert_eq!((kept(&sandbox), would_start(&sandbox)), (None, false));
    assert_eq!(fs::read_to_string(other).unwrap(), text_of("e2", "2.1.21"));
}

/// A user who reverts a release does not want the next one patched.
#[test]
fn an_upgrade_of_a_reverted_client_is_left_alone() {
    let sandbox = patched();
    version(&sandbox, "e2", "2.1.21");
    sandbox.cli(&["patch", "-q", "apply", "--no-smoke"]);
    sandbox.cli(&["patch", "-q", "revert"]);
    version(&sandbox, "e2", "2.1.22");
    assert_eq!((kept(&sandbox), would_start(&sandbox)), (None, false));
}

#[test]
fn a_patch_that_has_ended_does_not_keep_the_others_away() {
    let sandbox = Sandbox::new();
    version(&sandbox, "e2", "2.1.20");
    let patches = ["--patch", "microcompact-thresholds", "--patch", "aggressive-text-prune"];
    sandbox.cli(&[&["patch", "-q", "apply", "--no-smoke"], &patches[..]].concat());
    // The fixture of a later era, as a release after the patch's last.
    version(&sandbox, "e3b", "2.1.97");
    let told = kept(&sandbox).unwrap();
    insta::assert_snapshot!(told, @"Claude Code 2.1.97 patched (without microcompact-thresholds, which is not for it); `ctxbridge patch revert` undoes it");
}

#[test]
fn news_of_a_file_that_changed_since_is_no_news() {
    let sandbox = patched();
    version(&sandbox, "e2", "2.1.21");
    assert!(kept(&sandbox).is_some());
    let path = version(&sandbox, "e2", "2.1.21");
    fs::write(path, text_of("e2", "2.1.21") + "// changed\n").unwrap();
    assert_eq!(take_news(&sandbox.data()), None);
}

#[test]
fn a_result_that_cannot_be_read_counts_as_none() {
    let sandbox = patched();
    version(&sandbox, "e2", "2.1.21");
    fs::write(sandbox.data().join("patch-keep.json"), "{\"client\":").unwrap();
    assert!(would_start(&sandbox));
    assert_eq!(take_news(&sandbox.data()), None);
    assert!(kept(&sandbox).is_some());
}
