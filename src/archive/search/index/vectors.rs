//! Vectors in the index: entries with a similar meaning.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

use rusqlite::params;

use super::{HASH_BYTES, SearchError, SearchIndex};
use ctxbridge_common::digest;
use ctxbridge_vectors::ann::{AnnFile, AnnIdentity, MAX_EXHAUSTIVE_VECTORS, Neighbor, VectorRow, WriteError};
use ctxbridge_vectors::{Matrix, Quantized};

/// Name of the file that makes it fast to find the nearest of many vectors.
pub const ANN_FILE: &str = "search.nearest";

/// Number of passages that are looked for, for each requested entry.
const PASSAGES_PER_ENTRY: usize = 4;

/// Divisor: one in this many vectors may be missing in the file, or be in it although it is gone.
const STALE_SHARE_DIVISOR: usize = 10;

/// Version of the texts for the model and of the use of its vectors: vectors of two versions cannot be compared.
const VERSION: u32 = 2;

/// An entry, with the vectors of its passages.
type WithVectors = (i64, Vec<Vec<f32>>);

fn made_by(model: &str) -> String {
    format!("{model} {VERSION}")
}

impl SearchIndex {
    /// Makes the index one with vectors of this model, and drops those of another: vectors of two models cannot be compared.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn switch_model(&mut self, model: &str) -> Result<(), SearchError> {
        let mut work = || -> rusqlite::Result<()> {
            if self.is_of(model)? {
                return Ok(());
            }
            self.matrix = None;
            let transaction = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            transaction.execute_batch("DELETE FROM vectors; UPDATE docs SET is_embedded = 0 WHERE is_embedded")?;
            transaction.execute("INSERT OR REPLACE INTO notes (key, value) VALUES ('model', ?1)", [made_by(model)])?;
            transaction.commit()
        };
        let done = work();
        self.wrap_error(done)
    }

    /// `true` if its vectors, if any, are of this model.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn has_vectors_of(&self, model: &str) -> Result<bool, SearchError> {
        self.wrap_error(self.is_of(model))
    }

    fn is_of(&self, model: &str) -> rusqlite::Result<bool> {
        Ok(self.note("model")? == Some(made_by(model)))
    }

    /// Returns entries that have no vectors of this model, the newest first; none if the index is [one of another](Self::switch_model).
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn without_vectors(&self, model: &str, limit: usize) -> Result<Vec<i64>, SearchError> {
        let work = || -> rusqlite::Result<Vec<i64>> {
            if !self.is_of(model)? {
                return Ok(Vec::new());
            }
            self.db
                .prepare_cached("SELECT entry FROM docs WHERE is_embedded = 0 ORDER BY entry DESC LIMIT ?1")?
                .query_map([limit as i64], |row| row.get(0))?
                .collect()
        };
        self.wrap_error(work())
    }

    /// Returns the number of entries that have vectors of a model, and the number of all entries.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn coverage(&mut self, model: &str) -> Result<(u64, u64), SearchError> {
        let work = || -> rusqlite::Result<(u64, u64)> {
            let is_of = self.is_of(model)?;
            let all = self.document_count()?.cast_unsigned();
            if !is_of {
                return Ok((0, all));
            }
            // The index of those without is mostly empty.
            let mut without = self.db.prepare_cached("SELECT count(*) FROM docs WHERE is_embedded = 0")?;
            let without: i64 = without.query_row([], |row| row.get(0))?;
            Ok((all.saturating_sub(without.cast_unsigned()), all))
        };
        self.wrap_error(work())
    }

    /// Returns the bytes of all vectors in the index. The file for the nearest ones has others.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn vector_bytes(&self) -> Result<u64, SearchError> {
        let sum = "SELECT coalesce(sum(length(data)), 0) FROM vectors";
        self.wrap_error(self.db.query_row(sum, [], |row| row.get::<_, i64>(0))).map(i64::cast_unsigned)
    }

    /// Stores the vectors of an entry's passages; an entry without text has none. Nothing is stored if another process has
    /// [switched](Self::switch_model) the index to another model: they would drop each other's without end.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn set_vectors(&mut self, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), SearchError> {
        let mut work = || -> rusqlite::Result<()> {
            let transaction = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let is_of =
                transaction.prepare_cached("SELECT 1 FROM notes WHERE key = 'model' AND value = ?1")?.exists([made_by(model)])?;
            if !is_of {
                return Ok(());
            }
            for (entry, vectors) in vectors {
                // Another process may have dropped it meanwhile.
                if transaction.prepare_cached("UPDATE docs SET is_embedded = 1 WHERE entry = ?1")?.execute([entry])? == 0 {
                    continue;
                }
                transaction.prepare_cached("DELETE FROM vectors WHERE entry = ?1")?.execute([entry])?;
                let mut insert = transaction.prepare_cached("INSERT INTO vectors (entry, data) VALUES (?1, ?2)")?;
                for vector in vectors {
                    insert.execute(params![entry, Quantized::of(vector).to_bytes()])?;
                }
            }
            transaction.commit()
        };
        let done = work();
        self.matrix = None;
        self.wrap_error(done)
    }

    /// Returns the entry with this content and its vectors of a model, one for each of its passages. `None` if there are none, or
    /// they are of older content.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn vectors_of(&mut self, model: &str, sha256: &digest::Sha256Digest) -> Result<Option<WithVectors>, SearchError> {
        let work = || -> rusqlite::Result<Option<WithVectors>> {
            if !self.is_of(model)? {
                return Ok(None);
            }
            let sql = "SELECT docs.entry, vectors.data FROM archive.entries
                JOIN docs ON docs.entry = entries.id AND docs.sha256 = substr(entries.sha256, 1, ?2) AND docs.is_embedded = 1
                JOIN vectors ON vectors.entry = docs.entry WHERE entries.sha256 = ?1 ORDER BY vectors.id";
            let mut select = self.db.prepare_cached(sql)?;
            let mut rows = select.query(params![&sha256[..], HASH_BYTES])?;
            let mut found: Option<WithVectors> = None;
            while let Some(row) = rows.next()? {
                let data = row.get_ref(1)?.as_blob()?;
                let Some(vector) = Quantized::from_bytes(data, data.len().saturating_sub(size_of::<f32>())) else { continue };
                let values = vector.values.iter().map(|value| f32::from(*value) * vector.scale).collect();
                found.get_or_insert((row.get(0)?, Vec::new())).1.push(values);
            }
            Ok(found)
        };
        self.wrap_error(work())
    }

    /// Returns the entries whose best passage is nearest to a vector, with the cosine.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn search_dense(
        &mut self,
        model: &str,
        vector: &[f32],
        allowed: Option<&HashSet<i64>>,
        limit: usize,
    ) -> Result<Vec<(i64, f32)>, SearchError> {
        let mut best: HashMap<i64, f32> = HashMap::new();
        let mut add = |entry: i64, cosine: f32| {
            let known = best.entry(entry).or_insert(cosine);
            *known = known.max(cosine);
        };
        let (last, found) = self.in_file(model, vector, allowed, limit);
        for one in found {
            if self.has_vector(one.id)? {
                add(one.entry, one.cosine);
            }
        }
        let newer = self.vectors(model, vector.len(), last)?;
        newer
            .scan(vector)
            .filter(|(entry, _)| allowed.is_none_or(|allowed| allowed.contains(entry)))
            .for_each(|(entry, cosine)| add(entry, cosine));
        let mut best: Vec<(i64, f32)> = best.into_iter().collect();
        let by_cosine = |one: &(i64, f32), other: &(i64, f32)| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0));
        if best.len() > limit {
            best.select_nth_unstable_by(limit, by_cosine);
            best.truncate(limit);
        }
        best.sort_unstable_by(by_cosine);
        Ok(best)
    }

    /// Returns what the file of vectors finds, and the highest id in it; nothing if there is no file.
    fn in_file(&mut self, model: &str, vector: &[f32], allowed: Option<&HashSet<i64>>, limit: usize) -> (i64, Vec<Neighbor>) {
        if self.nearest.is_none() {
            self.nearest = self.identity(model, vector.len()).and_then(|identity| self.open_ann_file(&identity));
        }
        let Some(nearest) = &self.nearest else { return (0, Vec::new()) };
        // An entry has several passages, and some may be gone.
        match nearest.search(vector, allowed, limit * PASSAGES_PER_ENTRY) {
            Ok(found) => (nearest.last_id(), found),
            Err(_) => {
                self.nearest = None;
                fs::remove_file(self.ann_path()).ok();
                (0, Vec::new())
            }
        }
    }

    /// Opens the file of vectors. A file that is damaged or of another index is removed: the vectors in the database are as good,
    /// only slower.
    fn open_ann_file(&self, identity: &AnnIdentity) -> Option<AnnFile> {
        let path = self.ann_path();
        AnnFile::open(&path, identity).unwrap_or_else(|_| {
            fs::remove_file(path).ok();
            None
        })
    }

    fn ann_path(&self) -> PathBuf {
        self.path.with_file_name(ANN_FILE)
    }

    fn identity(&self, model: &str, dimensions: usize) -> Option<AnnIdentity> {
        let note = self.note("identity").ok()??;
        let number = u128::from_str_radix(&note, 16).ok()?;
        Some(AnnIdentity { model: model.to_owned(), dimensions, index_id: number.to_be_bytes() })
    }

    fn has_vector(&self, id: i64) -> Result<bool, SearchError> {
        let work = || self.db.prepare_cached("SELECT 1 FROM vectors WHERE id = ?1")?.exists([id]);
        self.wrap_error(work())
    }

    /// Writes the file of vectors that makes it fast to find the nearest of many, if it is missing or much out of date.
    ///
    /// # Errors
    /// If the index cannot be read. A file that cannot be written is not an error: its vectors are found without it.
    pub fn refresh_ann_file(&mut self, model: &str, dimensions: usize) -> Result<bool, SearchError> {
        let counted = self.db.query_row("SELECT count(*) FROM vectors", [], |row| row.get::<_, i64>(0));
        let all = self.wrap_error(counted)?.unsigned_abs() as usize;
        let is_of = self.has_vectors_of(model)?;
        let Some(identity) = self.identity(model, dimensions).filter(|_| is_of && all > MAX_EXHAUSTIVE_VECTORS) else {
            return Ok(false);
        };
        if let Some(nearest) = self.open_ann_file(&identity) {
            let work = || {
                let mut count = self.db.prepare_cached("SELECT count(*) FROM vectors WHERE id > ?1")?;
                count.query_row([nearest.last_id()], |row| row.get::<_, i64>(0))
            };
            let newer = self.wrap_error(work())?.unsigned_abs() as usize;
            let gone = (nearest.len() + newer).saturating_sub(all);
            if newer + gone <= MAX_EXHAUSTIVE_VECTORS.max(all / STALE_SHARE_DIVISOR) {
                return Ok(false);
            }
        }
        let work = || -> rusqlite::Result<bool> {
            let mut select = self.db.prepare_cached("SELECT id, entry, data FROM vectors")?;
            let rows = select.query_map([], |row| {
                let vector = Quantized::from_bytes(row.get_ref(2)?.as_blob()?, dimensions);
                Ok((row.get(0)?, row.get(1)?, vector))
            })?;
            let rows = rows.filter_map(|row| match row {
                Ok((id, entry, vector)) => vector.map(|vector| Ok(VectorRow { id, entry, vector })),
                Err(error) => Some(Err(error)),
            });
            match AnnFile::write(&self.ann_path(), &identity, rows) {
                Ok(_) => Ok(true),
                Err(WriteError::Rows(error)) => Err(error),
                Err(WriteError::Busy(_) | WriteError::File { .. }) => Ok(false),
            }
        };
        let written = work();
        self.nearest = None;
        self.matrix = None;
        self.wrap_error(written)
    }

    /// Returns the cosines of these entries, if they have vectors.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn cosines(&mut self, model: &str, vector: &[f32], entries: &[i64]) -> Result<Vec<(i64, f32)>, SearchError> {
        let work = || -> rusqlite::Result<Vec<(i64, f32)>> {
            let mut found = Vec::new();
            if !self.is_of(model)? {
                return Ok(found);
            }
            let mut select = self.db.prepare_cached("SELECT data FROM vectors WHERE entry = ?1")?;
            for entry in entries {
                let mut matrix = Matrix::new(vector.len());
                let mut rows = select.query([entry])?;
                while let Some(row) = rows.next()? {
                    matrix.add(*entry, row.get_ref(0)?.as_blob()?);
                }
                found.extend(matrix.scan(vector).max_by(|one, other| one.1.total_cmp(&other.1)));
            }
            Ok(found)
        };
        self.wrap_error(work())
    }

    /// Returns all vectors with a higher id.
    fn vectors(&mut self, model: &str, dimensions: usize, above: i64) -> Result<&Matrix, SearchError> {
        let known = self.matrix.take().filter(|(from, matrix)| *from == above && matrix.dimensions() == dimensions);
        let read = || -> rusqlite::Result<Matrix> {
            let mut matrix = Matrix::new(dimensions);
            if self.is_of(model)? {
                let mut select = self.db.prepare_cached("SELECT entry, data FROM vectors WHERE id > ?1")?;
                let mut rows = select.query([above])?;
                while let Some(row) = rows.next()? {
                    matrix.add(row.get(0)?, row.get_ref(1)?.as_blob()?);
                }
            }
            Ok(matrix)
        };
        let matrix = match known {
            Some((_, matrix)) => matrix,
            None => self.wrap_error(read())?,
        };
        Ok(&self.matrix.insert((above, matrix)).1)
    }
}
