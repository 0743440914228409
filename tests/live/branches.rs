//! A real client goes back to an earlier answer and on from there: the archive has what it sends, and keeps the rest as rewound.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ctxbridge::client::{Client, ConversationLimits};
use ctxbridge::stub::{ApiRequest, Options, ScriptedReply, Stub};
use ctxbridge_testkit::files::source;
use serde_json::{Value, json};

use super::{Installation, ended_well};
use crate::live::run_ctxbridge;

const KEPT: &str = "Ospreys: where do they nest?";
const REWOUND: &str = "Plovers: decide where they winter.";
const AFTER: &str = "Curlews: what do they eat?";

fn answers(request: &ApiRequest) -> ScriptedReply {
    let prompt = request.human_prompts().pop().unwrap_or_default();
    let bird = prompt.split(':').next().unwrap_or_default().to_lowercase();
    ScriptedReply::Text(format!("We decided to go with the {bird} because of the notes."))
}

/// The only transcript with words.
fn transcript(client: &Client) -> PathBuf {
    let projects = fs::read_dir(client.home().join(".claude/projects")).unwrap();
    let files = projects.flat_map(|project| fs::read_dir(project.unwrap().path()).unwrap());
    let found: Vec<PathBuf> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .filter(|path| fs::read_to_string(path).unwrap().contains("Ospreys"))
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

fn uuid_of_first_answer(text: &str) -> String {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut answers = lines.filter(|line| line["type"] == "assistant" && line.to_string().contains("ospreys"));
    answers.next_back().unwrap()["uuid"].as_str().unwrap().to_owned()
}

fn goes_back(version: &str) {
    let installation = Installation::of(version);
    let data = installation.folder.path().join("archive");
    let stub = Stub::start_with(answers, Options::default()).unwrap();
    let client = installation.client().api(&stub.url());
    let run_for = |client: &Client, args: &[&str]| run_ctxbridge(client, &data, args);
    ended_well(&stub, &client.converse(&[KEPT, REWOUND], ConversationLimits::default()).unwrap());
    let path = transcript(&client);
    let session = path.file_stem().unwrap().to_str().unwrap().to_owned();
    run_for(&client, &["archive", "import"]);
    run_for(&client, &["archive", "optimize"]);
    let before: Value = serde_json::from_slice(&run_for(&client, &["learnings", "list", "--json"])).unwrap();
    assert!(before.to_string().contains("plovers"), "{before}");

    let answer = uuid_of_first_answer(&fs::read_to_string(&path).unwrap());
    let client = client.arg("--resume").arg(&session).arg("--resume-session-at").arg(&answer);
    ended_well(&stub, &client.converse(&[AFTER], ConversationLimits::default()).unwrap());
    if assert_rewound(&stub, &client, &data, (version, &path)) {
        let all: Value = serde_json::from_slice(&run_for(&client, &["learnings", "list", "--all", "--json"])).unwrap();
        assert!(all.to_string().contains("plovers"), "{all}");
    }
}

/// The client went back to its first answer, and the archive knows it. Returns `true` if the client went on in the same file.
fn assert_rewound(stub: &Stub, client: &Client, data: &Path, (version, path): (&str, &Path)) -> bool {
    let run = |args: &[&str]| run_ctxbridge(client, data, args);
    let sent = stub.requests().iter().rfind(|request| request.is_main()).unwrap().human_prompts();
    assert!(sent.iter().any(|prompt| prompt == KEPT) && sent.iter().any(|prompt| prompt == AFTER), "{sent:?}");
    assert!(!sent.iter().any(|prompt| prompt == REWOUND), "{sent:?}");

    run(&["archive", "import"]);
    run(&["archive", "optimize"]);
    // Print mode of some releases goes on in a file of its own, with the past that it has.
    let newest = transcript_with(client, "Curlews");
    let session = newest.file_stem().unwrap().to_str().unwrap().to_owned();
    assert!(run(&["archive", "restore", &session]) == fs::read(&newest).unwrap(), "byte for byte");
    let shown: Value = serde_json::from_slice(&run(&["archive", "show", &session, "--branches", "--json"])).unwrap();
    let turns = shown["turns"].as_array().unwrap();
    let told = |is_rewound: bool| -> Vec<&str> {
        let of = turns.iter().filter(|turn| turn["is_rewound"] == is_rewound);
        of.map(|turn| turn["summary"].as_str().unwrap().split(" | ").next().unwrap()).collect()
    };
    println!("{version}: in one file: {}, rewound: {:?}", newest == path, told(true));
    assert_eq!(told(false), [KEPT, AFTER]);
    if newest == path {
        assert_eq!(told(true), [REWOUND]);
        let after: Value = serde_json::from_slice(&run(&["learnings", "list", "--json"])).unwrap();
        assert!(!after.to_string().contains("plovers") && after.to_string().contains("curlews"), "{after}");
        let found = String::from_utf8(run(&["archive", "search", "plovers"])).unwrap();
        assert!(found.contains("rewound"), "{found}");
    }
    newest == path
}

fn transcript_with(client: &Client, word: &str) -> PathBuf {
    let projects = fs::read_dir(client.home().join(".claude/projects")).unwrap();
    let files = projects.flat_map(|project| fs::read_dir(project.unwrap().path()).unwrap()).map(|file| file.unwrap().path());
    let mut found = files.filter(|path| path.is_file() && fs::read_to_string(path).is_ok_and(|text| text.contains(word)));
    found.next().unwrap()
}

#[test]
#[ignore = "nightly: a newer release is tried"]
fn what_is_left_is_rewound_2_0_76() {
    goes_back("2.0.76");
}

#[test]
fn what_is_left_is_rewound_2_1_330() {
    goes_back("2.1.330");
}

/// A session that is resumed goes on; a fork is another session with the same past, and leaves the first one as it was.
fn resumes_and_forks(version: &str) {
    let installation = Installation::of(version);
    let data = installation.folder.path().join("archive");
    let stub = Stub::start_with(answers, Options::default()).unwrap();
    let client = installation.client().api(&stub.url());
    let id_of = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    ended_well(&stub, &client.converse(&[KEPT], ConversationLimits::default()).unwrap());
    let first = id_of(&transcript(&client));

    let client = client.arg("--resume").arg(&first);
    ended_well(&stub, &client.converse(&[REWOUND], ConversationLimits::default()).unwrap());
    // Print mode of some releases goes on in a file of its own.
    let resumed = transcript_with(&client, "Plovers");
    let before = fs::read(&resumed).unwrap();

    let client = client.arg("--fork-session");
    ended_well(&stub, &client.converse(&[AFTER], ConversationLimits::default()).unwrap());
    let fork = transcript_with(&client, "Curlews");
    assert_ne!(fork, resumed);

    let run = |args: &[&str]| run_ctxbridge(&client, &data, args);
    run(&["archive", "import"]);
    let said = |session: &str| -> Vec<String> {
        let shown: Value = serde_json::from_slice(&run(&["archive", "show", session, "--branches", "--json"])).unwrap();
        let turns = shown["turns"].as_array().unwrap();
        assert!(turns.iter().all(|turn| turn["is_rewound"] == false), "{shown}");
        turns.iter().map(|turn| turn["summary"].as_str().unwrap().split(" | ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(said(&id_of(&resumed)), [KEPT, REWOUND]);
    assert_eq!(said(&id_of(&fork)), [said(&first), vec![AFTER.to_owned()]].concat());
    assert!(run(&["archive", "restore", &id_of(&resumed)]) == before, "what was forked is as it was");
    assert!(run(&["archive", "restore", &id_of(&fork)]) == fs::read(&fork).unwrap());
}

/// Two presses of Escape, the prompt before the newest line, and the conversation alone: as somebody goes back in the terminal.
#[test]
#[ignore = "the screen of a client, which is for people: for the nightly run"]
fn escape_twice_goes_back_2_1_330() {
    let installation = Installation::of("2.1.330");
    let data = installation.folder.path().join("archive");
    let stub = Stub::start_with(answers, Options::default()).unwrap();
    let client = installation.client().api(&stub.url());
    let project = ctxbridge::common::paths::real(client.project()).unwrap();
    let settings = json!({
        "hasCompletedOnboarding": true, "theme": "dark", "customApiKeyResponses": { "approved": ["sk-ant-stub"], "rejected": [] },
        "projects": { project.to_str().unwrap(): { "hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true } },
    });
    fs::write(client.home().join(".claude.json"), settings.to_string()).unwrap();
    const ESCAPE: &str = "\u{1b}";
    let steps = json!([
        ["for shortcuts", [KEPT, "\r"]],
        ["go with the ospreys", [REWOUND, "\r"]],
        ["go with the plovers", [ESCAPE, ESCAPE]],
        ["Rewind", ["\u{1b}[A", "\r"]],
        ["Restore conversation", ["\r"]],
        // The prompt is there to be changed.
        [REWOUND, ["\u{15}", AFTER, "\r"]],
        ["go with the curlews", []],
    ]);
    let typed = client.interactive();
    let mut terminal = Command::new("python3");
    terminal.arg(source("tests/live/terminal.py")).arg(steps.to_string()).arg(typed.get_program()).args(typed.get_args());
    terminal.env_clear().envs(typed.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "xterm-256color");
    let ran = terminal.current_dir(typed.get_current_dir().unwrap()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let path = transcript(&client);
    assert!(assert_rewound(&stub, &client, &data, ("2.1.330", &path)));
}

#[test]
#[ignore = "nightly: a newer release is tried"]
fn a_fork_has_the_past_2_0_76() {
    resumes_and_forks("2.0.76");
}

#[test]
fn a_fork_has_the_past_2_1_330() {
    resumes_and_forks("2.1.330");
}
