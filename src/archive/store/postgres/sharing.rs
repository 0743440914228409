//! Who may read a session. What is known of that in each row of it is changed with it.

use super::connection::Connection;
use super::error::PostgresError;
use super::line::clean;
use super::search;
use crate::config::Visibility;

/// The tables with what belongs to a session, besides its texts.
const OF_SESSION: [&str; 9] =
    ["transcripts", "segments", "layout", "turns", "compactions", "fixes", "changed_files", "learning_progress", "learned"];

/// Shows a session to others, or to nobody any more. False where there is no such session of one's own.
pub(super) fn set_visibility(db: &mut Connection, session: i64, visibility: Visibility) -> Result<bool, PostgresError> {
    let Some(Shown { project, audience, .. }) = own(db, session)? else { return Ok(false) };
    if visibility == Visibility::Project
        && let Some(project) = &project
        && !enter(db, project)?
    {
        return Err(no_project(db, project));
    }
    share(db, session, visibility, project.as_deref(), audience.as_deref()).map(|()| true)
}

/// Says what project a session is of. False where there is no such session of one's own.
pub(super) fn set_project(db: &mut Connection, session: i64, project: &str) -> Result<bool, PostgresError> {
    let project = clean(project);
    let Some(Shown { visibility, audience, .. }) = own(db, session)? else { return Ok(false) };
    // Who is no member may have private sessions of it all the same; and what is private makes no project known.
    if visibility == Visibility::Project && !enter(db, &project)? {
        return Err(no_project(db, &project));
    }
    share(db, session, visibility, Some(&project), audience.as_deref()).map(|()| true)
}

/// The same for a session whose project is not known yet. It is written with the session's transcript, so where this user may not show it to
/// that project, it stays private, and can be written all the same; says whether that is so.
pub(super) fn place_in_project(db: &mut Connection, session: &str, project: &str) -> Result<bool, PostgresError> {
    let sql =
        "SELECT id FROM ctxbridge.sessions WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND project IS NULL";
    let Some(row) = db.first(sql, &[&session])? else { return Ok(false) };
    let (session, project) = (row.get::<i64>(0)?, clean(project));
    let Some(Shown { visibility, audience, .. }) = own(db, session)? else { return Ok(false) };
    let is_refused = visibility == Visibility::Project && !enter(db, &project)?;
    let visibility = if is_refused { Visibility::Private } else { visibility };
    share(db, session, visibility, Some(&project), audience.as_deref())?;
    Ok(is_refused)
}

/// How a session is shown.
struct Shown {
    visibility: Visibility,
    project: Option<String>,
    audience: Option<Vec<String>>,
}

/// How a session of one's own is shown. Whoever writes to it waits until this is done.
fn own(db: &mut Connection, session: i64) -> Result<Option<Shown>, PostgresError> {
    let sql = "SELECT visibility, project, audience FROM ctxbridge.sessions WHERE tenant = $1 AND id = $2 AND owner = session_user::text FOR UPDATE";
    let Some(row) = db.first(sql, &[&session])? else { return Ok(None) };
    let visibility: String = row.get(0)?;
    let unknown = || PostgresError::Unreadable { server: db.settings().server(), cause: format!("a visibility of {visibility}") };
    let visibility = Visibility::named(&visibility).ok_or_else(unknown)?;
    Ok(Some(Shown { visibility, project: row.get(1)?, audience: row.get(2)? }))
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

fn share(
    db: &mut Connection,
    session: i64,
    visibility: Visibility,
    project: Option<&str>,
    before: Option<&[String]>,
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
    // The same people see it as before.
    if audience.as_deref() == before {
        return Ok(());
    }
    for table in OF_SESSION {
        let sql = format!(
            "UPDATE ctxbridge.{table} SET audience = $3
             WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND audience IS DISTINCT FROM $3"
        );
        db.execute(&sql, &[&session, &audience])?;
    }
    db.one("SELECT ctxbridge.share_texts($1, $2)", &[&session])?;
    // What several sessions have is seen by those who may read one of them. Entry by entry, by an index: of what was just written the server has
    // no statistics, and would compare all with all.
    let entries = db.all(
        "SELECT entry FROM ctxbridge.turns WHERE tenant = $1 AND session = $2 AND owner = session_user::text
         UNION SELECT summary FROM ctxbridge.compactions
            WHERE tenant = $1 AND session = $2 AND owner = session_user::text AND summary IS NOT NULL",
        &[&session],
    )?;
    let entries: Vec<i64> = entries.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
    let changed = db.all(
        "WITH of_all AS MATERIALIZED (
            SELECT i.entry, (SELECT array_agg(DISTINCT a.name) FROM (
                    SELECT u.audience FROM ctxbridge.turns u
                    WHERE u.tenant = $1 AND u.entry = i.entry AND u.owner = session_user::text
                    UNION ALL SELECT c.audience FROM ctxbridge.compactions c
                    WHERE c.tenant = $1 AND c.summary = i.entry AND c.owner = session_user::text
                ) AS place, unnest(place.audience) AS a (name)) AS audience
            FROM unnest($2::bigint[]) AS i (entry)
         )
         UPDATE ctxbridge.entries e SET audience = of_all.audience FROM of_all
         WHERE e.tenant = $1 AND e.owner = session_user::text AND e.id = of_all.entry AND e.audience IS DISTINCT FROM of_all.audience
         RETURNING e.id",
        &[&entries],
    )?;
    let changed: Vec<i64> = changed.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?;
    search::share_vectors(db, &changed)?;
    db.execute(
        "UPDATE ctxbridge.learnings l SET audience = of_all.audience
         FROM (SELECT d.learning, array_agg(DISTINCT a.name) FILTER (WHERE a.name IS NOT NULL) AS audience
            FROM ctxbridge.learned d LEFT JOIN LATERAL unnest(d.audience) AS a (name) ON true
            WHERE d.tenant = $1 AND d.owner = session_user::text
                AND d.learning IN (SELECT learning FROM ctxbridge.learned WHERE tenant = $1 AND session = $2)
            GROUP BY d.learning) AS of_all
         WHERE l.tenant = $1 AND l.owner = session_user::text AND l.id = of_all.learning
            AND l.audience IS DISTINCT FROM of_all.audience",
        &[&session],
    )
    .map(drop)
}
