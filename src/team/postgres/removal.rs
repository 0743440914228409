//! Deleting a session of this user, with everything that is stored for it alone.

use super::connection::Connection;
use super::error::PostgresError;
use super::row::escape_nul;
use super::{changes, maintenance, search, sharing};
use ctxbridge_archive::store::{RemovalReport, RetainOnRemove};
use ctxbridge_config::Visibility;

/// Deletes this user's session with this id, its bytes and the data derived from them, within one transaction. Returns a report and
/// its project; `None` where there is none. Entries that the user's other sessions share stay visible to those sessions' audience.
pub(super) fn remove_session(
    db: &mut Connection,
    id: &str,
    rest: RetainOnRemove,
    is_secret: &dyn Fn(&str) -> bool,
) -> Result<Option<(RemovalReport, Option<String>)>, PostgresError> {
    maintenance::lock_exclusive(db)?;
    let Some(session) = key(db, id)? else { return Ok(None) };
    let Some(shown) = sharing::own_sharing(db, session)? else { return Ok(None) };
    // Seen by nobody else before it goes: so what stays is shown to those who see where else it is.
    sharing::write_audience(db, session, Visibility::Private, None)?;
    let said = SessionContent::of(db, session)?;
    let mut taken =
        RemovalReport { turns: said.turns, also_in: other_sessions_with(db, session, &said.entries)?, is_hidden: false };
    for table in sharing::SESSION_TABLES {
        let sql = format!("DELETE FROM ctxbridge.{table} WHERE tenant = $1 AND session = $2 AND owner = session_user::text");
        db.execute(&sql, &[&session])?;
    }
    search::forget_all_texts(db, session)?;
    entries(db, id, &said.entries)?;
    learnings(db, &said.learnings)?;
    // What is said elsewhere, too, is learned from there again.
    reset_learning_progress(db, &taken.also_in)?;
    let sql = "DELETE FROM ctxbridge.kept WHERE tenant = $1 AND owner = session_user::text AND uuid = ANY ($2)
        AND NOT EXISTS (SELECT FROM ctxbridge.turns u WHERE u.tenant = $1 AND u.uuid = kept.uuid AND u.owner = kept.owner)";
    db.execute(sql, &[&said.uuids])?;
    let of_session = "tenant = $1 AND session = $2 AND owner = session_user::text";
    db.execute(&format!("DELETE FROM ctxbridge.transcripts WHERE {of_session}"), &[&session])?;
    match rest {
        RetainOnRemove::Nothing => {
            let sql = "DELETE FROM ctxbridge.sessions WHERE tenant = $1 AND id = $2 AND owner = session_user::text";
            db.execute(sql, &[&session])?;
        }
        RetainOnRemove::Audience => {
            let sql = "UPDATE ctxbridge.sessions SET folder = NULL, version = NULL, model = NULL, context_window = NULL,
                    context_tokens = NULL, first_ms = NULL, last_ms = NULL, ended_ms = NULL, end_reason = NULL, title = NULL
                WHERE tenant = $1 AND id = $2 AND owner = session_user::text";
            db.execute(sql, &[&session])?;
            let of_project = shown.project.as_deref().filter(|_| shown.visibility == Visibility::Project);
            let stays = match of_project {
                Some(project) => !is_secret(project) && sharing::is_member(db, project)?,
                None => shown.visibility != Visibility::Project,
            };
            taken.is_hidden = !stays;
            if stays {
                sharing::write_audience(db, session, shown.visibility, of_project)?;
            }
        }
    }
    Ok(Some((taken, shown.project)))
}

/// Other sessions of this user that share entries with the session with this id.
pub(super) fn sessions_sharing_entries(db: &mut Connection, id: &str) -> Result<Vec<String>, PostgresError> {
    let Some(session) = key(db, id)? else { return Ok(Vec::new()) };
    let said = SessionContent::of(db, session)?;
    other_sessions_with(db, session, &said.entries)
}

/// The row id of this user's session with this id.
fn key(db: &mut Connection, id: &str) -> Result<Option<i64>, PostgresError> {
    let sql = "SELECT id FROM ctxbridge.sessions WHERE tenant = $1 AND session = $2 AND owner = session_user::text";
    db.first(sql, &[&escape_nul(id)])?.map(|row| row.get(0)).transpose()
}

/// The ids of this user's sessions, including those without content.
pub(super) fn own_sessions(db: &mut Connection) -> Result<Vec<String>, PostgresError> {
    let sql = "SELECT session FROM ctxbridge.sessions WHERE tenant = $1 AND owner = session_user::text ORDER BY session";
    db.all(sql, &[])?.iter().map(|row| row.text(0)).collect()
}

/// Deletes a project whose only member is this user, and to which the user shows nothing any more.
pub(super) fn leave_project(db: &mut Connection, project: &str) -> Result<(), PostgresError> {
    db.one("SELECT ctxbridge.leave_empty_project($1, $2)", &[&project]).map(drop)
}

/// Ids of a session's content.
struct SessionContent {
    turns: u64,
    uuids: Vec<Vec<u8>>,
    /// Entries of its turns and summaries.
    entries: Vec<i64>,
    learnings: Vec<i64>,
}

impl SessionContent {
    fn of(db: &mut Connection, session: i64) -> Result<Self, PostgresError> {
        let turns =
            "SELECT uuid FROM ctxbridge.turns WHERE tenant = $1 AND session = $2 AND owner = session_user::text GROUP BY uuid";
        let entries = "SELECT entry FROM ctxbridge.turns WHERE tenant = $1 AND session = $2 AND owner = session_user::text
            UNION SELECT summary FROM ctxbridge.compactions
            WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND summary IS NOT NULL";
        let learnings = "SELECT learning FROM ctxbridge.learned
            WHERE tenant = $1 AND session = $2 AND owner = session_user::text GROUP BY learning";
        let uuids: Vec<Vec<u8>> = db.all(turns, &[&session])?.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
        let mut ids = |sql: &str| db.all(sql, &[&session])?.iter().map(|row| row.get(0)).collect::<Result<Vec<i64>, _>>();
        Ok(Self { turns: uuids.len() as u64, entries: ids(entries)?, learnings: ids(learnings)?, uuids })
    }
}

/// Other sessions of this user that have some of these entries.
fn other_sessions_with(db: &mut Connection, session: i64, entries: &[i64]) -> Result<Vec<String>, PostgresError> {
    let sql = "SELECT s.session FROM ctxbridge.sessions s
        WHERE s.tenant = $1 AND s.owner = session_user::text AND s.id <> $2 AND (
            EXISTS (SELECT FROM ctxbridge.turns u
                WHERE u.tenant = $1 AND u.session = s.id AND u.owner = s.owner AND u.entry = ANY ($3))
            OR EXISTS (SELECT FROM ctxbridge.compactions c
                WHERE c.tenant = $1 AND c.session = s.id AND c.owner = s.owner AND c.summary = ANY ($3)))
        ORDER BY s.session";
    db.all(sql, &[&session, &entries])?.iter().map(|row| row.text(0)).collect()
}

/// Deletes unreferenced entries, with the data derived from them. The others get the description of a session that stays.
fn entries(db: &mut Connection, session: &str, entries: &[i64]) -> Result<(), PostgresError> {
    let gone = db.all(
        "DELETE FROM ctxbridge.entries WHERE tenant = $1 AND owner = session_user::text AND id = ANY ($2)
         AND NOT EXISTS (SELECT FROM ctxbridge.turns u WHERE u.tenant = $1 AND u.entry = entries.id AND u.owner = entries.owner)
         AND NOT EXISTS (SELECT FROM ctxbridge.compactions c WHERE c.tenant = $1 AND c.summary = entries.id AND c.owner = entries.owner)
         RETURNING id",
        &[&entries],
    )?;
    let gone: Vec<i64> = gone.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
    search::forget_vectors(db, &gone)?;
    db.all("SELECT ctxbridge.rename_entries($1, $2, $3)", &[&escape_nul(session), &entries])?;
    changes::record_changes(db, entries)
}

/// Deletes learnings that are said nowhere any more. Learnings that they superseded hold again.
fn learnings(db: &mut Connection, learnings: &[i64]) -> Result<(), PostgresError> {
    let gone = db.all(
        "DELETE FROM ctxbridge.learnings WHERE tenant = $1 AND owner = session_user::text AND id = ANY ($2)
         AND NOT EXISTS (SELECT FROM ctxbridge.learned d WHERE d.tenant = $1 AND d.learning = learnings.id AND d.owner = learnings.owner)
         RETURNING id",
        &[&learnings],
    )?;
    let gone: Vec<i64> = gone.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
    let sql = "UPDATE ctxbridge.learnings SET superseded_by = NULL
        WHERE tenant = $1 AND owner = session_user::text AND superseded_by = ANY ($2)";
    db.execute(sql, &[&gone]).map(drop)
}

/// Resets the learning progress of sessions: a shared learning may have been recorded for the deleted session only.
fn reset_learning_progress(db: &mut Connection, sessions: &[String]) -> Result<(), PostgresError> {
    let sql = "DELETE FROM ctxbridge.learning_progress WHERE tenant = $1 AND owner = session_user::text AND session IN
        (SELECT id FROM ctxbridge.sessions WHERE tenant = $1 AND owner = session_user::text AND session = ANY ($2))";
    db.execute(sql, &[&sessions]).map(drop)
}
