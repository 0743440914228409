/*!
The nearest of many vectors: a file beside the index of which a search reads little.

Vectors are divided into lists, each around a center. A search reads the lists whose centers are nearest to the query and
estimates cosines from a bit a dimension (`bit_codes`). It computes the cosines of the best estimates from the vectors themselves.
Where a filter lets little through, all of that is compared, and the result is exact.

The file is a cache: it is written whole, from the database. Whatever is wrong with it is [`Unusable`]. Vectors that came later have
higher ids than [`AnnFile::last_id`] and are looked for elsewhere.

A graph (HNSW) would take 20 times as long to build, be slow with a filter, and could not be checked without reading all of it. The
measurements are in `docs/nearest.md`.
*/

mod bit_codes;
mod centroids;
mod file;
mod row;
#[cfg(test)]
mod tests;
mod top_k;
mod write;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub use row::VectorRow;
pub use write::WriteError;

use crate::Quantized;
use crate::dot;
use bit_codes::{BitPlanes, LANES, code_bytes};
use file::{AnnFileReader, DIRECTORY_LINE_BYTES, PAGE_LINES, Tables, take_array};
use top_k::TopK;

/// Number of vectors up to which all can be compared, so that no file is needed. Reading this many from the database takes 5 to 10
/// ms, most of a search's time.
pub const MAX_EXHAUSTIVE_VECTORS: usize = 5_000;

/// Number of entries that a filter lets through up to which all of them are compared.
const MAX_EXACT_ENTRIES: usize = 4_000;
/// Minimum number of lists that are searched, if there are as many.
const MIN_PROBED_LISTS: usize = 128;
/// Minimum number of vectors whose cosine is computed.
const MIN_RESCORED_VECTORS: usize = 300;
/// Maximum gap in rows between two wanted rows that are read at once.
const MAX_READ_GAP_ROWS: usize = 8;
/// Maximum number of rows that are read at once.
const MAX_RUN_ROWS: usize = 128;

/// Identity of a file's vectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnIdentity {
    /// The model that made them.
    pub model: String,
    /// Number of dimensions of a vector.
    pub dimensions: usize,
    /// The database that they were read from.
    pub index_id: [u8; 16],
}

/// A file that cannot be used and can be removed: it is damaged, or of something else.
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

/// Effort of a search.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Number of lists that are searched.
    pub lists: usize,
    /// Number of vectors whose cosine is computed.
    pub rescored: usize,
}

/// A vector that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// Its id.
    pub id: i64,
    /// The entry that it is a passage of.
    pub entry: i64,
    /// The cosine between it and the query.
    pub cosine: f32,
}

/// An open file.
#[derive(Debug)]
pub struct AnnFile {
    reader: AnnFileReader,
    tables: Tables,
}

impl AnnFile {
    /// Writes a file of all these vectors, in any order, and replaces the old file. Processes that have the old file open go on
    /// reading it. Returns the number of vectors.
    ///
    /// # Errors
    /// If the vectors cannot be read, the file cannot be written, or another process is writing it. The old file is then still
    /// there.
    pub fn write<E>(
        path: &Path,
        identity: &AnnIdentity,
        rows: impl Iterator<Item = Result<VectorRow, E>>,
    ) -> Result<usize, WriteError<E>> {
        write::write(path, identity, rows)
    }

    /// Opens a file; `None` if there is none.
    ///
    /// # Errors
    /// If it is of something else, or is damaged as far as can be seen without reading all of it.
    pub fn open(path: &Path, identity: &AnnIdentity) -> Result<Option<Self>, Unusable> {
        Ok(AnnFileReader::open(path, identity)?.map(|(reader, tables)| Self { reader, tables }))
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.reader.layout.rows
    }

    /// `true` if there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the highest id of its vectors: vectors with higher ids are newer than the file.
    pub fn last_id(&self) -> i64 {
        self.reader.layout.last
    }

    /// Returns the vectors nearest to a query, the nearest first; if `allowed` is given, of these entries only. An entry comes once
    /// for each of its passages, and some may have been deleted since, so ask for more than is needed.
    ///
    /// # Errors
    /// If the data that is read turns out to be damaged.
    pub fn search(&self, query: &[f32], allowed: Option<&HashSet<i64>>, limit: usize) -> Result<Vec<Neighbor>, Unusable> {
        self.search_with(self.effort(), query, allowed, limit)
    }

    /// Returns the default effort: chosen with `cargo xtask bench vectors`.
    pub fn effort(&self) -> Effort {
        Effort { lists: MIN_PROBED_LISTS.max(self.tables.lists.len() / 10), rescored: MIN_RESCORED_VECTORS }
    }

    /// Like [`Self::search`], with another effort.
    ///
    /// # Errors
    /// As [`Self::search`].
    pub fn search_with(
        &self,
        effort: Effort,
        query: &[f32],
        allowed: Option<&HashSet<i64>>,
        limit: usize,
    ) -> Result<Vec<Neighbor>, Unusable> {
        if query.len() != self.reader.layout.dimensions {
            return Err(self.reader.unusable("its vectors are of another model"));
        }
        let rows = match allowed {
            Some(allowed) if allowed.len() <= MAX_EXACT_ENTRIES => self.rows_of(allowed)?,
            _ => self.candidates(effort, query, allowed, limit)?,
        };
        let mut found = self.compare(query, rows)?;
        found.sort_unstable_by(|one, other| other.cosine.total_cmp(&one.cosine).then(one.id.cmp(&other.id)));
        found.truncate(limit);
        Ok(found)
    }

    /// Returns the rows with the best estimates.
    fn candidates(
        &self,
        effort: Effort,
        query: &[f32],
        allowed: Option<&HashSet<i64>>,
        limit: usize,
    ) -> Result<Vec<u32>, Unusable> {
        let planes = BitPlanes::of(query);
        let rescored = effort.rescored.max(limit.saturating_mul(3));
        let mut best = TopK::new(rescored);
        let mut bytes = Vec::new();
        for (looked_at, (list, cosine)) in self.tables.centers.order(&Quantized::of(query)).into_iter().enumerate() {
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
        planes: &BitPlanes,
        allowed: Option<&HashSet<i64>>,
        bytes: &mut Vec<u8>,
        best: &mut TopK,
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

    /// Returns all rows of these entries.
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
        let begin = number * PAGE_LINES;
        let mut bytes = vec![0; PAGE_LINES.min(self.len() - begin) * DIRECTORY_LINE_BYTES];
        self.reader.read(self.reader.layout.line_at(begin), &mut bytes)?;
        if crc32fast::hash(&bytes) != self.tables.pages[number].crc {
            return Err(self.reader.unusable("the checksum of a page is wrong"));
        }
        let line =
            |mut line: &[u8]| Some((i64::from_le_bytes(take_array(&mut line)?), u32::from_le_bytes(take_array(&mut line)?)));
        Ok(bytes.chunks_exact(DIRECTORY_LINE_BYTES).filter_map(line).collect())
    }

    /// Returns the cosines of these rows, from the vectors themselves.
    fn compare(&self, query: &[f32], mut rows: Vec<u32>) -> Result<Vec<Neighbor>, Unusable> {
        let query = Quantized::of(query);
        let layout = &self.reader.layout;
        let size = layout.row_bytes();
        rows.sort_unstable();
        let mut found = Vec::with_capacity(rows.len());
        let mut bytes = Vec::new();
        let close = |one: &u32, next: &u32| (next - one) as usize <= MAX_READ_GAP_ROWS;
        for run in rows.chunk_by(close).flat_map(|run| run.chunks(MAX_RUN_ROWS)) {
            let (first, last) = (run[0] as usize, run[run.len() - 1] as usize);
            if last >= layout.rows {
                return Err(self.reader.unusable("it names a vector that it does not have"));
            }
            bytes.resize((last + 1 - first) * size, 0);
            self.reader.read(layout.row_at(first), &mut bytes)?;
            for row in run {
                let own = &bytes[(*row as usize - first) * size..][..size];
                let VectorRow { id, entry, vector } = VectorRow::parse(*row as usize, own)
                    .ok_or_else(|| self.reader.unusable("the checksum of a vector is wrong"))?;
                let cosine = (dot::dot(&query.values, &vector.values) as f32 * query.scale * vector.scale).clamp(-1.0, 1.0);
                found.push(Neighbor { id, entry, cosine });
            }
        }
        Ok(found)
    }
}
