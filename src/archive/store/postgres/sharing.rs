//! Who may read a session. What is known of that in each row of it is changed with it.

use super::connection::Connection;
use super::cycle;
use super::error::PostgresError;
use super::line::clean;
use crate::config::Visibility;

/// The tables with what belongs to a session alone; a function shows the others.
const OF_SESSION: [&str; 8] =
    ["segments", "layout", "turns", "compactions", "fixes", "changed_files", "learning_progress", "learned"];

/// Enters the project that a session is about to be shown to, in a transaction of its own: the node of a distributed server that has the session
/// sees who is a member only when that is done. `project` is what it is about to be of, if that is new.
pub(super) fn enter_before(
    db: &mut Connection,
    session: i64,
    visibility: Option<Visibility>,
    project: Option<&str>,
) -> Result<(), PostgresError> {
    let sql = "SELECT visibility, project FROM ctxbridge.sessions WHERE tenant = $1 AND id = $2 AND owner = session_user::text";
    let Some(row) = db.first(sql, &[&session])? else { return Ok(()) };
    let (now, known): (String, Option<String>) = (row.get(0)?, row.get(1)?);
    let visibility = visibility.map_or(now, |visibility| visibility.name().to_owned());
    let project = project.map(clean).or(known);
    match project.filter(|_| visibility == Visibility::Project.name()) {
        Some(project) => enter(db, &project).map(drop),
        None => Ok(()),
    }
}

/// The same for a session whose project is not known yet.
pub(super) fn enter_before_placing(db: &mut Connection, session: &str, project: &str) -> Result<(), PostgresError> {
    let sql = "SELECT FROM ctxbridge.sessions
        WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND project IS NULL AND visibility = 'project'";
    if db.first(sql, &[&clean(session)])?.is_some() {
        enter(db, &clean(project))?;
    }
    Ok(())
}

/// Shows a session to others, or to nobody any more. False where there is no such session of one's own.
pub(super) fn set_visibility(db: &mut Connection, session: i64, visibility: Visibility) -> Result<bool, PostgresError> {
    cycle::lock_alone(db)?;
    let Some(Shown { project, .. }) = own(db, session)? else { return Ok(false) };
    if visibility == Visibility::Project
        && let Some(project) = &project
        && !enter(db, project)?
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
    if visibility == Visibility::Project && !enter(db, &project)? {
        return Err(no_project(db, &project));
    }
    share(db, session, visibility, Some(&project)).map(|()| true)
}

/// The same for a session whose project is not known yet. It is written with the session's transcript, so where this user may not show it to
/// that project, it stays private, and can be written all the same; says whether that is so.
pub(super) fn place_in_project(db: &mut Connection, session: &str, project: &str) -> Result<bool, PostgresError> {
    let sql = "SELECT id, visibility FROM ctxbridge.sessions
        WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND project IS NULL";
    let Some(row) = db.first(sql, &[&clean(session)])? else { return Ok(false) };
    let (session, visibility): (i64, String) = (row.get(0)?, row.get(1)?);
    // Where nobody else comes to see it, nobody has to wait.
    if visibility != Visibility::Project.name() {
        let sql = "UPDATE ctxbridge.sessions SET project = $3
            WHERE tenant = $1 AND id = $2 AND owner = session_user::text AND project IS NULL AND visibility <> 'project'";
        if db.execute(sql, &[&session, &clean(project)])? > 0 {
            return Ok(false);
        }
    }
    let project = clean(project);
    cycle::lock_alone(db)?;
    let Some(Shown { visibility, project: None }) = own(db, session)? else { return Ok(false) };
    let is_refused = visibility == Visibility::Project && !enter(db, &project)?;
    let visibility = if is_refused { Visibility::Private } else { visibility };
    share(db, session, visibility, Some(&project))?;
    Ok(is_refused)
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
struct Shown {
    visibility: Visibility,
    project: Option<String>,
}

/// How a session of one's own is shown. Whoever writes to it waits until this is done.
fn own(db: &mut Connection, session: i64) -> Result<Option<Shown>, PostgresError> {
    let sql = "SELECT visibility, project FROM ctxbridge.sessions WHERE tenant = $1 AND id = $2 AND owner = session_user::text FOR UPDATE";
    let Some(row) = db.first(sql, &[&session])? else { return Ok(None) };
    let visibility: String = row.get(0)?;
    let unknown = || PostgresError::Unreadable { server: db.settings().server(), cause: format!("a visibility of {visibility}") };
    let visibility = Visibility::named(&visibility).ok_or_else(unknown)?;
    Ok(Some(Shown { visibility, project: row.get(1)? }))
}

/// Whether this user is a member of a project, or has become its first one.
fn enter(db: &mut Connection, project: &str) -> Result<bool, PostgresError> {
    db.one("SELECT ctxbridge.enter_project($1, $2)", &[&project])?.get(0)
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

fn share(db: &mut Connection, session: i64, visibility: Visibility, project: Option<&str>) -> Result<(), PostgresError> {
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
