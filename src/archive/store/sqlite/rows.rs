/*!
All rows of all tables as lines of JSON, and back, whatever the tables are.

`{"table":"entries","columns":["id",…],"rows":[[1,…],…]}`: as many lines as it takes. The type of a column decides its form: bytes
are hexadecimal digits, and a fraction is the bits of a double, so that it comes back unchanged. Tables of words are rebuilt from
their sources. Values go from the text right into the statement: an archive of 50,000 turns is half a million of them.
*/

use std::fmt;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Result, Statement, TransactionBehavior, params};
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{SqliteQueries, SqliteStore, explain};
use crate::search::tokens::{self, Tokenizer};
use crate::store::StoreError;
use ctxbridge_common::digest;

/// Size of a line, in bytes, after which another one is started.
const LINE_BYTES: usize = 256 << 10;

/// Tables of words, with their shadow tables: they are derived from other tables.
const DERIVED: [&str; 2] = ["learning_words", "snapshot_words"];

/// Note of the version of the tokenizer that filled them.
const TOKENIZER_KEY: &str = "tokenizer";

/// Kind of data in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnKind {
    Bytes,
    Fraction,
    Other,
}

impl SqliteStore {
    /// Hands over all rows, a line of JSON at a time.
    pub(in crate::store) fn write_rows(
        &mut self,
        sink: &mut dyn FnMut(&[u8]) -> std::result::Result<(), StoreError>,
    ) -> std::result::Result<(), StoreError> {
        let Self { db, path, .. } = self;
        let failed = |cause| explain(path, cause);
        for table in tables(db).map_err(failed)? {
            write_table(db, path, &table, sink)?;
        }
        Ok(())
    }

    /// Puts the rows of a line into an archive in memory that has none of them; between [`begin_rows`](Self::begin_rows) and
    /// [`end_rows`](Self::end_rows).
    pub(in crate::store) fn read_rows(&mut self, line: &[u8]) -> std::result::Result<(), serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_slice(line);
        TableRows { db: &self.db }.deserialize(&mut deserializer)?;
        deserializer.end()
    }

    /// Prepares for rows; see [`begin`].
    pub(in crate::store) fn begin_rows(&mut self) -> std::result::Result<(), StoreError> {
        self.query(begin)
    }

    /// Ends the rows; see [`end`].
    pub(in crate::store) fn end_rows(&mut self) -> std::result::Result<(), StoreError> {
        self.query(end)
    }
}

/// Prepares for all rows of another archive: triggers and foreign keys are off, since nothing is derived from them and they may refer
/// to later rows. What the tables had is deleted.
pub(super) fn begin(db: &Connection) -> Result<()> {
    db.pragma_update(None, "foreign_keys", false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.execute_batch("BEGIN")?;
    // What a new archive begins with.
    tables(db)?.iter().try_for_each(|table| db.execute(&format!("DELETE FROM {table}"), []).map(drop))
}

/// Ends the rows, and turns triggers and foreign keys on again.
pub(super) fn end(db: &Connection) -> Result<()> {
    words(db)?;
    db.execute_batch("COMMIT")?;
    restore_checks(db)
}

/// Turns triggers and foreign keys on again.
pub(super) fn restore_checks(db: &Connection) -> Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true)?;
    db.pragma_update(None, "foreign_keys", true)
}

/// Tables that hold what is in no other.
pub(super) fn tables(db: &Connection) -> Result<Vec<String>> {
    let is_derived = |name: &String| DERIVED.iter().any(|table| name.starts_with(table));
    let mut select =
        db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY rowid")?;
    let names = select.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>>>()?;
    Ok(names.into_iter().filter(|name| !is_derived(name)).collect())
}

/// Names and kinds of a table's columns.
fn columns(db: &Connection, table: &str) -> Result<Vec<(String, ColumnKind)>> {
    let mut select = db.prepare("SELECT name, type FROM pragma_table_info(?1) ORDER BY cid")?;
    select
        .query_map([table], |row| {
            let kind = match row.get_ref(1)?.as_str()? {
                "BLOB" => ColumnKind::Bytes,
                "REAL" => ColumnKind::Fraction,
                _ => ColumnKind::Other,
            };
            Ok((row.get(0)?, kind))
        })?
        .collect()
}

fn write_table(
    db: &Connection,
    path: &Path,
    table: &str,
    sink: &mut dyn FnMut(&[u8]) -> std::result::Result<(), StoreError>,
) -> std::result::Result<(), StoreError> {
    let failed = |cause| explain(path, cause);
    let columns = columns(db, table).map_err(failed)?;
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let head = format!("{{\"table\":\"{table}\",\"columns\":{},\"rows\":[", serde_json::Value::from(names.clone()));
    let sql = format!("SELECT {} FROM {table} ORDER BY 1", names.join(", "));
    let mut select = db.prepare(&sql).map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    let mut line = head.clone();
    while let Some(row) = rows.next().map_err(failed)? {
        line.push_str(if line.len() == head.len() { "[" } else { ",[" });
        for at in 0..columns.len() {
            if at > 0 {
                line.push(',');
            }
            push(&mut line, row.get_ref(at).map_err(failed)?);
        }
        line.push(']');
        if line.len() > LINE_BYTES {
            line.push_str("]}");
            sink(line.as_bytes())?;
            line.clone_from(&head);
        }
    }
    if line.len() > head.len() {
        line.push_str("]}");
        sink(line.as_bytes())?;
    }
    Ok(())
}

fn push(line: &mut String, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => line.push_str("null"),
        ValueRef::Integer(number) => line.push_str(&number.to_string()),
        ValueRef::Real(number) => line.push_str(&number.to_bits().to_string()),
        ValueRef::Text(text) => line.push_str(&serde_json::Value::from(String::from_utf8_lossy(text)).to_string()),
        ValueRef::Blob(bytes) => {
            line.push('"');
            line.push_str(&digest::hex(bytes));
            line.push('"');
        }
    }
}

impl SqliteStore {
    /// Rebuilds the tables of words if another version of the tokenizer filled them; `false` if they are up to date.
    pub fn recut_words(&mut self) -> std::result::Result<bool, StoreError> {
        let Self { db, path, .. } = self;
        let mut work = || -> Result<bool> {
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let sql = "SELECT value FROM notes WHERE key = ?1";
            let known: Option<String> = transaction.query_row(sql, [TOKENIZER_KEY], |row| row.get(0)).optional()?;
            let version = tokens::VERSION.to_string();
            if known.as_ref() == Some(&version) {
                return Ok(false);
            }
            for table in DERIVED {
                transaction.execute(&format!("INSERT INTO {table} ({table}) VALUES ('delete-all')"), [])?;
            }
            words(&transaction)?;
            transaction.execute(
                "INSERT INTO notes (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                params![TOKENIZER_KEY, version],
            )?;
            transaction.commit()?;
            Ok(true)
        };
        work().map_err(|cause| explain(path, cause))
    }
}

/// Rebuilds the tables of words, as the writers of the rows filled them.
fn words(db: &Connection) -> Result<()> {
    let tokenizer = Tokenizer::default();
    let mut insert = db.prepare("INSERT INTO learning_words (rowid, text) VALUES (?1, ?2)")?;
    let mut select = db.prepare("SELECT id, sentence FROM learnings")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        insert.execute(params![row.get::<_, i64>(0)?, tokenizer.join(row.get_ref(1)?.as_str()?)])?;
    }
    let mut insert = db.prepare("INSERT INTO snapshot_words (rowid, first, last, topics) VALUES (?1, ?2, ?3, ?4)")?;
    let mut select =
        db.prepare("SELECT id, first_message, last_message, topics FROM compactions WHERE first_message IS NOT NULL")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let topics: Vec<String> = super::columns::from_json(3, row.get_ref(3)?.as_str()?)?;
        let join = |at: usize| Ok::<_, rusqlite::Error>(tokenizer.join(row.get_ref(at)?.as_str()?));
        insert.execute(params![row.get::<_, i64>(0)?, join(1)?, join(2)?, tokenizer.join(&topics.join(" "))])?;
    }
    Ok(())
}

/// The rows of a line.
struct TableRows<'a> {
    db: &'a Connection,
}

impl<'de> DeserializeSeed<'de> for TableRows<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TableRows<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table, its columns and rows, in this order")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let table: String = field(&mut map, "table")?;
        let listed: Vec<String> = field(&mut map, "columns")?;
        // What stands in a file is compared with what there is, before it becomes a part of a statement.
        let known = tables(self.db).map_err(Error::custom)?;
        if !known.contains(&table) {
            return Err(Error::custom(format!("there is no table {table}")));
        }
        let known = columns(self.db, &table).map_err(Error::custom)?;
        let kinds: Option<Vec<ColumnKind>> =
            listed.iter().map(|name| Some(known.iter().find(|(known, _)| known == name)?.1)).collect();
        let Some(kinds) = kinds.filter(|kinds| !kinds.is_empty()) else {
            return Err(Error::custom(format!("{table} has no such columns: {}", listed.join(", "))));
        };
        let places = vec!["?"; kinds.len()].join(", ");
        let sql = format!("INSERT INTO {table} ({}) VALUES ({places})", listed.join(", "));
        let mut insert = self.db.prepare_cached(&sql).map_err(Error::custom)?;
        match map.next_key::<&str>()? {
            Some("rows") => map.next_value_seed(Each { insert: &mut insert, kinds: &kinds }),
            _ => Err(Error::missing_field("rows")),
        }
    }
}

fn field<'de, A: MapAccess<'de>, T: Deserialize<'de>>(map: &mut A, name: &'static str) -> std::result::Result<T, A::Error> {
    match map.next_key::<&str>()? {
        Some(key) if key == name => map.next_value(),
        _ => Err(Error::missing_field(name)),
    }
}

/// A list of rows.
struct Each<'a, 'db> {
    insert: &'a mut Statement<'db>,
    kinds: &'a [ColumnKind],
}

impl<'de> DeserializeSeed<'de> for Each<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Each<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> std::result::Result<(), A::Error> {
        while rows.next_element_seed(OneRow { insert: self.insert, kinds: self.kinds })?.is_some() {
            self.insert.raw_execute().map_err(Error::custom)?;
        }
        Ok(())
    }
}

/// A row, of which the values are bound one by one.
struct OneRow<'a, 'db> {
    insert: &'a mut Statement<'db>,
    kinds: &'a [ColumnKind],
}

impl<'de> DeserializeSeed<'de> for OneRow<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for OneRow<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values", self.kinds.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> std::result::Result<(), A::Error> {
        for (at, kind) in self.kinds.iter().enumerate() {
            let bound = values.next_element_seed(One { insert: self.insert, at: at + 1, kind: *kind })?;
            bound.ok_or_else(|| Error::invalid_length(at, &self))?;
        }
        match values.next_element::<serde::de::IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(Error::invalid_length(self.kinds.len() + 1, &self)),
        }
    }
}

/// A value, bound to its parameter.
struct One<'a, 'db> {
    insert: &'a mut Statement<'db>,
    at: usize,
    kind: ColumnKind,
}

impl One<'_, '_> {
    fn bind<E: Error>(self, value: impl rusqlite::ToSql) -> std::result::Result<(), E> {
        self.insert.raw_bind_parameter(self.at, value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for One<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for One<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a text or null")
    }

    fn visit_unit<E: Error>(self) -> std::result::Result<(), E> {
        self.bind(rusqlite::types::Null)
    }

    fn visit_i64<E: Error>(self, number: i64) -> std::result::Result<(), E> {
        match self.kind {
            ColumnKind::Fraction => self.bind(f64::from_bits(number.cast_unsigned())),
            _ => self.bind(number),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> std::result::Result<(), E> {
        match self.kind {
            ColumnKind::Fraction => self.bind(f64::from_bits(number)),
            _ => match i64::try_from(number) {
                Ok(number) => self.bind(number),
                Err(error) => Err(E::custom(error)),
            },
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<(), E> {
        if self.kind != ColumnKind::Bytes {
            return self.bind(text);
        }
        let mut bytes = vec![0; text.len() / 2];
        if !digest::unhex_into(text, &mut bytes) {
            return Err(E::custom("not hexadecimal digits"));
        }
        self.bind(bytes)
    }
}
