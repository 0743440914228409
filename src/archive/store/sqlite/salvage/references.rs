//! Removes rows that refer to lost ones, and makes sessions again that can be.

use std::path::Path;

use rusqlite::{Connection, Result, params};

use super::super::rows;
use crate::store::Transcript;
use ctxbridge_transcript::Interpreter;

/// A column that refers to rows of another table.
struct ForeignKey {
    table: String,
    column: String,
    parent: String,
    parent_column: String,
    is_nullable: bool,
}

/// Inserts the sessions that transcripts belong to and that were lost, with what a transcript knows of its session. Returns their keys.
pub(super) fn rebuild_sessions(db: &Connection) -> Result<Vec<i64>> {
    let mut select = db.prepare(
        "SELECT id, session, path, interpreter FROM transcripts WHERE session NOT IN (SELECT id FROM sessions) AND (agent IS NULL OR agent NOT GLOB '/*') ORDER BY agent IS NOT NULL, id",
    )?;
    let orphans = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let orphans = orphans.collect::<Result<Vec<(i64, i64, String, String)>>>()?;
    let mut rebuilt = Vec::new();
    for (transcript, key, path, interpreter) in orphans {
        if rebuilt.contains(&key) {
            continue;
        }
        let Ok(interpreter) = serde_json::from_str::<Interpreter>(&interpreter) else { continue };
        let seen = interpreter.session_metadata();
        let at = Transcript::at(Path::new(&path));
        // A file's name tells it better than its lines, which a fork has from another session.
        let is_named = at.part.agent().is_some() || path.ends_with(&format!("{}.jsonl", at.session));
        let session = if is_named { at.session } else { seen.session.clone().unwrap_or(at.session) };
        let inserted = db.execute(
            "INSERT OR IGNORE INTO sessions (id, session, folder, version, model, window, context_tokens, title, first_ms, last_ms)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, min(started_ms) FILTER (WHERE started_ms > 0), max(started_ms + took_ms)
             FROM turns WHERE transcript IN (SELECT id FROM transcripts WHERE session = ?1)",
            params![
                key,
                session,
                seen.folder,
                seen.version,
                seen.model,
                seen.window.map(u64::cast_signed),
                seen.context_tokens.map(u64::cast_signed),
                seen.title.as_ref().map(|title| &title.text),
            ],
        )?;
        if inserted > 0 {
            rebuilt.push(key);
        } else {
            // Another row has the name: it is the same session.
            db.execute(
                "UPDATE transcripts SET session = (SELECT id FROM sessions WHERE session = ?2) WHERE id = ?1",
                params![transcript, session],
            )?;
        }
    }
    Ok(rebuilt)
}

/// Removes all rows that refer to lost ones, or their references where a row can do without.
pub(super) fn remove_dangling(db: &Connection) -> Result<()> {
    // Without its dictionary a segment was removed; a row without one would say that it needs none.
    db.execute("DELETE FROM warm WHERE dictionary NOT IN (SELECT id FROM dictionaries)", [])?;
    let references = references(db)?;
    let mut is_changed = true;
    while is_changed {
        is_changed = false;
        for ForeignKey { table, column, parent, parent_column, is_nullable } in &references {
            let dangles = format!(
                "{column} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {parent} AS parent WHERE parent.{parent_column} = {table}.{column})"
            );
            let sql = match (*is_nullable, &**table, &**column) {
                // A position is one in a transcript.
                (true, "compactions", "transcript") => {
                    format!("UPDATE compactions SET transcript = NULL, start = NULL WHERE {dangles}")
                }
                (true, ..) => format!("UPDATE {table} SET {column} = NULL WHERE {dangles}"),
                (false, ..) => format!("DELETE FROM {table} WHERE {dangles}"),
            };
            is_changed |= db.execute(&sql, [])? > 0;
        }
        // Nobody is known to have said it.
        is_changed |= db.execute("DELETE FROM learnings WHERE id NOT IN (SELECT learning FROM learned)", [])? > 0;
    }
    Ok(())
}

fn references(db: &Connection) -> Result<Vec<ForeignKey>> {
    let mut found = Vec::new();
    let mut select = db.prepare(
        "SELECT list.\"from\", list.\"table\", coalesce(list.\"to\", 'rowid'), NOT info.\"notnull\" AND info.pk = 0
         FROM pragma_foreign_key_list(?1) AS list JOIN pragma_table_info(?1) AS info ON info.name = list.\"from\"",
    )?;
    for table in rows::tables(db)? {
        let listed = select.query_map([&table], |row| {
            Ok(ForeignKey {
                table: table.clone(),
                column: row.get(0)?,
                parent: row.get(1)?,
                parent_column: row.get(2)?,
                is_nullable: row.get(3)?,
            })
        })?;
        found.extend(listed.collect::<Result<Vec<_>>>()?);
    }
    Ok(found)
}

/// Replaces the log of changes by one that nobody has read, so that whatever was derived from entries is compared with all of them.
pub(super) fn renew_changes(db: &Connection) -> Result<()> {
    db.execute_batch(
        "INSERT INTO changes (entry) VALUES (0);
         DELETE FROM changes WHERE id < (SELECT max(id) FROM changes);",
    )
}
