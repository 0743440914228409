//! The demo's story, with a release of each kind of file: the unpatched client forgets an error that the patched one has recalled.

use std::process::Command;

use ctxbridge::client::releases;
use ctxbridge::demo::ERROR;
use serde_json::Value;

/// The output of `ctxbridge demo --json` with a release.
fn shown(version: &str) -> Value {
    let home = tempfile::tempdir().unwrap();
    let release = releases::fetch_client(version).unwrap_or_else(|error| panic!("{error}"));
    let mut demo = Command::new(env!("CARGO_BIN_EXE_ctxbridge"));
    let output = demo.args(["demo", "--json", "--client"]).arg(release).env("HOME", home.path()).output().unwrap();
    assert!(output.status.success(), "{version}: {}", String::from_utf8_lossy(&output.stderr));
    let left: Vec<_> = home.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{version}: nothing of the user's is touched: {left:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn tells_its_story(version: &str) {
    let shown = shown(version);
    println!("{version}: {shown:#}");
    assert_eq!((&shown["unpatched_compactions"], &shown["patched_compactions"]), (&1.into(), &0.into()), "{version}");
    assert!(!shown["unpatched_answer"].as_str().unwrap().contains(ERROR), "{version}: a summary has lost the error");
    assert_eq!(shown["patched_answer"], ERROR, "{version}");
    assert_eq!(shown["is_recalled_exactly"], true, "{version}");
    assert_eq!(shown["answer_after_compact"], ERROR, "{version}");
    assert_eq!(shown["reverted_sha256"], shown["original_sha256"], "{version}");
    let total = |key: &str| shown[key].as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
    assert!(total("patched_tokens") < total("unpatched_tokens"), "{version}: fewer tokens are sent");
}

#[test]
fn the_demo_tells_its_story_2_1_330() {
    tells_its_story("2.1.330");
}

#[test]
#[ignore = "nightly: a newer release is tried"]
fn the_demo_tells_its_story_2_1_112() {
    tells_its_story("2.1.112");
}
