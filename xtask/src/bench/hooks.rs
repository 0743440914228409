//! Time of the hooks that a user waits for at every prompt and tool, in a large archive and a project with many bundles.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use ctxbridge::archive::search::SearchIndex;
use ctxbridge::bundle::{BundleAction, Bundles, Project, record};
use ctxbridge_testkit::transcript::{Kind, append_turn};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::measure::Pairs;
use super::scratch::{MeasuredHook, Scratch};

#[derive(Debug, clap::Args)]
pub struct BenchHooksArgs {
    /// Turns in the archive
    #[arg(long, default_value_t = 100_000)]
    turns: u64,
    /// Bundles in the project
    #[arg(long, default_value_t = 2_000)]
    bundles: usize,
    /// Runs of each hook
    #[arg(long, default_value_t = 31)]
    runs: usize,
    /// Only what they take beside a server that is up, down or stalled
    #[cfg(unix)]
    #[arg(long)]
    beside_a_server: bool,
}

/// Turns of a session, and messages and bytes that make as many.
const TURNS: u64 = 14_500;
const MESSAGES: u64 = 40_000;
const BYTES: u64 = 1_300;
/// Number of further prompts, which show that something is recalled at all.
const OTHERS: usize = 20;
/// Lines of a bundle.
const LINES: usize = 20;

pub fn run(args: &BenchHooksArgs) -> Result<bool> {
    #[cfg(unix)]
    if args.beside_a_server {
        return super::beside::run(args.runs).map(|()| true);
    }
    let scratch = Scratch::new()?;
    let mut transcripts: Vec<PathBuf> = Vec::new();
    for seed in 0..args.turns.div_ceil(TURNS) {
        let messages = MESSAGES.min(args.turns * 11 / 4);
        transcripts.extend(
            scratch.generate(Kind::Chat, messages, messages * BYTES, seed)?.sessions.into_iter().map(|session| session.path),
        );
    }
    scratch.import()?;
    eprintln!("indexing");
    scratch.run(&["archive", "optimize"])?;
    let (first, _) = transcripts.split_first().context("no session was made")?;
    // Each prompt is one that another session had: there is something to recall, and nothing is said twice.
    let prompts = prompts(&scratch.data(), (args.runs + 1) * 3 + OTHERS)?;
    write_bundles(&scratch.project(), args.bundles, &prompts)?;
    println!("\n{} turns, {} bundles, {} runs, medians [lowest – highest]\n", args.turns, args.bundles, args.runs);
    println!("| what | reference | ratio | target | time | peak memory | reference's |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let scene = HookBench { scratch: &scratch, transcript: first, runs: args.runs };
    scene.measure(
        "the first prompt after a clone, nothing read yet",
        "",
        MeasuredHook::UserPromptSubmit,
        1,
        &|run| json!({ "prompt": prompts[run] }),
    )?;
    scratch.run(&["bundle", "index", &scratch.project().to_string_lossy()])?;
    let own = |run: usize| json!({ "prompt": prompts[args.runs + 1 + run] });
    scene.measure("`hook user-prompt-submit`, with recall", "≤ 25 ms", MeasuredHook::UserPromptSubmit, args.runs, &own)?;
    let nothing = |_| json!({ "prompt": "Yes, please go on." });
    scene.measure("the same, nothing to recall", "≤ 25 ms", MeasuredHook::UserPromptSubmit, args.runs, &nothing)?;
    let agent = |run: usize| json!({ "tool_name": "Agent", "tool_input": { "prompt": prompts[2 * (args.runs + 1) + run] } });
    scene.measure("`hook pre-tool-use`, a sub-agent", "", MeasuredHook::PreToolUse, args.runs, &agent)?;
    let edit = |run: usize| {
        let file = scratch.project().join(format!("src/part{run}.rs"));
        let input = json!({ "file_path": file, "old_string": "a".repeat(2_000), "new_string": "b".repeat(2_000) });
        json!({ "tool_name": "Edit", "tool_input": input, "tool_response": { "originalFile": "c".repeat(20_000) } })
    };
    scene.measure("`hook post-tool-use`, an edit", "≤ 5 ms", MeasuredHook::PostToolUse, args.runs, &edit)?;
    let command = |run: usize| json!({ "tool_name": "Bash", "tool_input": { "command": format!("API_TOKEN=abc{run} cargo test part{run}") }, "tool_response": { "stdout": "ok" } });
    scene.measure("`hook post-tool-use`, a command", "≤ 5 ms", MeasuredHook::PostToolUse, args.runs, &command)?;
    // Hooks succeed whatever happens: what they left behind says whether they did anything.
    let others = &prompts[3 * (args.runs + 1)..];
    let answers =
        others.iter().map(|prompt| scratch.hook_output_with(MeasuredHook::UserPromptSubmit, first, &json!({ "prompt": prompt })));
    let told = answers.collect::<Result<Vec<String>>>()?.iter().filter(|answer| answer.contains("quoted history")).count();
    ensure!(told > 0, "nothing was recalled for {} prompts, so what was measured is no recall", others.len());
    println!("\nof {} other prompts of such sessions, {told} were given something", others.len());
    let written = fs::read_dir(Bundles::of(&around(&scratch.project())?).folder())?.flatten();
    let written =
        written.filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|text| text.contains("src/part1.rs"))).count();
    ensure!(written == 1, "the edits were not written down");
    Ok(true)
}

struct HookBench<'a> {
    scratch: &'a Scratch,
    transcript: &'a Path,
    runs: usize,
}

impl HookBench<'_> {
    fn measure(&self, what: &str, target: &str, hook: MeasuredHook, runs: usize, own: &dyn Fn(usize) -> Value) -> Result<()> {
        let mut pairs = Pairs::default();
        let warm = usize::from(runs > 1);
        for run in 0..runs.min(self.runs) + warm {
            if matches!(hook, MeasuredHook::UserPromptSubmit) {
                append_turn(self.transcript, run as u64)?;
            }
            let base = self.scratch.run(&["--version"])?;
            let sample = self.scratch.hook_with(hook, self.transcript, &own(run))?;
            // The first run warms the file cache.
            if run >= warm {
                pairs.push(sample, base);
            }
        }
        pairs.print(what, "`ctxbridge --version`", target);
        Ok(())
    }
}

fn around(project: &Path) -> Result<Project> {
    Project::around(project, None).context("the scratch project is none")
}

/// Prompts of sessions in the archive, all over it.
fn prompts(data: &Path, count: usize) -> Result<Vec<String>> {
    let index = SearchIndex::open(data)?;
    let all = index.count()? as i64;
    let mut found = Vec::new();
    for entry in (1..=all).step_by((all as usize / (count * 2)).max(1)) {
        let Some(excerpt) = index.excerpt(entry)? else { continue };
        if excerpt.prompt.split_whitespace().count() > 4 && found.len() < count {
            found.push(excerpt.prompt.chars().take(300).collect());
        }
    }
    ensure!(found.len() == count, "the archive has only {} of {count} prompts", found.len());
    Ok(found)
}

fn write_bundles(project: &Path, count: usize, prompts: &[String]) -> Result<()> {
    fs::create_dir_all(project.join(".git"))?;
    let bundles = Bundles::of(&around(project)?);
    bundles.prepare()?;
    let mut at = Timestamp::now().saturating_sub(SignedDuration::from_hours(24 * 300))?;
    for number in 0..count {
        at = at.saturating_add(SignedDuration::from_mins(200))?;
        let session = format!("{number:08x}-0000-4000-8000-000000000000");
        for line in 0..LINES {
            let word = |at: usize| prompts[(number * 7 + at) % prompts.len()].split_whitespace().next_back().unwrap_or_default();
            let op = match line % 5 {
                0 => BundleAction::Prompt(format!("Look at {} and {} in part {}", word(line), word(line + 1), number * line)),
                1 => BundleAction::Read(format!("src/area{}/part{line}.rs", number % 50)),
                2 => BundleAction::Edit(format!("src/area{}/part{line}.rs", number % 50)),
                3 => BundleAction::Command(format!("cargo test area{} {}", number % 50, word(line))),
                _ => BundleAction::Write(format!("docs/area{}/{line}.md", number % 50)),
            };
            record(&bundles, &session, op, at, &|| None)?;
        }
    }
    Ok(())
}
