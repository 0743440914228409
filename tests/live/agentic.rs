//! Whether pruning pays, with the real client and a long session of tool calls: unpatched, by the reference design, and by ours.
//!
//! The stub keeps the prompt cache that the API documents and reports usage from it; a table line for each run is printed.

pub mod handles;
pub mod script;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use ctxbridge::client::{Client, ConversationLimits};
use ctxbridge::patch::catalog::Catalog;
use ctxbridge::patch::patcher::Patcher;
use ctxbridge::prune::RUNTIME_FUNCTION;
use ctxbridge::stub::{ApiRequest, CacheRules, Options, RequestKind, Stub, UsageTotals};
use ctxbridge_testkit::is_full_run;
use serde_json::Value;

use super::{Installation, ended_well};
use script::{ALLOWED_TOOLS, Script};

const CTXBRIDGE: &str = env!("CARGO_BIN_EXE_ctxbridge");

/// The patch that is looked at.
const PATCH: &str = "aggressive-text-prune";

/// The reference design in place of our runtime.
const REFERENCE: &str = include_str!("agentic/reference.js");

/// No fewer calls, no larger share of the unpatched peak and cost. The session nearly fills a window of 200,000 tokens.
const LEAST_CALLS: u64 = 100;
const LARGEST_PEAK: f64 = 0.8;
const LARGEST_COST: f64 = 0.8;

/// The model, with a window that is large enough for the unpatched session: one of 200,000 tokens would be compacted near its end.
const MODEL: &str = "claude-sonnet-4-5[1m]";
const WINDOW: &str = "1000000";

/// How far the simulator may be from what was counted.
const TOLERANCE: f64 = 0.05;

/// A session as it was sent, and the client's home with its transcript.
struct Run {
    name: &'static str,
    client: Client,
    requests: Vec<Arc<ApiRequest>>,
    totals: UsageTotals,
}

impl Run {
    fn new(installation: &Installation, name: &'static str) -> Self {
        let client = installation.client();
        let script = Script::new(&client.project());
        let (prompts, calls) = (script.prompts.clone(), script.calls());
        let options = Options { cache: Some(CacheRules::API), ..Options::default() };
        let stub = Stub::start_with(script, options).unwrap();
        let client = client.api(&stub.url()).model(MODEL).arg("--allowedTools").arg(ALLOWED_TOOLS);
        let limits = ConversationLimits { turn: Duration::from_secs(120), total: Duration::from_secs(600) };
        let conversation = client.converse(&prompts, limits).unwrap();
        ended_well(&stub, &conversation);
        let requests = stub.requests();
        assert!(requests.iter().all(|request| request.kind != RequestKind::Compaction), "{name}: the window was large enough");
        let totals = stub.totals();
        assert_eq!(totals.requests, calls as u64, "{name}: one request for each step of the script");
        assert!(totals.requests >= LEAST_CALLS);
        assert_eq!(failed_calls(&requests), [""; 0], "{name}");
        Self { name, client, requests, totals }
    }

    /// The transcript of the only session.
    fn transcript(&self) -> PathBuf {
        let projects = fs::read_dir(self.client.home().join(".claude/projects")).unwrap();
        let files = projects.flat_map(|project| fs::read_dir(project.unwrap().path()).unwrap());
        let files = files.map(|file| file.unwrap().path()).filter(|path| is_session(path));
        let found: Vec<_> = files.collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    }

    /// `ctxbridge` as the user of this client would run it; there is no archive.
    fn ctxbridge(&self, args: &[&str]) -> Output {
        let mut command = Command::new(CTXBRIDGE);
        command.args(args).current_dir(self.client.project()).env_clear().env("HOME", self.client.home());
        // The client takes its window for the usual one, as no request is larger than that.
        command.env("CLAUDE_TEXT_PRUNE_WINDOW", "200000");
        command.env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap()
    }

    #[track_caller]
    fn stdout(&self, args: &[&str]) -> String {
        let output = self.ctxbridge(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn peak_ratio(&self, unpatched: &Self) -> f64 {
        self.totals.peak as f64 / unpatched.totals.peak as f64
    }

    fn cost_ratio(&self, unpatched: &Self) -> f64 {
        self.totals.cost() / unpatched.totals.cost()
    }

    fn print(&self, version: &str, unpatched: &Self) {
        let UsageTotals { requests, input, read, written, peak, .. } = self.totals;
        println!(
            "| {version} | {} | {requests} | {} | {input} | {read} | {written} | {peak} | {:.2} | {:.0} | {:.2} |",
            self.name,
            self.totals.sent(),
            self.peak_ratio(unpatched),
            self.totals.cost(),
            self.cost_ratio(unpatched),
        );
    }
}

fn is_session(path: &Path) -> bool {
    let is_agent = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("agent-"));
    path.extension().is_some_and(|extension| extension == "jsonl") && !is_agent && fs::metadata(path).unwrap().len() > 0
}

/// What tools that failed said: the script is made so that none does.
fn failed_calls(requests: &[Arc<ApiRequest>]) -> Vec<String> {
    let newest = requests.iter().rfind(|request| request.is_main()).expect("a conversation");
    let blocks = newest.messages().iter().filter_map(|message| message["content"].as_array()).flatten();
    blocks.filter(|block| block["is_error"] == true).map(Value::to_string).collect()
}

/// Applies the reference design; what comes back takes it out again.
fn with_reference<T>(installation: &Installation, work: impl FnOnce() -> T) -> T {
    let catalog = installation.folder.path().join("reference");
    let patch = catalog.join(PATCH);
    fs::create_dir_all(&patch).unwrap();
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("patches").join(PATCH);
    fs::copy(ours.join("patch.toml"), patch.join("patch.toml")).unwrap();
    let runtime = REFERENCE.replacen("function reference(", &format!("function {RUNTIME_FUNCTION}("), 1);
    fs::write(patch.join("runtime.js"), runtime).unwrap();
    let data = installation.folder.path().join("data");
    fs::create_dir_all(&data).unwrap();
    let patcher = Patcher::new(&data, Catalog::load(&catalog).unwrap(), &|_| {});
    patcher.apply(&installation.target(), &[], true).unwrap_or_else(|error| panic!("{error}"));
    let result = work();
    installation.revert();
    result
}

/// Every handle leads to what was sent whole before it was folded.
fn handles_resolve(run: &Run) {
    let main = run.requests.iter().filter(|request| request.is_main());
    handles::resolve(run.name, main.map(Arc::as_ref), |handle| run.stdout(&["recall", handle]).into_bytes());
}

/// From the transcript of the unpatched session the simulator foretells what the stub counted in these runs.
fn simulator_agrees(unpatched: &Run, runs: &[(&str, &Run)]) {
    let transcript = unpatched.transcript();
    let simulated = unpatched.stdout(&["prune", "simulate", transcript.to_str().unwrap(), "--window", WINDOW, "--json"]);
    let simulated: Value = serde_json::from_str(&simulated).unwrap();
    let policies = simulated["policies"].as_array().unwrap();
    let mut wrong = Vec::new();
    for (name, run) in runs {
        let found = policies.iter().find(|found| found["name"] == *name).unwrap_or_else(|| panic!("{name} in {simulated}"));
        let UsageTotals { requests, read, written, peak, .. } = run.totals;
        for (key, counted) in [
            ("calls", requests),
            ("input_tokens", run.totals.sent()),
            ("cache_read_tokens", read),
            ("cache_write_tokens", written),
            ("peak_tokens", peak),
        ] {
            let (foretold, counted) = (found[key].as_f64().unwrap(), counted as f64);
            println!("{name}: {key} {foretold}, counted {counted}: {:+.1} %", 100.0 * (foretold / counted - 1.0));
            if (foretold - counted).abs() > TOLERANCE * counted {
                wrong.push(format!("{name}: {key} is {foretold}, and {counted} was counted"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

fn pruning_pays(version: &str) {
    let installation = Installation::of(version);
    let unpatched = Run::new(&installation, "unpatched");
    // It has some hundred requests as well.
    let reference = is_full_run().then(|| with_reference(&installation, || Run::new(&installation, "reference")));
    installation.apply();
    let ours = Run::new(&installation, "ours");
    installation.revert();

    println!("| release | policy | calls | sent | input | read | written | peak | of unpatched | cost | of unpatched |");
    for run in [Some(&unpatched), reference.as_ref(), Some(&ours)].into_iter().flatten() {
        run.print(version, &unpatched);
    }
    let (peak, cost) = (ours.peak_ratio(&unpatched), ours.cost_ratio(&unpatched));
    assert!(peak <= LARGEST_PEAK, "{version}: the largest request is {peak:.2} of the unpatched one");
    assert!(cost <= LARGEST_COST, "{version}: {cost:.2} of the unpatched cost");
    handles_resolve(&ours);
    simulator_agrees(&unpatched, &[("none", &unpatched), ("fold", &ours)]);
    if let Some(reference) = &reference {
        assert!(cost < reference.cost_ratio(&unpatched), "{version}: cheaper than the reference design");
        simulator_agrees(&unpatched, &[("reference", reference)]);
    }
}

#[test]
#[ignore = "nightly: a newer release is tried"]
fn pruning_pays_2_0_76() {
    pruning_pays("2.0.76");
}

#[test]
#[ignore = "nightly: another release of its era is tried"]
fn pruning_pays_2_1_112() {
    pruning_pays("2.1.112");
}

#[test]
#[ignore = "nightly: two sessions of over a hundred requests; by day the demo's is told"]
fn pruning_pays_2_1_330() {
    pruning_pays("2.1.330");
}
