//! Writes the rows that were found into the new archive.

use std::collections::HashMap;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Result, Statement};

use super::lost::LostTranscript;
use super::shapes::TableShape;
use super::walk::RowSink;

/// The new archive.
pub(super) struct NewArchive<'a> {
    db: &'a Connection,
    /// The highest rowid that each table of the old archive ever had, where it is kept.
    highest: HashMap<String, i64>,
    /// Transcripts of which only the begin of the row could be read.
    pub torn: Vec<LostTranscript>,
}

impl<'a> NewArchive<'a> {
    pub fn new(db: &'a Connection) -> Self {
        Self { db, highest: HashMap::new(), torn: Vec::new() }
    }

    /// Sets the rowids that are not given away again.
    pub fn finish(&self) -> Result<()> {
        for (table, highest) in &self.highest {
            let changed = self.db.execute("UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1", (table, highest))?;
            if changed == 0 {
                self.db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)", (table, highest))?;
            }
        }
        Ok(())
    }
}

impl RowSink for NewArchive<'_> {
    type Error = rusqlite::Error;

    fn row(&mut self, shape: &TableShape, rowid: Option<i64>, values: &[ValueRef<'_>]) -> Result<()> {
        if let ("sqlite_sequence", [ValueRef::Text(table), ValueRef::Integer(highest)]) = (&*shape.table, values) {
            // No other table of ours keeps it.
            if *table == b"dictionaries" {
                let known = self.highest.entry("dictionaries".to_owned()).or_default();
                *known = (*known).max(*highest);
            }
            return Ok(());
        }
        let mut insert = self.db.prepare_cached(&shape.insert(values.len()))?;
        bind(&mut insert, shape, rowid, values)?;
        insert.raw_execute().map(drop)
    }

    fn torn_row(&mut self, shape: &TableShape, rowid: Option<i64>, values: &[ValueRef<'_>]) {
        // Their state is the last and longest of their columns, and they are known without it.
        let ("transcripts", [_, ValueRef::Integer(session), ValueRef::Text(path), agent, ..], Some(key)) =
            (&*shape.name, values, rowid)
        else {
            return;
        };
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let agent = agent.as_str().ok().map(str::to_owned);
        let known = LostTranscript { key, path: Some(text(path)), session: Some(*session), agent, layout: Vec::new() };
        self.torn.push(known);
    }

    fn is_plausible(&mut self, query: &str, shape: &TableShape, rowid: Option<i64>, values: &[ValueRef<'_>]) -> Result<bool> {
        let mut select = self.db.prepare_cached(query)?;
        let expected = select.parameter_count();
        for (number, value) in (1..=expected).zip(shape.parameters(rowid, values)) {
            select.raw_bind_parameter(number, ToSqlOutput::Borrowed(value))?;
        }
        let mut rows = select.raw_query();
        rows.next()?.map_or(Ok(false), |row| row.get(0))
    }
}

fn bind(insert: &mut Statement<'_>, shape: &TableShape, rowid: Option<i64>, values: &[ValueRef<'_>]) -> Result<()> {
    for (number, value) in (1..).zip(shape.parameters(rowid, values)) {
        insert.raw_bind_parameter(number, ToSqlOutput::Borrowed(value))?;
    }
    Ok(())
}
