//! Savings by pruning in one session: its calls are replayed without and with pruning.

use serde::Serialize;

use super::{DashboardService, DataError, downsample, lock, session};
use ctxbridge_archive::store::EVERYTHING;
use ctxbridge_prune::PruneSettings;
use ctxbridge_prune::simulate::prices::Prices;
use ctxbridge_prune::simulate::{
    DEFAULT_PRICED_MODEL, Policy, References, ReplayConversation, ReplayTerms, ReplayTotals, WeighedConversation, cache, replay,
    window_tokens_of,
};
use ctxbridge_prune::window::{compaction_threshold, micro_compacts};

/// Maximum bytes of a transcript that is replayed: its messages are in memory meanwhile.
pub(super) const MAX_REPLAYED_BYTES: u64 = 64 << 20;
/// Maximum number of points of each line.
const MAX_REPLAY_POINTS: usize = 500;
/// Maximum number of sessions whose result is cached.
const MAX_CACHED_SAVINGS: usize = 200;

/// Two replays of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Savings {
    /// The session.
    pub session: String,
    /// Answers of the model.
    pub answers: u64,
    /// The model whose prices are used.
    pub model: String,
    /// The day on which prices were looked up.
    pub prices_dated: String,
    /// A note on the price.
    pub price_note: Option<String>,
    /// Tokens of the window.
    pub window_tokens: u64,
    /// Tokens at which the client compacts.
    pub threshold_tokens: u64,
    /// Without pruning.
    pub without: ReplayFigures,
    /// With pruning, by the user's settings.
    pub pruned: ReplayFigures,
    /// Tokens that need not be sent; negative if pruning costs more than it saves.
    pub saved_tokens: i64,
    /// US dollars, likewise.
    pub saved_usd: f64,
}

/// Figures of one replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayFigures {
    /// The sums.
    #[serde(flatten)]
    pub totals: ReplayTotals,
    /// Number of each answer, and size of its context in tokens.
    pub contexts: Vec<(usize, u64)>,
}

impl DashboardService {
    /// Replays a session, by its whole id. The result is cached as long as its bytes stay the same.
    pub fn savings(&self, id: &str) -> Result<Savings, DataError> {
        let mut store = self.opened()?;
        let found = session(&mut *store, id)?;
        let transcripts = store.transcripts(found.key)?;
        let own = transcripts.iter().find(|transcript| transcript.part.is_conversation()).ok_or(DataError::NoCalls)?;
        if own.bytes > MAX_REPLAYED_BYTES {
            return Err(DataError::TooLarge { bytes: own.bytes, most: MAX_REPLAYED_BYTES });
        }
        let key = (id.to_owned(), own.bytes);
        if let Some(known) = lock(&self.replayed).get(&key) {
            return Ok(known.clone());
        }
        // Each takes a core and its messages in memory. A session takes a second at most.
        let _replaying = lock(&self.replaying);
        let mut bytes = Vec::new();
        store.read_bytes(own.key, own.generation, EVERYTHING, &mut bytes)?;
        drop(store);
        let savings = simulate(id, &bytes, &self.source.prune)?;
        let mut replayed = lock(&self.replayed);
        if replayed.len() >= MAX_CACHED_SAVINGS {
            replayed.clear();
        }
        replayed.insert(key, savings.clone());
        Ok(savings)
    }
}

/// Replays a transcript without and with pruning.
///
/// # Errors
/// If the model never answered in it, or the table of prices cannot be read.
pub fn simulate(id: &str, transcript: &[u8], settings: &PruneSettings) -> Result<Savings, DataError> {
    // Lines that cannot be read are left out, as `prune simulate` does.
    let (conversation, _) = ReplayConversation::read(transcript);
    if conversation.calls.is_empty() {
        return Err(DataError::NoCalls);
    }
    let model = conversation.model.clone().unwrap_or_else(|| DEFAULT_PRICED_MODEL.to_owned());
    let prices = Prices::built_in()?;
    let window = window_tokens_of(&conversation, settings);
    let threshold = compaction_threshold(window, conversation.version.as_deref());
    let is_hourly = conversation.is_hourly;
    let terms = ReplayTerms {
        threshold,
        micro_compacts: micro_compacts(conversation.version.as_deref()),
        cache: cache::CacheModel::Api,
        is_hourly,
        price: prices.of(&model, is_hourly),
    };
    let weighed = WeighedConversation::new(&conversation);
    let references = References::of(&conversation);
    let run = |policy: &Policy| {
        let outcome = replay(&conversation, &weighed, Some(&references), policy, &terms);
        ReplayFigures { totals: outcome.totals, contexts: downsample(&outcome.contexts, MAX_REPLAY_POINTS) }
    };
    let without = run(&Policy::None);
    // What it would save is of interest above all where it is off.
    let pruned = run(&Policy::of(settings.policy, settings, window, conversation.version.as_deref()));
    Ok(Savings {
        session: id.to_owned(),
        answers: conversation.calls.len() as u64,
        model,
        prices_dated: prices.dated,
        price_note: terms.price.note,
        window_tokens: window,
        threshold_tokens: threshold,
        saved_tokens: without.totals.input_tokens.cast_signed() - pruned.totals.input_tokens.cast_signed(),
        saved_usd: without.totals.cost_usd - pruned.totals.cost_usd,
        without,
        pruned,
    })
}
