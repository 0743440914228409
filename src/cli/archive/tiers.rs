//! Report on storage tiers in `ctxbridge archive optimize`.

use serde_json::{Value, json};

use crate::cli::output::{Output, count, size};
use ctxbridge_archive::maintain::Shrunk;
use ctxbridge_archive::tier::{TierMoves, TierReport};

pub(super) fn tell(moves: &TierReport, shrunk: Option<&Shrunk>, is_dry: bool, output: &mut Output) -> anyhow::Result<()> {
    let bytes = |bytes: u64| size(bytes.cast_signed());
    let sizes = |moved: &TierMoves| match is_dry {
        true => bytes(moved.before),
        false => format!("{} before, {} now", bytes(moved.before), bytes(moved.after)),
    };
    let would = |done: &str| if is_dry { format!("would be {done}") } else { done.to_owned() };
    if moves.back.sessions > 0 {
        let sessions = count(moves.back.sessions, "session");
        output.prose(2, format!("{sessions} {} from cold storage: {}", would("brought back"), sizes(&moves.back)))?;
    }
    if moves.cold.sessions > 0 {
        let sessions = count(moves.cold.sessions, "session");
        output.prose(2, format!("{sessions} {} to cold storage: {}", would("moved"), sizes(&moves.cold)))?;
    }
    if moves.warm.segments > 0 {
        let pieces = count(moves.warm.segments, "piece");
        output.prose(2, format!("{pieces} of old transcripts {}: {}", would("compressed anew"), sizes(&moves.warm)))?;
    }
    match shrunk {
        Some(Shrunk::Done { before, after }) => {
            output.prose(2, format!("the database is smaller: {} before, {} now", bytes(*before), bytes(*after)))?;
        }
        // It works as it is: what is free is filled by what comes.
        Some(Shrunk::Failed { free, error }) => {
            output.note(&format!("the database keeps {} that nothing is in: {error}", bytes(*free)));
        }
        None => {}
    }
    if moves.is_elsewhere {
        output.prose(2, "another ctxbridge is moving old sessions; nothing else was moved")?;
    }
    if moves.is_cut {
        output.prose(2, "there was no time to move all that is old; the next time goes on")?;
    }
    note_failed(moves, output);
    Ok(())
}

/// Says which sessions could not be moved.
pub(super) fn note_failed(moves: &TierReport, output: &Output) {
    for (session, error) in &moves.failed {
        let whose = session.as_ref().map_or_else(String::new, |session| {
            format!("session {} stays where it is: ", ctxbridge_archive::quote::line(session))
        });
        output.note(&format!("{whose}{error}"));
    }
}

pub(super) fn as_json(moves: &TierReport, shrunk: Option<&Shrunk>) -> Value {
    let TierReport { warm, cold, back, failed, is_cut, is_elsewhere } = moves;
    let database = match shrunk {
        Some(Shrunk::Done { before, after }) => json!({ "bytes_before": before, "bytes_after": after }),
        _ => Value::Null,
    };
    let sessions =
        |moved: &TierMoves| json!({ "sessions": moved.sessions, "bytes_before": moved.before, "bytes_after": moved.after });
    json!({
        "warm": { "segments": warm.segments, "bytes_before": warm.before, "bytes_after": warm.after },
        "cold": sessions(cold), "back": sessions(back),
        "failed": failed.iter().map(|(session, error)| json!({ "session": session, "error": error })).collect::<Vec<_>>(),
        "is_cut": is_cut, "is_elsewhere": is_elsewhere,
        "database": database,
    })
}
