//! `ctxbridge prune preview`

use std::collections::HashSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::outcome::wrapped;
use super::sessions;
use crate::cli::output::{Output, count};
use crate::cli::{CommandOutcome, configuration, with_windows};
use ctxbridge_archive::quote;
use ctxbridge_prune::fold::{Fold, MessageView};
use ctxbridge_prune::reference::MARKER;
use ctxbridge_prune::simulate::conversation::ReplayMessage;
use ctxbridge_prune::simulate::plot::group_thousands;
use ctxbridge_prune::simulate::window_tokens_of;
use ctxbridge_prune::window::reserve_tokens;
use ctxbridge_prune::{ConversationSize, PrunePolicy, PruneSettings, SWITCH_VAR, prune};

/// Beginning of what stands in the place of others.
const FOLDED: &str = "[earlier context folded";

/// Maximum number of characters shown of a digest, so that a row has at most 80.
const BEGINS: usize = 26;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge prune preview session.jsonl            the newest request
  ctxbridge prune preview 0b9e --at 40             request 40 of an archived session
  ctxbridge prune preview 0b9e --json              with the digests in full

Each row is a digest that would take the place of old steps, or a long prompt that would be shortened. An answer of the model and \
the results of its calls are one step. `ctxbridge recall` prints in full what a handle stands for.

Uses the settings of config.toml and the environment: CLAUDE_TEXT_PRUNE_KEEP_TOKENS, _WINDOW, _POLICY and so on; \
`ctxbridge config show` lists them.")]
pub(super) struct PreviewArgs {
    /// Transcript (.jsonl), or archived session by its id or prefix
    session: String,
    /// Number of the request; the first is 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
}

/// Text that would take the place of others.
#[derive(Debug, Serialize)]
struct PrunedRow {
    kind: RowKind,
    /// The line of the first message in its place.
    line: usize,
    /// Number of answers that a digest stands for.
    steps: usize,
    /// The handle by which all of it is recalled.
    handle: Option<String>,
    tokens_before: u64,
    tokens_after: u64,
    text: String,
}

/// The kind of text that a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum RowKind {
    /// Steps.
    Digest,
    /// A long prompt, of which it is the start.
    Prompt,
    /// A text that the reference design cuts.
    Text,
}

impl PrunedRow {
    fn new(kind: RowKind, line: usize, handle: Option<&str>, text: &str, tokens_before: u64, tokens_after: u64) -> Self {
        Self { kind, line, steps: 0, handle: handle.map(str::to_owned), tokens_before, tokens_after, text: text.to_owned() }
    }
}

/// The parts of a request that would be pruned.
#[derive(Debug, Default)]
struct PrunedRequest {
    rows: Vec<PrunedRow>,
    /// Number of steps that lose their thinking, and nothing else.
    steps_without_thinking: usize,
    thinking_tokens: u64,
}

impl PrunedRequest {
    fn steps(&self) -> usize {
        self.rows.iter().map(|row| row.steps).sum()
    }

    fn count(&self, kind: RowKind) -> u64 {
        self.rows.iter().filter(|row| row.kind == kind).count() as u64
    }

    fn saved_tokens(&self) -> u64 {
        let saved = self.rows.iter().map(|row| row.tokens_before.saturating_sub(row.tokens_after));
        saved.sum::<u64>() + self.thinking_tokens
    }
}

impl PreviewArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let Some((source, conversation)) = sessions::read(&self.session, output)? else { return Ok(CommandOutcome::No) };
        let requests = conversation.calls.len();
        let request = self.at.map_or(requests, |at| usize::try_from(at).unwrap_or(usize::MAX));
        if request > requests {
            output.note(&format!("there is no request {request}; the session has {}", group_thousands(requests as u64)));
            return Ok(CommandOutcome::No);
        }
        let mut settings = with_windows(configuration(output).prune);
        settings.window_tokens = Some(window_tokens_of(&conversation, &settings));
        settings.reserve_tokens = reserve_tokens(conversation.version.as_deref());
        let sent = conversation.messages_of_call(request - 1);
        let pruned = match settings.policy {
            _ if !settings.enabled => {
                output.note(&format!("nothing is pruned while {SWITCH_VAR} is off"));
                PrunedRequest::default()
            }
            PrunePolicy::Fold => folded(sent, &settings),
            PrunePolicy::Reference => cut(sent, &settings),
        };
        let tokens = sent
            .iter()
            .map(|message| ConversationSize::of(&message.value))
            .fold(ConversationSize::default(), |sum, size| sum + size);
        if output.json {
            output.value(&json!({
                "transcript": source.path(), "session": source.session(), "policy": settings.policy.word(),
                "request": request, "requests": requests,
                "tokens_before": tokens.tokens(), "tokens_saved": pruned.saved_tokens(), "steps": pruned.steps(),
                "steps_without_thinking": pruned.steps_without_thinking, "thinking_tokens": pruned.thinking_tokens,
                "digests": pruned.rows,
            }))?;
            return Ok(CommandOutcome::Yes);
        }
        let which = format!("request {} of {}", group_thousands(request as u64), group_thousands(requests as u64));
        if pruned.rows.is_empty() && pruned.steps_without_thinking == 0 {
            output.line(format!("{which}: nothing would be {}", done(settings.policy)))?;
            return Ok(CommandOutcome::Yes);
        }
        if !pruned.rows.is_empty() {
            table(&pruned.rows, output)?;
            output.line("")?;
        }
        if pruned.steps_without_thinking > 0 {
            let steps = count(pruned.steps_without_thinking as u64, "step");
            output.line(format!("{steps} would lose the thinking alone, about {} tokens", about(pruned.thinking_tokens)))?;
        }
        let parts = [
            (pruned.steps() as u64, "step"),
            (pruned.count(RowKind::Prompt), "long prompt"),
            (pruned.count(RowKind::Text), "text"),
        ];
        let parts: Vec<_> =
            parts.into_iter().filter(|(number, _)| *number > 0).map(|(number, name)| count(number, name)).collect();
        let what = if parts.is_empty() { "no step".to_owned() } else { parts.join(" and ") };
        let sentence = format!(
            "{which}: {what} would be {}, about {} of {} tokens",
            done(settings.policy),
            about(pruned.saved_tokens()),
            about(tokens.tokens()),
        );
        wrapped("", &sentence, output)?;
        Ok(CommandOutcome::Yes)
    }
}

/// Rounds a number that is an estimate.
fn about(tokens: u64) -> String {
    let unit = match tokens {
        0..1_000 => 1,
        1_000..10_000 => 100,
        _ => 1_000,
    };
    group_thousands(tokens.saturating_add(unit / 2) / unit * unit)
}

fn done(policy: PrunePolicy) -> &'static str {
    match policy {
        PrunePolicy::Fold => "folded",
        PrunePolicy::Reference => "cut",
    }
}

/// Folds the messages of a request.
fn folded(sent: &[ReplayMessage], settings: &PruneSettings) -> PrunedRequest {
    let mut fold = Fold::new(settings);
    sent.iter().for_each(|message| fold.push(&message.value));
    fold.request();
    let views = fold.views(sent.iter().map(|message| &message.value));
    let mut found = PrunedRequest::default();
    // Answers of the digest whose messages are coming, and answers that lose their thinking.
    let (mut answers, mut thoughtless) = (HashSet::new(), HashSet::new());
    for (message, view) in sent.iter().zip(&views) {
        let after = view.of(&message.value);
        let before = ConversationSize::of(&message.value).tokens();
        let tokens_after = after.as_deref().map_or(0, |after| ConversationSize::of(after).tokens());
        match view {
            MessageView::Whole => {}
            MessageView::WithoutThinking | MessageView::Gone(None) => {
                thoughtless.extend(answer_id(&message.value));
                found.thinking_tokens += before.saturating_sub(tokens_after);
            }
            MessageView::Short => {
                let text =
                    after.as_deref().and_then(|after| texts_of(after).find(|text| text.contains(FOLDED))).unwrap_or_default();
                let handle = text.lines().last().and_then(handle_in);
                found.rows.push(PrunedRow::new(RowKind::Prompt, message.line, handle, text, before, tokens_after));
            }
            MessageView::Digest(text) => {
                let handle = text.lines().next().and_then(handle_in);
                found.rows.push(PrunedRow::new(RowKind::Digest, message.line, handle, text, before, tokens_after));
                answers = answer_id(&message.value).into_iter().collect();
            }
            MessageView::Gone(Some(_)) => {
                answers.extend(answer_id(&message.value));
                if let Some(row) = found.rows.iter_mut().rfind(|row| row.kind == RowKind::Digest) {
                    row.tokens_before += before;
                }
            }
        }
        if matches!(view, MessageView::Digest(_) | MessageView::Gone(Some(_)))
            && let Some(row) = found.rows.iter_mut().rfind(|row| row.kind == RowKind::Digest)
        {
            row.steps = answers.len();
        }
    }
    found.steps_without_thinking = thoughtless.len();
    found
}

/// The handle at the end of a line in brackets.
fn handle_in(line: &str) -> Option<&str> {
    line.rsplit_once("recall ")?.1.strip_suffix(']')
}

/// The texts of a message.
fn texts_of(message: &Value) -> impl Iterator<Item = &str> {
    let content = &message["message"]["content"];
    let blocks = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    content.as_str().into_iter().chain(blocks)
}

/// Cuts the messages of a request as the reference design does.
fn cut(sent: &[ReplayMessage], settings: &PruneSettings) -> PrunedRequest {
    let messages: Vec<Value> = sent.iter().map(|message| message.value.clone()).collect();
    let left = prune(&messages, settings);
    let mut found = PrunedRequest::default();
    for (message, left) in sent.iter().zip(left.iter()).filter(|(message, left)| message.value != **left) {
        let [before, after] = [&message.value, left].map(|message| ConversationSize::of(message).tokens());
        let text = texts_of(left).find(|text| text.ends_with(MARKER)).unwrap_or_default();
        found.rows.push(PrunedRow::new(RowKind::Text, message.line, None, text, before, after));
    }
    found
}

/// The id of an answer, by which its messages belong together.
fn answer_id(message: &Value) -> Option<&str> {
    let id = message["message"]["id"].as_str().or_else(|| message["uuid"].as_str());
    id.filter(|_| message["type"] == "assistant")
}

fn table(rows: &[PrunedRow], output: &mut Output) -> anyhow::Result<()> {
    let handle = |row: &PrunedRow| row.handle.clone().unwrap_or_else(|| "-".to_owned());
    let steps = |row: &PrunedRow| if row.kind == RowKind::Digest { row.steps.to_string() } else { "-".to_owned() };
    let widest = rows.iter().map(|row| handle(row).len()).max().unwrap_or(0).max("recall".len());
    output.line(format!("{:>6} {:>5} {:>8} {:>6}  {:widest$}  begins", "line", "steps", "before", "after", "recall"))?;
    for row in rows {
        let row = format!(
            "{:>6} {:>5} {:>8} {:>6}  {:widest$}  {}",
            row.line,
            steps(row),
            group_thousands(row.tokens_before),
            group_thousands(row.tokens_after),
            handle(row),
            begins(&row.text),
        );
        output.line(row.trim_end())?;
    }
    Ok(())
}

/// Returns the start of what a digest says, on one line, without control characters.
fn begins(text: &str) -> String {
    // The first line of a digest is of its own, with the handle; and what was said may be white space alone.
    let mut lines = text.split("\n- ").skip(usize::from(text.starts_with(FOLDED)));
    let said = lines.find(|line| !line.trim_start_matches("said:").trim().is_empty()).unwrap_or_default();
    // What is quoted may be megabytes; white space makes it shorter.
    let start: String = said.chars().take(4 * BEGINS).collect();
    quote::cut(&quote::line(&start), BEGINS)
}
