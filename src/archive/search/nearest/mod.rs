/*!
The nearest of many vectors: a file beside the index in which little has to be looked at.

Vectors are divided into lists, each around a centre. A search looks at the lists whose centres are nearest to the query, estimates
cosines from a bit a dimension (`codes`), and computes those of the best estimates from the vectors themselves. Where a filter lets
little through, all of that is compared, and the result exact.

The file is a cache: it is written whole, of what is in the database, and whatever is wrong with it is [`Unusable`]. Vectors that came
later have higher ids than [`Nearest::last`] and are looked for elsewhere. Why not HNSW, and what was measured, is in
`docs/nearest.md`.
*/

mod best;
mod codes;
mod file;
mod lists;
mod row;
#[cfg(test)]
mod tests;
mod write;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub use row::Row;
pub use write::WriteError;

use super::dot;
use super::vectors::Quantized;
use best::Best;
use codes::{LANES, Planes, code_bytes};
use file::{LINE, PAGE, Reader, Tables, take};

/// Vectors up to which all can be compared, so that no file is needed: reading so many from the database takes 5 to 10 ms, most of a
/// search's time.
pub const FEW: usize = 5_000;

/// Entries that a filter lets through up to which all of them are compared.
const EXACT: usize = 4_000;
/// Lists that are looked at at least, where there are so many.
const LEAST_LISTS: usize = 128;
/// Vectors of which the cosine is computed, at least.
const RESCORED: usize = 300;
/// Rows between two that are wanted up to which both are read at once.
const GAP: usize = 8;
/// Rows that are read at once at most.
const RUN: usize = 128;

/// What the vectors of a file are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The model that made them.
    pub model: String,
    /// How many numbers a vector has.
    pub dimensions: usize,
    /// The database that they were read from.
    pub of: [u8; 16],
}

/// A file that is not to be used, and can be removed: it is damaged, or not what is wanted.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}: {why}")]
pub struct Unusable {
    path: PathBuf,
    why: String,
}

impl Unusable {
    fn new(path: &Path, why: impl Into<String>) -> Self {
        Self { path: path.to_owned(), why: why.into() }
    }
}

/// How hard a search looks.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Lists that are looked at.
    pub lists: usize,
    /// Vectors of which the cosine is computed.
    pub rescored: usize,
}

/// A vector that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// Its id.
    pub id: i64,
    /// The entry that it is a passage of.
    pub entry: i64,
    /// The cosine between it and the query.
    pub cosine: f32,
}

/// An open file.
#[derive(Debug)]
pub struct Nearest {
    reader: Reader,
    tables: Tables,
}

impl Nearest {
    /// Writes a file of all these vectors, in whatever order they come, and puts it in the place of the one before, which those who
    /// have it open go on reading. Returns how many there were.
    ///
    /// # Errors
    /// When the vectors cannot be read, the file cannot be written, or another process is writing it. The one before is then still
    /// there.
    pub fn write<E>(
        path: &Path,
        identity: &Identity,
        rows: impl Iterator<Item = Result<Row, E>>,
    ) -> Result<usize, WriteError<E>> {
        write::write(path, identity, rows)
    }

    /// Opens a file; nothing when there is none.
    ///
    /// # Errors
    /// When it is of something else, or is damaged as far as that can be seen without reading all of it.
    pub fn open(path: &Path, identity: &Identity) -> Result<Option<Self>, Unusable> {
        Ok(Reader::open(path, identity)?.map(|(reader, tables)| Self { reader, tables }))
    }

    /// How many vectors are in it.
    pub fn len(&self) -> usize {
        self.reader.layout.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The highest id of its vectors: those with higher ones are newer than the file.
    pub fn last(&self) -> i64 {
        self.reader.layout.last
    }

    /// The vectors nearest to a query, the nearest first; where `allowed` is given, of these entries only. An entry comes once for
    /// each of its passages, and some may have been deleted since, so ask for more than is needed.
    ///
    /// # Errors
    /// When what is looked at turns out to be damaged.
    pub fn search(&self, query: &[f32], allowed: Option<&HashSet<i64>>, limit: usize) -> Result<Vec<Neighbour>, Unusable> {
        self.search_with(self.effort(), query, allowed, limit)
    }

    /// How hard a search looks here: chosen with `cargo xtask bench vectors`.
    pub fn effort(&self) -> Effort {
        Effort { lists: LEAST_LISTS.max(self.tables.lists.len() / 10), rescored: RESCORED }
    }

    /// The same as [`Self::search`], looking harder or less hard.
    ///
    /// # Errors
    /// As [`Self::search`].
    pub fn search_with(
        &self,
        effort: Effort,
        query: &[f32],
        allowed: Option<&HashSet<i64>>,
        limit: usize,
    ) -> Result<Vec<Neighbour>, Unusable> {
        if query.len() != self.reader.layout.dimensions {
            return Err(self.reader.unusable("its vectors are of another model"));
        }
        let rows = match allowed {
            Some(allowed) if allowed.len() <= EXACT => self.rows_of(allowed)?,
            _ => self.candidates(effort, query, allowed, limit)?,
        };
        let mut found = self.compare(query, rows)?;
        found.sort_unstable_by(|one, other| other.cosine.total_cmp(&one.cosine).then(one.id.cmp(&other.id)));
        found.truncate(limit);
        Ok(found)
    }

    /// The rows with the best estimates.
    fn candidates(
        &self,
        effort: Effort,
        query: &[f32],
        allowed: Option<&HashSet<i64>>,
        limit: usize,
    ) -> Result<Vec<u32>, Unusable> {
        let planes = Planes::of(query);
        let rescored = effort.rescored.max(limit.saturating_mul(3));
        let mut best = Best::new(rescored);
        let mut bytes = Vec::new();
        for (looked_at, (list, cosine)) in self.tables.centres.order(&Quantized::of(query)).into_iter().enumerate() {
            // With a filter, what is near may be nowhere near the query.
            if looked_at >= effort.lists && best.is_full() {
                break;
            }
            self.estimate(list, cosine, &planes, allowed, &mut bytes, &mut best)?;
        }
        Ok(best.into_rows())
    }

    /// Estimates the cosines of all vectors in a list that are allowed.
    fn estimate(
        &self,
        list: usize,
        cosine: f32,
        planes: &Planes,
        allowed: Option<&HashSet<i64>>,
        bytes: &mut Vec<u8>,
        best: &mut Best,
    ) -> Result<(), Unusable> {
        let (layout, list) = (&self.reader.layout, self.tables.lists[list]);
        bytes.resize(list.blocks as usize * layout.block_bytes(), 0);
        self.reader.read(layout.block_at(list.first as usize), bytes)?;
        if crc32fast::hash(bytes) != list.crc {
            return Err(self.reader.unusable("the checksum of a list is wrong"));
        }
        for block in bytes.chunks_exact(layout.block_bytes()) {
            let (codes, rest) = block.split_at(LANES * code_bytes(layout.dimensions));
            let sums = planes.sums(codes);
            let (factors, _) = rest[..LANES * 4].as_chunks::<4>();
            let (rows, _) = rest[LANES * 4..LANES * 8].as_chunks::<4>();
            let (entries, _) = rest[LANES * 8..].as_chunks::<8>();
            for (((sum, factor), row), entry) in sums.iter().zip(factors).zip(rows).zip(entries) {
                let row = u32::from_le_bytes(*row);
                let is_allowed = || allowed.is_none_or(|allowed| allowed.contains(&i64::from_le_bytes(*entry)));
                if row != u32::MAX {
                    best.offer(cosine + sum * f32::from_le_bytes(*factor), row, is_allowed);
                }
            }
        }
        Ok(())
    }

    /// All rows of these entries.
    fn rows_of(&self, entries: &HashSet<i64>) -> Result<Vec<u32>, Unusable> {
        let mut entries: Vec<i64> = entries.iter().copied().collect();
        entries.sort_unstable();
        let (mut rows, mut page, mut known) = (Vec::new(), Vec::new(), usize::MAX);
        for entry in entries {
            // Lines of an entry may begin in the page before the first that begins with it.
            let first = self.tables.pages.partition_point(|page| page.entry < entry).saturating_sub(1);
            for number in first..self.tables.pages.len() {
                if self.tables.pages[number].entry > entry {
                    break;
                }
                if number != known {
                    page = self.page(number)?;
                    known = number;
                }
                let begin = page.partition_point(|line: &(i64, u32)| line.0 < entry);
                rows.extend(page[begin..].iter().take_while(|line| line.0 == entry).map(|line| line.1));
            }
        }
        Ok(rows)
    }

    fn page(&self, number: usize) -> Result<Vec<(i64, u32)>, Unusable> {
        let begin = number * PAGE;
        let mut bytes = vec![0; PAGE.min(self.len() - begin) * LINE];
        self.reader.read(self.reader.layout.line_at(begin), &mut bytes)?;
        if crc32fast::hash(&bytes) != self.tables.pages[number].crc {
            return Err(self.reader.unusable("the checksum of a page is wrong"));
        }
        let line = |mut line: &[u8]| Some((i64::from_le_bytes(take(&mut line)?), u32::from_le_bytes(take(&mut line)?)));
        Ok(bytes.chunks_exact(LINE).filter_map(line).collect())
    }

    /// The cosines of these rows, from the vectors themselves.
    fn compare(&self, query: &[f32], mut rows: Vec<u32>) -> Result<Vec<Neighbour>, Unusable> {
        let query = Quantized::of(query);
        let layout = &self.reader.layout;
        let size = layout.row_bytes();
        rows.sort_unstable();
        let mut found = Vec::with_capacity(rows.len());
        let mut bytes = Vec::new();
        let close = |one: &u32, next: &u32| (next - one) as usize <= GAP;
        for run in rows.chunk_by(close).flat_map(|run| run.chunks(RUN)) {
            let (first, last) = (run[0] as usize, run[run.len() - 1] as usize);
            if last >= layout.rows {
                return Err(self.reader.unusable("it names a vector that it does not have"));
            }
            bytes.resize((last + 1 - first) * size, 0);
            self.reader.read(layout.row_at(first), &mut bytes)?;
            for row in run {
                let own = &bytes[(*row as usize - first) * size..][..size];
                let Row { id, entry, vector } =
                    Row::parse(*row as usize, own).ok_or_else(|| self.reader.unusable("the checksum of a vector is wrong"))?;
                let cosine = (dot::dot(&query.values, &vector.values) as f32 * query.scale * vector.scale).clamp(-1.0, 1.0);
                found.push(Neighbour { id, entry, cosine });
            }
        }
        Ok(found)
    }
}
