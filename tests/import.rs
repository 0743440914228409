//! What claude-flow kept, taken into the archive: whatever state it is in, nothing lost, nothing doubled, and as often as one likes.

mod damaged;
mod hostile;
mod in_use;
mod own;
mod theirs;
mod turns;

use std::path::{Path, PathBuf};

use ctxbridge::archive::store::{SessionReader, StoredTurn, TurnReader, TurnSelection};
use ctxbridge_testkit::sandbox::{Sandbox, run};
use serde_json::Value;

use crate::kinds::store;

/// `archive import --from claude-flow PATH --json`
#[track_caller]
fn import(sandbox: &Sandbox, path: &Path) -> Value {
    sandbox.json(&["archive", "import", "--from", "claude-flow", path.to_str().unwrap()])
}

/// Counts of what an import says: new, matched, unchanged, failed.
#[track_caller]
fn counts(told: &Value) -> [u64; 4] {
    let count = |name: &str| told[name].as_u64().unwrap();
    let failed = told["failed"].as_array().unwrap().len() as u64;
    let [new, matched, unchanged] = ["new", "matched", "unchanged"].map(count);
    assert_eq!(new + matched + unchanged, count("entries"), "{told}");
    [new, matched, unchanged, failed]
}

/// The turns of a session as it is now.
fn turns_of(sandbox: &Sandbox, session: &str) -> Vec<StoredTurn> {
    let mut store = store(sandbox);
    let key = store.session(session).unwrap().unwrap().key;
    store.turns(key, TurnSelection::All).unwrap()
}

/// Handles and texts of what is found.
fn found(sandbox: &Sandbox, words: &str) -> Vec<(String, String)> {
    let command = sandbox.command(&["archive", "search", "--json", "--mode", "lexical", words]);
    let results = run(command, b"").json()["results"].clone();
    // What stands beside a hit is listed as well.
    let is_hit = |result: &&Value| result["why"].as_array().unwrap().iter().all(|why| why != "beside hits");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    results.as_array().unwrap().iter().filter(is_hit).map(|result| (text(&result["handle"]), text(&result["text"]))).collect()
}

/// A folder of theirs in a project.
fn project(sandbox: &Sandbox) -> PathBuf {
    let data = sandbox.path("project/.claude-flow/data");
    std::fs::create_dir_all(&data).unwrap();
    sandbox.path("project")
}

fn database(sandbox: &Sandbox) -> PathBuf {
    project(sandbox).join(".claude-flow/data/transcript-archive.db")
}
