//! The overview: sizes, compactions by day, learnings, and statistics of hooks.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::{Timestamp, ToSpan};
use serde::Serialize;

use super::sessions::INDEX_BUSY_TIMEOUT;
use super::{DashboardService, DataError, date, lock};
use crate::hook::HookRunReport;
use ctxbridge_archive::search::SearchIndex;
use ctxbridge_archive::search::index::ANN_FILE;
use ctxbridge_archive::store::StoredCompaction;

/// Number of days in the overview.
const DAYS: i64 = 30;

/// The numbers at the top of the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Overview {
    /// `true` if nothing was archived.
    pub is_empty: bool,
    /// Sessions.
    pub sessions: u64,
    /// Turns of conversations in their present state.
    pub turns: u64,
    /// Compactions with the client's summary, of all time.
    pub compactions: u64,
    /// Bytes of all transcripts.
    pub bytes_raw: u64,
    /// Bytes that the archive takes, as `ctxbridge archive status` counts them: without what is made from it.
    pub bytes_stored: u64,
    /// Bytes of all files: the archive with its log and cold files, the search index, and vectors.
    pub bytes_on_disk: u64,
    /// The same by tier.
    pub tiers: Vec<TierUsage>,
    /// The last 30 days, oldest first, including those without compactions.
    pub days: Vec<DayCompactions>,
    /// Number of learnings by kind, the most frequent first. The page leaves them out if there are none.
    pub learnings: Vec<(String, u64)>,
    /// Statistics of hooks in these days.
    pub capture: HookRunReport,
}

/// Bytes of the archive in a tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierUsage {
    /// `hot`, `warm` or `cold`. The first is always listed, the others only if they hold something.
    pub tier: &'static str,
    /// Compressed transcripts; of `cold`, their files.
    pub segments_bytes: u64,
    /// Turns, entries, and their database indexes.
    pub database_bytes: u64,
    /// The search index of words, with excerpts.
    pub index_bytes: u64,
    /// Vectors, which are in the file of the index, and the file that makes it fast to compare many of them.
    pub vectors_bytes: u64,
}

/// Compactions of a day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DayCompactions {
    /// The day, as `2026-11-22`.
    pub day: String,
    /// Compactions that the client completed.
    pub done: u64,
    /// Compactions that were blocked.
    pub blocked: u64,
    /// Compactions that were announced, and no summary followed.
    pub announced: u64,
}

impl DashboardService {
    /// Returns the current overview.
    pub fn overview(&self) -> Result<Overview, DataError> {
        let mark = self.data_fingerprint();
        // Whoever asks meanwhile waits, and gets the same.
        let mut known = lock(&self.overview);
        if let Some((_, overview)) = known.as_ref().filter(|(of, _)| *of == mark) {
            return Ok(overview.clone());
        }
        let overview = self.look_over(Timestamp::now())?;
        *known = Some((mark, overview.clone()));
        Ok(overview)
    }

    fn look_over(&self, now: Timestamp) -> Result<Overview, DataError> {
        let data = &self.source.data;
        let today = now.to_zoned(self.source.zone.clone()).date();
        let first = today.saturating_sub((DAYS - 1).days());
        let since_ms = first.to_zoned(self.source.zone.clone()).map_or(0, |first| first.timestamp().as_millisecond());
        let capture = HookRunReport::read(data, since_ms, &self.source.zone);
        let Some(mut store) = self.open()? else {
            return Ok(Overview { is_empty: true, capture, ..Overview::default() });
        };
        let totals = store.totals()?;
        let compactions = store.compactions(None, since_ms)?;
        let learnings = store.learnings_by_kind()?;
        let sizes = store.tiers()?;
        drop(store);
        let size = |name: &str| file_bytes(&data.join(name));
        // A vector in the log only is in neither; the log is written back soon.
        let index = SearchIndex::open_existing(data, INDEX_BUSY_TIMEOUT).ok().flatten();
        let in_index = index.and_then(|index| index.vector_bytes().ok()).unwrap_or(0);
        let index_file = size("search.db") + size("search.db-wal");
        let index_bytes = index_file.saturating_sub(in_index);
        let vectors_bytes = in_index.min(index_file) + nearest_bytes(data);
        // In JSON Lines there are no tiers, and no log.
        let log = if sizes.is_empty() { 0 } else { size("archive.db-wal") };
        let database = totals.bytes_stored + log;
        let bytes_of = |tier: usize| sizes.get(tier).map(|size| size.bytes_stored);
        let mut tiers = vec![TierUsage {
            tier: "hot",
            segments_bytes: bytes_of(0).unwrap_or(totals.bytes_segments),
            database_bytes: database.saturating_sub(totals.bytes_segments),
            index_bytes,
            vectors_bytes,
        }];
        // All that finds them is one.
        let others = sizes.iter().skip(1).filter(|size| size.segments > 0 || size.sessions > 0).map(|size| TierUsage {
            tier: size.tier.word(),
            segments_bytes: size.bytes_stored,
            database_bytes: 0,
            index_bytes: 0,
            vectors_bytes: 0,
        });
        tiers.extend(others);
        Ok(Overview {
            is_empty: totals.transcripts == 0,
            sessions: totals.sessions,
            turns: totals.turns,
            compactions: totals.compactions,
            bytes_raw: totals.bytes_raw,
            bytes_stored: totals.bytes_stored,
            bytes_on_disk: database + index_bytes + vectors_bytes + bytes_of(2).unwrap_or(0),
            tiers,
            days: by_day(first, &compactions, |ms| date(ms, &self.source.zone).map(|day| day.to_string())),
            learnings,
            capture,
        })
    }
}

/// Counts the compactions of each day.
fn by_day(
    first: jiff::civil::Date,
    compactions: &[StoredCompaction],
    day: impl Fn(i64) -> Option<String>,
) -> Vec<DayCompactions> {
    let days = (0..DAYS).map(|number| first.saturating_add(number.days()).to_string());
    let mut days: BTreeMap<String, DayCompactions> =
        days.map(|day| (day.clone(), DayCompactions { day, ..DayCompactions::default() })).collect();
    for compaction in compactions {
        // A clock that was wrong may have put it into the future.
        let Some(found) = day(compaction.at_ms).and_then(|day| days.get_mut(&day)) else { continue };
        match compaction {
            StoredCompaction { is_done: true, .. } => found.done += 1,
            StoredCompaction { is_blocked: true, .. } => found.blocked += 1,
            _ => found.announced += 1,
        }
    }
    days.into_values().collect()
}

fn file_bytes(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// Bytes of the files that make vector search fast, which are next to the index.
fn nearest_bytes(data: &Path) -> u64 {
    let files = std::fs::read_dir(data).into_iter().flatten().flatten();
    let is_one = |name: &str| name.starts_with(ANN_FILE);
    files.filter(|file| is_one(&file.file_name().to_string_lossy())).map(|file| file_bytes(&file.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_without_compactions_are_there_and_others_are_counted_by_what_became_of_them() {
        let at = |at_ms, is_done, is_blocked| StoredCompaction { at_ms, is_blocked, is_done, ..StoredCompaction::default() };
        let found = [at(1, true, false), at(1, true, false), at(2, false, true), at(2, false, false), at(99, true, false)];
        let day = |ms| (ms < 99).then(|| format!("2026-11-0{ms}"));
        let days = by_day(jiff::civil::date(2026, 11, 1), &found, day);
        assert_eq!(days.len(), 30);
        assert_eq!(days[0], DayCompactions { day: "2026-11-01".into(), done: 2, ..DayCompactions::default() });
        assert_eq!(days[1], DayCompactions { day: "2026-11-02".into(), blocked: 1, announced: 1, ..DayCompactions::default() });
        assert_eq!(days[2], DayCompactions { day: "2026-11-03".into(), ..DayCompactions::default() });
    }
}
