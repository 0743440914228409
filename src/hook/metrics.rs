/*!
Metrics of hooks: `logs/metrics.jsonl`, one JSON object per line, for the dashboard and for people.

Numbers only: it contains no text of conversations.
*/

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::Event;
use ctxbridge_common::files;

/// Size at which the file is rotated, in bytes; one older file is kept. That is some ten thousand hooks.
const MAX_METRICS_BYTES: u64 = 2 << 20;

/// Maximum number of characters kept of an error.
const ERROR_CHARS: usize = 300;

/// Measurement of one hook run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookMeasurement {
    /// New bytes in the archive.
    pub bytes: u64,
    /// Turns that are new or grew.
    pub turns: u64,
    /// New learnings.
    pub learnings: u64,
    /// Lookups of earlier turns that were given up for want of time.
    pub recall_timeouts: u64,
    /// The error, if it failed.
    pub error: Option<String>,
}

/// Metrics of a data folder.
#[derive(Clone, Debug)]
pub struct HookMetrics {
    path: PathBuf,
}

impl HookMetrics {
    /// Opens the metrics of a data folder.
    pub fn in_dir(data: &Path) -> Self {
        Self { path: data.join("logs/metrics.jsonl") }
    }

    /// The file that lines are appended to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Both files, the older one first; either may be missing.
    pub fn files(self) -> [PathBuf; 2] {
        [self.path.with_extension("jsonl.1"), self.path]
    }

    /// Appends the line of a hook, which started at `now_ms`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(
        &self,
        event: Event,
        session: Option<&str>,
        (now_ms, took): (i64, Duration),
        measured: &HookMeasurement,
    ) -> io::Result<()> {
        let time = jiff::Timestamp::from_millisecond(now_ms).map(|time| format!("{time:.3}")).unwrap_or_default();
        let ms = (took.as_secs_f64() * 1e5).round() / 100.0;
        let HookMeasurement { bytes, turns, learnings, recall_timeouts, error } = measured;
        let error: Option<String> = error.as_ref().map(|error| error.chars().take(ERROR_CHARS).collect());
        let line = json!({
            "ts": time, "event": event.name(), "session": session, "ms": ms, "bytes": bytes, "turns": turns, "learnings": learnings,
            "recall_timeouts": recall_timeouts, "ok": error.is_none(), "error": error,
        });
        files::append(&self.path, &format!("{line}\n"), MAX_METRICS_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lines_have_numbers_and_the_file_does_not_grow_for_ever() {
        let data = tempfile::tempdir().expect("a folder");
        let metrics = HookMetrics::in_dir(data.path());
        let add = |error: Option<&str>| {
            let measured =
                HookMeasurement { bytes: 7, turns: 2, learnings: 1, recall_timeouts: 1, error: error.map(str::to_owned) };
            metrics.add(Event::Stop, Some("s"), (1_790_000_000_123, Duration::from_micros(12_345)), &measured)
        };
        add(None).expect("written");
        add(Some("no room")).expect("written");
        let [older, path] = metrics.clone().files();
        insta::assert_snapshot!(fs::read_to_string(&path).expect("there"), @r#"
        {"ts":"2026-09-21T14:13:20.123Z","event":"Stop","session":"s","ms":12.35,"bytes":7,"turns":2,"learnings":1,"recall_timeouts":1,"ok":true,"error":null}
        {"ts":"2026-09-21T14:13:20.123Z","event":"Stop","session":"s","ms":12.35,"bytes":7,"turns":2,"learnings":1,"recall_timeouts":1,"ok":false,"error":"no room"}
        "#);
        fs::write(&path, vec![b'\n'; MAX_METRICS_BYTES as usize + 1]).expect("written");
        add(None).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there").lines().count(), 1);
        assert!(older.exists());
    }
}
