//! Parts of transcripts that left the conversation, or came back.

use super::connection::Connection;
use super::error::PostgresError;
use super::maintenance;
use ctxbridge_archive::store::Batch;

/// Applies the changes of a batch to its turns, to the compactions between them, and to what was learned from them.
pub(super) fn apply(db: &mut Connection, session: i64, transcript: i64, batch: &Batch) -> Result<(), PostgresError> {
    for (shortened, rest) in batch.split_turns() {
        let (from, to) = (&shortened.id[..], &rest.id[..]);
        // What was learned behind the cut belongs to the new turn.
        let moved = "tenant = $1 AND session = $2 AND owner = session_user::text AND uuid = $3 AND at_ms >= $4";
        db.execute(
            &format!(
                "DELETE FROM ctxbridge.learned l WHERE {moved} AND EXISTS (SELECT FROM ctxbridge.learned n
                    WHERE n.tenant = $1 AND n.owner = l.owner AND n.learning = l.learning AND n.uuid = $5)"
            ),
            &[&session, &from, &rest.started_ms, &to],
        )?;
        db.execute(&format!("UPDATE ctxbridge.learned SET uuid = $5 WHERE {moved}"), &[&session, &from, &rest.started_ms, &to])?;
    }
    for change in &batch.path_changes {
        let (start, end) = (change.start.cast_signed(), change.end.cast_signed());
        let of_part =
            "tenant = $1 AND session = $2 AND owner = session_user::text AND transcript = $3 AND start >= $4 AND start < $5";
        let (state, before) = if change.is_rewound { ("-1", "IS NULL") } else { ("NULL", "= -1") };
        let changed = db.all(
            &format!(
                "UPDATE ctxbridge.turns SET superseded = {state} WHERE {of_part} AND superseded {before} RETURNING uuid, started_ms"
            ),
            &[&session, &transcript, &start, &end],
        )?;
        db.execute(
            &format!("UPDATE ctxbridge.compactions SET is_rewound = $6 WHERE {of_part}"),
            &[&session, &transcript, &start, &end, &change.is_rewound],
        )?;
        let turns: Vec<Vec<u8>> = changed.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
        db.execute(
            "UPDATE ctxbridge.learned SET is_rewound = $4
             WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND uuid = ANY ($3)",
            &[&session, &turns, &change.is_rewound],
        )?;
        let begins: Vec<i64> = changed.iter().map(|row| row.get(1)).collect::<Result<_, _>>()?;
        if let (Some(first_ms), false) = (begins.into_iter().min(), change.is_rewound) {
            maintenance::hot_turns(db, transcript, first_ms)?;
        }
    }
    Ok(())
}
