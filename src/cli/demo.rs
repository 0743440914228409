//! `ctxbridge demo`

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::builder::styling::AnsiColor;
use serde_json::json;

use super::output::{BOLD, DIM, GOOD, count, duration, short, size, styled};
use super::{CommandOutcome, Output};
use crate::demo::{self, DemoConversation, PROMPTS, bars};
use ctxbridge_client::releases;
use ctxbridge_common::{digest, paths};
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::inspect::TargetState;
use ctxbridge_patch::install::Target;
use ctxbridge_patch::locate::locate;
use ctxbridge_patch::patcher::Patcher;
use ctxbridge_patch::signature::TextForm;
use ctxbridge_syntax::with_deep_stack;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge demo
  ctxbridge demo --release 2.1.112
  ctxbridge demo --client ~/.npm-global/lib/node_modules/@anthropic-ai/claude-code

Runs a copy in a temporary folder against a local stub of the Messages API. Needs no account, and network access only for npm.")]
pub(super) struct DemoArgs {
    /// Client to copy: an executable, a cli.js or a package folder [default: the newest release from npm]
    #[arg(long, value_name = "PATH", conflicts_with = "release")]
    client: Option<PathBuf>,
    /// Release to fetch from npm, such as 2.1.112
    #[arg(long, value_name = "VERSION")]
    release: Option<String>,
}

impl DemoArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let begun = Instant::now();
        let source = match &self.client {
            Some(path) => Target::at(path)?,
            None => Target::at(&self.fetched(output)?)?,
        };
        let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
        let client = demo::copy_client(&source, &scratch.path().join("client"))?;
        let target = Target::at(&client)?;
        let original = digest::of_file(&target.path).with_context(|| format!("cannot read {}", target.path.display()))?;
        let mut story = Story { output, step: 0 };

        story.tell(&format!("Claude Code {}, a copy in {}", target.version_text(), scratch.path().display()))?;
        story.detail(&format!("SHA-256 {original}"))?;

        let catalog = Catalog::embedded()?;
        story.tell("its compaction sites, found by the shape of the syntax tree")?;
        let sites = self.sites(&target, &catalog)?;
        for site in &sites {
            story.detail(site)?;
        }

        story.tell(&format!("a conversation of {PROMPTS} prompts with the unpatched client: to each, the model reads a file"))?;
        let unpatched = demo::converse(&target)?;
        story.detail(&summary(&unpatched))?;

        let notice = |_: &str| {};
        let patcher = Patcher::new(&scratch.path().join("data"), catalog, &notice);
        let applied = patcher.apply(&target, &[], true)?;
        story.tell(&format!("patched with {}", applied.patches.join(", ")))?;
        story.detail(&format!(
            "it grew by {}, and runs: {} ({})",
            size(applied.grew_by_bytes),
            applied.smoke.output,
            duration(applied.elapsed_ms)
        ))?;

        story.tell("the same conversation with the patched client")?;
        let patched = demo::converse(&target)?;
        story.detail(&summary(&patched))?;
        story.chart(&bars(&unpatched.tokens, &patched.tokens))?;
        let recalled = recall(&patched, &scratch.path().join("data"))?;
        if let Some((handle, characters)) = &recalled {
            story.tell(&format!("ctxbridge recall {handle}: what was folded, {characters} characters"))?;
        }

        let state = patcher.verify(&target)?.state;
        ensure!(state == TargetState::Patched, "the patched copy does not verify: {state:?}");
        story.tell("verify: patched, every byte as written")?;

        let reverted = patcher.revert(&target, false)?;
        let now = digest::of_file(&target.path).with_context(|| format!("cannot read {}", target.path.display()))?;
        ensure!(now == original && reverted.restored_sha256 == original, "the reverted copy is not the original: {now}");
        story.tell("revert: the original is back")?;
        story.detail(&format!("SHA-256 {now}"))?;

        let elapsed_ms = begun.elapsed().as_millis() as u64;
        if output.json {
            output.value(&json!({
                "version": target.version, "sites": sites, "unpatched_tokens": unpatched.tokens, "patched_tokens": patched.tokens,
                "unpatched_compactions": unpatched.compactions, "patched_compactions": patched.compactions,
                "original_sha256": original, "patched_sha256": applied.patched_sha256, "reverted_sha256": now,
                "grew_by_bytes": applied.grew_by_bytes, "elapsed_ms": elapsed_ms,
            }))?;
        } else {
            output.line("")?;
            output.line(comparison(&unpatched, &patched))?;
            output.line(format!(
                "{} `ctxbridge setup` installs it, step by step; `ctxbridge uninstall` takes it out.",
                styled(GOOD, "Next:")
            ))?;
            if self.client.is_none()
                && let Ok(cache) = paths::cache_path()
            {
                let told =
                    format!("The release stays in {}; delete that folder, or `ctxbridge uninstall --purge` does.", short(&cache));
                output.prose(2, styled(DIM, told))?;
            }
        }
        Ok(CommandOutcome::Yes)
    }

    /// The release that is asked for, or the newest; one of the cache where npm reaches nothing.
    fn fetched(&self, output: &Output) -> anyhow::Result<PathBuf> {
        let hint = "`ctxbridge demo --client PATH` shows it with a client that you have";
        output.progress("asking npm for the newest release");
        let release = match self.release.clone().map_or_else(releases::newest, Ok) {
            Ok(release) => release,
            Err(error) => match releases::newest_cached() {
                Some(release) => {
                    output.note(&format!("npm is out of reach, so this is the newest release in the cache, {release}"));
                    release
                }
                None => bail!("{error}; {hint}"),
            },
        };
        let is_done = AtomicBool::new(false);
        let fetched = thread::scope(|scope| {
            // npm says nothing while it loads 80 MB.
            scope.spawn(|| {
                let begun = Instant::now();
                while !is_done.load(Ordering::Acquire) {
                    let seconds = begun.elapsed().as_secs();
                    output.progress(&format!("fetching Claude Code {release} with npm (80 MB, once), {seconds} s"));
                    thread::park_timeout(Duration::from_millis(500));
                }
            });
            let fetched = releases::fetch_client(&release);
            is_done.store(true, Ordering::Release);
            fetched
        });
        output.clear_progress();
        fetched.map_err(|error| anyhow::anyhow!("{error}; {hint}"))
    }

    fn sites(&self, target: &Target, catalog: &Catalog) -> anyhow::Result<Vec<String>> {
        let container = target.open()?;
        let patches = catalog.select(&[])?;
        let located = with_deep_stack(|| locate(&container, &patches, target.version.as_ref(), TextForm::Original))?;
        let sites = located.sites.iter().map(|site| {
            let names = site.names().into_iter().map(|(metavariable, name)| format!("{metavariable}={name}")).collect::<Vec<_>>();
            let module = site.module_name.rsplit('/').next().unwrap_or_default();
            format!("{:<24} {:<28} {}", site.site, format!("{module}:{}:{}", site.line, site.column), names.join(" "))
        });
        Ok(sites.collect())
    }
}

fn summary(conversation: &DemoConversation) -> String {
    let total: u64 = conversation.tokens.iter().sum();
    let compactions = count(conversation.compactions as u64, "compaction");
    format!("{} requests, {:.0}K input tokens in all, {compactions}", conversation.tokens.len(), total as f64 / 1e3)
}

/// Says in a sentence what patching changed.
fn comparison(unpatched: &DemoConversation, patched: &DemoConversation) -> String {
    let total = |conversation: &DemoConversation| conversation.tokens.iter().sum::<u64>() as f64;
    let compactions = |count: usize| if count == 0 { "no".to_owned() } else { count.to_string() };
    let (before, after) = (compactions(unpatched.compactions), compactions(patched.compactions));
    let share = 100.0 * (1.0 - total(patched) / total(unpatched));
    let (less, share) = if share < 0.0 { ("more", -share) } else { ("fewer", share) };
    format!(
        "With the patch: {after} compaction instead of {before}, {share:.0} % {less} tokens sent, and all of it can be recalled."
    )
}

/// Recalls the first steps that were folded, from the client's transcript; its handle and its length. `None` if nothing was.
fn recall(patched: &DemoConversation, data: &Path) -> anyhow::Result<Option<(String, usize)>> {
    let Some(handle) = patched.handles.first() else { return Ok(None) };
    let program = std::env::current_exe().context("cannot find ctxbridge itself")?;
    let mut command = Command::new(program);
    command.args(["recall", handle]).current_dir(patched.client.project()).env("HOME", patched.client.home());
    command.env("USERPROFILE", patched.client.home()).env("CTXBRIDGE_DATA_DIR", data).env_remove("CLAUDE_CONFIG_DIR");
    let recalled = command.output().context("cannot run ctxbridge recall")?;
    ensure!(recalled.status.success(), "{handle} is not recalled: {}", String::from_utf8_lossy(&recalled.stderr));
    Ok(Some((handle.clone(), String::from_utf8_lossy(&recalled.stdout).chars().count())))
}

/// Narrates the demo step by step; silent when the result is JSON.
struct Story<'o> {
    output: &'o mut Output,
    step: usize,
}

impl Story<'_> {
    fn tell(&mut self, text: &str) -> anyhow::Result<()> {
        self.step += 1;
        let text = format!("{} {}", styled(BOLD, format!("{}.", self.step)), text);
        if !self.output.json {
            self.output.line(text)?;
        }
        Ok(())
    }

    fn detail(&mut self, text: &str) -> anyhow::Result<()> {
        if !self.output.json {
            self.output.line(styled(DIM, format!("   {text}")))?;
        }
        Ok(())
    }

    fn chart(&mut self, chart: &str) -> anyhow::Result<()> {
        if !self.output.json {
            for line in chart.lines() {
                let style = if line.contains('█') { AnsiColor::Green.on_default() } else { DIM };
                self.output.line(styled(style, format!("   {line}")))?;
            }
        }
        Ok(())
    }
}
