//! Savings by pruning over all sessions. Each session is replayed once, in the background, and the result is kept in a file.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::periods::{SavingsOverTime, over_time};
use super::savings::{MAX_REPLAYED_BYTES, simulate};
use super::session_savings::SessionSavings;
use super::{DashboardService, DataError, date, lock};
use ctxbridge_archive::store::EVERYTHING;
use ctxbridge_common::{digest, files};
use ctxbridge_prune::simulate::ReplayTotals;
use ctxbridge_prune::simulate::compare::CostTally;
use ctxbridge_prune::simulate::prices::Prices;

/// Name of the file in the data folder.
const FILE: &str = "savings.json";

/// Number of replays after which the file is written.
const SAVE_EVERY: usize = 20;

/// Savings over all sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TotalSavings {
    /// Sessions that were replayed.
    pub sessions: u64,
    /// Sessions that are still to be replayed.
    pub pending: u64,
    /// Sessions that cannot be: the model never answered, or they are too large.
    pub left_out: u64,
    /// The differences.
    #[serde(flatten)]
    pub saved: SessionSavings,
    /// The same by day, week or month.
    pub over_time: SavingsOverTime,
    /// Sessions by what pruning does to their cost, in words.
    pub tally: String,
    /// The day on which prices were looked up.
    pub prices_dated: String,
    /// Without pruning.
    pub without: ReplayTotals,
    /// With pruning, by the user's settings.
    pub pruned: ReplayTotals,
}

/// Results of replays.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct KeptReplays {
    /// Digest of what they depend on beside the sessions: version, settings, prices.
    basis: String,
    /// By session.
    sessions: BTreeMap<String, KeptReplay>,
    /// Number of results that are not in the file.
    #[serde(skip)]
    unsaved: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptReplay {
    /// Size of the transcript.
    bytes: u64,
    /// Totals without and with pruning; none if it cannot be replayed.
    totals: Option<[ReplayTotals; 2]>,
}

/// A session of the archive: its id, its transcript's size, and its end.
pub(super) struct Replayable {
    session: String,
    bytes: u64,
    last_ms: Option<i64>,
}

impl DashboardService {
    /// Returns the savings over the sessions that were replayed so far.
    pub fn total_savings(&self) -> Result<TotalSavings, DataError> {
        let all = self.replayable()?;
        let mut kept = lock(&self.kept);
        let kept = self.loaded(&mut kept)?;
        let today = date(Timestamp::now().as_millisecond(), &self.source.zone).unwrap_or_default();
        let mut total = TotalSavings {
            sessions: 0,
            pending: 0,
            left_out: 0,
            saved: SessionSavings::default(),
            over_time: over_time(&[], today),
            tally: String::new(),
            prices_dated: Prices::built_in()?.dated,
            without: ReplayTotals::default(),
            pruned: ReplayTotals::default(),
        };
        let (mut tally, mut by_day) = (CostTally::default(), Vec::new());
        for one in all.iter() {
            match kept.of(one) {
                None => total.pending += 1,
                Some(KeptReplay { totals: None, .. }) => total.left_out += 1,
                Some(KeptReplay { totals: Some(totals @ [without, pruned]), .. }) => {
                    total.sessions += 1;
                    let saved = SessionSavings::between(totals);
                    total.saved += saved;
                    let day = one.last_ms.and_then(|ms| date(ms, &self.source.zone));
                    by_day.extend(day.map(|day| (day, saved)));
                    tally.add(without, pruned);
                    total.without += *without;
                    total.pruned += *pruned;
                }
            }
        }
        total.over_time = over_time(&by_day, today);
        total.tally = tally.sentence();
        Ok(total)
    }

    /// Returns what pruning saves in each session that was replayed.
    pub(super) fn savings_by_session(&self) -> Result<HashMap<String, SessionSavings>, DataError> {
        let all = self.replayable()?;
        let mut kept = lock(&self.kept);
        let kept = self.loaded(&mut kept)?;
        let saved = all.iter().filter_map(|one| {
            let totals = kept.of(one)?.totals.as_ref()?;
            Some((one.session.clone(), SessionSavings::between(totals)))
        });
        Ok(saved.collect())
    }

    /// Replays the sessions that are pending, on a thread of its own, unless that is being done.
    pub fn replay_pending(self: &Arc<Self>) {
        if self.is_replaying_all.swap(true, Ordering::AcqRel) {
            return;
        }
        // The server may end before.
        let weak = Arc::downgrade(self);
        let replay_all = move || {
            while let Some(service) = weak.upgrade() {
                if !service.replay_next().unwrap_or(false) {
                    service.is_replaying_all.store(false, Ordering::Release);
                    break;
                }
            }
        };
        if thread::Builder::new().name("replays".into()).spawn(replay_all).is_err() {
            self.is_replaying_all.store(false, Ordering::Release);
        }
    }

    /// Replays the sessions that are pending, one after the other, until a deadline.
    ///
    /// # Errors
    /// If the archive cannot be read.
    pub fn replay_until(&self, deadline: Instant, progress: &dyn Fn(&TotalSavings)) -> Result<(), DataError> {
        while Instant::now() < deadline && self.replay_next()? {
            progress(&self.total_savings()?);
        }
        let mut kept = lock(&self.kept);
        let kept = self.loaded(&mut kept)?;
        if kept.unsaved > 0 {
            kept.save(&self.kept_file());
        }
        Ok(())
    }

    /// Replays one session that is pending. Returns `false` if there is none.
    fn replay_next(&self) -> Result<bool, DataError> {
        let all = self.replayable()?;
        let next = {
            let mut kept = lock(&self.kept);
            let kept = self.loaded(&mut kept)?;
            let next = all.iter().find(|one| kept.of(one).is_none());
            if next.is_none() && kept.unsaved > 0 {
                kept.save(&self.kept_file());
            }
            next
        };
        let Some(Replayable { session, bytes, .. }) = next else { return Ok(false) };
        let totals = match self.replayed_totals(session) {
            _ if *bytes > MAX_REPLAYED_BYTES => None,
            Err(DataError::Store(error)) if error.is_busy() => return Err(error.into()),
            totals => totals.ok(),
        };
        let mut kept = lock(&self.kept);
        let kept = self.loaded(&mut kept)?;
        kept.sessions.insert(session.clone(), KeptReplay { bytes: *bytes, totals });
        kept.unsaved += 1;
        if kept.unsaved >= SAVE_EVERY {
            kept.save(&self.kept_file());
        }
        Ok(true)
    }

    fn replayed_totals(&self, session: &str) -> Result<[ReplayTotals; 2], DataError> {
        // Each takes a core and its messages in memory.
        let _replaying = lock(&self.replaying);
        let mut store = self.opened()?;
        let key = super::session(&mut *store, session)?.key;
        let transcripts = store.transcripts(key)?;
        let own = transcripts.iter().find(|transcript| transcript.part.is_conversation()).ok_or(DataError::NoCalls)?;
        let mut bytes = Vec::new();
        store.read_bytes(own.key, own.generation, EVERYTHING, &mut bytes)?;
        drop(store);
        let savings = simulate(session, &bytes, &self.source.prune)?;
        Ok([savings.without.totals, savings.pruned.totals])
    }

    /// The sessions of the archive, the newest first.
    fn replayable(&self) -> Result<Arc<Vec<Replayable>>, DataError> {
        let mark = self.data_fingerprint();
        let mut known = lock(&self.replayable);
        if let Some((_, all)) = known.as_ref().filter(|(of, _)| *of == mark) {
            return Ok(Arc::clone(all));
        }
        let mut all = Vec::new();
        if let Some(mut store) = self.open()? {
            for session in store.sessions("", None, usize::MAX)? {
                let transcripts = store.transcripts(session.key)?;
                if let Some(own) = transcripts.iter().find(|transcript| transcript.part.is_conversation()) {
                    all.push(Replayable { session: session.session, bytes: own.bytes, last_ms: session.last_ms });
                }
            }
        }
        let all = Arc::new(all);
        *known = Some((mark, Arc::clone(&all)));
        Ok(all)
    }

    fn kept_file(&self) -> PathBuf {
        self.source.data.join(FILE)
    }

    /// Reads the file, once. What was replayed by other settings or at other prices does not count.
    fn loaded<'k>(&self, kept: &'k mut Option<KeptReplays>) -> Result<&'k mut KeptReplays, DataError> {
        if kept.is_none() {
            let dated = Prices::built_in()?.dated;
            let basis = format!("{} {dated} {:?}", env!("CARGO_PKG_VERSION"), self.source.prune);
            let basis = digest::of_bytes(basis.as_bytes()).to_string();
            let read = std::fs::read(self.kept_file()).ok().and_then(|bytes| serde_json::from_slice::<KeptReplays>(&bytes).ok());
            let fitting = read.filter(|read| read.basis == basis);
            *kept = Some(fitting.unwrap_or_else(|| KeptReplays { basis, ..KeptReplays::default() }));
        }
        Ok(kept.get_or_insert_default())
    }
}

impl KeptReplays {
    fn of(&self, session: &Replayable) -> Option<&KeptReplay> {
        self.sessions.get(&session.session).filter(|kept| kept.bytes == session.bytes)
    }

    fn save(&mut self, path: &std::path::Path) {
        // Without the file, they are replayed again next time.
        if let Ok(bytes) = serde_json::to_vec(self) {
            files::replace(path, &bytes).ok();
        }
        self.unsaved = 0;
    }
}
