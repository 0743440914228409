//! Content of the word index, and counts of words in it.

use rusqlite::{Connection, OptionalExtension};

use super::tables::{TABLES, WordTable};
use super::{Document, SearchError, SearchIndex};
use crate::search::tokens::Tokenizer;
use crate::search::word_list::behind_word;

/// Number of entries from which a word is noted as frequent: to count fewer takes some microseconds.
const MIN_FREQUENT_DOCS: i64 = 1_000;
/// Number of entries from which frequent words are noted at all.
const MIN_NOTED_COUNT: i64 = 5_000;
/// Share of entries that may come or go before words are noted anew: one in so many.
const NOTED_DRIFT_DIVISOR: i64 = 10;

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
                if let Some(docs) = self.noted_docs(table, word)? {
                    return Ok(docs);
                }
                let mut exact = self.db.prepare_cached(&format!("SELECT doc FROM {} WHERE term = ?1", table.vocabulary))?;
                Ok(exact.query_row([word], |row| row.get(0)).optional()?.unwrap_or(0))
            }
            None => {
                let sql = format!("SELECT count(*) FROM {0} WHERE {0} MATCH ?1", table.name);
                self.db.prepare_cached(&sql)?.query_row([phrase], |row| row.get(0))
            }
        }
    }

    /// Notes the words that many entries have, and how many, unless that was done when there were about as many entries. To count the
    /// entries of one takes as long as all else that a prompt's words need.
    pub(super) fn note_frequent_words(&self) -> rusqlite::Result<()> {
        let all = self.document_count()?;
        for table in TABLES {
            let noted = self.note(table.frequent)?.and_then(|noted| noted_count(&noted));
            if all < MIN_NOTED_COUNT || noted.is_some_and(|noted| (all - noted).abs() < noted / NOTED_DRIFT_DIVISOR) {
                continue;
            }
            let sql = format!("SELECT term, doc FROM {} WHERE doc >= {MIN_FREQUENT_DOCS}", table.vocabulary);
            let mut statement = self.db.prepare(&sql)?;
            let mut rows = statement.query([])?;
            let mut noted = format!("{all}\n");
            while let Some(row) = rows.next()? {
                let (term, docs): (String, i64) = (row.get(0)?, row.get(1)?);
                noted += &format!("{term} {docs}\n");
            }
            self.set_note(table.frequent, &noted)?;
        }
        Ok(())
    }

    /// Drops the notes on frequent words, some of which may be forgotten.
    pub(super) fn drop_frequent_words(&self) -> rusqlite::Result<()> {
        let mut drop = self.db.prepare_cached("DELETE FROM main.notes WHERE key = ?1")?;
        TABLES.iter().try_for_each(|table| drop.execute([table.frequent]).map(|_| ()))
    }

    /// Number of entries with a word of which it was noted, as far as there are more or fewer entries now.
    fn noted_docs(&self, table: &WordTable, word: &str) -> rusqlite::Result<Option<i64>> {
        let Some(noted) = self.note(table.frequent)? else { return Ok(None) };
        let all = self.document_count()?;
        let docs = || -> Option<i64> {
            let then = noted_count(&noted).filter(|then| (all - then).abs() < *then)?;
            let docs: i64 = behind_word(&noted, word)?.parse().ok()?;
            Some((docs.saturating_mul(all) / then).clamp(1, all.max(1)))
        };
        Ok(docs())
    }
}

/// Number of entries when words were noted.
fn noted_count(noted: &str) -> Option<i64> {
    noted.lines().next()?.parse().ok().filter(|count| *count > 0)
}
