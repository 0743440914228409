//! The session of an agent in a window of 200,000 tokens: unpatched, patched, with the mod, and with both.
//!
//! As in `live::agentic`, the stub keeps a prompt cache and reports usage from it. What summaries take counts, too.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ctxbridge::client::{ConversationLimits, releases};
use ctxbridge::stub::{ApiRequest, CacheRules, Options, RequestKind, Stub, ThinkingRules};

use super::stage::Stage;
use crate::live::agentic::handles;
use crate::live::agentic::script::{ALLOWED_TOOLS, Script};
use crate::live::{Installation, ended_well};

const WINDOW: u64 = 200_000;

/// A session as it was sent.
struct Run {
    name: &'static str,
    stage: Stage,
    requests: Vec<Arc<ApiRequest>>,
    output: u64,
}

impl Run {
    fn new(version: &'static str, client: &Path, name: &'static str) -> Self {
        let has_mod = name == "mod" || name == "both";
        let stage = Stage::of(version, client, WINDOW, ThinkingRules::None);
        if !has_mod {
            stage.remove_plugin();
        }
        let script = Script::new(&stage.project());
        let prompts = script.prompts.clone();
        let stub = Stub::start_with(script, Options { cache: Some(CacheRules::API), ..Options::default() }).unwrap();
        let stage = stage.arg("--allowedTools").arg(ALLOWED_TOOLS).answered_by(stub);
        let limits = ConversationLimits { turn: Duration::from_secs(120), total: Duration::from_secs(600) };
        ended_well(&stage.stub, &stage.client.converse(&prompts, limits).unwrap());
        let (requests, output) = (stage.stub.requests(), stage.stub.totals().output);
        if has_mod {
            println!("{version}, {name}: {:#?}", stage.answers());
        }
        Self { name, stage, requests, output }
    }

    fn sum(&self, of: impl Fn(&ApiRequest) -> u64) -> u64 {
        let counted = self.requests.iter().filter(|request| request.kind != RequestKind::Side);
        counted.map(|request| of(request)).sum()
    }

    fn summaries(&self) -> u64 {
        self.sum(|request| u64::from(request.kind == RequestKind::Compaction))
    }

    fn peak(&self) -> u64 {
        self.requests.iter().filter(|request| request.is_main()).map(|request| request.tokens).max().unwrap()
    }

    /// In units of a token of plain input, as in `UsageTotals`.
    fn cost(&self) -> f64 {
        let (read, written) = (self.sum(|request| request.cached.read), self.sum(|request| request.cached.written));
        let input = self.sum(|request| request.tokens) - read - written;
        input as f64 + 0.1 * read as f64 + 1.25 * written as f64 + 5.0 * self.output as f64
    }

    /// Characters that a question at the end finds of all that tools have said: whole in its request, and there or behind a handle in it.
    fn finds(&self) -> (f64, f64) {
        let said: BTreeMap<String, String> = self.requests.iter().flat_map(|request| results(request)).collect();
        let last = self.requests.iter().rfind(|request| request.is_main()).unwrap();
        let there: BTreeMap<String, String> = results(last).collect();
        let recalled: Vec<String> =
            ranges(last).map(|handle| String::from_utf8_lossy(&self.stage.ctxbridge(&["recall", handle])).into_owned()).collect();
        let share = |is_found: &dyn Fn(&String, &String) -> bool| {
            let chars = |(_, text): (&String, &String)| text.len() as f64;
            said.iter().filter(|(id, text)| is_found(id, text)).map(chars).sum::<f64>() / said.iter().map(chars).sum::<f64>()
        };
        let is_whole = |id: &String, text: &String| there.get(id) == Some(text);
        (share(&is_whole), share(&|id, text| is_whole(id, text) || recalled.iter().any(|recalled| recalled.contains(text))))
    }

    fn print(&self, unpatched: &Self) {
        let of = |mine: f64, other: f64| mine / other;
        let (whole, found) = self.finds();
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {:.2} | {:.0} | {:.2} | {whole:.2} | {found:.2} |",
            self.stage.version,
            self.name,
            self.requests.iter().filter(|request| request.is_main()).count(),
            self.summaries(),
            self.sum(|request| request.tokens),
            self.sum(|request| request.cached.read),
            self.sum(|request| request.cached.written),
            self.peak(),
            of(self.peak() as f64, unpatched.peak() as f64),
            self.cost(),
            of(self.cost(), unpatched.cost()),
        );
    }
}

/// Texts of the results in a request, by the ids of their calls, as the client got them: without what it added for the model.
fn results(request: &ApiRequest) -> impl Iterator<Item = (String, String)> {
    let blocks = request.messages().iter().flat_map(|message| message["content"].as_array().into_iter().flatten());
    let texts = blocks.filter(|block| block["type"] == "tool_result").filter_map(|block| {
        let text = block["content"].as_str().or_else(|| block["content"][0]["text"].as_str())?;
        let text = text.split("\n\n<system-reminder>").next().unwrap_or_default();
        Some((block["tool_use_id"].as_str()?.to_owned(), text.trim_end().to_owned()))
    });
    texts.collect::<Vec<_>>().into_iter()
}

/// Handles of the digests in a request.
fn ranges(request: &ApiRequest) -> impl Iterator<Item = &str> {
    const LENGTH: usize = "ctx:1a2b3c4d..5e6f7a8b".len();
    let texts = request.text_blocks().into_iter().map(|block| block.text);
    texts.filter_map(|text| {
        let at = text.find("[earlier context folded: ")?;
        text[at..].split_once(", recall ").and_then(|(_, rest)| rest.get(..LENGTH)).filter(|handle| handle.contains(".."))
    })
}

fn side_by_side(version: &'static str) {
    let release = releases::fetch_client(version).unwrap_or_else(|error| panic!("{error}"));
    let unpatched = Run::new(version, &release, "unpatched");
    let with_mod = Run::new(version, &release, "mod");
    let installation = Installation::of(version);
    installation.apply();
    let patched = Run::new(version, &installation.path, "patched");
    let both = Run::new(version, &installation.path, "both");
    println!(
        "| release | way | requests | summaries | sent | read | written | peak | of unpatched | cost | of unpatched | whole | found |"
    );
    for run in [&unpatched, &patched, &with_mod, &both] {
        run.print(&unpatched);
    }
    assert!(unpatched.summaries() > 0, "{version}: the session is too long for the window");
    for run in [&with_mod, &both] {
        assert_eq!(run.summaries(), 0, "{version}: {}", run.name);
        assert!(run.finds().1 > 0.99, "{version}, {}: all that was said is there, or has a handle", run.name);
        let main = run.requests.iter().filter(|request| request.is_main());
        handles::resolve(run.name, main.map(AsRef::as_ref), |handle| run.stage.ctxbridge(&["recall", handle]));
    }
    assert!(with_mod.peak() < WINDOW && both.peak() < WINDOW, "{version}");
}

scenes! {
    #[ignore = "nightly: four sessions of a hundred requests"]
    side_by_side_2_1_280: side_by_side("2.1.280"),
    #[ignore = "nightly: four sessions of a hundred requests"]
    side_by_side_2_1_330: side_by_side("2.1.330"),
    #[ignore = "nightly: four sessions of a hundred requests"]
    side_by_side_2_1_332: side_by_side("2.1.332"),
}
