//! `ctxbridge prune simulate`

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use serde::Serialize;
use serde_json::json;

use super::read;
use crate::cli::CommandOutcome;
use crate::cli::output::{BOLD, Output, count, styled};
use ctxbridge_archive::quote;
use ctxbridge_prune::simulate::plot::{self, group_thousands};
use ctxbridge_prune::simulate::prices::Prices;
use ctxbridge_prune::simulate::{
    DEFAULT_PRICED_MODEL, Policy, References, ReplayConversation, ReplayOutcome, ReplayTerms, ReplayTotals, WeighedConversation,
    cache, compaction_threshold, replay, window_tokens_of,
};
use ctxbridge_prune::{PruneScope, PruneSettings};

/// Variable that makes the client compact earlier, in percent of the window.
const PERCENT_VAR: &str = "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE";

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge prune simulate session.jsonl
  ctxbridge prune simulate *.jsonl --json
  ctxbridge prune simulate session.jsonl --plot contexts.svg
  CLAUDE_TEXT_PRUNE_TAIL_TOKENS=20000 ctxbridge prune simulate session.jsonl

Policies: `none`; `reference`, which cuts text again at each request and counts tool results as turns; `text` and `all`, which are \
ctxbridge's, with the current settings.

Sizes are scaled to the token counts of the API. Columns: `sent` is the number of tokens sent, `changes` the number of requests \
that lose their cache because of a cut, `verbatim` the share of the conversation that the last request still contains word for word.")]
pub(super) struct SimulateArgs {
    /// Transcripts (.jsonl) of sessions
    #[arg(required = true)]
    transcripts: Vec<PathBuf>,
    /// Plot the size of the context per call into this file
    #[arg(long, value_name = "FILE.svg|png", value_parser = picture)]
    plot: Option<Picture>,
    /// Prompt cache to simulate: `api`, or `exact`, which finds the longest unchanged prefix
    #[arg(long, value_enum, default_value_t)]
    cache: CacheKind,
    /// Size of the model's window in tokens [default: from the transcript, else 200000]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Context size at which the client compacts [default: 33000 tokens below the window, or 45000 up to 2.1.24]
    #[arg(long, value_name = "TOKENS|PERCENT%")]
    threshold: Option<Threshold>,
    /// Prices to use instead of the built-in ones, in the same form
    #[arg(long, value_name = "FILE.toml")]
    prices: Option<PathBuf>,
    /// Use this model's prices [default: the transcript's model]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum CacheKind {
    #[default]
    Api,
    Exact,
}

/// File for a plot.
#[derive(Debug, Clone)]
struct Picture {
    path: PathBuf,
    format: plot::ImageFormat,
}

fn picture(path: &str) -> Result<Picture, String> {
    let path = PathBuf::from(path);
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    let format = match extension.as_deref().and_then(|extension| extension.to_str()) {
        Some("svg") => plot::ImageFormat::Svg,
        Some("png") => plot::ImageFormat::Png,
        _ => return Err("its name has to end with .svg or .png".to_owned()),
    };
    Ok(Picture { path, format })
}

#[derive(Debug, Clone, Copy)]
enum Threshold {
    Tokens(u64),
    Percent(f64),
}

impl std::str::FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "neither a number of tokens nor a percentage such as 80%".to_owned();
        match text.strip_suffix('%') {
            None => text.parse().ok().filter(|tokens| *tokens > 0).map(Self::Tokens).ok_or_else(wrong),
            Some(number) => {
                let percent = number.parse().ok().filter(|percent| *percent > 0.0 && *percent <= 100.0);
                percent.map(Self::Percent).ok_or_else(wrong)
            }
        }
    }
}

impl Threshold {
    fn of(self, window: u64, version: Option<&str>) -> u64 {
        match self {
            Self::Tokens(tokens) => tokens,
            Self::Percent(percent) => compaction_threshold(window, version).min((window as f64 * percent / 100.0) as u64),
        }
    }
}

/// Replays of a transcript, one for each policy.
struct Simulated<'a> {
    path: &'a Path,
    model: String,
    calls: usize,
    window: u64,
    terms: ReplayTerms,
    is_hourly: bool,
    outcomes: Vec<ReplayOutcome>,
}

/// Totals of one policy, with its ratio to the others.
#[derive(Serialize)]
struct PolicyRow {
    name: &'static str,
    #[serde(flatten)]
    totals: ReplayTotals,
    cost_ratio: Option<f64>,
    verbatim_share: f64,
}

impl SimulateArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let prices = self.prices()?;
        let policies = policies(&super::settings(output));
        let mut simulated = Vec::new();
        for path in &self.transcripts {
            output.progress(&format!("replaying {}", path.display()));
            if let Some(conversation) = read(path, output)? {
                simulated.push(self.simulate(path, &conversation, &policies, &prices));
            }
        }
        output.clear_progress();
        if simulated.is_empty() {
            return Ok(CommandOutcome::No);
        }
        for transcript in &simulated {
            if let Some(note) = &transcript.terms.price.note {
                output.note(&format!("price: {}", quote::line(note)));
            }
        }
        if let Some(picture) = &self.plot {
            draw(picture, &simulated, &policies)?;
        }
        let sum = sum(&simulated, &policies);
        if output.json {
            self.as_json(&simulated, &policies, &sum, &prices, output)?;
        } else {
            for transcript in &simulated {
                self.tell(transcript, &policies, &prices, output)?;
            }
            if simulated.len() > 1 {
                output.line(styled(BOLD, format!("sum of {}", count(simulated.len() as u64, "transcript"))))?;
                table(&sum, output)?;
            }
        }
        Ok(CommandOutcome::Yes)
    }

    fn prices(&self) -> anyhow::Result<Prices> {
        let Some(path) = &self.prices else { return Ok(Prices::built_in()?) };
        let shown = quote::line(&path.to_string_lossy());
        let text = fs::read_to_string(path).with_context(|| format!("the prices in {shown} cannot be read"))?;
        Prices::parse(&text).with_context(|| format!("{shown} is no table of prices"))
    }

    fn simulate<'a>(
        &self,
        path: &'a Path,
        conversation: &ReplayConversation,
        policies: &[(&'static str, Policy)],
        prices: &Prices,
    ) -> Simulated<'a> {
        let model =
            self.model.as_ref().or(conversation.model.as_ref()).map_or_else(|| DEFAULT_PRICED_MODEL.to_owned(), Clone::clone);
        let window = self.window.unwrap_or_else(|| window_tokens_of(conversation));
        let from_env = || std::env::var(PERCENT_VAR).ok()?.parse().ok().filter(|percent| (1.0..=100.0).contains(percent));
        let threshold = self.threshold.or_else(|| from_env().map(Threshold::Percent));
        let version = conversation.version.as_deref();
        let terms = ReplayTerms {
            threshold: threshold.map_or_else(|| compaction_threshold(window, version), |threshold| threshold.of(window, version)),
            is_hourly: conversation.is_hourly,
            cache: match self.cache {
                CacheKind::Api => cache::CacheModel::Api,
                CacheKind::Exact => cache::CacheModel::Exact,
            },
            price: prices.of(&model, conversation.is_hourly),
        };
        let weighed = WeighedConversation::new(conversation);
        let references = References::of(conversation);
        let outcomes =
            policies.iter().map(|(_, policy)| replay(conversation, &weighed, Some(&references), policy, &terms)).collect();
        let (calls, is_hourly) = (conversation.calls.len(), conversation.is_hourly);
        Simulated { path, model, calls, window, terms, is_hourly, outcomes }
    }

    fn tell(
        &self,
        transcript: &Simulated<'_>,
        policies: &[(&'static str, Policy)],
        prices: &Prices,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        output.line(styled(BOLD, quote::line(&transcript.path.to_string_lossy())))?;
        output.line(format!(
            "{} of {}; window {}, compacted at {}; cache {}, {}; prices of {}",
            count(transcript.calls as u64, "answer"),
            quote::line(&transcript.model),
            group_thousands(transcript.window),
            group_thousands(transcript.terms.threshold),
            self.cache.name(),
            if transcript.is_hourly { "1 hour" } else { "5 minutes" },
            quote::line(&prices.dated),
        ))?;
        let totals: Vec<_> = transcript.outcomes.iter().map(|outcome| outcome.totals).collect();
        table(&rows(&totals, policies), output)?;
        Ok(output.line("")?)
    }

    fn as_json(
        &self,
        simulated: &[Simulated<'_>],
        policies: &[(&'static str, Policy)],
        sum: &[PolicyRow],
        prices: &Prices,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        let transcripts = simulated.iter().map(|transcript| {
            let totals: Vec<_> = transcript.outcomes.iter().map(|outcome| outcome.totals).collect();
            json!({
                "transcript": transcript.path.to_string_lossy(), "answers": transcript.calls, "model": transcript.model,
                "price_note": transcript.terms.price.note, "window_tokens": transcript.window,
                "threshold_tokens": transcript.terms.threshold, "cache_lifetime_ms": lifetime_ms(transcript.is_hourly),
                "policies": rows(&totals, policies),
            })
        });
        output.value(&json!({
            "policies": sum, "cache": self.cache.name(), "prices_dated": prices.dated,
            "plot": self.plot.as_ref().map(|picture| picture.path.to_string_lossy()),
            "transcripts": transcripts.collect::<Vec<_>>(),
        }))
    }
}

impl CacheKind {
    fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Exact => "exact",
        }
    }
}

fn lifetime_ms(is_hourly: bool) -> i64 {
    if is_hourly { cache::ONE_HOUR_MS } else { cache::FIVE_MINUTES_MS }
}

/// Policies to compare. Ours is always on here, even if the environment switches it off.
fn policies(settings: &PruneSettings) -> Vec<(&'static str, Policy)> {
    let ours = |scope| Policy::Ours(Box::new(PruneSettings { enabled: true, scope, ..settings.clone() }));
    vec![
        ("none", Policy::None),
        ("reference", Policy::Reference),
        ("text", ours(PruneScope::Text)),
        ("all", ours(PruneScope::All)),
    ]
}

/// Returns one row for each policy; the first is the baseline.
fn rows(totals: &[ReplayTotals], policies: &[(&'static str, Policy)]) -> Vec<PolicyRow> {
    let whole = totals.first().map_or(0.0, |totals| totals.cost_usd);
    let round = |number: f64, digits: i32| (number * 10_f64.powi(digits)).round() / 10_f64.powi(digits);
    let row = |(totals, (name, _)): (&ReplayTotals, &(&'static str, Policy))| PolicyRow {
        name,
        totals: ReplayTotals { cost_usd: round(totals.cost_usd, 6), ..*totals },
        cost_ratio: (whole > 0.0).then(|| round(totals.cost_usd / whole, 4)),
        verbatim_share: round(totals.verbatim_share(), 4),
    };
    totals.iter().zip(policies).map(row).collect()
}

fn sum(simulated: &[Simulated<'_>], policies: &[(&'static str, Policy)]) -> Vec<PolicyRow> {
    let mut totals = vec![ReplayTotals::default(); policies.len()];
    for transcript in simulated {
        for (total, outcome) in totals.iter_mut().zip(&transcript.outcomes) {
            *total += outcome.totals;
        }
    }
    rows(&totals, policies)
}

fn table(rows: &[PolicyRow], output: &mut Output) -> anyhow::Result<()> {
    let mut lines = vec![
        [
            "policy",
            "calls",
            "sent",
            "read",
            "written",
            "uncached",
            "output",
            "cost",
            "ratio",
            "peak",
            "compactions",
            "changes",
            "verbatim",
        ]
        .map(str::to_owned),
    ];
    for PolicyRow { name, totals, cost_ratio, verbatim_share } in rows {
        lines.push([
            (*name).to_owned(),
            group_thousands(totals.calls),
            group_thousands(totals.input_tokens),
            group_thousands(totals.cache_read_tokens),
            group_thousands(totals.cache_write_tokens),
            group_thousands(totals.uncached_tokens),
            group_thousands(totals.output_tokens),
            format!("${:.2}", totals.cost_usd),
            cost_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            group_thousands(totals.peak_tokens),
            group_thousands(totals.compactions),
            group_thousands(totals.prefix_changes),
            format!("{:.0} %", verbatim_share * 100.0),
        ]);
    }
    let widths: Vec<usize> =
        (0..lines[0].len()).map(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0)).collect();
    for line in &lines {
        let mut text = format!("{:w$}", line[0], w = widths[0]);
        for (cell, width) in line.iter().zip(&widths).skip(1) {
            text += &format!("  {cell:>width$}");
        }
        output.line(text)?;
    }
    Ok(())
}

/// Draws the transcripts in sequence, if there are several.
fn draw(picture: &Picture, simulated: &[Simulated<'_>], policies: &[(&'static str, Policy)]) -> anyhow::Result<()> {
    let lines: Vec<_> = policies
        .iter()
        .enumerate()
        .map(|(at, (name, _))| {
            let (mut points, mut before) = (Vec::new(), 0);
            for transcript in simulated {
                points.extend(transcript.outcomes[at].contexts.iter().map(|(call, tokens)| (before + call, *tokens)));
                before += transcript.calls;
            }
            plot::PlotLine { name: (*name).to_owned(), points }
        })
        .collect();
    let title = match simulated {
        [one] => {
            let name = one.path.file_name().unwrap_or_default().to_string_lossy();
            format!("Context of {} under four policies", quote::cut(&quote::line(&name), 50))
        }
        several => format!("Context of {} sessions under four policies", several.len()),
    };
    let threshold = simulated.iter().map(|transcript| transcript.terms.threshold).max().unwrap_or(0);
    let shown = quote::line(&picture.path.to_string_lossy());
    let file = plot::draw(&title, &lines, threshold, picture.format).map_err(|error| anyhow::anyhow!("no picture: {error}"))?;
    fs::write(&picture.path, file).with_context(|| format!("{shown} cannot be written"))
}
