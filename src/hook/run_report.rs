//! Durations and failures of hooks, from `logs/metrics.jsonl`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::HookMetrics;

/// Maximum bytes that are read of each. The writer starts a new file long before.
const MAX_READ_METRICS_BYTES: u64 = 32 << 20;

/// The measurements of one run of a hook. Other fields of the line are ignored.
#[derive(Deserialize)]
struct MetricsLine {
    ts: String,
    event: String,
    ms: f64,
    ok: bool,
    #[serde(default)]
    recall_timeouts: u64,
}

/// Statistics of a group of hook runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HookRunStats {
    /// The event, or the day.
    pub name: String,
    /// Number of runs.
    pub runs: u64,
    /// Number of failed runs.
    pub failed: u64,
    /// Number of runs that gave up looking for earlier turns.
    pub recall_timeouts: u64,
    /// Median duration, in milliseconds.
    pub p50_ms: f64,
    /// The duration that 95 % of the runs did not exceed, in milliseconds.
    pub p95_ms: f64,
}

/// Statistics of all hook runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HookRunReport {
    /// All runs; none if nothing was measured.
    pub all: Option<HookRunStats>,
    /// By event, in alphabetical order.
    pub events: Vec<HookRunStats>,
    /// By day, oldest first; only days on which hooks ran.
    pub days: Vec<HookRunStats>,
}

#[derive(Default)]
struct HookRuns {
    times: Vec<f64>,
    failed: u64,
    recall_timeouts: u64,
}

impl HookRuns {
    fn add(&mut self, line: &MetricsLine) {
        self.times.push(line.ms);
        self.failed += u64::from(!line.ok);
        self.recall_timeouts += line.recall_timeouts.min(1);
    }

    fn measured(mut self, name: String) -> HookRunStats {
        self.times.sort_by(f64::total_cmp);
        let within = |share| percentile(&self.times, share);
        HookRunStats {
            name,
            runs: self.times.len() as u64,
            failed: self.failed,
            recall_timeouts: self.recall_timeouts,
            p50_ms: within(0.5),
            p95_ms: within(0.95),
        }
    }
}

impl HookRunReport {
    /// Reads the measurements in a data folder since a time. Files may be missing, and lines torn.
    pub fn read(data: &Path, since_ms: i64, zone: &TimeZone) -> Self {
        let (mut all, mut events, mut days) =
            (HookRuns::default(), BTreeMap::<String, HookRuns>::new(), BTreeMap::<String, HookRuns>::new());
        for path in HookMetrics::in_dir(data).files() {
            let Ok(file) = File::open(path) else { continue };
            for line in BufReader::new(file.take(MAX_READ_METRICS_BYTES)).split(b'\n').map_while(Result::ok) {
                let Ok(line) = serde_json::from_slice::<MetricsLine>(&line) else { continue };
                let Ok(at) = line.ts.parse::<Timestamp>() else { continue };
                if at.as_millisecond() < since_ms || !line.ms.is_finite() || line.ms < 0.0 {
                    continue;
                }
                all.add(&line);
                days.entry(at.to_zoned(zone.clone()).date().to_string()).or_default().add(&line);
                events.entry(line.event.clone()).or_default().add(&line);
            }
        }
        let list = |runs: BTreeMap<String, HookRuns>| runs.into_iter().map(|(name, runs)| runs.measured(name)).collect();
        let all = (!all.times.is_empty()).then(|| all.measured("all".to_owned()));
        Self { all, events: list(events), days: list(days) }
    }
}

/// The smallest value that at least `share` of the values do not exceed (nearest rank), to a tenth; 0 if there are none.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    let value = sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0);
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let times: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!((percentile(&times, 0.5), percentile(&times, 0.95)), (10.0, 19.0));
        assert_eq!((percentile(&[7.25], 0.5), percentile(&[], 0.95)), (7.3, 0.0));
    }

    #[test]
    fn torn_lines_unknown_fields_and_old_runs_are_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("logs")).expect("made");
        let [older_file, newer_file] = HookMetrics::in_dir(folder.path()).files();
        let line = |ts: &str, event: &str, ms: f64, ok: bool| {
            format!(
                r#"{{"ts":"{ts}","event":"{event}","session":"s","ms":{ms},"bytes":1,"recall_timeouts":{},"ok":{ok},"error":null,"new":[1]}}"#,
                u8::from(event == "PreCompact")
            )
        };
        let older = [line("2026-10-01T00:00:00.000Z", "Stop", 9e9, true), line("2026-11-20T10:00:00.123Z", "Stop", 10.0, true)];
        std::fs::write(older_file, older.join("\n") + "\n").expect("written");
        let newer = [
            "\u{0}\u{1}".to_owned(),
            line("2026-11-21T10:00:00Z", "Stop", 30.0, false),
            line("2026-11-21T11:00:00Z", "PreCompact", 20.0, true),
            line("2026-11-21T11:00:00Z", "PreCompact", -1.0, true),
            line("2026-11-21T12:00:00Z", "Stop", 50.0, true)[..40].to_owned(),
        ];
        std::fs::write(newer_file, newer.join("\n")).expect("written");
        let since: Timestamp = "2026-11-01T00:00:00Z".parse().expect("a time");
        let read = HookRunReport::read(folder.path(), since.as_millisecond(), &TimeZone::UTC);
        let measured = |name: &str, [runs, failed, recall_timeouts]: [u64; 3], p50_ms, p95_ms| HookRunStats {
            name: name.to_owned(),
            runs,
            failed,
            recall_timeouts,
            p50_ms,
            p95_ms,
        };
        assert_eq!(read.all, Some(measured("all", [3, 1, 1], 20.0, 30.0)));
        assert_eq!(read.events, [measured("PreCompact", [1, 0, 1], 20.0, 20.0), measured("Stop", [2, 1, 0], 10.0, 30.0)]);
        assert_eq!(read.days, [measured("2026-11-20", [1, 0, 0], 10.0, 10.0), measured("2026-11-21", [2, 1, 1], 20.0, 30.0)]);
        assert_eq!(HookRunReport::read(&folder.path().join("nowhere"), 0, &TimeZone::UTC), HookRunReport::default());
    }
}
