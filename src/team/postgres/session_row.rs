//! The session that something is written to, and who may read it.

use super::connection::Connection;
use super::error::PostgresError;
use super::row::escape_nul;
use ctxbridge_config::Visibility;

/// The row of a session that is written to.
#[derive(Clone, Debug)]
pub(super) struct SessionRow {
    pub id: i64,
    /// Other readers of added rows; `None` for nobody.
    pub audience: Option<Vec<String>>,
}

/// The row of a session that a hook reports. It is inserted if the transcript has not been seen yet.
pub(super) fn ensure_session(db: &mut Connection, session: &str, now_ms: i64) -> Result<SessionRow, PostgresError> {
    let (visibility, audience) = sharing_of_new(db);
    // What sets nothing makes it say its id all the same.
    let row = db.one(
        "INSERT INTO ctxbridge.sessions AS known (tenant, session, first_ms, last_ms, visibility, audience) VALUES ($1, $2, $3, $3, $4, $5)
         ON CONFLICT (tenant, owner, session) DO UPDATE SET folder = known.folder RETURNING id, audience",
        &[&escape_nul(session), &now_ms, &visibility, &audience],
    )?;
    Ok(SessionRow { id: row.get(0)?, audience: row.get(1)? })
}

/// Visibility and audience of a new session. Its project is only known later.
pub(super) fn sharing_of_new(db: &Connection) -> (&'static str, Option<Vec<String>>) {
    let visibility = db.settings().visibility;
    (visibility.name(), (visibility == Visibility::Team).then(|| vec!["team".to_owned()]))
}

/// Makes entries visible to the audience of one more session that has them.
pub(super) fn share_entries(db: &mut Connection, session: &SessionRow, entries: &[i64]) -> Result<(), PostgresError> {
    if session.audience.is_none() || entries.is_empty() {
        return Ok(());
    }
    db.one("SELECT ctxbridge.show_entries($1, $2, $3)", &[&session.id, &entries]).map(drop)
}
