//! Visibility of sessions. Each row of a session repeats its audience and is updated with it.
//!
//! A change of visibility takes the user's lock exclusively; the user's writers share it.

use super::connection::Connection;
use super::error::PostgresError;
use super::row::escape_nul;
use super::{PostgresStore, maintenance};
use ctxbridge_archive::store::{ProjectStore, StoreError};
use ctxbridge_config::Visibility;

/// Tables whose rows belong to one session. Shared tables are updated by SQL functions.
pub(super) const SESSION_TABLES: [&str; 8] =
    ["segments", "layout", "turns", "compactions", "fixes", "changed_files", "learning_progress", "learned"];

/// Joins the project of a session that is about to be shown to it. Joining always has a transaction
/// of its own: on a distributed server, the session's node sees the membership only after the commit.
pub(super) fn join_project_of(db: &mut Connection, session: i64) -> Result<(), PostgresError> {
    let sql = "SELECT project FROM ctxbridge.sessions
        WHERE tenant = $1 AND id = $2 AND owner = session_user::text AND project IS NOT NULL";
    match db.first(sql, &[&session])? {
        Some(row) => join_project(db, &row.text(0)?),
        None => Ok(()),
    }
}

/// Joins the project that a session is about to be assigned to, if the session is shown to its project.
pub(super) fn join_if_shown(db: &mut Connection, session: i64, project: &str) -> Result<(), PostgresError> {
    let sql = "SELECT FROM ctxbridge.sessions
        WHERE tenant = $1 AND id = $2 AND owner = session_user::text AND visibility = 'project'";
    if db.first(sql, &[&session])?.is_some() { join_project(db, project) } else { Ok(()) }
}

/// Makes this user a member of a project that has none yet.
pub(super) fn join_project(db: &mut Connection, project: &str) -> Result<(), PostgresError> {
    db.one("SELECT ctxbridge.enter_project($1, $2)", &[&escape_nul(project)]).map(drop)
}

/// Changes the visibility of a session. Returns `false` where this user has no such session.
pub(super) fn set_visibility(db: &mut Connection, session: i64, visibility: Visibility) -> Result<bool, PostgresError> {
    maintenance::lock_exclusive(db)?;
    let Some(SessionSharing { project, .. }) = own_sharing(db, session)? else { return Ok(false) };
    if visibility == Visibility::Project
        && let Some(project) = &project
        && !is_member(db, project)?
    {
        return Err(no_project(db, project));
    }
    write_audience(db, session, visibility, project.as_deref()).map(|()| true)
}

/// Assigns a session to a project. Returns `false` where this user has no such session.
pub(super) fn set_project(db: &mut Connection, session: i64, project: &str) -> Result<bool, PostgresError> {
    let project = escape_nul(project);
    maintenance::lock_exclusive(db)?;
    let Some(SessionSharing { visibility, .. }) = own_sharing(db, session)? else { return Ok(false) };
    // Who is no member may have private sessions of it all the same; and what is private makes no project known.
    if visibility == Visibility::Project && !is_member(db, &project)? {
        return Err(no_project(db, &project));
    }
    write_audience(db, session, visibility, Some(&project)).map(|()| true)
}

/// The same for a session without a project, if it is not shown to its project. Its audience does not
/// change, so no lock is needed. Returns `true` if it is shown, so that [`assign_shown`] has to do it.
pub(super) fn assign_unshown(db: &mut Connection, session: &str, project: &str) -> Result<bool, PostgresError> {
    let sql = "UPDATE ctxbridge.sessions SET project = $3
        WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND project IS NULL AND visibility <> 'project'";
    if db.execute(sql, &[&escape_nul(session), &escape_nul(project)])? > 0 {
        return Ok(false);
    }
    session_without_project(db, session).map(|session| session.is_some())
}

/// The same for a session that is shown to its project. Where this user may not show it to that project,
/// it becomes private, so that its transcript can be written all the same. Returns `true` in that case.
pub(super) fn assign_shown(db: &mut Connection, session: &str, project: &str) -> Result<bool, PostgresError> {
    let project = escape_nul(project);
    maintenance::lock_exclusive(db)?;
    let Some(session) = session_without_project(db, session)? else { return Ok(false) };
    let Some(SessionSharing { visibility, .. }) = own_sharing(db, session)? else { return Ok(false) };
    let is_refused = visibility == Visibility::Project && !is_member(db, &project)?;
    let visibility = if is_refused { Visibility::Private } else { visibility };
    write_audience(db, session, visibility, Some(&project))?;
    Ok(is_refused)
}

/// This user's session with this id, if it has no project.
fn session_without_project(db: &mut Connection, session: &str) -> Result<Option<i64>, PostgresError> {
    let sql =
        "SELECT id FROM ctxbridge.sessions WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND project IS NULL";
    db.first(sql, &[&escape_nul(session)])?.map(|row| row.get(0)).transpose()
}

/// Visibility and project of a session.
pub(super) struct SessionSharing {
    pub visibility: Visibility,
    pub project: Option<String>,
}

/// Reads and locks the visibility of this user's session. Writers to the session wait until the transaction ends.
pub(super) fn own_sharing(db: &mut Connection, session: i64) -> Result<Option<SessionSharing>, PostgresError> {
    let sql = "SELECT visibility, project FROM ctxbridge.sessions WHERE tenant = $1 AND id = $2 AND owner = session_user::text FOR UPDATE";
    let Some(row) = db.first(sql, &[&session])? else { return Ok(None) };
    let visibility: String = row.get(0)?;
    let unknown = || PostgresError::Unreadable { server: db.settings().server(), cause: format!("a visibility of {visibility}") };
    let visibility = Visibility::named(&visibility).ok_or_else(unknown)?;
    Ok(Some(SessionSharing { visibility, project: row.get(1)? }))
}

/// `true` if this user is a member of a project, and so may show sessions to it.
pub(super) fn is_member(db: &mut Connection, project: &str) -> Result<bool, PostgresError> {
    db.one("SELECT ctxbridge.may_write($1, ARRAY['project:' || $2])", &[&project])?.get(0)
}

fn no_project(db: &Connection, project: &str) -> PostgresError {
    let settings = db.settings();
    PostgresError::NoProject {
        server: settings.server(),
        tenant: settings.tenant.clone(),
        project: project.to_owned(),
        user: settings.user.clone(),
    }
}

/// Writes the audience of a session into all its rows.
pub(super) fn write_audience(
    db: &mut Connection,
    session: i64,
    visibility: Visibility,
    project: Option<&str>,
) -> Result<(), PostgresError> {
    let audience = match (visibility, project) {
        (Visibility::Team, _) => Some(vec!["team".to_owned()]),
        (Visibility::Project, Some(project)) => Some(vec![format!("project:{project}")]),
        (Visibility::Project, None) | (Visibility::Private, _) => None,
    };
    db.execute(
        "UPDATE ctxbridge.sessions SET visibility = $3, project = $4, audience = $5
         WHERE tenant = $1 AND id = $2 AND owner = session_user::text",
        &[&session, &visibility.name(), &project, &audience],
    )?;
    for table in SESSION_TABLES {
        let sql = format!(
            "UPDATE ctxbridge.{table} SET audience = $3
             WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND audience IS DISTINCT FROM $3"
        );
        db.execute(&sql, &[&session, &audience])?;
    }
    db.one("SELECT ctxbridge.share_texts($1, $2)", &[&session])?;
    // What several sessions have is seen by those who may read one of them.
    db.one("SELECT ctxbridge.share_entries($1, $2)", &[&session]).map(drop)
}

impl ProjectStore for PostgresStore {
    fn assign_project(&mut self, session: &str, project: &str) -> Result<bool, StoreError> {
        if !self.write(|db| assign_unshown(db, session, project))? {
            return Ok(false);
        }
        self.write(|db| join_project(db, project))?;
        self.write(|db| assign_shown(db, session, project))
    }

    /// The project that this user's session is shown to, if the user is no longer its member: then nothing can be added to the session.
    fn revoked_project(&mut self, session: &str) -> Result<Option<String>, StoreError> {
        self.read(|db| {
            let sql = "SELECT project FROM ctxbridge.sessions WHERE tenant = $1 AND session = $2 AND owner = session_user::text
             AND visibility = 'project' AND NOT ctxbridge.may_write(tenant, audience)";
            match db.first(sql, &[&escape_nul(session)])? {
                Some(row) => row.optional_text(0),
                None => Ok(None),
            }
        })
    }
}
