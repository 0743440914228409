//! Repairs of an archive, noted where whoever asks later finds them: `repairs.jsonl` in the data folder, one JSON object a line.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::store::sqlite::session_list::ListedSession;
use ctxbridge_common::files;

/// Name of the file in the data folder.
const FILE: &str = "repairs.jsonl";

/// Maximum size of the file, in bytes, before another one is begun: by then, a disk is failing for good.
const MAX_BYTES: u64 = 1 << 20;

/// A repair of a damaged archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Repair {
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// Pages with one flipped bit, which was turned back: they are as they were.
    pub corrected_pages: u64,
    /// Pages that are whole, and have their checksum now: another program had written them, or they hold nothing.
    pub resealed_pages: u64,
    /// Lines of the journal of an archive in JSON Lines with one flipped bit, which was turned back.
    pub corrected_lines: u64,
    /// Pages that could not be corrected.
    pub lost_pages: u64,
    /// Rows that were saved from the damaged file; `None` if nothing had to be, or could be.
    pub saved_rows: Option<u64>,
    /// Sessions that were archived, and that neither the rest of the file nor the client has.
    pub lost_sessions: Vec<ListedSession>,
    /// New path of the damaged file.
    pub quarantined: Option<PathBuf>,
}

impl Repair {
    /// `true` if something was, or may have been, damaged.
    pub fn is_of_damage(&self) -> bool {
        self.corrected_pages + self.resealed_pages + self.corrected_lines + self.lost_pages > 0 || self.quarantined.is_some()
    }

    /// Notes it. A failure to do so is not worth failing for: the repair is done.
    pub(super) fn note(&self, data: &Path) {
        if let Ok(line) = serde_json::to_string(self) {
            files::append(&data.join(FILE), &format!("{line}\n"), MAX_BYTES).ok();
        }
    }
}

/// Notes that flipped bits in lines of a journal were turned back, if there were any.
pub(crate) fn note_corrected_lines(data: &Path, lines: u64) {
    if lines > 0 {
        Repair { at_ms: now_ms(), corrected_lines: lines, ..Repair::default() }.note(data);
    }
}

/// The time, in milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Repairs that were noted, oldest first; the archive may have been whole ever since.
pub fn repairs(data: &Path) -> Vec<Repair> {
    let text = files::read_to_string(data.join(FILE)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
