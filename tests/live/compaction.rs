//! The mod answers compactions of the real client: no summary is asked for, and what was cut stays cut, in whatever way the session goes on.
//!
//! Thinking is bound to what stood before it here: the stub refuses it behind anything else.

macro_rules! scenes {
    ($($(#[$attribute:meta])? $name:ident: $scene:ident($version:literal),)*) => {
        $(#[test] $(#[$attribute])? fn $name() { $scene($version); })*
    };
}

mod agents;
mod side_by_side;
mod stage;
mod thinking;
mod trouble;

use std::fs;
use std::path::Path;

use ctxbridge::client::releases;
use ctxbridge::stub::{RequestKind, ScriptedReply, ThinkingRules, ToolCall};
use serde_json::json;

use super::agentic::handles;
use super::stale::prompts as large_texts;
use stage::{Stage, Turn, count, count_result, counted, failing_count, holds_the_cut, is_folded};

/// A window in which the client compacts at 67,000 tokens.
const WINDOW: u64 = 100_000;

/// A picture of one dot.
const PNG: [u8; 70] = [
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00,
    0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78,
    0xda, 0x63, 0x64, 0xf8, 0xcf, 0x50, 0x0f, 0x00, 0x03, 0x86, 0x01, 0x80, 0x5a, 0x34, 0x7d, 0x6b, 0x00, 0x00, 0x00, 0x00, 0x49,
    0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];
const PNG_BASE64: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Lines of a result: 8 KB.
const LINES: usize = 250;

fn calls<const N: usize>(calls: [ToolCall; N]) -> ScriptedReply {
    ScriptedReply::ToolUses(calls.into())
}

/// A turn with these rounds of three steps: a call beside a text, three at once of which one brings a picture, and one that fails.
fn long_turn(stage: &Stage, prompt: &str, rounds: std::ops::Range<usize>, answer: &str) -> Turn {
    let steps = rounds.flat_map(|round| {
        let number = round * 10;
        let picture = stage.project().join(format!("plover-{round}.png"));
        fs::write(&picture, PNG).unwrap();
        let said = format!("Round {round} begins.");
        let read = ToolCall { name: "Read".into(), input: json!({ "file_path": picture }) };
        [
            ScriptedReply::TextAndToolUses(said, vec![count(number, LINES)]),
            calls([count(number + 1, LINES), read, count(number + 2, LINES)]),
            calls([failing_count(number + 3, LINES)]),
        ]
    });
    Turn::with_calls(prompt, steps.collect::<Vec<_>>(), answer)
}

const PICTURE: &str = "Here is a plover, to know it by.";
const LONG: &str = "Count the plovers on each beach.";

/// The client compacts in the middle of a turn, and the session is resumed with and without the plugin.
fn in_the_middle_of_a_turn(version: &'static str) {
    let stage = Stage::new(version, WINDOW);
    stage.show(Turn::new(PICTURE, "A plover, then."), PNG_BASE64);
    let stage = stage.arg("--continue");
    let long = long_turn(&stage, LONG, 1..6, "All are counted.");
    let said = stage.say(vec![long, Turn::new("How many were there?", "Very many.")]);
    assert_eq!((stage.summaries(), stage.answered()), (0, vec!["auto".to_owned()]), "{version}");

    let main: Vec<_> = said.iter().filter(|request| request.is_main()).collect();
    let cut = main.iter().position(|request| is_folded(request));
    let cut = cut.expect("a request with a digest");
    let (before, kept) = (counted(main[cut - 1]), counted(main[cut]));
    println!("{version}: {} tokens, then {}: {before:?} became {kept:?}", main[cut - 1].tokens, main[cut].tokens);
    assert!(main[cut].tokens * 2 < main[cut - 1].tokens + main[0].tokens, "{version}: more than half of what is said is gone");
    for request in &main[cut..] {
        holds_the_cut(version, request, &before, &kept);
    }
    let last = counted(main[main.len() - 1]);

    let resumed = stage.say(vec![Turn::new("And now?", "They have gone.")]);
    stage.remove_plugin();
    let later = stage.say(vec![Turn::new("And tomorrow?", "They will be back.")]);
    for request in resumed.iter().chain(&later).filter(|request| request.is_main()) {
        holds_the_cut(version, request, &before, &kept);
        assert_eq!(counted(request), last, "{version}: what came since is there");
        let said = request.human_prompts();
        assert!([PICTURE, LONG, "And now?"].iter().all(|prompt| said.iter().any(|said| said.contains(prompt))), "{said:#?}");
        let shown = request.body["messages"].to_string();
        assert!(shown.contains("\"type\":\"image\""), "{version}: the picture of the prompt is there");
        let in_results = shown.matches("[an image was here: call the tool again to see it]").count();
        assert!(in_results > 0, "{version}: a picture in a result that stays is told of");
    }
    assert_eq!(stage.summaries(), 0, "{version}");

    let requests = stage.stub.main_requests();
    handles::resolve(version, requests.iter().map(AsRef::as_ref), |handle| stage.ctxbridge(&["recall", handle]));
    let sent = handles::Sent::in_requests([&**main[cut]]);
    let recalled: Vec<String> =
        sent.ranges.iter().map(|range| String::from_utf8(stage.ctxbridge(&["recall", range])).unwrap()).collect();
    for number in before.difference(&kept) {
        let original = count_result(*number, LINES);
        assert!(recalled.iter().any(|text| text.contains(&original)), "{version}: {number} in {recalled:#?}");
    }
    let transcripts = stage.transcripts();
    let [transcript] = &transcripts[..] else { panic!("one session: {transcripts:?}") };
    // The last process had no hooks.
    stage.ctxbridge(&["archive", "import"]);
    stage.archived(transcript, &[PICTURE, LONG, "How many were there?", "And now?", "And tomorrow?"]);
    assert_eq!(stage.log(), "", "{version}");
}

/// A turn that grows by its answer, so that the next one is what compacts.
fn wordy_turn(number: usize) -> Turn {
    let answer = format!("Beach {number}: {}.", "some plovers, and beside them a few dunlins".repeat(320));
    Turn::with_calls(&format!("What is on beach {number}?"), [calls([count(number, 20)])], &answer)
}

/// A session that compacts between turns and by hand is resumed without the plugin and forked with it. Wishes are for the client.
fn between_turns(version: &'static str) {
    let stage = Stage::new(version, WINDOW);
    let turns = (1..=14).map(wordy_turn).chain([Turn::command("/compact"), Turn::new("What is left?", "Some of it.")]);
    let said = stage.say(turns.collect());
    // Older releases have longer system prompts, and compact twice.
    let answered = stage.answered();
    let is_last_by_hand = answered.len() > 1 && answered.iter().rposition(|cause| cause == "auto") == Some(answered.len() - 2);
    assert!(stage.summaries() == 0 && is_last_by_hand, "{version}: {answered:?}");
    let main: Vec<_> = said.iter().filter(|request| request.is_main()).collect();
    let [.., before, after] = &main[..] else { unreachable!() };
    println!("{version}: {} tokens, by hand {}", before.tokens, after.tokens);
    let first = main.iter().position(|request| is_folded(request));
    let first = main[first.expect("a request with a digest")];
    assert!(!first.brings_tool_result(), "{version}: it was between turns");
    assert!(after.tokens < before.tokens, "{version}: less is left");
    let (before, kept) = (counted(before), counted(after));

    stage.remove_plugin();
    let stage = stage.arg("--continue");
    let resumed = stage.say(vec![Turn::new("And now?", "The same.")]);
    stage.run_by_plugin(Path::new(stage::CTXBRIDGE));
    let stage = stage.arg("--fork-session");
    let forked = stage.say(vec![Turn::new("And here?", "Here, too.")]);
    for requests in [&said, &resumed, &forked] {
        let last = requests.iter().rfind(|request| request.is_main()).unwrap();
        holds_the_cut(version, last, &before, &kept);
    }
    // The client's own compaction keeps the newest thinking behind its summary.
    let (conversation, wished) =
        stage.try_to_say(vec![Turn::command("/compact keep the ports"), Turn::new("What is left now?", "A summary.")]);
    assert!(conversation.is_success(), "{version}: {conversation:#?}");
    let wish = wished.iter().find(|request| request.kind != RequestKind::Side).unwrap();
    assert_eq!(wish.kind, RequestKind::Compaction, "{version}");
    assert!(wish.text_blocks().last().unwrap().text.contains("keep the ports"), "{version}: {:#?}", wish.text_blocks());
    assert_eq!(stage.summaries(), 1, "{version}");
    assert_eq!(stage.answers().len(), answered.len(), "{version}: the mod was not asked");
    assert_eq!(stage.log(), "", "{version}");
}

/// Two compactions in the middle of turns: what the first one made anew is folded by the second.
fn twice_in_the_middle(version: &'static str) {
    let stage = Stage::new(version, WINDOW);
    let turn = |prompt, first| long_turn(&stage, prompt, first..first + 4, &format!("All are counted after {first}."));
    let said = stage.say(vec![turn(LONG, 1), turn("Count those beyond.", 5)]);
    assert_eq!((stage.summaries(), stage.answered()), (0, vec!["auto".to_owned(); 2]), "{version}");
    let stage = stage.arg("--continue");
    let resumed = stage.say(vec![Turn::new("And now?", "They have gone.")]);
    stage.remove_plugin();
    let later = stage.say(vec![Turn::new("And tomorrow?", "They will be back.")]);
    let last = said.iter().rfind(|request| request.is_main()).unwrap();
    for request in resumed.iter().chain(&later).filter(|request| request.is_main()) {
        holds_the_cut(version, request, &counted(last), &counted(last));
        assert_eq!(counted(request), counted(last), "{version}");
    }
    let requests = stage.stub.main_requests();
    handles::resolve(version, requests.iter().map(AsRef::as_ref), |handle| stage.ctxbridge(&["recall", handle]));
}

/// Prompts of 138 KB, as in `live::stale`.
fn large_prompts(version: &'static str) {
    let stage = Stage::new(version, 200_000);
    let turns = || large_texts(14, 138_000).into_iter().map(|prompt| Turn::new(&prompt, "Noted."));
    let said = stage.say(turns().collect());
    let tokens: Vec<u64> = said.iter().filter(|request| request.is_main()).map(|request| request.tokens).collect();
    println!("{version}, mod: {} summaries, requests of {tokens:?} tokens", stage.summaries());
    assert_eq!((tokens.len(), stage.summaries()), (14, 0), "{version}");
    assert!(!stage.answered().is_empty(), "{version}");
    // It keeps thinking behind its summaries.
    let release = releases::fetch_client(version).unwrap_or_else(|error| panic!("{error}"));
    let stage = Stage::of(version, &release, 200_000, ThinkingRules::Free);
    stage.remove_plugin();
    let said = stage.say(turns().collect());
    let tokens: Vec<u64> = said.iter().filter(|request| request.is_main()).map(|request| request.tokens).collect();
    println!("{version}, without it: {} summaries, requests of {tokens:?} tokens", stage.summaries());
    assert!(stage.summaries() > 0, "{version}");
}

scenes! {
    #[ignore = "nightly: another release is tried"]
    in_the_middle_of_a_turn_2_1_280: in_the_middle_of_a_turn("2.1.280"),
    #[ignore = "nightly: another release is tried"]
    in_the_middle_of_a_turn_2_1_295: in_the_middle_of_a_turn("2.1.295"),
    #[ignore = "nightly: another release is tried"]
    in_the_middle_of_a_turn_2_1_311: in_the_middle_of_a_turn("2.1.311"),
    in_the_middle_of_a_turn_2_1_330: in_the_middle_of_a_turn("2.1.330"),
    #[ignore = "nightly: another release is tried"]
    in_the_middle_of_a_turn_2_1_332: in_the_middle_of_a_turn("2.1.332"),
    #[ignore = "nightly: another release is tried"]
    twice_in_the_middle_2_1_280: twice_in_the_middle("2.1.280"),
    #[ignore = "nightly: another release is tried"]
    twice_in_the_middle_2_1_295: twice_in_the_middle("2.1.295"),
    #[ignore = "nightly: another release is tried"]
    twice_in_the_middle_2_1_311: twice_in_the_middle("2.1.311"),
    #[ignore = "nightly: the same as between turns"]
    twice_in_the_middle_2_1_330: twice_in_the_middle("2.1.330"),
    #[ignore = "nightly: another release is tried"]
    twice_in_the_middle_2_1_332: twice_in_the_middle("2.1.332"),
    #[ignore = "nightly: another release is tried"]
    between_turns_2_1_280: between_turns("2.1.280"),
    #[ignore = "nightly: another release is tried"]
    between_turns_2_1_295: between_turns("2.1.295"),
    #[ignore = "nightly: another release is tried"]
    between_turns_2_1_311: between_turns("2.1.311"),
    #[ignore = "nightly: a long session in three processes"]
    between_turns_2_1_330: between_turns("2.1.330"),
    #[ignore = "nightly: another release is tried"]
    between_turns_2_1_332: between_turns("2.1.332"),
    #[ignore = "nightly: another release is tried"]
    large_prompts_2_1_280: large_prompts("2.1.280"),
    #[ignore = "nightly: another release is tried"]
    large_prompts_2_1_295: large_prompts("2.1.295"),
    #[ignore = "nightly: another release is tried"]
    large_prompts_2_1_311: large_prompts("2.1.311"),
    #[ignore = "nightly: another way to fill the window is tried"]
    large_prompts_2_1_330: large_prompts("2.1.330"),
    #[ignore = "nightly: another release is tried"]
    large_prompts_2_1_332: large_prompts("2.1.332"),
}
