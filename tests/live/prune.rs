//! What the first patch does to what the client sends.

use std::fs;

use ctxbridge::client::{Client, ConversationLimits};
use ctxbridge::common::digest;
use ctxbridge::demo;
use ctxbridge::prune::DEFAULT_KEEP_TURNS;
use ctxbridge::stub::{ApiRequest, Options, ScriptedReply, Stub};
use serde_json::json;

use super::{Installation, ended_well};

/// Prompts of 20,000 characters, each of which begins with its number.
fn long_prompts(count: usize) -> Vec<String> {
    let line = |number: usize, at: usize| format!("{at:05} worker-{number} finished job {} without an error\n", at * 7 % 1_000);
    let prompt = |number| {
        let lines: String = (0..500).map(|at| line(number, at)).collect();
        format!("Question {number}: what stands out in this log?\n{lines}")[..20_000].to_owned()
    };
    (1..=count).map(prompt).collect()
}

/// What stays of a long prompt.
const KEPT_CHARS: usize = 4_000;

/// Eight prompts of 20,000 characters: the unpatched client sends all of them whole every time, the patched one the newest four.
fn old_text_is_cut(version: &str) {
    let installation = Installation::of(version);
    let prompts = long_prompts(8);

    let stub = Stub::start().unwrap();
    ended_well(&stub, &installation.converse(&stub, &prompts));
    let unpatched = stub.main_requests();
    assert_eq!(unpatched.len(), prompts.len(), "one request a prompt");
    for (index, request) in unpatched.iter().enumerate() {
        assert_eq!(request.human_prompts(), whole(&prompts[..=index]), "{version}, request {}: all that was said", index + 1);
    }

    installation.apply();
    let stub = Stub::start().unwrap();
    let client = at_once(installation.client().api(&stub.url()));
    ended_well(&stub, &client.converse(&prompts, ConversationLimits::default()).unwrap());
    let patched = stub.main_requests();
    assert_eq!(patched.len(), prompts.len(), "one request a prompt");
    for (index, request) in patched.iter().enumerate() {
        let turns = request.human_prompts();
        let protected = turns.len().saturating_sub(DEFAULT_KEEP_TURNS as usize);
        assert_eq!(
            turns[protected..],
            whole(&prompts[..=index])[protected..],
            "{version}, request {}: the newest turns",
            index + 1
        );
        for (turn, prompt) in turns[..protected].iter().zip(&prompts) {
            assert_eq!(cut(turn), (&prompt[..KEPT_CHARS], prompt.len()), "{version}, request {}: an old turn", index + 1);
        }
        assert_eq!(request.messages().len(), unpatched[index].messages().len(), "no message is lost");
    }
    let (before, after) = (unpatched[7].tokens, patched[7].tokens);
    assert!(after < before * 4 / 5, "{version}: the last request has {after} tokens, {before} unpatched");
    assert!(patched[7].tokens < patched[5].tokens * 5 / 4, "{version}: what is sent stays bounded");
    println!("{version}: the last of 8 requests has {after} estimated tokens patched, {before} unpatched");

    installation.revert();
}

/// A window that is always full, and as much as may go in it goes.
fn at_once(client: Client) -> Client {
    client.env("CLAUDE_TEXT_PRUNE_WINDOW", "50000").env("CLAUDE_TEXT_PRUNE_KEEP_TOKENS", "1")
}

/// What was kept of a text, and how long it was.
fn cut(text: &str) -> (&str, usize) {
    let (kept, rest) =
        text.split_once("\n[earlier context folded: the rest of ").unwrap_or_else(|| panic!("was not cut: {text}"));
    let (chars, handle) = rest.split_once(" characters, recall ctx:").unwrap_or_else(|| panic!("has no handle: {rest}"));
    assert!(handle.ends_with(".0]"), "{handle}");
    (kept, chars.parse().unwrap())
}

/// As [`Request::turns`] gives them.
fn whole(prompts: &[String]) -> Vec<String> {
    prompts.iter().map(|prompt| prompt.trim().to_owned()).collect()
}

#[test]
fn old_text_is_cut_2_0_76() {
    old_text_is_cut("2.0.76");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn old_text_is_cut_2_1_112() {
    old_text_is_cut("2.1.112");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn old_text_is_cut_2_1_113() {
    old_text_is_cut("2.1.113");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn old_text_is_cut_2_1_240() {
    old_text_is_cut("2.1.240");
}

#[test]
fn old_text_is_cut_2_1_330() {
    old_text_is_cut("2.1.330");
}

/// Long prompts that make an unpatched client send ever more: the patched one's fourth request is less than half of it.
#[test]
#[ignore = "nightly: the same is tried with eight shorter prompts"]
fn the_fourth_request_is_less_than_half() {
    let installation = Installation::of("2.1.330");
    let prompts: Vec<String> = (1..=4).map(|n| format!("Prompt {n}. {}", "All is well here. ".repeat(7_700))).collect();
    let fourth = |installation: &Installation| {
        let stub = Stub::start().unwrap();
        let client = at_once(installation.client().api(&stub.url()).env("CLAUDE_TEXT_PRUNE_KEEP", "1"));
        ended_well(&stub, &client.converse(&prompts, ConversationLimits::default()).unwrap());
        stub.main_requests()[3].tokens
    };
    let before = fourth(&installation);
    installation.apply();
    let after = fourth(&installation);
    println!("2.1.330: the fourth request has {after} estimated tokens patched, {before} unpatched");
    assert!(after * 2 < before, "{after} of {before} tokens");
    installation.revert();
}

/// The help text is made by another part of the program than conversations are.
#[test]
#[ignore = "nightly: by day the patched client has conversations"]
fn executables_say_what_they_are_patched() {
    for version in ["2.1.330", "2.1.113"] {
        let installation = Installation::of(version);
        let help = || {
            let output = std::process::Command::new(&installation.path)
                .arg("--help")
                .env_clear()
                .env("HOME", installation.folder.path())
                .env("DISABLE_AUTOUPDATER", "1")
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let before = help();
        let applied = installation.apply();
        assert_eq!(applied.smoke.output, format!("{version} (Claude Code)"));
        assert!((1..=64 << 10).contains(&applied.grew_by_bytes), "{version}: {}", applied.grew_by_bytes);
        assert!(before.contains("--resume"), "{before}");
        assert_eq!(help(), before, "{version}");
        installation.revert();
    }
}

/// The demo shows the difference, so its copy of a patched client is unpatched.
#[test]
fn a_copy_for_the_demo_is_the_original() {
    let installation = Installation::of("2.0.76");
    installation.apply();
    let copy = demo::copy_client(&installation.target(), &installation.folder.path().join("copy")).unwrap();
    assert_eq!(digest::of_file(&copy).unwrap(), installation.original_sha256);
}

/// Starts and answers one prompt after patching.
fn answers_patched(version: &str) {
    let installation = Installation::of(version);
    installation.apply();
    let stub = Stub::start().unwrap();
    let conversation = installation.converse(&stub, &["Hello".to_owned()]);
    ended_well(&stub, &conversation);
    assert_eq!(conversation.turns[0].text, "Answer 1.", "{version}");
    assert_eq!(stub.main_requests()[0].human_prompts(), ["Hello"], "{version}");
    installation.revert();
}

macro_rules! answers_patched {
    ($($(#[$attribute:meta])? $name:ident: $version:literal,)*) => {
        $(#[test] $(#[$attribute])? fn $name() { answers_patched($version); })*
    };
}

answers_patched! {
    answers_patched_1_0_60: "1.0.60",
    #[ignore = "nightly: another release of its era is tried"]
    answers_patched_1_0_128: "1.0.128",
    #[ignore = "nightly: another release of its era is tried"]
    answers_patched_2_0_30: "2.0.30",
    #[ignore = "nightly: another release of its era is tried"]
    answers_patched_2_1_20: "2.1.20",
    #[ignore = "nightly: another release of its era is tried"]
    answers_patched_2_1_50: "2.1.50",
    #[ignore = "nightly: another release of its era is tried"]
    answers_patched_2_1_63: "2.1.63",
    #[ignore = "nightly: another release of its era is tried"]
    answers_patched_2_1_80: "2.1.80",
    #[ignore = "nightly: another release of its era is tried"]
    answers_patched_2_1_100: "2.1.100",
}

#[test]
fn the_patch_can_be_switched_off_and_tuned_by_environment() {
    let installation = Installation::of("2.1.112");
    installation.apply();
    let prompts = &long_prompts(3);

    let stub = Stub::start().unwrap();
    let client = at_once(installation.client().api(&stub.url()).env("CLAUDE_TEXT_PRUNE", "0").env("CLAUDE_TEXT_PRUNE_KEEP", "1"));
    ended_well(&stub, &client.converse(prompts, ConversationLimits::default()).unwrap());
    assert_eq!(stub.main_requests()[2].human_prompts(), whole(prompts), "switched off");

    let stub = Stub::start().unwrap();
    let client =
        installation.client().api(&stub.url()).env("CLAUDE_TEXT_PRUNE_KEEP", "1").env("CLAUDE_TEXT_PRUNE_MAX_CHARS", "30");
    let client = client.env("CLAUDE_TEXT_PRUNE_THRESHOLD", "1000").env("CLAUDE_TEXT_PRUNE_POLICY", "reference");
    ended_well(&stub, &client.converse(prompts, ConversationLimits::default()).unwrap());
    let turns = stub.main_requests()[2].human_prompts();
    let cut = |prompt: &String| format!("{} [earlier context pruned]", &prompt[..30]);
    assert_eq!(turns, [cut(&prompts[0]), cut(&prompts[1]), prompts[2].trim().to_owned()]);
}

/// Old calls and their results become lines, all others reach the API as before, in pairs.
fn works_with_tools(version: &str) {
    let installation = Installation::of(version);
    installation.apply();
    let client = installation.client();
    // A file each time: the newest clients say of one that they read before that it has not changed.
    let words = ["heron", "osprey", "plover"];
    let paths: Vec<String> = words.iter().map(|word| client.project().join(word).to_str().unwrap().to_owned()).collect();
    for (path, word) in paths.iter().zip(words) {
        fs::write(path, format!("The word is {word}, and this line says nothing but that.\n").repeat(500)).unwrap();
    }
    let script = move |request: &ApiRequest| match request.brings_tool_result() {
        true => ScriptedReply::Text("Read it.".into()),
        false => ScriptedReply::ToolUse {
            name: "Read".into(),
            input: json!({ "file_path": paths[request.human_prompts().len() - 1] }),
        },
    };
    let stub = Stub::start_with(script, Options::default()).unwrap();
    let client = at_once(client.api(&stub.url()).env("CLAUDE_TEXT_PRUNE_KEEP", "1").env("CLAUDE_TEXT_PRUNE_THRESHOLD", "0"));
    let prompts = ["Read it.", "Again.", "And again."].map(str::to_owned);
    ended_well(&stub, &client.converse(&prompts, ConversationLimits::default()).unwrap());
    let requests = stub.main_requests();
    assert_eq!(requests.len(), 6, "{version}: a call and an answer for each prompt");
    let last = requests.last().unwrap();
    let sent = last.body["messages"].to_string();
    for (index, word) in words.into_iter().enumerate() {
        let is_newest = index + 1 == words.len();
        assert_eq!(sent.contains(&format!("The word is {word}, ")), is_newest, "{version}: {word} in {sent}");
    }
    assert_eq!(sent.matches("[earlier context folded: 1 step, recall ctx:").count(), 2, "{version}: {sent}");
    // Each call that is left has its result.
    let blocks: Vec<_> = last.messages().iter().filter_map(|message| message["content"].as_array()).flatten().collect();
    let calls: Vec<_> = blocks.iter().filter(|block| block["type"] == "tool_use").map(|block| &block["id"]).collect();
    let results: Vec<_> =
        blocks.iter().filter(|block| block["type"] == "tool_result").map(|block| &block["tool_use_id"]).collect();
    assert_eq!((calls.len(), calls), (1, results), "{version}");
}

#[test]
#[ignore = "nightly: a newer release is tried"]
fn a_conversation_with_tools_works_patched_2_0_76() {
    works_with_tools("2.0.76");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn a_conversation_with_tools_works_patched_2_1_112() {
    works_with_tools("2.1.112");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn a_conversation_with_tools_works_patched_2_1_113() {
    works_with_tools("2.1.113");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn a_conversation_with_tools_works_patched_2_1_240() {
    works_with_tools("2.1.240");
}

#[test]
fn a_conversation_with_tools_works_patched_2_1_330() {
    works_with_tools("2.1.330");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn a_conversation_with_tools_works_patched_1_0_128() {
    works_with_tools("1.0.128");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn a_conversation_with_tools_works_patched_2_0_30() {
    works_with_tools("2.0.30");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn a_conversation_with_tools_works_patched_2_1_20() {
    works_with_tools("2.1.20");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn a_conversation_with_tools_works_patched_2_1_50() {
    works_with_tools("2.1.50");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn a_conversation_with_tools_works_patched_2_1_63() {
    works_with_tools("2.1.63");
}
