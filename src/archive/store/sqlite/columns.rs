//! Columns and SQL expressions that several queries share.

use rusqlite::types::Type;
use rusqlite::{Connection, Result, Row};
use serde::de::DeserializeOwned;

use crate::project_scope::ProjectScope;

/// SQL row source: the turns of `kept`, by the index on their handles.
pub(super) const PINNED_TURNS: &str =
    "kept CROSS JOIN turns ON substr(turns.uuid, 1, 4) = substr(kept.uuid, 1, 4) AND turns.uuid = kept.uuid AND is_kept";

/// SQL expression: `true` if a row of `turns` is pinned.
pub(super) const IS_PINNED: &str = "EXISTS (SELECT 1 FROM kept WHERE kept.uuid = turns.uuid AND is_kept)";

/// SQL expression: `true` if a row of `transcripts` was made from the archive of another tool.
pub(super) const IS_IMPORTED: &str = "transcripts.path GLOB 'claude-flow:*'";

/// SQL expression: `true` if a row of `transcripts` is a file beside a transcript, or the note of one.
pub(super) const IS_SIDE_FILE: &str = "(agent IS NOT NULL AND agent GLOB '/*')";

/// Value of `turns.superseded` for a turn that was rewound. SQL has it as `-1`.
pub(super) const REWOUND: i64 = -1;

/// Parses a JSON column.
pub(super) fn from_json<T: DeserializeOwned>(index: usize, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, error.into()))
}

pub(super) fn unsigned(row: &Row<'_>, index: usize) -> Result<u64> {
    row.get::<_, i64>(index).map(i64::cast_unsigned)
}

pub(super) fn optional(row: &Row<'_>, index: usize) -> Result<Option<u64>> {
    row.get::<_, Option<i64>>(index).map(|value| value.map(i64::cast_unsigned))
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Serializes names as JSON; `None` for an empty list.
pub(super) fn names_json(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| serde_json::Value::from(names).to_string())
}

/// The folders of a table that belong to a project, as JSON; `None` for all folders. Whether one does, SQL cannot tell.
pub(super) fn folders_in(db: &Connection, table: &str, project: Option<&ProjectScope>) -> Result<Option<String>> {
    let Some(project) = project else { return Ok(None) };
    let mut found: Vec<String> = Vec::new();
    let mut statement = db.prepare_cached(&format!("SELECT DISTINCT folder FROM {table} WHERE folder IS NOT NULL"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let folder: String = row.get(0)?;
        if project.contains(&folder) {
            found.push(folder);
        }
    }
    Ok(Some(to_json(&found)))
}
