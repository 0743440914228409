//! Checks of what hooks leave behind: failures, timeouts, and writes that wait.

use std::path::Path;

use jiff::tz::TimeZone;
use serde_json::Value;

use super::checks::DAY_MS;
use super::{HealthCheck, HealthStatus};
use crate::hook::HookRunReport;
use crate::hook::{Event, Log, RECALL_TIMEOUT, Spool};
use ctxbridge_common::files;
use ctxbridge_picker::text::count;

/// Reports failures of hooks in the last 24 hours.
pub fn hooks_log(data: &Path, now_ms: i64) -> HealthCheck {
    let path = data.join("logs").join(Log::FILE);
    let texts = [path.with_extension("log.1"), path.clone()].map(|path| files::read(path).unwrap_or_default());
    let lines = texts.iter().flat_map(|text| text.split(|byte| *byte == b'\n'));
    let failures: Vec<Value> =
        lines.filter_map(|line| serde_json::from_slice(line).ok()).filter(|line| is_recent(line, now_ms)).collect();
    let Some(newest) = failures.last() else {
        return HealthCheck::new("hooks_log", HealthStatus::Ok, "no failure in the last 24 hours", None);
    };
    let text = |key: &str| newest[key].as_str().unwrap_or("?");
    let told = format!(
        "{} in the last 24 hours, the newest at {}: {}",
        count(failures.len() as u64, "failure"),
        text("event"),
        text("error")
    );
    HealthCheck::new("hooks_log", HealthStatus::Warning, told, Some(&format!("see {}", path.display())))
}

/// Reports how often the prompt hook had no time left to look for earlier turns in the last 24 hours, if it ran.
pub fn recall(data: &Path, now_ms: i64) -> Option<HealthCheck> {
    let report = HookRunReport::read(data, now_ms - DAY_MS, &TimeZone::UTC);
    let hook = report.events.into_iter().find(|event| event.name == Event::UserPromptSubmit.name())?;
    let prompts = count(hook.runs, "prompt");
    if hook.recall_timeouts == 0 {
        return Some(HealthCheck::new("recall", HealthStatus::Ok, format!("in time at {prompts} in the last 24 hours"), None));
    }
    let limit = RECALL_TIMEOUT.as_millis();
    let told = format!("gave up after {limit} ms at {} of {prompts} in the last 24 hours", hook.recall_timeouts);
    let next = "the disk of the data folder is slow, or the archive is: `ctxbridge archive optimize` tidies it up";
    Some(HealthCheck::new("recall", HealthStatus::Warning, told, Some(next)))
}

/// Reports writes of hooks that are still queued, if any.
pub fn spool(data: &Path) -> Option<HealthCheck> {
    let waiting = Spool::in_dir(data).pending_count();
    (waiting > 0).then(|| {
        let told = format!(
            "{} to be archived",
            if waiting == 1 { "1 thing waits".to_owned() } else { format!("{waiting} things wait") }
        );
        let next = "the next hook takes them in; `ctxbridge archive optimize` does it now";
        HealthCheck::new("spool", HealthStatus::Warning, told, Some(next))
    })
}

fn is_recent(line: &Value, now_ms: i64) -> bool {
    let time = line["ts"].as_str().and_then(|ts| ts.parse::<jiff::Timestamp>().ok());
    time.is_some_and(|time| time.as_millisecond() >= now_ms - DAY_MS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::hook::{HookMeasurement, HookMetrics};

    #[test]
    fn lookups_that_ran_out_of_time_are_told() {
        let data = tempfile::tempdir().unwrap();
        let now_ms = 1_790_000_000_000;
        assert_eq!(recall(data.path(), now_ms), None);
        let prompt = |at_ms, recall_timeouts| {
            let measured = HookMeasurement { recall_timeouts, ..HookMeasurement::default() };
            let time = (at_ms, Duration::from_millis(9));
            HookMetrics::in_dir(data.path()).add(Event::UserPromptSubmit, Some("s"), time, &measured).unwrap();
        };
        prompt(now_ms - 2 * DAY_MS, 1);
        assert_eq!(recall(data.path(), now_ms), None, "that was the day before");
        prompt(now_ms, 0);
        let check = recall(data.path(), now_ms).unwrap();
        assert_eq!((check.status, check.detail.as_str()), (HealthStatus::Ok, "in time at 1 prompt in the last 24 hours"));
        prompt(now_ms, 1);
        let check = recall(data.path(), now_ms).unwrap();
        assert_eq!(
            (check.status, check.detail.as_str()),
            (HealthStatus::Warning, "gave up after 500 ms at 1 of 2 prompts in the last 24 hours")
        );
    }
}
