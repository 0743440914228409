//! Shapes of the records of our own tables, by which a record is told from others and from noise.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use super::super::{rows, schema};

/// Kind of value in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    Integer,
    Real,
    Text,
    Blob,
    Any,
}

/// A column in the order of a record.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    kind: ValueKind,
    is_nullable: bool,
    /// `true` for the key of a table with rowids: a record has NULL in its place.
    is_rowid: bool,
}

/// A b-tree of the schema: a table, or an index.
#[derive(Clone, Debug)]
pub(super) struct TableShape {
    /// Its name in the schema.
    pub name: String,
    /// The table.
    pub table: String,
    /// `true` for a table with rowids, whose pages are of another kind than those of all others.
    pub has_rowid: bool,
    /// `true` if whole rows of the table can be read from it: the table itself, or an index of all its columns.
    pub has_rows: bool,
    columns: Vec<Column>,
    /// Columns that old records have: others were added later.
    least_columns: usize,
}

/// Bytes of columns that always have as many.
const BLOB_BYTES: [(&str, usize); 4] = [("sha256", 32), ("checked", 32), ("uuid", 16), ("handle", 8)];

/// Start of each dictionary of zstd. The tables of words have records that are alike otherwise.
const DICTIONARY_MAGIC: [u8; 4] = 0xec30_a437_u32.to_le_bytes();

impl TableShape {
    /// `true` if a record can be of this b-tree.
    pub fn fits(&self, values: &[ValueRef<'_>]) -> bool {
        values.len() >= self.least_columns && self.begins(values)
    }

    /// `true` if these can be the first values of a record.
    pub fn begins(&self, values: &[ValueRef<'_>]) -> bool {
        values.len() <= self.columns.len()
            && self.columns.iter().zip(values).all(|(column, value)| column.fits(*value, &self.table))
    }

    /// The statement that adds a row of so many columns, of which [`TableShape::parameters`] are the values.
    pub fn insert(&self, columns: usize) -> String {
        let mut names: Vec<&str> = self.columns.iter().take(columns).map(|column| column.name.as_str()).collect();
        if self.has_rowid && !self.columns.iter().any(|column| column.is_rowid) {
            names.push("rowid");
        }
        let places = vec!["?"; names.len()].join(", ");
        format!("INSERT OR IGNORE INTO {} ({}) VALUES ({places})", self.table, names.join(", "))
    }

    /// The values of a row for [`TableShape::insert`].
    pub fn parameters<'a>(&'a self, rowid: Option<i64>, values: &'a [ValueRef<'a>]) -> impl Iterator<Item = ValueRef<'a>> {
        let key = ValueRef::Integer(rowid.unwrap_or_default());
        let has_key = self.columns.iter().any(|column| column.is_rowid);
        let known = self.columns.iter().zip(values).map(move |(column, value)| if column.is_rowid { key } else { *value });
        known.chain((self.has_rowid && !has_key).then_some(key))
    }

    /// The query that answers 1 for a row whose values make sense beside those of other tables, where others have records of the same
    /// shape. It has the parameters of [`TableShape::insert`].
    pub fn plausible(&self) -> Option<&'static str> {
        Some(match self.name.as_str() {
            // In older generations, of which no length is known, this tells a position from a time.
            "layout" => {
                "SELECT EXISTS (SELECT 1 FROM transcripts JOIN segments ON segments.id = ?4
                 WHERE transcripts.id = ?1 AND ?2 BETWEEN 0 AND generation AND ?3 BETWEEN 0 AND 1 << 40
                 AND (?2 < generation OR ?3 + segments.bytes <= transcripts.bytes))"
            }
            "layout_by_segment" => {
                "SELECT EXISTS (SELECT 1 FROM transcripts JOIN segments ON segments.id = ?1
                 WHERE transcripts.id = ?2 AND ?3 BETWEEN 0 AND generation AND ?4 BETWEEN 0 AND 1 << 40
                 AND (?3 < generation OR ?4 + segments.bytes <= transcripts.bytes))"
            }
            "cold" => {
                "SELECT EXISTS (SELECT 1 FROM cold_files JOIN segments ON segments.id = ?1
                 WHERE cold_files.id = ?2 AND ?3 >= 0 AND ?4 > 0 AND ?3 + ?4 <= cold_files.bytes)"
            }
            "warm" => {
                "SELECT EXISTS (SELECT 1 FROM segments WHERE id = ?1)
                 AND (?2 IS NULL OR EXISTS (SELECT 1 FROM dictionaries WHERE id = ?2))"
            }
            "decays" => "SELECT typeof(?2) = 'real'",
            _ => return None,
        })
    }
}

impl Column {
    fn fits(&self, value: ValueRef<'_>, table: &str) -> bool {
        let bytes = BLOB_BYTES.iter().find(|(name, _)| *name == self.name).map(|(_, bytes)| *bytes);
        match (value, self.kind) {
            (ValueRef::Null, _) => self.is_nullable || self.is_rowid,
            _ if self.is_rowid => false,
            (ValueRef::Integer(_), ValueKind::Integer | ValueKind::Real) | (ValueRef::Real(_), ValueKind::Real) => true,
            (ValueRef::Text(text), ValueKind::Text) => std::str::from_utf8(text).is_ok(),
            (ValueRef::Blob(blob), ValueKind::Blob) if table == "dictionaries" => blob.starts_with(&DICTIONARY_MAGIC),
            (ValueRef::Blob(blob), ValueKind::Blob) => bytes.is_none_or(|bytes| blob.len() == bytes),
            (_, kind) => kind == ValueKind::Any,
        }
    }
}

/// Shapes of all b-trees that do not derive from others: tables first.
pub(super) fn shapes(db: &Connection) -> Result<Vec<TableShape>> {
    let (mut tables, mut indexes) = (vec![sequence()], Vec::new());
    for table in rows::tables(db)? {
        let columns = columns(db, &table)?;
        let has_rowid: bool =
            db.query_row("SELECT NOT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1", [&table], |row| row.get(0))?;
        let keys = columns.iter().filter(|(_, key)| *key > 0).count();
        let mut ordered: Vec<(Column, u32)> = columns.clone();
        if has_rowid {
            for (column, key) in &mut ordered {
                column.is_rowid = keys == 1 && *key == 1 && column.kind == ValueKind::Integer;
            }
        } else {
            // The key comes first, in its own order.
            ordered.sort_by_key(|(_, key)| if *key > 0 { *key } else { u32::MAX });
        }
        let added: usize = schema::MIGRATIONS.iter().map(|sql| sql.matches(&format!("ALTER TABLE {table} ADD")).count()).sum();
        indexes.extend(indexes_of(db, &table, has_rowid, &columns)?);
        let columns: Vec<Column> = ordered.into_iter().map(|(column, _)| column).collect();
        let least_columns = columns.len().saturating_sub(added);
        tables.push(TableShape { name: table.clone(), table, has_rowid, has_rows: true, columns, least_columns });
    }
    tables.append(&mut indexes);
    Ok(tables)
}

/// The table of the highest rowids there were, which SQLite makes itself.
fn sequence() -> TableShape {
    let column = |name: &str, kind| Column { name: name.to_owned(), kind, is_nullable: false, is_rowid: false };
    let name = || "sqlite_sequence".to_owned();
    let columns = vec![column("name", ValueKind::Text), column("seq", ValueKind::Integer)];
    TableShape { name: name(), table: name(), has_rowid: true, has_rows: true, columns, least_columns: 2 }
}

/// Columns of a table as they were declared, each with its position in the key, or 0.
fn columns(db: &Connection, table: &str) -> Result<Vec<(Column, u32)>> {
    db.prepare("SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1) ORDER BY cid")?
        .query_map([table], |row| {
            let kind = match row.get_ref(1)?.as_str()? {
                "INTEGER" => ValueKind::Integer,
                "REAL" => ValueKind::Real,
                "TEXT" => ValueKind::Text,
                "BLOB" => ValueKind::Blob,
                _ => ValueKind::Any,
            };
            let key: u32 = row.get(3)?;
            let is_nullable = !row.get::<_, bool>(2)? && key == 0;
            Ok((Column { name: row.get(0)?, kind, is_nullable, is_rowid: false }, key))
        })?
        .collect()
}

/// Indexes of a table: a record has the columns of the index, and then those of the key that are missing.
fn indexes_of(db: &Connection, table: &str, has_rowid: bool, columns: &[(Column, u32)]) -> Result<Vec<TableShape>> {
    let mut list = db.prepare("SELECT name, origin, partial FROM pragma_index_list(?1)")?;
    let mut read = db.prepare("SELECT cid FROM pragma_index_xinfo(?1) ORDER BY seqno")?;
    let mut found = Vec::new();
    let mut rows = list.query([table])?;
    while let Some(row) = rows.next()? {
        let (name, origin, is_partial): (String, String, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
        // The key of a table without rowids is the table.
        if !has_rowid && origin == "pk" {
            continue;
        }
        let numbers = read.query_map([&name], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>>>()?;
        let column = |number: &i64| {
            let rowid = Column { name: "rowid".to_owned(), kind: ValueKind::Integer, is_nullable: false, is_rowid: false };
            let expression = Column { name: String::new(), kind: ValueKind::Any, is_nullable: true, is_rowid: false };
            let named = || columns.get(usize::try_from(*number).ok()?).map(|(column, _)| column.clone());
            if *number == -1 { rowid } else { named().unwrap_or(expression) }
        };
        let is_whole = (0_i64..).zip(columns).all(|(number, _)| numbers.contains(&number));
        let columns: Vec<Column> = numbers.iter().map(column).collect();
        found.push(TableShape {
            name,
            table: table.to_owned(),
            has_rowid: false,
            has_rows: is_whole && !has_rowid && !is_partial,
            least_columns: columns.len(),
            columns,
        });
    }
    Ok(found)
}
