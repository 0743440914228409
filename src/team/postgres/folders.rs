//! Folders of sessions, and sessions whose projects were moved.

use super::connection::Connection;
use super::error::PostgresError;
use super::learnings_write::{insert_learnings, insert_occurrences, learning_rows};
use super::row::{PostgresRow, escape_nul, escape_nul_in};
use super::session_row::SessionRow;
use super::{PostgresStore, maintenance};
use ctxbridge_archive::learn::{Learning, LearningBatch, LearningId, LearningKind};
use ctxbridge_archive::project::ProjectScope;
use ctxbridge_archive::store::{FolderStore, SessionMove, StoreError};

/// The folders of a table that belong to a project, as they are stored there; `None` for all folders. Only rows that this user may
/// read are looked at.
pub(super) fn folders_in(
    db: &mut Connection,
    table: &str,
    project: Option<&ProjectScope>,
) -> Result<Option<Vec<String>>, PostgresError> {
    let Some(project) = project else { return Ok(None) };
    let sql = format!("SELECT DISTINCT folder FROM ctxbridge.{table} WHERE tenant = $1 AND folder IS NOT NULL");
    let mut found = Vec::new();
    for row in &db.all(&sql, &[])? {
        if project.contains_shared(&row.text(0)?) {
            found.push(row.get(0)?);
        }
    }
    Ok(Some(found))
}

impl FolderStore for PostgresStore {
    fn move_sessions(&mut self, moves: &[SessionMove]) -> Result<(), StoreError> {
        if moves.is_empty() {
            return Ok(());
        }
        self.write(|db| {
            maintenance::lock_shared(db)?;
            moves.iter().try_for_each(|one| move_session(db, one))
        })
    }
}

fn move_session(db: &mut Connection, SessionMove { session, folder }: &SessionMove) -> Result<(), PostgresError> {
    let row = db.first(
        "SELECT id, audience, folder FROM ctxbridge.sessions
         WHERE tenant = $1 AND session = $2 AND owner = session_user::text FOR UPDATE",
        &[&escape_nul(session)],
    )?;
    let Some(row) = row else { return Ok(()) };
    let (session, before) = (SessionRow { id: row.get(0)?, audience: row.get(1)? }, row.optional_text(2)?);
    if before.as_ref() == Some(folder) {
        return Ok(());
    }
    // Where it is back, it was never away.
    db.execute(
        "UPDATE ctxbridge.sessions SET folder = $3, moved_from = nullif(coalesce(moved_from, folder), $3)
         WHERE tenant = $1 AND id = $2 AND owner = session_user::text",
        &[&session.id, &escape_nul(folder)],
    )?;
    move_learnings(db, &session, before.as_deref(), folder)
}

/// Moves what a session said to the learnings of another folder. A learning that nobody says any more in the old one is gone there.
fn move_learnings(db: &mut Connection, session: &SessionRow, from: Option<&str>, to: &str) -> Result<(), PostgresError> {
    let rows = db.all(
        "SELECT l.id, l.superseded_by, l.kind, l.sentence, l.confidence, d.at_ms, d.uuid, d.before, d.after, d.agent, d.tools
         FROM ctxbridge.learned d
         JOIN ctxbridge.learnings l ON l.tenant = d.tenant AND l.owner = d.owner AND l.id = d.learning
         WHERE d.tenant = $1 AND d.owner = session_user::text AND d.session = $2 AND l.folder IS NOT DISTINCT FROM $3",
        &[&session.id, &escape_nul_in(from)],
    )?;
    let mut batch = LearningBatch::default();
    let mut moved: Vec<(i64, Option<i64>, LearningId)> = Vec::new();
    for row in &rows {
        // A kind of a newer version has an id that this one cannot make.
        let Some(learning) = learning(row, to)? else { continue };
        moved.push((row.get(0)?, row.get(1)?, learning.id));
        batch.learnings.push(learning);
    }
    if moved.is_empty() {
        return Ok(());
    }
    let known = learning_rows(db, &batch)?;
    insert_learnings(db, session, Some(to), &batch.learnings)?;
    let keys = learning_rows(db, &batch)?;
    insert_occurrences(db, session, &batch.learnings, &keys)?;
    let old: Vec<i64> = moved.iter().map(|(old, ..)| *old).collect();
    db.execute(
        "DELETE FROM ctxbridge.learned WHERE tenant = $1 AND owner = session_user::text AND session = $2 AND learning = ANY ($3)",
        &[&session.id, &old],
    )?;
    for (old, superseded_by, id) in &moved {
        let Some(new) = keys.get(id) else { continue };
        if !known.contains_key(id) {
            db.execute(
                "UPDATE ctxbridge.learnings SET superseded_by = $3 WHERE tenant = $1 AND owner = session_user::text AND id = $2",
                &[new, superseded_by],
            )?;
        }
        let gone = db.execute(
            "DELETE FROM ctxbridge.learnings l WHERE l.tenant = $1 AND l.owner = session_user::text AND l.id = $2 AND NOT EXISTS (
                SELECT FROM ctxbridge.learned d WHERE d.tenant = $1 AND d.owner = session_user::text AND d.learning = $2)",
            &[old],
        )?;
        if gone > 0 {
            db.execute(
                "UPDATE ctxbridge.learnings SET superseded_by = nullif($3, id)
                 WHERE tenant = $1 AND owner = session_user::text AND superseded_by = $2",
                &[old, new],
            )?;
        }
    }
    // What others still say in the old folder is shown to whoever may read one of their sessions, and to nobody else.
    let others = db.all(
        "SELECT DISTINCT session FROM ctxbridge.learned WHERE tenant = $1 AND owner = session_user::text AND learning = ANY ($2)",
        &[&old],
    )?;
    for other in &others {
        db.one("SELECT ctxbridge.share_entries($1, $2)", &[&other.get::<i64>(0)?])?;
    }
    Ok(())
}

/// A learning as it would have been said in another folder; `None` if this version does not know its kind.
fn learning(row: &PostgresRow, folder: &str) -> Result<Option<Learning>, PostgresError> {
    let Some(kind) = LearningKind::named(&row.get::<String>(2)?) else { return Ok(None) };
    let sentence = row.text(3)?;
    Ok(Some(Learning {
        id: LearningId::of(kind, Some(folder), &sentence),
        kind,
        sentence,
        confidence: row.get(4)?,
        at_ms: row.get(5)?,
        turn: row.byte_array(6)?,
        before: row.text(7)?,
        after: row.text(8)?,
        agent: row.optional_text(9)?,
        tools: row.json(10)?,
    }))
}
