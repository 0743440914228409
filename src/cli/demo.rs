//! `ctxbridge demo`

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::builder::styling::{AnsiColor, Style};
use semver::Version;
use serde_json::json;

use super::output::{BAD, BOLD, DIM, GOOD, count, short, size, styled};
use super::{CommandOutcome, Output};
use crate::demo::{
    self, Answer, AnswerSource, DemoConversation, LOGS, MIGRATE, MIGRATION_ANSWER, Memory, QUESTION, WINDOW_TOKENS, window,
};
use ctxbridge_client::releases;
use ctxbridge_common::{digest, paths};
use ctxbridge_patch::catalog::Catalog;
use ctxbridge_patch::inspect::TargetState;
use ctxbridge_patch::install::Target;
use ctxbridge_patch::locate::locate;
use ctxbridge_patch::patcher::Patcher;
use ctxbridge_patch::signature::TextForm;
use ctxbridge_syntax::with_deep_stack;

/// Style of what the user types, and of the window.
const PROMPT: Style = AnsiColor::Cyan.on_default();
/// Digits of a hash that are shown.
const SHOWN_DIGITS: usize = 16;

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
    release: Option<Version>,
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
        let program = std::env::current_exe().context("cannot find ctxbridge itself")?;
        let data = scratch.path().join("data");
        let mut story = Story { output };

        story.heading(&format!("Claude Code {}", target.version_text()))?;
        story.say("A copy of the client. The model is a script; all it knows is what it is sent.")?;

        story.heading("Without ctxbridge")?;
        story.prompt(MIGRATE)?;
        story.line(4, MIGRATION_ANSWER)?;
        story.say(&format!("… {LOGS} more prompts, for each of which the model reads a long log …"))?;
        story.output.progress("talking to the client");
        let without = demo::converse(&target, None)?;
        story.window(&without)?;
        story.question(&without.answer, false)?;

        let catalog = Catalog::embedded()?;
        let sites = self.sites(&target, &catalog)?;
        let notice = |_: &str| {};
        let patcher = Patcher::new(&data, catalog, &notice);
        story.output.progress("patching the copy");
        let applied = patcher.apply(&target, &[], true)?;
        story.heading("The same with ctxbridge")?;
        story
            .say(
                &format!("The copy is patched at {}, and runs. Hooks archive each turn.", count(sites.len() as u64, "place"),),
            )?;
        if story.output.verbose {
            for site in &sites {
                story.say(site)?;
            }
        }
        story.output.progress("talking to the client");
        let with = demo::converse(&target, Some(Memory { program: &program, data: &data }))?;
        story.window(&with)?;
        story.question(&with.answer, is_exact(&with))?;
        let Some(after_compact) = &with.after_compact else { bail!("the question after /compact was not asked") };
        story.heading("And after /compact")?;
        story.say("A summary replaces it all, as asked. ctxbridge puts back what was said.")?;
        story.question(after_compact, false)?;

        let state = patcher.verify(&target)?.state;
        ensure!(state == TargetState::Patched, "the patched copy does not verify: {state:?}");
        let reverted = patcher.revert(&target, false)?;
        let now = digest::of_file(&target.path).with_context(|| format!("cannot read {}", target.path.display()))?;
        ensure!(now == original && reverted.restored_sha256 == original, "the reverted copy is not the original: {now}");
        story.heading("Taken out again")?;
        story.say(&format!("The original is back, to the byte: SHA-256 {}…", &now[..SHOWN_DIGITS]))?;

        let elapsed_ms = begun.elapsed().as_millis() as u64;
        if output.json {
            output.value(&json!({
                "version": target.version, "sites": sites,
                "unpatched_tokens": without.tokens, "patched_tokens": with.tokens,
                "unpatched_compactions": without.compactions, "patched_compactions": with.compactions,
                "unpatched_answer": without.answer.text, "patched_answer": with.answer.text,
                "answer_after_compact": after_compact.text, "is_recalled_exactly": is_exact(&with),
                "original_sha256": original, "patched_sha256": applied.patched_sha256, "reverted_sha256": now,
                "grew_by_bytes": applied.grew_by_bytes, "elapsed_ms": elapsed_ms,
            }))?;
            return Ok(CommandOutcome::Yes);
        }
        figures(output, &without, &with)?;
        output.line("")?;
        output.line(format!("{} `ctxbridge setup` installs it; `ctxbridge uninstall` takes it out.", styled(GOOD, "Next:")))?;
        if self.client.is_none()
            && let Ok(cache) = paths::cache_path()
        {
            let told =
                format!("The release stays in {}; delete that folder, or `ctxbridge uninstall --purge` does.", short(&cache));
            output.prose(0, styled(DIM, told))?;
        }
        Ok(CommandOutcome::Yes)
    }

    /// The release that is asked for, or the newest; one of the cache where npm reaches nothing.
    fn fetched(&self, output: &Output) -> anyhow::Result<PathBuf> {
        let hint = "or name a client that you have: `ctxbridge demo --client PATH`";
        output.progress("asking npm for the newest release");
        let release = match self.release.as_ref().map_or_else(releases::newest, |release| Ok(release.to_string())) {
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

/// Prints the three figures that matter.
fn figures(output: &mut Output, without: &DemoConversation, with: &DemoConversation) -> anyhow::Result<()> {
    let error = |answer: &Answer| if answer.source == AnswerSource::Nowhere { "gone" } else { "word for word" };
    let millions = |conversation: &DemoConversation| format!("{:.2}M", conversation.tokens.iter().sum::<u64>() as f64 / 1e6);
    output.line("")?;
    output.line(styled(BOLD, format!("  {:<30}{:>12}{:>17}", "", "without", "with ctxbridge")))?;
    for (name, of) in [
        ("summaries", [without, with].map(|all| all.compactions.to_string())),
        ("input tokens sent", [without, with].map(millions)),
        ("the exact error", [without, with].map(|all| error(&all.answer).to_owned())),
    ] {
        let [without, with] = of;
        output.line(format!("  {name:<30}{without:>12}{}", styled(GOOD, format!("{with:>17}"))))?;
    }
    Ok(())
}

/// `true` if the model recalled the whole log as it had read it first.
fn is_exact(conversation: &DemoConversation) -> bool {
    matches!(&conversation.answer.source, AnswerSource::Recalled { text, .. } if text.contains(conversation.original.trim()))
}

/// Narrates the demo; silent when the result is JSON.
struct Story<'o> {
    output: &'o mut Output,
}

impl Story<'_> {
    fn heading(&mut self, text: &str) -> anyhow::Result<()> {
        self.line(0, "")?;
        self.line(0, styled(BOLD, text))
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        self.line(2, styled(DIM, text))
    }

    fn prompt(&mut self, text: &str) -> anyhow::Result<()> {
        self.line(2, format!("{} {text}", styled(PROMPT, ">")))
    }

    /// The question, and its answer with where that is from.
    fn question(&mut self, answer: &Answer, is_exact: bool) -> anyhow::Result<()> {
        self.prompt(QUESTION)?;
        if let AnswerSource::Recalled { handle, text } = &answer.source {
            let read = if is_exact { "as it was, to the byte" } else { "not as it was" };
            let size = size(text.len() as i64);
            self.line(4, format!("ctxbridge recall {handle}  {}", styled(DIM, format!("{size}, {read}"))))?;
        }
        self.line(4, styled(if answer.source == AnswerSource::Nowhere { BAD } else { GOOD }, &answer.text))
    }

    /// The window at each request, and what happened when it was full.
    fn window(&mut self, conversation: &DemoConversation) -> anyhow::Result<()> {
        let happened = match conversation.compactions {
            0 => "old steps become lines with handles".to_owned(),
            1 => "full: a summary takes its place".to_owned(),
            more => format!("full: {more} summaries took its place"),
        };
        self.line(2, format!("window {}  {happened}", styled(PROMPT, window(&conversation.tokens, WINDOW_TOKENS))))
    }

    fn line(&mut self, indent: usize, text: impl Display) -> anyhow::Result<()> {
        self.output.clear_progress();
        if !self.output.json {
            self.output.prose(indent, format!("{:indent$}{text}", ""))?;
        }
        Ok(())
    }
}
