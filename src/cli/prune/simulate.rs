//! `ctxbridge prune simulate`

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::thread;

use anyhow::Context as _;
use clap::ValueEnum;
use serde_json::json;

use super::outcome::{PolicyRow, table, wrapped};
use super::sessions::{self, ReplaySource};
use crate::cli::output::{BOLD, Output, count, styled};
use crate::cli::{CommandOutcome, archives, configuration, with_windows};
use ctxbridge_archive::quote;
use ctxbridge_config::WINDOW_RANGE;
use ctxbridge_prune::simulate::compare::{CostTally, cost_ratio, sentence};
use ctxbridge_prune::simulate::plot::{self, group_thousands};
use ctxbridge_prune::simulate::prices::Prices;
use ctxbridge_prune::simulate::{
    DEFAULT_PRICED_MODEL, Policy, References, ReplayConversation, ReplayOutcome, ReplayTerms, ReplayTotals, WeighedConversation,
    cache, replay, window_tokens_of,
};
use ctxbridge_prune::window::{compaction_threshold, micro_compacts};
use ctxbridge_prune::{PrunePolicy, PruneSettings};

/// Variable that makes the client compact earlier, in percent of the window.
const PERCENT_VAR: &str = "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE";

/// Space before what is said of a session.
const INDENT: &str = "  ";

/// Names of the policies that are compared, the baseline first.
const POLICIES: [&str; 5] = ["none", "reference", "fold", "mod", "both"];

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ctxbridge prune simulate session.jsonl
  ctxbridge prune simulate 0b9e 1c77 -v
  ctxbridge prune simulate --all
  ctxbridge prune simulate session.jsonl --plot contexts.svg
  CLAUDE_TEXT_PRUNE_KEEP_TOKENS=30000 ctxbridge prune simulate session.jsonl

Each sentence compares the policy of your settings with no pruning. `verbatim` is the share of the conversation that the last \
request still has word for word; `recall` brings back the rest.

With -v, a table compares the policies `none`, `reference` (at each request, old text is cut), `fold` (old steps become digests; a \
patched client), `mod` (compactions are answered; no patch) and `both`. `changes` counts requests that lose their cache because of pruning. `lost references` are names, paths and numbers that an \
answer repeats although its request no longer had them, and `blind edits` replace text that the request no longer had.

Sizes are scaled to the token counts of the API.")]
pub(super) struct SimulateArgs {
    /// Transcripts (.jsonl), or archived sessions by their ids or prefixes
    #[arg(required_unless_present = "all")]
    sessions: Vec<String>,
    /// Every session in the archive
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    /// Plot the size of the context per call into this file
    #[arg(long, value_name = "FILE.svg|png", value_parser = picture)]
    plot: Option<Picture>,
    /// Prompt cache to simulate: `api`, or `exact`, which finds the longest unchanged prefix
    #[arg(long, value_enum, default_value_t)]
    cache: CacheKind,
    /// Size of the model's window in tokens [default: from the session, else 200000, or 1000000 if a request was larger]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(WINDOW_RANGE))]
    window: Option<u64>,
    /// Context size at which the client compacts [default: 33000 tokens below the window, or 45000 up to 2.1.24]
    #[arg(long, value_name = "TOKENS|PERCENT%")]
    threshold: Option<Threshold>,
    /// Prices to use instead of the built-in ones, in the same form
    #[arg(long, value_name = "FILE.toml")]
    prices: Option<PathBuf>,
    /// Use this model's prices [default: the session's model]
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

/// Replays of a session, one for each of [`POLICIES`].
struct Simulated {
    source: ReplaySource,
    model: String,
    calls: usize,
    window: u64,
    terms: ReplayTerms,
    is_hourly: bool,
    outcomes: Vec<ReplayOutcome>,
}

/// Conditions of all sessions.
struct Simulation {
    settings: PruneSettings,
    prices: Prices,
}

/// Totals of several sessions.
struct Sum {
    totals: Vec<ReplayTotals>,
    tally: CostTally,
}

impl SimulateArgs {
    pub fn run(&self, output: &mut Output) -> anyhow::Result<CommandOutcome> {
        let simulation = Simulation { settings: with_windows(configuration(output).prune), prices: self.prices()? };
        let simulated = if self.all { self.archived(&simulation, output)? } else { self.named(&simulation, output)? };
        output.clear_progress();
        if simulated.is_empty() {
            return Ok(CommandOutcome::No);
        }
        let notes: BTreeSet<&String> = simulated.iter().filter_map(|session| session.terms.price.note.as_ref()).collect();
        for note in notes {
            output.note(&format!("price: {}", quote::line(note)));
        }
        if let Some(picture) = &self.plot {
            draw(picture, &simulated)?;
        }
        let ours = simulation.settings.policy;
        let sum = Sum::of(&simulated, ours);
        if output.json {
            self.as_json(&simulated, &sum, &simulation, output)?;
            return Ok(CommandOutcome::Yes);
        }
        // One line for each of hundreds says nothing.
        if !self.all || output.verbose {
            for (number, session) in simulated.iter().enumerate() {
                if number > 0 {
                    output.line("")?;
                }
                self.tell(session, ours, &simulation.prices, output)?;
            }
            if simulated.len() > 1 {
                output.line("")?;
            }
        }
        if simulated.len() > 1 || self.all {
            output.line(styled(BOLD, format!("sum of {}", count(simulated.len() as u64, "session"))))?;
            wrapped(INDENT, &compared(&sum.totals, ours), output)?;
            wrapped(INDENT, &sum.tally.sentence(), output)?;
            if let Some(worst) = dearest(&simulated, ours).filter(|_| sum.tally.dearer > 0) {
                wrapped(INDENT, &worst, output)?;
            }
            if output.verbose {
                table(&rows(&sum.totals), output)?;
            }
        }
        Ok(CommandOutcome::Yes)
    }

    /// Simulates the sessions that the user named.
    fn named(&self, simulation: &Simulation, output: &Output) -> anyhow::Result<Vec<Simulated>> {
        let mut simulated = Vec::new();
        let mut seen = BTreeSet::new();
        for named in self.sessions.iter().filter(|named| seen.insert(*named)) {
            output.progress(&format!("replaying {}", quote::line(named)));
            if let Some((source, conversation)) = sessions::read(named, output)? {
                simulated.push(self.simulate(source, &conversation, simulation));
            }
        }
        Ok(simulated)
    }

    /// Simulates every session in the archive. What of it cannot be read is left out, and told.
    fn archived(&self, simulation: &Simulation, output: &Output) -> anyhow::Result<Vec<Simulated>> {
        let mut store = archives::open_to_read(output)?;
        let sessions = store.sessions("", None, usize::MAX)?;
        let (mut simulated, mut unanswered) = (Vec::new(), 0_u64);
        for (number, session) in sessions.iter().enumerate() {
            let source = ReplaySource::Archive(session.session.clone());
            output.progress(&format!("replaying session {} of {}, {}", number + 1, sessions.len(), source.name()));
            let bytes = match sessions::read_archived(&mut *store, session) {
                Err(error) if error.is_session_local() => {
                    output.note(&format!("{} is left out: {error}", source.name()));
                    continue;
                }
                read => read?.unwrap_or_default(),
            };
            let (conversation, _) = ReplayConversation::read(&bytes);
            drop(bytes);
            if conversation.calls.is_empty() {
                unanswered += 1;
            } else {
                simulated.push(self.simulate(source, &conversation, simulation));
            }
        }
        if sessions.is_empty() {
            output.note("the archive has no sessions; `ctxbridge archive import` archives what the client has");
        }
        if unanswered > 0 {
            output.note(&format!("left out: {} without an answer of the model", count(unanswered, "session")));
        }
        Ok(simulated)
    }

    fn prices(&self) -> anyhow::Result<Prices> {
        let Some(path) = &self.prices else { return Ok(Prices::built_in()?) };
        let shown = quote::line(&path.to_string_lossy());
        let text = fs::read_to_string(path).with_context(|| format!("the prices in {shown} cannot be read"))?;
        Prices::parse(&text).with_context(|| format!("{shown} is no table of prices"))
    }

    fn simulate(&self, source: ReplaySource, conversation: &ReplayConversation, simulation: &Simulation) -> Simulated {
        let model =
            self.model.as_ref().or(conversation.model.as_ref()).map_or_else(|| DEFAULT_PRICED_MODEL.to_owned(), Clone::clone);
        let window = self.window.unwrap_or_else(|| window_tokens_of(conversation, &simulation.settings));
        let from_env = || std::env::var(PERCENT_VAR).ok()?.parse().ok().filter(|percent| (1.0..=100.0).contains(percent));
        let threshold = self.threshold.or_else(|| from_env().map(Threshold::Percent));
        let version = conversation.version.as_deref();
        let terms = ReplayTerms {
            threshold: threshold.map_or_else(|| compaction_threshold(window, version), |threshold| threshold.of(window, version)),
            micro_compacts: micro_compacts(version),
            is_hourly: conversation.is_hourly,
            cache: match self.cache {
                CacheKind::Api => cache::CacheModel::Api,
                CacheKind::Exact => cache::CacheModel::Exact,
            },
            price: simulation.prices.of(&model, conversation.is_hourly),
        };
        let weighed = WeighedConversation::new(conversation);
        let references = References::of(conversation);
        let run = |policy: &Policy| replay(conversation, &weighed, Some(&references), policy, &terms);
        let policies = policies(&simulation.settings, window, version);
        let outcomes = thread::scope(|scope| {
            let running: Vec<_> = policies.iter().map(|policy| scope.spawn(|| run(policy))).collect();
            // What panicked in there panics here.
            let result =
                |thread: thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            running.into_iter().map(result).collect()
        });
        let (calls, is_hourly) = (conversation.calls.len(), conversation.is_hourly);
        Simulated { source, model, calls, window, terms, is_hourly, outcomes }
    }

    fn tell(&self, session: &Simulated, ours: PrunePolicy, prices: &Prices, output: &mut Output) -> anyhow::Result<()> {
        output.line(styled(BOLD, session.source.name()))?;
        let totals = session.totals();
        wrapped(INDENT, &compared(&totals, ours), output)?;
        if output.verbose {
            let terms = format!(
                "{} of {}; window {}, compacted at {}; cache {}, {}; prices of {}",
                count(session.calls as u64, "answer"),
                quote::line(&session.model),
                group_thousands(session.window),
                group_thousands(session.terms.threshold),
                self.cache.name(),
                if session.is_hourly { "1 hour" } else { "5 minutes" },
                quote::line(&prices.dated),
            );
            wrapped(INDENT, &terms, output)?;
            table(&rows(&totals), output)?;
        }
        Ok(())
    }

    fn as_json(&self, simulated: &[Simulated], sum: &Sum, simulation: &Simulation, output: &mut Output) -> anyhow::Result<()> {
        let transcripts = simulated.iter().map(|session| {
            json!({
                "transcript": session.source.path(), "session": session.source.session(), "answers": session.calls,
                "model": session.model, "price_note": session.terms.price.note, "window_tokens": session.window,
                "threshold_tokens": session.terms.threshold, "cache_lifetime_ms": lifetime_ms(session.is_hourly),
                "policies": rows(&session.totals()),
            })
        });
        output.value(&json!({
            "policies": rows(&sum.totals), "policy": simulation.settings.policy.word(), "sessions_by_cost": sum.tally,
            "cache": self.cache.name(), "prices_dated": simulation.prices.dated,
            "plot": self.plot.as_ref().map(|picture| picture.path.to_string_lossy()),
            "transcripts": transcripts.collect::<Vec<_>>(),
        }))
    }
}

impl Simulated {
    fn totals(&self) -> Vec<ReplayTotals> {
        self.outcomes.iter().map(|outcome| outcome.totals).collect()
    }
}

impl Sum {
    fn of(simulated: &[Simulated], ours: PrunePolicy) -> Self {
        let mut sum = Self { totals: vec![ReplayTotals::default(); POLICIES.len()], tally: CostTally::default() };
        for session in simulated {
            let totals = session.totals();
            sum.tally.add(&totals[0], &totals[place_of(ours)]);
            for (total, totals) in sum.totals.iter_mut().zip(totals) {
                *total += totals;
            }
        }
        sum
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

/// The policies of [`POLICIES`].
fn policies(settings: &PruneSettings, window: u64, version: Option<&str>) -> [Policy; 5] {
    let ours = |policy| Policy::of(policy, settings, window, version);
    let fold = ours(PrunePolicy::Fold);
    let [answering, both] = [false, true].map(|beside_folding| fold.clone().answering(beside_folding));
    [Policy::None, ours(PrunePolicy::Reference), fold, answering, both]
}

/// The place of a policy in [`POLICIES`].
fn place_of(policy: PrunePolicy) -> usize {
    match policy {
        PrunePolicy::Reference => 1,
        PrunePolicy::Fold => 2,
    }
}

/// Compares the policy of the settings with no pruning.
fn compared(totals: &[ReplayTotals], ours: PrunePolicy) -> String {
    sentence(&totals[0], &totals[place_of(ours)])
}

/// Names the session that gets dearest.
fn dearest(simulated: &[Simulated], ours: PrunePolicy) -> Option<String> {
    let ratio = |session: &Simulated| cost_ratio(&session.outcomes[0].totals, &session.outcomes[place_of(ours)].totals);
    let worst = simulated.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    Some(format!("the dearest costs {:.0} % more: {}", (ratio(worst) - 1.0) * 100.0, worst.source.name()))
}

/// Returns one row for each policy.
fn rows(totals: &[ReplayTotals]) -> Vec<PolicyRow> {
    let baseline = totals.first().map_or(0.0, |totals| totals.cost_usd);
    totals.iter().zip(POLICIES).map(|(totals, name)| PolicyRow::new(name, *totals, baseline)).collect()
}

/// Draws the sessions in sequence, if there are several.
fn draw(picture: &Picture, simulated: &[Simulated]) -> anyhow::Result<()> {
    let lines: Vec<_> = POLICIES
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let (mut points, mut before) = (Vec::new(), 0);
            for session in simulated {
                points.extend(session.outcomes[at].contexts.iter().map(|(call, tokens)| (before + call, *tokens)));
                before += session.calls;
            }
            plot::PlotLine { name: (*name).to_owned(), points }
        })
        .collect();
    let title = match simulated {
        [one] => {
            let name = one.source.name();
            let name = name.rsplit(std::path::is_separator).next().unwrap_or_default();
            format!("Context of {} under three policies", quote::cut(name, 50))
        }
        several => format!("Context of {} sessions under three policies", several.len()),
    };
    let threshold = simulated.iter().map(|session| session.terms.threshold).max().unwrap_or(0);
    let shown = quote::line(&picture.path.to_string_lossy());
    let file = plot::draw(&title, &lines, threshold, picture.format).map_err(|error| anyhow::anyhow!("no picture: {error}"))?;
    fs::write(&picture.path, file).with_context(|| format!("{shown} cannot be written"))
}
