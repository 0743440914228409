/*!
Bun's module graph: the contents of the `.bun` section of an executable.

```text
u64 length                    of the blob that follows; all numbers are little-endian
blob: data                    names, contents, bytecode, the module table, arguments, in any order
      Offsets (32 bytes)      u64 byte_count (of data), u32 table, u32 table_length, u32 entry_point, u32 argv, u32 argv_length, u32 flags
      "\n---- Bun! ----\n"
```

The table has an entry for each module: pairs of `u32 offset, u32 length` into the blob (name, contents, source map, bytecode, and
in entries of 52 bytes also module info and the path that the bytecode was made from), then four bytes: encoding (0 binary, 1
Latin-1, 2 UTF-8), loader (1 JavaScript), format (1 ES module, 2 CommonJS) and side. Contents and names end in a NUL that their
lengths leave out. Ranges of bytecode may be shared and may overlap. Offsets, as read off releases 2.1.110 to 2.1.330; Bun's own
description is `StandaloneModuleGraph` in its source.

Since 2.1.246 more data follows the table, up to the arguments: a hash of each module's source, and offsets of string tables in the
bytecode. Its layout differs from release to release, so it is left as it is. That is right as long as nothing it points to moves.

A module is edited in place. The parts after it move by whole pages, so that nothing loses its alignment, and every offset that
points there moves with them. Everything in between, understood or not, stays as it is.
*/

use std::ops::Range;

use super::LayoutError;
use crate::container::PiecewiseFile;

#[cfg(test)]
mod tests;

const TRAILER: &[u8] = b"\n---- Bun! ----\n";
const OFFSETS: usize = 32;
/// Unit by which parts move. It is a multiple of the largest alignment that Bun requires in the blob, and of the block size of file
/// systems that can share ranges of files.
const PAGE: usize = 4096;

/// A range of the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobSpan {
    pub offset: u32,
    pub length: u32,
}

impl BlobSpan {
    pub fn range(self) -> Range<usize> {
        self.offset as usize..self.offset as usize + self.length as usize
    }

    fn overlaps(self, other: &Range<usize>) -> bool {
        self.length > 0 && self.range().start < other.end && other.start < self.range().end
    }
}

/// A module's entry in the table.
#[derive(Clone, Debug)]
pub struct GraphEntry {
    /// Name, contents, source map, bytecode, and the additions of newer versions.
    spans: Vec<BlobSpan>,
    /// Encoding of the contents: 0 binary, 1 Latin-1, 2 UTF-8.
    pub encoding: u8,
    /// Loader that Bun uses: 1 is JavaScript.
    pub loader: u8,
    /// 1 ES module, 2 CommonJS.
    pub format: u8,
    /// For a server or for a browser.
    pub side: u8,
}

const NAME: usize = 0;
const CONTENTS: usize = 1;
const BYTECODE: usize = 3;
const MODULE_INFO: usize = 4;

impl GraphEntry {
    pub fn name(&self) -> Range<usize> {
        self.spans[NAME].range()
    }

    pub fn contents(&self) -> Range<usize> {
        self.spans[CONTENTS].range()
    }

    /// The range of a field, if it is not empty.
    fn span(&self, field: usize) -> Option<BlobSpan> {
        self.spans.get(field).copied().filter(|span| span.length > 0)
    }

    /// All ranges of the entry, each with `true` if it stays when the module is edited.
    pub fn spans(&self) -> impl Iterator<Item = (BlobSpan, bool)> {
        self.spans.iter().enumerate().map(|(field, span)| (*span, ![CONTENTS, BYTECODE, MODULE_INFO].contains(&field)))
    }
}

/// The graph of one executable. All positions count from the start of the blob.
#[derive(Clone, Debug)]
pub struct Graph {
    pub entries: Vec<GraphEntry>,
    /// The index of the module that runs first.
    pub entry_point: usize,
    /// Flags, kept as they are.
    pub flags: u32,
    blob_length: usize,
    byte_count: usize,
    table: BlobSpan,
    entry_size: usize,
    argv: BlobSpan,
    /// `true` if unknown data follows the table.
    appendix: bool,
}

/// New contents of a module.
#[derive(Clone, Debug)]
pub struct ModuleEdit {
    /// The module's index in the table.
    pub index: usize,
    /// Its whole contents.
    pub contents: Vec<u8>,
}

impl Graph {
    /// Reads the graph in a section: its length, the blob, and data that may follow.
    pub fn parse(section: &[u8]) -> Result<Self, LayoutError> {
        let refuse = |what: &str| Err(LayoutError::new(format!("the module graph {what}")));
        let Some((head, rest)) = section.split_first_chunk::<8>() else { return refuse("is missing: the section is empty") };
        let length = usize::try_from(u64::from_le_bytes(*head)).unwrap_or(usize::MAX);
        let Some(blob) = rest.get(..length) else { return refuse("is longer than its section") };
        let Some(body) = blob.strip_suffix(TRAILER) else { return refuse("does not end in Bun's trailer") };
        let Some((data, offsets)) = body.split_last_chunk::<OFFSETS>() else { return refuse("is too short") };
        let u32_at = |at: usize| u32_at(offsets, at);
        let byte_count = usize::try_from(u64_at(offsets, 0)).unwrap_or(usize::MAX);
        if byte_count != data.len() {
            return refuse("counts other bytes than it has");
        }
        let (table, argv) =
            (BlobSpan { offset: u32_at(8), length: u32_at(12) }, BlobSpan { offset: u32_at(20), length: u32_at(24) });
        if data.get(argv.range()).is_none() {
            return refuse("has arguments outside of itself");
        }
        let Some(rows) = data.get(table.range()) else { return refuse("has a module table outside of itself") };
        for entry_size in [52, 36] {
            if let Some(entries) = entries(data, rows, entry_size) {
                let entry_point = u32_at(16) as usize;
                if entry_point >= entries.len() {
                    return refuse("starts with a module that it does not have");
                }
                // The table is written again when a module is edited.
                let spans = entries.iter().flat_map(|entry| &entry.spans);
                if spans.chain([&argv]).any(|span| span.overlaps(&table.range())) {
                    return refuse("has something else in its module table");
                }
                // Wherever the arguments are, which may be none.
                let behind = |at: &usize| !argv.range().contains(at) && data[*at] != 0;
                let appendix = (table.range().end..data.len()).any(|at| behind(&at));
                let flags = u32_at(28);
                return Ok(Self {
                    entries,
                    entry_point,
                    flags,
                    blob_length: length,
                    byte_count,
                    table,
                    entry_size,
                    argv,
                    appendix,
                });
            }
        }
        refuse("has a module table in a form that ctxbridge does not know")
    }

    /// The section with these modules changed. The result replaces its used part, `8 + blob` bytes. Longer contents move the parts
    /// after them by whole pages.
    ///
    /// The modules lose their bytecode, which belongs to the old code, and their module info. The bytes of both stay where they
    /// are, since other modules may share them.
    pub fn edit(&self, section: &[u8], mut edits: Vec<ModuleEdit>) -> Result<PiecewiseFile, LayoutError> {
        edits.sort_by_key(|edit| self.entries[edit.index].contents().start);
        // Where old contents end, and how far everything from there on has moved.
        let mut moves: Vec<(usize, usize)> = Vec::new();
        let mut blob = PiecewiseFile::default();
        let mut done = 0;
        let mut moved = 0;
        for edit in &edits {
            let old = self.entries[edit.index].contents();
            // The NUL after the contents belongs to them.
            let end = old.end + 1;
            if old.start < done {
                return Err(LayoutError::new("two modules that are to be edited share their contents".to_owned()));
            }
            self.refuse_shared(section, edit.index)?;
            let loaded = [BYTECODE, MODULE_INFO].into_iter();
            let behind = |entry: &GraphEntry| {
                loaded.clone().any(|field| entry.span(field).is_some_and(|span| span.offset as usize >= end))
            };
            if self.appendix && self.entries.iter().any(behind) {
                return Err(LayoutError::new(
                    "bytecode behind the module to be edited may be pointed to from where is not known".to_owned(),
                ));
            }
            blob.keep(8 + done..8 + old.start);
            let grown = (edit.contents.len() + 1).saturating_sub(old.len() + 1).next_multiple_of(PAGE);
            let mut contents = edit.contents.clone();
            contents.resize(end - old.start + grown, 0);
            blob.insert(contents);
            moved += grown;
            moves.push((end, moved));
            done = end;
        }
        blob.keep(8 + done..8 + self.blob_length);
        let shift = |offset: u32| {
            let moved = moves.iter().rev().find(|(end, _)| offset as usize >= *end).map_or(0, |(_, moved)| *moved);
            u32::try_from(offset as usize + moved)
                .map_err(|_| LayoutError::new("the module graph would be larger than 4 GiB".to_owned()))
        };
        let mut rows = section[8..][self.table.range()].to_vec();
        for (index, (row, entry)) in rows.chunks_exact_mut(self.entry_size).zip(&self.entries).enumerate() {
            let edit = edits.iter().find(|edit| edit.index == index);
            for (field, (bytes, span)) in row.chunks_exact_mut(8).zip(&entry.spans).enumerate() {
                let (offset, length) = match edit {
                    Some(edit) if field == CONTENTS => (shift(span.offset)?, edit.contents.len() as u32),
                    Some(_) if field == BYTECODE || field == MODULE_INFO => (0, 0),
                    _ => (shift(span.offset)?, span.length),
                };
                bytes[..4].copy_from_slice(&offset.to_le_bytes());
                bytes[4..].copy_from_slice(&length.to_le_bytes());
            }
        }
        let table = shift(self.table.offset)?;
        blob.overwrite(table as usize, &rows);
        let byte_count = self.byte_count + moved;
        blob.overwrite(byte_count, &(byte_count as u64).to_le_bytes());
        blob.overwrite(byte_count + 8, &table.to_le_bytes());
        blob.overwrite(byte_count + 20, &shift(self.argv.offset)?.to_le_bytes());
        let mut section = PiecewiseFile::default();
        section.insert((blob.len() as u64).to_le_bytes());
        section.append(blob);
        Ok(section)
    }

    /// Refuses to move bytes that something else points into.
    fn refuse_shared(&self, section: &[u8], index: usize) -> Result<(), LayoutError> {
        let own = self.entries[index].contents();
        let own = own.start..own.end + 1;
        for (other, entry) in self.entries.iter().enumerate() {
            for (field, span) in entry.spans.iter().enumerate() {
                // The NUL after a text belongs to it, and may be all there is of it.
                let is_text = field == NAME || (field == CONTENTS && entry.encoding != 0);
                let span = BlobSpan { length: span.length + u32::from(is_text), ..*span };
                let goes = other == index && [CONTENTS, BYTECODE, MODULE_INFO].contains(&field);
                if !goes && span.overlaps(&own) {
                    let name = String::from_utf8_lossy(&section[8..][entry.name()]).into_owned();
                    return Err(LayoutError::new(format!("the contents of a module to be edited are part of `{name}`, too")));
                }
            }
        }
        if self.table.overlaps(&own) || self.argv.overlaps(&own) {
            return Err(LayoutError::new("the contents of a module to be edited overlap the module table".to_owned()));
        }
        Ok(())
    }

    /// The arguments that were built into the program.
    pub fn argv(&self) -> Range<usize> {
        self.argv.range()
    }

    /// Number of bytes of the section that the graph uses.
    pub fn used(&self) -> usize {
        8 + self.blob_length
    }
}

/// The entries of a table, if it can be read with entries of this size.
fn entries(data: &[u8], rows: &[u8], entry_size: usize) -> Option<Vec<GraphEntry>> {
    if rows.is_empty() || !rows.len().is_multiple_of(entry_size) {
        return None;
    }
    rows.chunks_exact(entry_size).map(|row| entry(data, row)).collect()
}

fn entry(data: &[u8], row: &[u8]) -> Option<GraphEntry> {
    let (spans, kinds) = row.split_last_chunk::<4>()?;
    let spans: Vec<BlobSpan> =
        spans.chunks_exact(8).map(|pair| BlobSpan { offset: u32_at(pair, 0), length: u32_at(pair, 4) }).collect();
    let [encoding, loader, format, side] = *kinds;
    let inside = spans.iter().all(|span| data.get(span.range()).is_some());
    let entry = GraphEntry { spans, encoding, loader, format, side };
    let name = data.get(entry.name()).filter(|name| !name.is_empty() && std::str::from_utf8(name).is_ok());
    // Text ends in a NUL; the byte is there, since the table comes after it.
    let terminated = |range: Range<usize>| data.get(range.end) == Some(&0);
    let sound = inside && name.is_some() && terminated(entry.name()) && encoding <= 2 && format <= 2;
    (sound && (encoding == 0 || terminated(entry.contents()))).then_some(entry)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
