//! Content of the word index, and counts of words in it.

use rusqlite::{Connection, OptionalExtension};

use super::tables::{TABLES, WordTable};
use super::{Document, SearchError, SearchIndex};
use crate::search::tokens::Tokenizer;

pub(super) fn add(db: &Connection, tokenizer: &Tokenizer, document: &Document) -> rusqlite::Result<()> {
    let files = document.files.join("\n");
    for table in TABLES {
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
        let places: String = (0..names.len()).map(|_| ", ?").collect();
        let sql = format!("INSERT INTO {} (rowid, {}) VALUES (?{places})", table.name, names.join(", "));
        let mut insert = db.prepare_cached(&sql)?;
        insert.raw_bind_parameter(1, document.entry)?;
        for (number, name) in names.iter().enumerate() {
            insert.raw_bind_parameter(number + 2, tokenizer.join(document.text(name, &files)))?;
        }
        insert.raw_execute()?;
    }
    Ok(())
}

impl SearchIndex {
    /// Number of entries.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn count(&self) -> Result<u64, SearchError> {
        Ok(self.wrap_error(self.document_count())?.cast_unsigned())
    }

    pub(super) fn document_count(&self) -> rusqlite::Result<i64> {
        self.db
            .prepare_cached("SELECT CAST(value AS INTEGER) FROM main.notes WHERE key = 'docs'")?
            .query_row([], |row| row.get(0))
    }

    /// Number of entries that have a phrase of an expression in a table.
    pub(super) fn count_with_phrase(&self, table: &WordTable, phrase: &str) -> rusqlite::Result<i64> {
        let word = phrase.strip_prefix('"').and_then(|phrase| phrase.strip_suffix('"')).filter(|word| !word.contains('"'));
        match word {
            // Four times as fast as to look for it.
            Some(word) => {
                let mut exact = self.db.prepare_cached(&format!("SELECT doc FROM {} WHERE term = ?1", table.vocabulary))?;
                Ok(exact.query_row([word], |row| row.get(0)).optional()?.unwrap_or(0))
            }
            None => {
                let sql = format!("SELECT count(*) FROM {0} WHERE {0} MATCH ?1", table.name);
                self.db.prepare_cached(&sql)?.query_row([phrase], |row| row.get(0))
            }
        }
    }
}
