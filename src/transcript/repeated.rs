//! Rows that the client writes a second time.
//!
//! A plugin may answer a compaction with a list of messages. The client then writes the whole list behind the line that marks the
//! compaction: what stays, under new ids, and what the plugin put in the place of the rest. It was said before, and counts only there.

use serde::{Deserialize, Serialize};

use super::record::{Link, Record, RecordKind};

/// Tells rows that are written again, line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepeatedRows {
    /// The last compaction, while such rows are there or may come.
    boundary: Option<Boundary>,
    is_within: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Boundary {
    uuid: String,
    at_ms: i64,
}

impl RepeatedRows {
    /// `true` if this line, the next one of the transcript, was said before.
    ///
    /// Behind a compaction stands the summary, or else a list of messages. The first of these follows the compaction, and none is newer than
    /// it, as is what is said after it.
    pub fn includes(&mut self, record: &Record<'_>) -> bool {
        let kind = record.kind();
        if kind == RecordKind::CompactBoundary {
            let uuid = record.uuid().map(str::to_owned);
            let boundary = uuid.zip(record.timestamp()).map(|(uuid, at_ms)| Boundary { uuid, at_ms });
            *self = Self { boundary, is_within: false };
            return false;
        }
        let Some(boundary) = &self.boundary else { return false };
        let is_older = record.timestamp().is_some_and(|at_ms| at_ms <= boundary.at_ms);
        if kind == RecordKind::Bookkeeping {
            // What the client attached to a message that stays.
            return self.is_within && record.type_name() == Some("attachment") && is_older;
        }
        let follows = || matches!(record.parent(), Link::To(parent) if *parent == boundary.uuid);
        self.is_within = kind != RecordKind::CompactSummary && is_older && (self.is_within || follows());
        if !self.is_within {
            self.boundary = None;
        }
        self.is_within
    }

    /// `true` if the line before was written again.
    pub(super) fn is_within(&self) -> bool {
        self.is_within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line at a second; each follows the compaction, which is the first line.
    fn line(kind: &str, second: u32, more: &str) -> String {
        let content = if kind == "system" || kind == "attachment" { "" } else { r#","message":{"content":"Well."}"# };
        format!(
            r#"{{"type":"{kind}","timestamp":"2026-11-26T00:00:{second:02}.000Z","uuid":"u{second}","parentUuid":"u5"{content}{more}}}"#
        )
    }

    fn repeated(lines: &[String]) -> Vec<bool> {
        let mut rows = RepeatedRows::default();
        lines.iter().map(|line| rows.includes(&Record::parse(line.as_bytes()).expect("a record"))).collect()
    }

    fn boundary(second: u32) -> String {
        line("system", second, r#","subtype":"compact_boundary""#)
    }

    #[test]
    fn a_list_behind_a_compaction_was_said_before() {
        let lines = [
            line("user", 1, ""),
            line("assistant", 2, ""),
            boundary(5),
            line("user", 1, ""),
            line("attachment", 1, ""),
            line("mode", 1, ""),
            line("assistant", 5, ""),
            line("user", 6, ""),
            line("attachment", 1, ""),
            line("assistant", 4, ""),
        ];
        assert_eq!(repeated(&lines), [false, false, false, true, true, false, true, false, false, false]);
        let twice = [boundary(5), line("user", 1, ""), boundary(5), line("user", 3, ""), line("user", 8, "")];
        assert_eq!(repeated(&twice), [false, true, false, true, false]);
    }

    #[test]
    fn behind_a_summary_nothing_was() {
        let lines = [boundary(5), line("attachment", 1, ""), line("user", 4, r#","isCompactSummary":true"#), line("user", 3, "")];
        assert_eq!(repeated(&lines), [false; 4]);
        let timeless = r#"{"type":"user","parentUuid":"u5","message":{"content":"Well."}}"#.to_owned();
        assert_eq!(repeated(&[boundary(5), timeless, line("user", 1, "")]), [false; 3]);
        // A clock that was set back is no reason to forget what somebody says.
        let elsewhere = line("user", 4, "").replace("\"u5\"", "\"u1\"");
        assert_eq!(repeated(&[boundary(5), elsewhere, line("user", 1, "")]), [false; 3]);
    }
}
