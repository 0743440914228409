//! Smoke runs that fail, and whose fault it is.

use std::fs;
use std::os::unix::fs::symlink;

use ctxbridge_testkit::sandbox::run;

use super::bundle::Bundle;
use super::client::Client;

/// Throws when the client finds a patch in itself.
const THROWS_WHEN_PATCHED: &str = r#"if(self.includes("ctx"+"bridge"))throw Error("I was tampered with");"#;

#[test]
fn a_client_that_does_not_start_when_patched() {
    let client = Client::new(Bundle::new().start(THROWS_WHEN_PATCHED));
    let before = client.photo();
    let words = ["the patched client does not start", "I was tampered with", "Nothing was changed; please report this"];
    client.run(&["apply"]).refused(&words);
    client.assert_untouched(&before);
    assert_eq!(client.state(), "unpatched");
    // It is a matter of the smoke run alone.
    client.run(&["apply", "--no-smoke"]).done();
}

#[test]
fn a_client_that_does_not_start_at_all() {
    let client = Client::new(Bundle::new().start(r#"throw Error("not today");"#));
    let before = client.photo();
    let words = ["does not start here, patched or not", "not today", "--no-smoke"];
    client.run(&["apply"]).refused(&words);
    client.assert_untouched(&before);
}

#[test]
fn a_client_that_says_another_version_when_patched() {
    let lies = r#"if(self.includes("ctx"+"bridge"))return"2.0.1 (Claude Code)";"#;
    let client = Client::new(Bundle::new().start(lies));
    let before = client.photo();
    client.run(&["apply"]).refused(&["`--version` says `2.0.1 (Claude Code)`, not 2.0.99", "Nothing was changed"]);
    client.assert_untouched(&before);
}

#[test]
fn a_patched_client_is_kept_when_another_set_of_patches_does_not_run() {
    let throws = r#"if(self.includes("CLAUDE_MICROCOMPACT_"+"KEEP"))throw Error("hands off");"#;
    let client = Client::new(Bundle::new().start(throws));
    client.run(&["apply"]).done();
    let before = client.photo();
    client.run(&["apply", "--patch", "microcompact-thresholds"]).refused(&["hands off", "Nothing was changed"]);
    client.assert_untouched(&before);
    assert_eq!(client.state(), "patched");
}

#[test]
fn without_node_there_is_no_smoke_run() {
    let client = Client::new(Bundle::new());
    let bin = client.path("bin");
    symlink("/bin/sh", bin.join("sh")).unwrap();
    let before = client.photo();
    let run = |arguments: &[&str]| run(client.command(arguments).env("PATH", &bin), b"");
    run(&["apply"]).refused(&["cannot start node", "Nothing was changed", "--no-smoke"]);
    client.assert_untouched(&before);
    run(&["apply", "--no-smoke"]).done();
}

#[test]
fn nothing_of_the_users_reaches_the_smoke_run() {
    // What it finds in its environment, it writes where we see it; anything of ours there would make it fail.
    let client = Client::new(Bundle::new());
    let seen = client.path("seen");
    let tell = format!(r#"fs.writeFileSync({:?},JSON.stringify([process.env,process.cwd()]));"#, seen.to_str().unwrap());
    client.install(&Bundle::new().start(&tell).into_bytes());
    run(client.command(&["apply"]).env("ANTHROPIC_API_KEY", "sk-ant-mine").env("NODE_OPTIONS", "--no-such-option"), b"").done();
    let seen = fs::read_to_string(seen).unwrap();
    let home = format!("\"HOME\":\"{}\"", client.path("home").display());
    assert!(!seen.contains("sk-ant-mine") && !seen.contains("NODE_OPTIONS") && !seen.contains(&home), "{seen}");
    assert!(seen.contains(r#""DISABLE_AUTOUPDATER":"1""#), "{seen}");
}
