//! A row of a result, and conversions of its columns.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSqlOwned;

use super::error::PostgresError;
use super::settings::ConnectionSettings;

/// A row of a result.
pub(super) struct PostgresRow {
    pub(super) row: Row,
    pub(super) settings: Arc<ConnectionSettings>,
}

impl PostgresRow {
    /// The value of a column.
    pub fn get<T: FromSqlOwned>(&self, column: usize) -> Result<T, PostgresError> {
        self.row.try_get(column).map_err(|error| PostgresError::of_statement(&self.settings, &error))
    }

    /// A text, unescaped.
    pub fn text(&self, column: usize) -> Result<String, PostgresError> {
        self.get(column).map(unescape_nul)
    }

    /// The same for a column that may be null.
    pub fn optional_text(&self, column: usize) -> Result<Option<String>, PostgresError> {
        Ok(self.get::<Option<String>>(column)?.map(unescape_nul))
    }

    /// A number that is never negative.
    pub fn unsigned(&self, column: usize) -> Result<u64, PostgresError> {
        self.get::<i64>(column).map(i64::cast_unsigned)
    }

    /// The same for a column that may be null.
    pub fn optional_unsigned(&self, column: usize) -> Result<Option<u64>, PostgresError> {
        self.get::<Option<i64>>(column).map(|value| value.map(i64::cast_unsigned))
    }

    /// A small number that is never negative.
    pub fn unsigned_32(&self, column: usize) -> Result<u32, PostgresError> {
        self.get::<i32>(column).map(i32::cast_unsigned)
    }

    /// Exactly `N` bytes.
    pub fn byte_array<const N: usize>(&self, column: usize) -> Result<[u8; N], PostgresError> {
        let bytes: Vec<u8> = self.get(column)?;
        <[u8; N]>::try_from(bytes).map_err(|bytes| self.unreadable(format!("{} bytes instead of {N}", bytes.len())))
    }

    /// A value that is stored as JSON.
    pub fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T, PostgresError> {
        let text: String = self.get(column)?;
        serde_json::from_str(&text).map_err(|error| self.unreadable(error.to_string()))
    }

    /// Names that are stored as JSON; null is an empty list.
    pub fn names(&self, column: usize) -> Result<Vec<String>, PostgresError> {
        let text: Option<String> = self.get(column)?;
        let names = text.map(|text| serde_json::from_str(&text)).transpose();
        names.map(Option::unwrap_or_default).map_err(|error| self.unreadable(error.to_string()))
    }

    fn unreadable(&self, cause: String) -> PostgresError {
        PostgresError::Unreadable { server: self.settings.server(), cause }
    }
}

/// Escape for the character that the server refuses: a noncharacter of Unicode.
const ESCAPE: char = '\u{10fffe}';

/// Escapes a text for the server, which refuses the character 0: it becomes the escape followed by `0`.
pub(super) fn escape_nul(text: &str) -> String {
    if !text.contains(['\0', ESCAPE]) {
        return text.to_owned();
    }
    let mut clean = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => clean.extend([ESCAPE, '0']),
            ESCAPE => clean.extend([ESCAPE, ESCAPE]),
            other => clean.push(other),
        }
    }
    clean
}

/// Reverses [`escape_nul`].
fn unescape_nul(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    let mut restored = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            // What was cut off behind it is not there to be said.
            ESCAPE => restored.extend(characters.next().map(|next| if next == '0' { '\0' } else { next })),
            other => restored.push(other),
        }
    }
    restored
}

/// Escapes an optional text.
pub(super) fn escape_nul_in(text: Option<&str>) -> Option<String> {
    text.map(escape_nul)
}

/// Names as JSON, which has its own escape for the character 0. An empty list is null.
pub(super) fn names_to_json(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| serde_json::Value::from(names).to_string())
}

/// A `LIMIT` for a query.
pub(super) fn row_limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Converts a number to `i64`, at most `i64::MAX`.
pub(super) fn saturating_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_comes_back(text in "[a0\u{0}\u{10fffe}é]{0,12}") {
            prop_assert!(!escape_nul(&text).contains('\0'));
            prop_assert_eq!(unescape_nul(escape_nul(&text)), text);
        }
    }
}
