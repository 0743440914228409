//! Damage of the archive, as `archive optimize` tells it.

use serde_json::{Value, json};

use crate::cli::output::{BAD, Output, count, styled};
use ctxbridge_archive::handle::turn_handle;
use ctxbridge_archive::heal::{LostSegment, SegmentCheckReport};
use ctxbridge_archive::maintain::MaintenanceRunReport;
use ctxbridge_archive::recovery::{ListedSession, Repair};
use ctxbridge_archive::search::RemoteArchive;
use ctxbridge_archive::store::sqlite::SegmentUse;
use ctxbridge_common::digest::{self, Sha256Digest};

/// Number of lost segments, and of turns of one, that are listed.
const MAX_LISTED: usize = 20;

/// `true` if a run found damage, even if all of it was undone.
pub(super) fn is_damaged(done: &MaintenanceRunReport) -> bool {
    let segments = done.segments.as_ref();
    done.repairs.iter().any(Repair::is_of_damage)
        || done.compared.healed + done.cycle.healed > 0
        || segments.is_some_and(|segments| segments.healed > 0 || !segments.lost.is_empty())
}

/// `true` if a run found damage that it could not undo, in an archive that goes on.
pub(super) fn is_lost(done: &MaintenanceRunReport) -> bool {
    done.segments.as_ref().is_some_and(|segments| !segments.lost.is_empty())
}

pub(super) fn tell(done: &MaintenanceRunReport, is_dry: bool, is_asked: bool, output: &mut Output) -> anyhow::Result<()> {
    for repair in &done.repairs {
        if repair.corrected_pages > 0 {
            let pages = count(repair.corrected_pages, "page");
            output
                .line(format!("{} {pages} of the database had a flipped bit, which was turned back", styled(BAD, "damage:")))?;
        }
        if repair.corrected_lines > 0 {
            let lines = count(repair.corrected_lines, "line");
            output.line(format!("{} {lines} of the journal had a flipped bit, which was turned back", styled(BAD, "damage:")))?;
        }
        if repair.resealed_pages > 0 {
            let pages = count(repair.resealed_pages, "page");
            output.line(format!("{pages} of the database had a checksum that did not fit, as after another program wrote to it; all of the archive makes sense"))?;
        }
        if let Some(rows) = repair.saved_rows {
            let pages = count(repair.lost_pages, "page");
            let rows = count(rows, "row");
            output.line(format!("{} {pages} could not be read; {rows} were saved from the others", styled(BAD, "damage:")))?;
        }
    }
    let lost: Vec<&ListedSession> = done.repairs.iter().flat_map(|repair| &repair.lost_sessions).collect();
    for session in lost.iter().take(MAX_LISTED) {
        let (id, path) = (&session.session, &session.path);
        output.line(format!("{} session {id} ({path}): nothing of it could be read", styled(BAD, "lost:")))?;
    }
    if lost.len() > MAX_LISTED {
        output.line(format!("… and {} more; --json lists all", lost.len() - MAX_LISTED))?;
    }
    let none = SegmentCheckReport::default();
    let segments = done.segments.as_ref().unwrap_or(&none);
    let healed = done.compared.healed + done.cycle.healed + segments.healed;
    if healed > 0 {
        let pieces = count(healed, "piece");
        output.line(format!("{} {pieces} of transcripts, put back as they were", styled(BAD, "damage:")))?;
    }
    for lost in segments.lost.iter().take(MAX_LISTED) {
        output.line(format!("{} {}", styled(BAD, if is_dry { "damaged:" } else { "lost:" }), describe(lost)))?;
    }
    if segments.lost.len() > MAX_LISTED {
        output.line(format!("… and {} more; --json lists all", segments.lost.len() - MAX_LISTED))?;
    }
    if segments.unreachable > 0 {
        output.line(format!("{} in cold files that are not there now; not checked", count(segments.unreachable, "piece")))?;
    }
    if is_asked {
        output.line(format!("{} checked, {:.1} MB", count(segments.checked, "piece"), segments.bytes as f64 / 1e6))?;
    }
    Ok(())
}

/// A lost segment in one line, for a person.
fn describe(lost: &LostSegment) -> String {
    let turns = match lost.turns.as_slice() {
        [] => "no turn needs them".to_owned(),
        turns => {
            let listed: Vec<String> = turns.iter().take(MAX_LISTED).map(turn_handle).collect();
            let more = turns.len().saturating_sub(MAX_LISTED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("needed by {}{more}", listed.join(", "))
        }
    };
    let (session, bytes, start, path) = (&lost.session, lost.bytes, lost.start, lost.path.display());
    format!("{bytes} bytes from byte {start} of session {session} on, {turns} ({path})")
}

pub(super) fn as_json(done: &MaintenanceRunReport) -> Value {
    let segments = done.segments.as_ref().map(|segments| {
        let lost = segments.lost.iter().map(|lost| {
            json!({
                "session": lost.session, "path": lost.path, "start": lost.start, "bytes": lost.bytes, "cause": lost.cause,
                "turns": lost.turns.iter().map(turn_handle).collect::<Vec<_>>(),
            })
        });
        json!({
            "checked": segments.checked, "bytes": segments.bytes, "is_partial": segments.is_partial,
            "healed": segments.healed + done.compared.healed, "unreachable": segments.unreachable,
            "lost": lost.collect::<Vec<_>>(),
        })
    });
    json!({ "database": done.repairs, "segments": segments })
}

/// Bytes of a transcript on the team's server, if it has them as they were: without secrets, they are others.
pub(super) fn from_team(team: &dyn RemoteArchive, range: &SegmentUse, bytes: u32, sha256: &Sha256Digest) -> Option<Vec<u8>> {
    let (session, start, sha256) = (range.session.clone(), range.start, *sha256);
    let look_up = team.look_up(move |store| {
        let Some(session) = store.session(&session)? else { return Ok(None) };
        for transcript in store.transcripts(session.key)? {
            let mut found = Vec::new();
            let read = store.read_bytes(transcript.key, transcript.generation, (start, start + u64::from(bytes)), &mut found);
            if read.is_ok() && digest::sha256(&found) == sha256 {
                return Ok(Some(found));
            }
        }
        Ok(None)
    });
    // A server that is away has nothing; the next run asks it again.
    look_up.ok().flatten()
}
