//! The client of the protocol's own TypeScript SDK, fetched with npm into the cache once.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ctxbridge::common::paths;
use ctxbridge_testkit::sandbox::Sandbox;
use serde_json::{Value, json};

use super::{archive_session, handle};

const SDK: &str = "@modelcontextprotocol/sdk";
const VERSION: &str = "1.32.2";

/// The folder that it is installed in.
fn sdk() -> PathBuf {
    let folder = paths::cache_dir().unwrap().join("mcp-sdk").join(VERSION);
    if folder.is_dir() {
        return folder;
    }
    let home = folder.parent().unwrap();
    fs::create_dir_all(home).unwrap();
    // What has the name is whole.
    let work = tempfile::Builder::new().prefix(".fetch-").tempdir_in(home).unwrap();
    let install = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"];
    let output = Command::new("npm").args(install).arg(work.path()).arg(format!("{SDK}@{VERSION}")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Where this fails, another test was faster.
    if fs::rename(work.path(), &folder).is_err() {
        assert!(folder.is_dir(), "{}", folder.display());
    }
    folder
}

fn ask(sandbox: &Sandbox, questions: &mut Value) -> Value {
    let command = sandbox.command(&[]);
    let variable = |(name, value): (&OsStr, Option<&OsStr>)| Some((name.to_str()?.to_owned(), json!(value?.to_str()?)));
    questions["env"] = command.get_envs().filter_map(variable).collect::<serde_json::Map<_, _>>().into();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/client.mjs");
    let output = Command::new("node")
        .arg(script)
        .args([sdk().as_os_str(), command.get_program()])
        .arg(questions.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_official_client_is_content() {
    let sandbox = Sandbox::new();
    let long: String = (0..2_000).map(|n| format!("Feather {n}: \"brown\".\n")).collect();
    let session = archive_session(&sandbox, 1, &[("Ospreys?", "They fish."), ("Feathers?", &long)]);
    let said = ask(
        &sandbox,
        &mut json!({
            "calls": [
                { "name": "search", "arguments": { "query": "ospreys" } },
                { "name": "recall", "arguments": { "handle": handle(1, 0) } },
                { "name": "timeline", "arguments": { "session": session } },
                { "name": "session", "arguments": {} },
                { "name": "recall", "arguments": { "handle": "ctx:00000000" } },
                { "name": "recall", "arguments": { "handle": "osprey" } },
                { "name": "learnings", "arguments": { "query": "ospreys" } },
            ],
            "long": handle(1, 1),
            "read": [format!("ctxbridge://session/{session}"), format!("ctxbridge://turn/{}", handle(1, 0))],
        }),
    );
    assert_eq!(said["server"]["name"], "ctxbridge");
    assert!(said["instructions"].as_str().unwrap().contains("`recall`"));
    let names: Vec<&str> = said["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["search", "recall", "timeline", "session", "learnings"]);
    assert_eq!(said["resources"][0]["name"], session);
    assert_eq!(said["templates"].as_array().unwrap().len(), 2);

    let calls = said["calls"].as_array().unwrap();
    assert_eq!(calls[0]["structuredContent"]["hits"][0]["handle"], handle(1, 0), "{}", calls[0]);
    assert!(calls[1]["content"][0]["text"].as_str().unwrap().contains("They fish."), "{}", calls[1]);
    assert_eq!(calls[2]["structuredContent"]["count"], 2, "{}", calls[2]);
    assert_eq!(calls[3]["structuredContent"]["sessions"][0]["turns"], 2, "{}", calls[3]);
    assert_eq!(calls[4]["isError"], true, "{}", calls[4]);
    assert_eq!(calls[5]["code"], -32602, "{}", calls[5]);
    assert!(calls[5]["message"].as_str().unwrap().contains("`handle`"), "{}", calls[5]);

    assert_eq!(calls[6]["structuredContent"]["learnings"], json!([]), "{}", calls[6]);

    let pages: Vec<&str> = said["pages"].as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    assert!(pages.len() > 5 && pages.concat().contains(long.trim_end()), "{} pages", pages.len());
    assert!(said["read"][0].as_str().unwrap().contains(&handle(1, 1)));
    assert!(said["read"][1].as_str().unwrap().contains("They fish."));
}
