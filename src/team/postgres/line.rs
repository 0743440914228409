//! A row that was read, and what its columns mean.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSqlOwned;

use super::error::PostgresError;
use super::settings::Settings;

/// A row.
pub(super) struct Line {
    pub(super) row: Row,
    pub(super) settings: Arc<Settings>,
}

impl Line {
    /// A column.
    pub fn get<T: FromSqlOwned>(&self, column: usize) -> Result<T, PostgresError> {
        self.row.try_get(column).map_err(|error| PostgresError::of_statement(&self.settings, &error))
    }

    /// A text, as it was when it came.
    pub fn text(&self, column: usize) -> Result<String, PostgresError> {
        self.get(column).map(restored)
    }

    /// The same, where there may be none.
    pub fn some_text(&self, column: usize) -> Result<Option<String>, PostgresError> {
        Ok(self.get::<Option<String>>(column)?.map(restored))
    }

    /// A number that is never negative.
    pub fn unsigned(&self, column: usize) -> Result<u64, PostgresError> {
        self.get::<i64>(column).map(i64::cast_unsigned)
    }

    /// The same, where there may be none.
    pub fn optional(&self, column: usize) -> Result<Option<u64>, PostgresError> {
        self.get::<Option<i64>>(column).map(|value| value.map(i64::cast_unsigned))
    }

    /// A small number that is never negative.
    pub fn small(&self, column: usize) -> Result<u32, PostgresError> {
        self.get::<i32>(column).map(i32::cast_unsigned)
    }

    /// So many bytes.
    pub fn bytes<const N: usize>(&self, column: usize) -> Result<[u8; N], PostgresError> {
        let bytes: Vec<u8> = self.get(column)?;
        <[u8; N]>::try_from(bytes).map_err(|bytes| self.unreadable(format!("{} bytes instead of {N}", bytes.len())))
    }

    /// What a column holds as JSON.
    pub fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T, PostgresError> {
        let text: String = self.get(column)?;
        serde_json::from_str(&text).map_err(|error| self.unreadable(error.to_string()))
    }

    /// Names as JSON; none of them is nothing.
    pub fn names(&self, column: usize) -> Result<Vec<String>, PostgresError> {
        let text: Option<String> = self.get(column)?;
        let names = text.map(|text| serde_json::from_str(&text)).transpose();
        names.map(Option::unwrap_or_default).map_err(|error| self.unreadable(error.to_string()))
    }

    fn unreadable(&self, cause: String) -> PostgresError {
        PostgresError::Unreadable { server: self.settings.server(), cause }
    }
}

/// Stands before what the server does not take: a character that means nothing, in no writing.
const ESCAPE: char = '\u{10fffe}';

/// Text as the server takes it: it has no character 0, which stands there as another one with a `0` behind it.
pub(super) fn clean(text: &str) -> String {
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

/// Text as it was before [`clean`].
fn restored(text: String) -> String {
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

/// Text as the server takes it, where there is some.
pub(super) fn cleaned(text: Option<&str>) -> Option<String> {
    text.map(clean)
}

/// Names as JSON, which has its own way to write that character; none of them is nothing.
pub(super) fn list(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| serde_json::Value::from(names).to_string())
}

/// A number of rows.
pub(super) fn limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A number as the server counts; what is larger than any is the largest.
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_comes_back(text in "[a0\u{0}\u{10fffe}é]{0,12}") {
            prop_assert!(!clean(&text).contains('\0'));
            prop_assert_eq!(restored(clean(&text)), text);
        }
    }
}
