//! A result that is too large for the transcript: the client writes it to a file, and removes that with the session.

use std::fs;

use ctxbridge::stub::{ApiRequest, Responder, ScriptedReply};
use serde_json::json;

use super::{Stage, stem};

/// Runs a command with 200 KB of output. The word in the middle of it is not in the command.
struct Counting;

impl Responder for Counting {
    fn reply(&mut self, request: &ApiRequest) -> ScriptedReply {
        if request.brings_tool_result() {
            return ScriptedReply::Text("Counted.".into());
        }
        let command = "seq 100001 115000; echo dotterel$((40 + 2))scrape; seq 115001 130000";
        ScriptedReply::ToolUse { name: "Bash".into(), input: json!({ "command": command, "description": "Count" }) }
    }
}

fn outlives_the_clients_clean_up(version: &str) {
    let stage = Stage::answered_by(version, "off", "Bash", |_| Counting);
    stage.converse(&["Dotterels: count them."]);
    stage.hooks_did_well(version, 0);
    let transcript = stage.transcript();
    let (session, bytes) = (stem(&transcript), fs::read(&transcript).unwrap());
    let folder = transcript.with_extension("").join("tool-results");
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{version}: {files:?}");
    let output = fs::read(&files[0]).unwrap();
    assert!(output.len() > 200_000, "{version}: {} bytes", output.len());

    fs::remove_dir_all(stage.client.home().join(".claude/projects")).unwrap();
    let found = stage.json(&["archive", "search", "--json", "--mode", "lexical", "dotterel42scrape"]);
    assert_eq!(found["results"][0]["session"], session.as_str(), "{version}: {found}");
    let recalled = stage.stdout(&["recall", found["results"][0]["handle"].as_str().unwrap()]);
    assert!(String::from_utf8(recalled).unwrap().contains("\n114999\n115000\ndotterel42scrape\n115001\n"));

    let out = stage.data().join("restored");
    stage.stdout(&["archive", "restore", &session, "-o", out.to_str().unwrap()]);
    assert!(fs::read(out.join(format!("{session}.jsonl"))).unwrap() == bytes);
    assert!(fs::read(out.join(&session).join("tool-results").join(files[0].file_name().unwrap())).unwrap() == output);
}

// In 2.0.76 a switch of the client's makers decides, and offline it is off.
#[test]
#[ignore = "nightly: a newer release is tried"]
fn a_large_result_outlives_the_clients_clean_up_2_1_113() {
    outlives_the_clients_clean_up("2.1.113");
}

#[test]
fn a_large_result_outlives_the_clients_clean_up_2_1_330() {
    outlives_the_clients_clean_up("2.1.330");
}
