//! Checks values where only the checksum of a page does not fit: SQLite checks structures, and not what texts say.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use super::{SqliteQueries, SqliteStore, rows};
use crate::store::StoreError;
use ctxbridge_transcript::Interpreter;

/// Columns with JSON.
const JSON_COLUMNS: [(&str, &str); 10] = [
    ("entries", "tools"),
    ("entries", "files"),
    ("turns", "agents"),
    ("turns", "open_work"),
    ("compactions", "topics"),
    ("learned", "tools"),
    ("fixes", "changed"),
    ("changed_files", "files"),
    ("folders", "root_commits"),
    ("learning_progress", "watcher"),
];

impl SqliteStore {
    /// `true` if all texts are texts, all JSON is JSON, and the state of each transcript can be read.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn texts_make_sense(&mut self) -> std::result::Result<bool, StoreError> {
        self.query(|db| Ok(texts_are_text(db)? && json_is_json(db)? && states_can_be_read(db)?))
    }
}

fn texts_are_text(db: &Connection) -> Result<bool> {
    for table in rows::tables(db)? {
        // The name is one of our own schema.
        let mut select = db.prepare(&format!("SELECT * FROM {table}"))?;
        let columns = select.column_count();
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                if let ValueRef::Text(text) = row.get_ref(column)?
                    && std::str::from_utf8(text).is_err()
                {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

fn json_is_json(db: &Connection) -> Result<bool> {
    for (table, column) in JSON_COLUMNS {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE {column} IS NOT NULL AND NOT json_valid({column}))");
        if db.query_row(&sql, [], |row| row.get(0))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn states_can_be_read(db: &Connection) -> Result<bool> {
    let mut select = db.prepare("SELECT interpreter FROM transcripts")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        if serde_json::from_slice::<Interpreter>(row.get_ref(0)?.as_bytes()?).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}
