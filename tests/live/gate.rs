//! PreCompact hooks and what their exit code does to a compaction, in releases that ignore it and with the patch.
//!
//! The hook is a script that writes down what triggered it and ends as a file says, so that the stub can change its mind.

use std::fs;
use std::path::{Path, PathBuf};

use ctxbridge::client::{Client, ConversationLimits};
use ctxbridge::stub::{ApiRequest, Options, ReplyUsage, RequestKind, Responder, ScriptedReply, Stub};
use serde_json::json;

use super::{Installation, ended_well};

const PATCH: &str = "precompact-gate";

/// Over the threshold of every release, 165,600 to 167,000 tokens, and below 177,000, where newer ones stop.
const NEARLY_FULL: u64 = 170_000;

/// What the hook prints; it becomes part of what the summary is asked to do.
const WISH: &str = "Keep the herons.";

/// What session memory says, and what it is not: the template.
const MEMORY: &str = "# Session Title\nHerons on the lake\n\n# Current State\nCounting herons.\n";

/// Claims a nearly full window at prompts that say so, and gives way to compaction at one that says that.
struct Script {
    verdict: PathBuf,
}

impl Responder for Script {
    fn reply(&mut self, request: &ApiRequest) -> ScriptedReply {
        if newest(request).starts_with("Full, at last") {
            fs::write(&self.verdict, "0").unwrap();
        }
        ScriptedReply::Text("Noted.".into())
    }

    fn usage(&mut self, request: &ApiRequest, reply: &ScriptedReply) -> ReplyUsage {
        let usage = ReplyUsage::of(request, reply);
        if newest(request).starts_with("Full") { ReplyUsage { input_tokens: NEARLY_FULL, ..usage } } else { usage }
    }
}

fn newest(request: &ApiRequest) -> String {
    request.human_prompts().pop().unwrap_or_default()
}

/// What a conversation led to.
struct Outcome {
    stub: Stub,
    /// What triggered the hook, each time that it ran.
    triggers: Vec<String>,
}

impl Outcome {
    fn compactions(&self) -> usize {
        self.stub.requests().iter().filter(|request| request.kind == RequestKind::Compaction).count()
    }

    /// The requests of the conversation, each with what it says of the human.
    fn turns(&self) -> Vec<Vec<String>> {
        self.stub.main_requests().iter().map(|request| request.human_prompts()).collect()
    }

    /// What the first summary is asked to do.
    fn summary_request(&self) -> String {
        let requests = self.stub.requests();
        let request = requests.iter().find(|request| request.kind == RequestKind::Compaction).expect("a compaction");
        request.text_blocks().last().unwrap().text.to_owned()
    }
}

/// How the hook ends, and whether the client compacts from session memory.
#[derive(Clone, Copy)]
struct Scene {
    verdict: u8,
    uses_memory: bool,
    has_memory: bool,
}

impl Scene {
    fn ending_with(verdict: u8) -> Self {
        Self { verdict, uses_memory: false, has_memory: false }
    }

    fn with_memory(verdict: u8) -> Self {
        Self { verdict, uses_memory: true, has_memory: true }
    }

    fn play(self, installation: &Installation, prompts: &[&str]) -> Outcome {
        let client = installation.client();
        let folder = client.home().join("gate");
        fs::create_dir(&folder).unwrap();
        let (verdict, log) = (folder.join("verdict"), folder.join("log"));
        fs::write(&verdict, self.verdict.to_string()).unwrap();
        fs::write(&log, "").unwrap();
        self.wire_hooks(&client, &folder);
        let stub = Stub::start_with(Script { verdict }, Options::default()).unwrap();
        let client = client.api(&stub.url()).env("ENABLE_CLAUDE_CODE_SM_COMPACT", if self.uses_memory { "1" } else { "" });
        ended_well(&stub, &client.converse(prompts, ConversationLimits::default()).unwrap());
        // Newer clients end what they tell the hook with a line feed, and older ones do not.
        let log = fs::read_to_string(log).unwrap();
        let triggers = log.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Outcome { stub, triggers }
    }

    fn wire_hooks(self, client: &Client, folder: &Path) {
        let gate = format!(
            "sed 's/.*\"trigger\":\"\\([a-z]*\\)\".*/\\1/' >> '{0}/log'\necho >> '{0}/log'\necho '{WISH}'\nexit $(cat '{0}/verdict')\n",
            folder.display()
        );
        let remember = format!(
            "folder=$(sed 's/.*\"transcript_path\":\"\\([^\"]*\\)\\.jsonl\".*/\\1/')/session-memory\n\
             mkdir -p \"$folder\"\nprintf '%s' '{MEMORY}' > \"$folder/summary.md\"\n"
        );
        let script = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).unwrap();
            json!([{ "matcher": "", "hooks": [{ "type": "command", "command": format!("sh '{}'", path.display()) }] }])
        };
        let mut hooks = json!({ "PreCompact": script("gate", &gate) });
        if self.has_memory {
            hooks["UserPromptSubmit"] = script("remember", &remember);
        }
        fs::create_dir_all(client.home().join(".claude")).unwrap();
        fs::write(client.home().join(".claude/settings.json"), json!({ "hooks": hooks }).to_string()).unwrap();
    }
}

const PROMPTS: [&str; 4] = ["Where do herons nest?", "Full: the first list.", "And the others?", "Thank you."];

/// The same conversation unpatched and patched, with a hook that ends with 2.
fn exit_code_2_blocks(version: &str) {
    let installation = Installation::of(version);
    let unpatched = Scene::ending_with(2).play(&installation, &PROMPTS);
    assert_eq!(unpatched.triggers, ["auto"], "{version}, unpatched");
    assert_eq!(unpatched.compactions(), 1, "{version}, unpatched: the exit code is ignored");

    let applied = installation.apply_patches(&[PATCH]);
    assert!(applied.grew_by_bytes > 0);
    let patched = Scene::ending_with(2).play(&installation, &PROMPTS);
    assert_eq!(patched.triggers, ["auto"], "{version}, patched");
    assert_eq!(patched.compactions(), 0, "{version}, patched");
    let whole: Vec<Vec<&str>> = (1..=PROMPTS.len()).map(|said| PROMPTS[..said].to_vec()).collect();
    assert_eq!(patched.turns(), whole, "{version}, patched: the conversation goes on, all of it in every request");
    println!("{version}: {} compaction unpatched, {} patched", unpatched.compactions(), patched.compactions());

    let manual = Scene::ending_with(2).play(&installation, &[PROMPTS[0], "/compact", "Thank you."]);
    assert_eq!(manual.triggers, ["manual"], "{version}, by hand");
    assert_eq!(manual.compactions(), 1, "{version}, by hand: never blocked");
    installation.revert();
}

/// Every request over the threshold asks anew, more often than the three failures that make newer clients give up, and the first
/// answer that is not 2 lets the client compact.
fn asks_at_every_request(version: &str) {
    let installation = Installation::of(version);
    installation.apply_patches(&[PATCH]);
    let prompts = ["Herons.", "Full: 1.", "Full: 2.", "Full: 3.", "Full: 4.", "Full, at last.", "And the others?"];
    let outcome = Scene::ending_with(2).play(&installation, &prompts);
    assert_eq!(outcome.triggers, ["auto"; 5], "{version}: at each request after the second");
    assert_eq!(outcome.compactions(), 1, "{version}");
    let turns = outcome.turns();
    assert_eq!(turns[5], prompts[..6], "{version}: all of it until the hook lets it go");
    assert!(!turns[6].iter().any(|turn| turn == prompts[0]), "{version}: {:?}", turns[6]);
    installation.revert();
}

/// A hook that does not block runs once, and says what it said before: the same summary is asked for.
fn other_exit_codes_change_nothing(version: &str) {
    let installation = Installation::of(version);
    let verdicts = [0, 1];
    let before = verdicts.map(|verdict| Scene::ending_with(verdict).play(&installation, &PROMPTS));
    installation.apply_patches(&[PATCH]);
    let after = verdicts.map(|verdict| Scene::ending_with(verdict).play(&installation, &PROMPTS));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after.triggers, ["auto"], "{version}: once for one compaction");
        assert_eq!(after.triggers, before.triggers, "{version}");
        assert_eq!((before.compactions(), after.compactions()), (1, 1), "{version}");
        assert_eq!(after.summary_request(), before.summary_request(), "{version}");
        assert_eq!(after.turns().len(), before.turns().len(), "{version}");
    }
    assert!(after[0].summary_request().contains(WISH), "{version}: {}", after[0].summary_request());
    assert!(!after[1].summary_request().contains(WISH), "{version}: a hook that fails has no say");
    installation.revert();
}

/// Session memory takes the place of a summary without asking the model, and unpatched without asking the hooks.
fn session_memory_asks_the_hooks(version: &str) {
    let installation = Installation::of(version);
    let came_from_memory = |outcome: &Outcome| {
        let last = outcome.stub.main_requests().pop().unwrap();
        outcome.compactions() == 0 && last.text_blocks().iter().any(|block| block.text.contains("Counting herons."))
    };
    let by_hand = [PROMPTS[0], "/compact", "Thank you."];

    let unpatched = Scene::with_memory(2).play(&installation, &PROMPTS);
    assert!(came_from_memory(&unpatched), "{version}, unpatched: {:?}", unpatched.turns());
    assert!(unpatched.triggers.is_empty(), "{version}, unpatched: no hook runs");
    let unpatched = Scene::with_memory(2).play(&installation, &by_hand);
    assert!(came_from_memory(&unpatched) && unpatched.triggers.is_empty(), "{version}, unpatched, by hand");

    installation.apply_patches(&[PATCH]);
    let blocked = Scene::with_memory(2).play(&installation, &PROMPTS);
    assert_eq!(blocked.triggers, ["auto"], "{version}, blocked");
    assert!(!came_from_memory(&blocked), "{version}, blocked");
    assert_eq!(blocked.turns()[3], PROMPTS, "{version}, blocked: the whole conversation");

    let admitted = Scene::with_memory(0).play(&installation, &PROMPTS);
    assert_eq!(admitted.triggers, ["auto"], "{version}, admitted");
    assert!(came_from_memory(&admitted), "{version}, admitted: {:?}", admitted.turns());

    let manual = Scene::with_memory(2).play(&installation, &by_hand);
    assert_eq!(manual.triggers, ["manual"], "{version}, by hand");
    assert!(came_from_memory(&manual), "{version}, by hand: never blocked");

    // It is tried first and has nothing: the summary that follows does not run the hooks again.
    let empty = Scene { verdict: 0, uses_memory: true, has_memory: false };
    let outcome = empty.play(&installation, &PROMPTS);
    assert_eq!((outcome.triggers, outcome.stub.requests().len() > PROMPTS.len()), (vec!["auto".to_owned()], true), "{version}");
    let outcome = empty.play(&installation, &by_hand);
    assert_eq!((outcome.compactions(), outcome.triggers), (1, vec!["manual".to_owned()]), "{version}, by hand");
    installation.revert();
}

macro_rules! scenes {
    ($($(#[$attribute:meta])? $name:ident: $scene:ident($version:literal),)*) => {
        $(#[test] $(#[$attribute])? fn $name() { $scene($version); })*
    };
}

scenes! {
    #[ignore = "nightly: another release of its era is tried"]
    exit_code_2_blocks_1_0_128: exit_code_2_blocks("1.0.128"),
    #[ignore = "nightly: another release of its era is tried"]
    exit_code_2_blocks_2_0_76: exit_code_2_blocks("2.0.76"),
    #[ignore = "nightly: another release of its era is tried"]
    exit_code_2_blocks_2_1_50: exit_code_2_blocks("2.1.50"),
    exit_code_2_blocks_2_1_100: exit_code_2_blocks("2.1.100"),
    #[ignore = "nightly: by day a fixture's loop asks again"]
    asks_at_every_request_2_0_76: asks_at_every_request("2.0.76"),
    #[ignore = "nightly: by day a fixture's loop asks again"]
    asks_at_every_request_2_1_80: asks_at_every_request("2.1.80"),
    #[ignore = "nightly: four sessions of a hook that does not block"]
    other_exit_codes_change_nothing_2_0_76: other_exit_codes_change_nothing("2.0.76"),
    #[ignore = "nightly: another release of its era is tried"]
    other_exit_codes_change_nothing_2_1_100: other_exit_codes_change_nothing("2.1.100"),
    #[ignore = "nightly: of releases that nobody should have any more"]
    session_memory_asks_the_hooks_2_1_20: session_memory_asks_the_hooks("2.1.20"),
    #[ignore = "nightly: another release of its era is tried"]
    session_memory_asks_the_hooks_2_1_100: session_memory_asks_the_hooks("2.1.100"),
}

/// Where the client does it by itself, there is nothing to patch.
#[test]
fn a_release_that_blocks_by_itself_needs_no_patch() {
    let installation = Installation::of("2.1.105");
    let error =
        installation.with_patcher(|patcher| patcher.apply(&installation.target(), &[PATCH.to_owned()], true)).unwrap_err();
    assert!(error.to_string().contains("precompact-gate is for releases >=1.0.60, <2.1.105, and this is 2.1.105"), "{error}");
    let outcome = Scene::ending_with(2).play(&installation, &PROMPTS);
    assert_eq!((outcome.compactions(), outcome.triggers), (0, vec!["auto".to_owned()]));
}
