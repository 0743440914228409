//! Content of the word index, and counts of words in it.

use rusqlite::{Connection, OptionalExtension, params};

use super::{Document, OWN_COLUMNS, SearchError, SearchIndex};
use crate::search::tokens::Tokenizer;

pub(super) fn add(db: &Connection, tokenizer: &Tokenizer, document: &Document) -> rusqlite::Result<()> {
    let files = document.files.join("\n");
    let [prompt, answer, input, output, files, summary, before] = document.texts(&files).map(|text| tokenizer.join(text));
    db.prepare_cached(
        "INSERT INTO words (rowid, prompt, answer, input, output, files, summary, before)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![document.entry, prompt, answer, input, output, files, summary, before])
    .map(drop)
}

impl SearchIndex {
    /// Number of entries.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn count(&self) -> Result<u64, SearchError> {
        Ok(self.wrap_error(self.document_count())?.cast_unsigned())
    }

    /// Number of entries that have a word in their own text, not only in the text before them. The word is given as the tokenizer
    /// cuts it. Counting stops at `most`, which is faster for common words.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn count_with(&self, word: &str, most: usize) -> Result<usize, SearchError> {
        let work = || -> rusqlite::Result<i64> {
            self.db
                .prepare_cached("SELECT count(*) FROM (SELECT rowid FROM words WHERE words MATCH ?1 LIMIT ?2)")?
                .query_row(params![format!("{{{}}} : \"{word}\"", OWN_COLUMNS.join(" ")), most as i64], |row| row.get(0))
        };
        Ok(self.wrap_error(work())? as usize)
    }

    pub(super) fn document_count(&self) -> rusqlite::Result<i64> {
        self.db
            .prepare_cached("SELECT CAST(value AS INTEGER) FROM main.notes WHERE key = 'docs'")?
            .query_row([], |row| row.get(0))
    }

    /// Number of entries that have a phrase of an expression.
    pub(super) fn count_with_phrase(&self, phrase: &str) -> rusqlite::Result<i64> {
        let word = phrase.strip_prefix('"').and_then(|phrase| phrase.strip_suffix('"')).filter(|word| !word.contains('"'));
        match word {
            // Four times as fast as to look for it.
            Some(word) => {
                let mut exact = self.db.prepare_cached("SELECT doc FROM vocabulary WHERE term = ?1")?;
                Ok(exact.query_row([word], |row| row.get(0)).optional()?.unwrap_or(0))
            }
            None => {
                self.db.prepare_cached("SELECT count(*) FROM words WHERE words MATCH ?1")?.query_row([phrase], |row| row.get(0))
            }
        }
    }
}
