//! Who may read a session. What is known of that in each row of it is changed with it.

use super::connection::Connection;
use super::cycle;
use super::error::PostgresError;
use super::line::clean;
use ctxbridge_config::Visibility;

/// The tables with what belongs to a session alone; a function shows the others.
pub(super) const OF_SESSION: [&str; 8] =
    ["segments", "layout", "turns", "compactions", "fixes", "changed_files", "learning_progress", "learned"];

/// Enters the project of a session that is about to be shown to it. In a transaction of its own, as all that enters one: the node of a
/// distributed server that has the session sees who is a member only when that is done.
pub(super) fn enter_project_of(db: &mut Connection, session: i64) -> Result<(), PostgresError> {
    let sql = "SELECT project FROM ctxbridge.sessions
        WHERE tenant = $1 AND id = $2 AND owner = session_user::text AND project IS NOT NULL";
    match db.first(sql, &[&session])? {
        Some(row) => enter(db, &row.text(0)?),
        None => Ok(()),
    }
}

/// Enters what is about to be the project of a session, if it is shown to its project.
pub(super) fn enter_if_shown(db: &mut Connection, session: i64, project: &str) -> Result<(), PostgresError> {
    let sql = "SELECT FROM ctxbridge.sessions
        WHERE tenant = $1 AND id = $2 AND owner = session_user::text AND visibility = 'project'";
    if db.first(sql, &[&session])?.is_some() { enter(db, project) } else { Ok(()) }
}

/// Becomes a member of a project that has none yet.
pub(super) fn enter(db: &mut Connection, project: &str) -> Result<(), PostgresError> {
    db.one("SELECT ctxbridge.enter_project($1, $2)", &[&clean(project)]).map(drop)
}

/// Shows a session to others, or to nobody any more. False where there is no such session of one's own.
pub(super) fn set_visibility(db: &mut Connection, session: i64, visibility: Visibility) -> Result<bool, PostgresError> {
    cycle::lock_alone(db)?;
    let Some(Shown { project, .. }) = own(db, session)? else { return Ok(false) };
    if visibility == Visibility::Project
        && let Some(project) = &project
        && !is_member(db, project)?
    {
        return Err(no_project(db, project));
    }
    share(db, session, visibility, project.as_deref()).map(|()| true)
}

/// Says what project a session is of. False where there is no such session of one's own.
pub(super) fn set_project(db: &mut Connection, session: i64, project: &str) -> Result<bool, PostgresError> {
    let project = clean(project);
    cycle::lock_alone(db)?;
    let Some(Shown { visibility, .. }) = own(db, session)? else { return Ok(false) };
    // Who is no member may have private sessions of it all the same; and what is private makes no project known.
    if visibility == Visibility::Project && !is_member(db, &project)? {
        return Err(no_project(db, &project));
    }
    share(db, session, visibility, Some(&project)).map(|()| true)
}

/// The same for a session whose project is not known yet, if it is not shown to its project: where nobody else comes to see it, nobody has to
/// wait. Says whether it is, so that [`place_shown`] has to do it.
pub(super) fn place(db: &mut Connection, session: &str, project: &str) -> Result<bool, PostgresError> {
    let sql = "UPDATE ctxbridge.sessions SET project = $3
        WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND project IS NULL AND visibility <> 'project'";
    if db.execute(sql, &[&clean(session), &clean(project)])? > 0 {
        return Ok(false);
    }
    unplaced(db, session).map(|session| session.is_some())
}

/// The same for one that is shown to its project. It is written with the session's transcript, so where this user may not show it to that project,
/// it stays private, and can be written all the same; says whether that is so.
pub(super) fn place_shown(db: &mut Connection, session: &str, project: &str) -> Result<bool, PostgresError> {
    let project = clean(project);
    cycle::lock_alone(db)?;
    let Some(session) = unplaced(db, session)? else { return Ok(false) };
    let Some(Shown { visibility, .. }) = own(db, session)? else { return Ok(false) };
    let is_refused = visibility == Visibility::Project && !is_member(db, &project)?;
    let visibility = if is_refused { Visibility::Private } else { visibility };
    share(db, session, visibility, Some(&project))?;
    Ok(is_refused)
}

/// A session of one's own whose project is not known.
fn unplaced(db: &mut Connection, session: &str) -> Result<Option<i64>, PostgresError> {
    let sql =
        "SELECT id FROM ctxbridge.sessions WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND project IS NULL";
    db.first(sql, &[&clean(session)])?.map(|row| row.get(0)).transpose()
}

/// The project that a session of one's own is shown to, where this user is no member of it any more: nothing can be added to it there.
pub(super) fn left_project(db: &mut Connection, session: &str) -> Result<Option<String>, PostgresError> {
    let sql = "SELECT project FROM ctxbridge.sessions WHERE tenant = $1 AND session = $2 AND owner = session_user::text
        AND visibility = 'project' AND NOT ctxbridge.may_write(tenant, audience)";
    match db.first(sql, &[&clean(session)])? {
        Some(row) => row.some_text(0),
        None => Ok(None),
    }
}

/// How a session is shown.
pub(super) struct Shown {
    pub visibility: Visibility,
    pub project: Option<String>,
}

/// How a session of one's own is shown. Whoever writes to it waits until this is done.
pub(super) fn own(db: &mut Connection, session: i64) -> Result<Option<Shown>, PostgresError> {
    let sql = "SELECT visibility, project FROM ctxbridge.sessions WHERE tenant = $1 AND id = $2 AND owner = session_user::text FOR UPDATE";
    let Some(row) = db.first(sql, &[&session])? else { return Ok(None) };
    let visibility: String = row.get(0)?;
    let unknown = || PostgresError::Unreadable { server: db.settings().server(), cause: format!("a visibility of {visibility}") };
    let visibility = Visibility::named(&visibility).ok_or_else(unknown)?;
    Ok(Some(Shown { visibility, project: row.get(1)? }))
}

/// Whether this user is a member of a project, and so may show something to it.
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

/// Writes down who may read a session, in all that is of it.
pub(super) fn share(
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
    for table in OF_SESSION {
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
