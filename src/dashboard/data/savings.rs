//! What pruning saves of one session: its calls, made again without and with it.

use std::sync::TryLockError;

use serde::Serialize;

use super::{Desk, Trouble, lock, session, thin};
use ctxbridge_archive::store::EVERYTHING;
use ctxbridge_prune::Settings;
use ctxbridge_prune::simulate::prices::Prices;
use ctxbridge_prune::simulate::{Policy, Reader, Terms, Totals, USUAL_MODEL, Weighed, cache, replay, threshold_of, window_of};

/// Bytes of a transcript that is replayed at most: its messages are in memory meanwhile.
const MOST_BYTES: u64 = 64 << 20;
/// Points of each line.
const MOST_POINTS: usize = 500;
/// Sessions whose outcome is kept.
const KEPT: usize = 200;

/// Two replays of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Savings {
    /// The session.
    pub session: String,
    /// Answers of the model.
    pub answers: u64,
    /// The model that prices are of.
    pub model: String,
    /// When prices were looked up.
    pub prices_dated: String,
    /// What to know of the price.
    pub price_note: Option<String>,
    /// Tokens at which the client compacts.
    pub threshold_tokens: u64,
    /// Without pruning.
    pub without: Replayed,
    /// With pruning, by the user's settings.
    pub pruned: Replayed,
    /// Tokens that need not be sent; less than nothing where pruning costs more than it saves.
    pub saved_tokens: i64,
    /// US dollars, likewise.
    pub saved_usd: f64,
}

/// What one replay comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replayed {
    /// In sum.
    #[serde(flatten)]
    pub totals: Totals,
    /// Number of the answer and size of its context in tokens.
    pub contexts: Vec<(usize, u64)>,
}

impl Desk {
    /// Replays a session, by its whole id; nothing is done twice for the same bytes.
    pub fn savings(&self, id: &str) -> Result<Savings, Trouble> {
        let mut store = self.opened()?;
        let found = session(&mut *store, id)?;
        let transcripts = store.transcripts(found.key)?;
        let own = transcripts.iter().find(|transcript| transcript.agent.is_none()).ok_or(Trouble::NoCalls)?;
        if own.bytes > MOST_BYTES {
            return Err(Trouble::TooLarge { bytes: own.bytes, most: MOST_BYTES });
        }
        let key = (id.to_owned(), own.bytes);
        if let Some(known) = lock(&self.replayed).get(&key) {
            return Ok(known.clone());
        }
        // Each takes a core and its messages in memory.
        let _replaying = match self.replaying.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(Trouble::Hurry),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Ok(guard) => guard,
        };
        let mut bytes = Vec::new();
        store.raw(own.key, own.generation, EVERYTHING, &mut bytes)?;
        drop(store);
        let savings = simulate(id, &bytes, &self.source.prune)?;
        let mut replayed = lock(&self.replayed);
        if replayed.len() >= KEPT {
            replayed.clear();
        }
        replayed.insert(key, savings.clone());
        Ok(savings)
    }
}

fn simulate(id: &str, transcript: &[u8], settings: &Settings) -> Result<Savings, Trouble> {
    let mut reader = Reader::default();
    for line in transcript.split_inclusive(|byte| *byte == b'\n') {
        // Lines that cannot be read are left out, as `prune simulate` does.
        reader.line(line).ok();
    }
    let conversation = reader.finish();
    if conversation.calls.is_empty() {
        return Err(Trouble::NoCalls);
    }
    let model = conversation.model.clone().unwrap_or_else(|| USUAL_MODEL.to_owned());
    let prices = Prices::built_in()?;
    let threshold = threshold_of(window_of(&conversation));
    let terms = Terms { threshold, cache: cache::Kind::Api, price: prices.of(&model, conversation.is_hourly) };
    let weighed = Weighed::new(&conversation);
    let run = |policy: &Policy| {
        let outcome = replay(&conversation, &weighed, policy, &terms);
        Replayed { totals: outcome.totals, contexts: thin(&outcome.contexts, MOST_POINTS) }
    };
    let without = run(&Policy::None);
    // What it would save is of interest above all where it is off.
    let pruned = run(&Policy::Ours(Box::new(Settings { enabled: true, ..settings.clone() })));
    Ok(Savings {
        session: id.to_owned(),
        answers: conversation.calls.len() as u64,
        model,
        prices_dated: prices.dated,
        price_note: terms.price.note,
        threshold_tokens: threshold,
        saved_tokens: without.totals.input_tokens.cast_signed() - pruned.totals.input_tokens.cast_signed(),
        saved_usd: without.totals.cost_usd - pruned.totals.cost_usd,
        without,
        pruned,
    })
}
