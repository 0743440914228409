//! Turns that were archived in JSON Lines come back into the database.

use std::time::Instant;

use super::output::{Output, count};
use ctxbridge_archive::merge::{MergeReport, merge};
use ctxbridge_archive::open::Location;
use ctxbridge_archive::quote::printable;

/// Merges turns that were archived in JSON Lines back into the database, and tells the user. A failure is only noted.
pub(super) fn merge_back(location: &Location, deadline: Option<Instant>, output: &Output) -> Option<MergeReport> {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let folder = location.folder().display();
    let merged = match merge(location, deadline, now_ms, &ctxbridge_claude_flow::supersede_imported_after) {
        Ok(merged) => merged?,
        Err(error) => {
            output.note(&format!("what is in {folder} could not be merged into the database, and waits: {error}"));
            return None;
        }
    };
    for (session, reason) in &merged.failed {
        output.note(&format!("session {session} stays in {folder}: {}", printable(reason)));
    }
    output.note(&match &merged.moved_to {
        Some(aside) => format!(
            "{} of {} merged from {folder}, which is now {}",
            count(merged.turns, "turn"),
            count(merged.sessions as u64, "session"),
            aside.display()
        ),
        None => format!("{} merged from {folder}; the rest of it is, by the next run", count(merged.turns, "turn")),
    });
    Some(merged)
}
