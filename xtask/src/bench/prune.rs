//! Cost and losses of pruning on real transcripts: each is replayed under several policies, in two windows, with two lifetimes of the
//! cache.
//!
//! Cost is in tokens of plain input, over the cost without pruning, compactions included.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use ctxbridge::archive::transcript_paths::transcripts_below;
use ctxbridge::prune::simulate::cache::CacheModel;
use ctxbridge::prune::simulate::prices::Price;
use ctxbridge::prune::simulate::{
    Policy, References, ReplayConversation, ReplayTerms, ReplayTotals, WeighedConversation, replay,
};
use ctxbridge::prune::window::{compaction_threshold, micro_compacts};
use ctxbridge::prune::{PrunePolicy, PruneSettings};

const WINDOWS: [u64; 2] = [200_000, 1_000_000];

/// Upper bounds of the sizes of conversations, in tokens, that are told apart.
const SIZES: [u64; 4] = [120_000, 200_000, 300_000, u64::MAX];

/// A session that costs more than this share of the unpruned one is counted.
const DEARER: f64 = 1.02;

#[derive(Debug, clap::Args)]
pub struct BenchPruneArgs {
    /// Folder of transcripts
    #[arg(long, value_name = "FOLDER")]
    corpus: PathBuf,
    /// Only every second transcript, in the order of their paths: `even` begins with the first
    #[arg(long, value_enum)]
    half: Option<CorpusHalf>,
    /// Compact where the release did that wrote the transcript, rather than where new ones do
    #[arg(long)]
    by_release: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CorpusHalf {
    Even,
    Odd,
}

/// Lifetime of cache entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifetime {
    /// The one that each session used.
    Own,
    FiveMinutes,
}

/// Replays of a transcript, by window, lifetime and policy.
struct ReplayedTranscript {
    conversation_tokens: u64,
    totals: Vec<ReplayTotals>,
}

/// Conditions of a row, apart from the policy.
type RowTerms = (u64, Lifetime);

pub fn run(args: &BenchPruneArgs) -> Result<bool> {
    let mut paths = transcripts_below(&args.corpus, &mut |path, error| eprintln!("{}: {error}", path.display()));
    paths.sort();
    if let Some(half) = args.half {
        let mut is_taken = half == CorpusHalf::Odd;
        paths.retain(|_| {
            is_taken = !is_taken;
            is_taken
        });
    }
    if paths.is_empty() {
        bail!("there are no transcripts (.jsonl) in {}", args.corpus.display());
    }
    let terms: Vec<RowTerms> =
        WINDOWS.iter().flat_map(|window| [Lifetime::Own, Lifetime::FiveMinutes].map(|lifetime| (*window, lifetime))).collect();
    let mut sessions = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        eprint!("\r{} of {}", number + 1, paths.len());
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        let (conversation, _) = ReplayConversation::read(&bytes);
        if !conversation.calls.is_empty() {
            let version = conversation.version.as_deref().filter(|_| args.by_release);
            sessions.push(replayed(&conversation, &terms, version));
        }
    }
    eprintln!();
    println!("{} sessions\n", sessions.len());
    println!(
        "| window | cache | policy | cost | under 120K | to 200K | to 300K | above | from 200K | dearest | above {DEARER} | largest request | compactions | answered | lost references | blind edits | verbatim |"
    );
    println!("| --: | --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |");
    for (row, (window, lifetime)) in terms.iter().enumerate() {
        let policies = policies(*window, None);
        let at = row * policies.len();
        for (column, (name, _)) in policies.iter().enumerate() {
            let of = |session: &ReplayedTranscript| (session.totals[at + column], session.totals[at]);
            println!("| {window} | {} | {name} {}", lifetime.name(), figures(&sessions, &of));
        }
    }
    Ok(true)
}

/// The policies that are compared; the first is what the others are measured against.
fn policies(window_tokens: u64, version: Option<&str>) -> Vec<(&'static str, Policy)> {
    let ours = |policy: PrunePolicy| (policy.word(), Policy::of(policy, &PruneSettings::default(), window_tokens, version));
    let (_, fold) = ours(PrunePolicy::Fold);
    vec![
        ("none", Policy::None),
        ours(PrunePolicy::Reference),
        ("fold", fold.clone()),
        ("mod", fold.clone().answering(false)),
        ("both", fold.answering(true)),
    ]
}

fn replayed(conversation: &ReplayConversation, terms: &[RowTerms], version: Option<&str>) -> ReplayedTranscript {
    let weighed = WeighedConversation::new(conversation);
    let references = References::of(conversation);
    let totals = terms.iter().flat_map(|(window, lifetime)| {
        let is_hourly = conversation.is_hourly && *lifetime == Lifetime::Own;
        let terms = ReplayTerms {
            threshold: compaction_threshold(*window, version),
            micro_compacts: micro_compacts(version),
            cache: CacheModel::Api,
            is_hourly,
            price: Price::in_input_tokens(is_hourly),
        };
        let run = |policy: &Policy| replay(conversation, &weighed, Some(&references), policy, &terms).totals;
        policies(*window, version).iter().map(|(_, policy)| run(policy)).collect::<Vec<_>>()
    });
    let conversation_tokens = weighed.messages.iter().flatten().map(|block| block.tokens).sum();
    ReplayedTranscript { conversation_tokens, totals: totals.collect() }
}

/// The figures of a policy, with those without pruning beside them, as cells.
fn figures(sessions: &[ReplayedTranscript], of: &dyn Fn(&ReplayedTranscript) -> (ReplayTotals, ReplayTotals)) -> String {
    let mut sum = ReplayTotals::default();
    let (mut cost, mut by_size) = ([0.0; 2], [[0.0; 2]; SIZES.len()]);
    let (mut ratios, mut peaks) = (Vec::new(), Vec::new());
    for session in sessions {
        let (totals, without) = of(session);
        let size = SIZES.iter().position(|most| session.conversation_tokens < *most).unwrap_or(SIZES.len() - 1);
        for (at, part) in [totals.cost_usd, without.cost_usd].into_iter().enumerate() {
            cost[at] += part;
            by_size[size][at] += part;
        }
        ratios.push(totals.cost_usd / without.cost_usd);
        peaks.push(totals.peak_tokens as f64 / without.peak_tokens as f64);
        sum += totals;
    }
    peaks.sort_by(f64::total_cmp);
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let from_200k = (by_size[2][0] + by_size[3][0]) / (by_size[2][1] + by_size[3][1]);
    let sizes: String = by_size.iter().map(|[with, without]| format!("| {:.3} ", with / without)).collect();
    format!(
        "| {:.3} {sizes}| {from_200k:.3} | {:.3} | {} | {:.2} | {} | {} | {:.2} % | {:.2} % | {:.1} % |",
        cost[0] / cost[1],
        ratios.iter().copied().fold(0.0, f64::max),
        ratios.iter().filter(|ratio| **ratio > DEARER).count(),
        peaks[peaks.len() / 2],
        sum.compactions,
        sum.answered,
        share(sum.needs.lost_references, sum.needs.references),
        share(sum.needs.blind_edits, sum.needs.edits),
        100.0 * sum.verbatim_share(),
    )
}

impl Lifetime {
    fn name(self) -> &'static str {
        match self {
            Self::Own => "as each session",
            Self::FiveMinutes => "5 minutes",
        }
    }
}
