//! The client decides to compact by the usage of its last answer. What is cut right then counts at once, so that it does not
//! compact a conversation that fits once it is pruned.

use ctxbridge::client::{Client, ConversationLimits};
use ctxbridge::stub::{RequestKind, Stub};
use ctxbridge_testkit::is_full_run;

use super::{Installation, ended_well};

/// Clients compact at 167,000 tokens of it or a little before. 2.0.76 does not count the prompt that is new.
const WINDOW_TOKENS: u64 = 200_000;

/// What was sent in a part of a conversation.
#[derive(Debug)]
struct Sent {
    /// Tokens of each request of the conversation.
    tokens: Vec<u64>,
    /// Number of summaries that were asked for.
    compactions: usize,
}

/// A client in a window of 200,000 tokens, with a home of its own and a stub that counts.
struct Scene {
    stub: Stub,
    client: Client,
}

impl Scene {
    fn of(installation: &Installation) -> Self {
        let stub = Stub::start().unwrap();
        let client = installation.client().api(&stub.url());
        Self { client: client.env("CLAUDE_CODE_AUTO_COMPACT_WINDOW", WINDOW_TOKENS.to_string()), stub }
    }

    fn env(self, name: &str, value: &str) -> Self {
        Self { client: self.client.env(name, value), ..self }
    }

    /// What these prompts lead to.
    fn say(&self, what: &str, prompts: &[String]) -> Sent {
        let before = self.stub.requests().len();
        ended_well(&self.stub, &self.client.converse(prompts, ConversationLimits::default()).unwrap());
        let requests = self.stub.requests().split_off(before);
        let tokens = requests.iter().filter(|request| request.is_main()).map(|request| request.tokens).collect();
        let compactions = requests.iter().filter(|request| request.kind == RequestKind::Compaction).count();
        println!("{what}: {compactions} compactions, requests of {tokens:?} tokens");
        Sent { tokens, compactions }
    }

    /// Resumes the newest session.
    fn resume(self, what: &str, prompts: &[String]) -> Sent {
        Self { client: self.client.arg("--continue"), ..self }.say(what, prompts)
    }
}

/// Long prompts, none of which is said twice.
pub fn prompts(count: usize, bytes: usize) -> Vec<String> {
    let text = |number| format!("Prompt {number}. {}", "All is well here, and nothing is to be done. ".repeat(bytes / 45 + 1));
    (1..=count).map(|number| text(number)[..bytes].to_owned()).collect()
}

/// 14 prompts of 138 KB, of which `keep` are kept: what the conversation grows by in one call is more than what is left of the
/// window, and what is cut of it in that call makes up for that.
fn large_prompts(version: &str, keep: &str) {
    let installation = Installation::of(version);
    let prompts = prompts(14, 138_000);
    let scene = |installation| Scene::of(installation).env("CLAUDE_TEXT_PRUNE_KEEP", keep);
    let unpatched = scene(&installation).say(&format!("{version}, unpatched"), &prompts);
    installation.apply();
    let patched = scene(&installation).say(&format!("{version}, patched"), &prompts);
    let off = scene(&installation).env("CLAUDE_TEXT_PRUNE", "0").say(&format!("{version}, off"), &prompts);
    assert!(unpatched.compactions > 0, "{version}: {unpatched:?}");
    assert_eq!(patched.compactions, 0, "{version}: {patched:?}");
    assert!(patched.tokens.iter().all(|tokens| *tokens < WINDOW_TOKENS), "{version}: {patched:?}");
    assert_eq!((off.compactions, off.tokens.len()), (unpatched.compactions, unpatched.tokens.len()), "{version}: {off:?}");
    installation.revert();
}

/// A session of five prompts that fills its window up to `tokens` goes on patched. By day, tests of the fixtures say what the switch does here.
fn nearly_full_session(version: &str, tokens: u64) {
    let installation = Installation::of(version);
    let empty = Scene::of(&installation).say(&format!("{version}, an empty window"), &["Hello.".to_owned()]).tokens[0];
    let before = prompts(5, ((tokens - empty) * 7 / 10) as usize);
    let next = prompts(1, 158_000);
    let full = |what: &str| {
        let scene = Scene::of(&installation);
        let said = scene.say(&format!("{version}, unpatched, before {what}"), &before);
        assert_eq!(said.compactions, 0, "{version}: {said:?}");
        scene
    };
    let [untouched, patched] = ["nothing", "the patch"].map(full);
    let off = is_full_run().then(|| full("the switch"));
    let untouched = untouched.resume(&format!("{version}, unpatched"), &next);
    installation.apply();
    let patched = patched.resume(&format!("{version}, patched"), &next);
    assert!(untouched.compactions > 0, "{version}: {untouched:?}");
    assert_eq!(patched.compactions, 0, "{version}: {patched:?}");
    if let Some(off) = off {
        let off = off.env("CLAUDE_TEXT_PRUNE", "0").resume(&format!("{version}, off"), &next);
        assert_eq!((off.compactions, off.tokens.len()), (untouched.compactions, untouched.tokens.len()), "{version}: {off:?}");
    }
    installation.revert();
}

macro_rules! scenes {
    ($($(#[$attribute:meta])? $name:ident: $scene:ident($($argument:expr),*),)*) => {
        $(#[test] $(#[$attribute])? fn $name() { $scene($($argument),*); })*
    };
}

scenes! {
    #[ignore = "nightly: another way to fill the window is tried"]
    large_prompts_2_0_76: large_prompts("2.0.76", "4"),
    #[ignore = "nightly: another release of its era is tried"]
    large_prompts_2_1_64: large_prompts("2.1.64", "3"),
    #[ignore = "nightly: another release of its era is tried"]
    large_prompts_2_1_108: large_prompts("2.1.108", "3"),
    #[ignore = "nightly: another release of its era is tried"]
    large_prompts_2_1_145: large_prompts("2.1.145", "3"),
    #[ignore = "nightly: another way to fill the window is tried"]
    large_prompts_2_1_330: large_prompts("2.1.330", "3"),
    #[ignore = "nightly: another release of its era is tried"]
    large_prompts_2_1_332: large_prompts("2.1.332", "3"),
    #[ignore = "nightly: another way to fill the window is tried"]
    nearly_full_session_2_0_76: nearly_full_session("2.0.76", 180_000),
    #[ignore = "nightly: another release of its era is tried"]
    nearly_full_session_2_1_64: nearly_full_session("2.1.64", 158_000),
    #[ignore = "nightly: another release of its era is tried"]
    nearly_full_session_2_1_108: nearly_full_session("2.1.108", 158_000),
    #[ignore = "nightly: another release of its era is tried"]
    nearly_full_session_2_1_145: nearly_full_session("2.1.145", 158_000),
    nearly_full_session_2_1_330: nearly_full_session("2.1.330", 158_000),
    #[ignore = "nightly: another release of its era is tried"]
    nearly_full_session_2_1_332: nearly_full_session("2.1.332", 158_000),
}
