//! Which entries mean the same.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

use rusqlite::params;

use super::{HASH_BYTES, Index, SearchError};
use crate::search::nearest::{FEW, Identity, Nearest, Neighbour, Row, WriteError};
use crate::search::vectors::{Matrix, Quantized};
use ctxbridge_common::digest;

/// The file that makes it fast to find the nearest of many vectors.
pub const NEAREST: &str = "search.nearest";

/// Passages that are looked for, for each entry that is wanted.
const PASSAGES: usize = 4;

/// Of all vectors, the part that may be missing in the file, or be in it in vain.
const STALE: usize = 10;

/// What is given to the model, and what is made of its vectors: those of two versions cannot be compared, either.
const VERSION: u32 = 2;

/// An entry, with the vectors of its passages.
type WithVectors = (i64, Vec<Vec<f32>>);

fn made_by(model: &str) -> String {
    format!("{model} {VERSION}")
}

impl Index {
    /// Makes sure that all vectors are of this model: those of two models cannot be compared.
    fn begin_model(&mut self, model: &str) -> rusqlite::Result<()> {
        if self.is_of(model)? {
            return Ok(());
        }
        self.matrix = None;
        let transaction = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        transaction.execute_batch("DELETE FROM vectors; UPDATE docs SET is_embedded = 0 WHERE is_embedded")?;
        transaction.execute("INSERT OR REPLACE INTO notes (key, value) VALUES ('model', ?1)", [made_by(model)])?;
        transaction.commit()
    }

    fn is_of(&self, model: &str) -> rusqlite::Result<bool> {
        Ok(self.note("model")? == Some(made_by(model)))
    }

    /// Entries that have no vectors of this model, the newest first. Those of another model are dropped.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn without_vectors(&mut self, model: &str, limit: usize) -> Result<Vec<i64>, SearchError> {
        let mut work = || -> rusqlite::Result<Vec<i64>> {
            self.begin_model(model)?;
            self.db
                .prepare_cached("SELECT entry FROM docs WHERE is_embedded = 0 ORDER BY entry DESC LIMIT ?1")?
                .query_map([limit as i64], |row| row.get(0))?
                .collect()
        };
        let found = work();
        self.try_to(found)
    }

    /// How many entries have vectors of a model, and how many there are.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn coverage(&mut self, model: &str) -> Result<(u64, u64), SearchError> {
        let work = || -> rusqlite::Result<(u64, u64)> {
            let is_of = self.is_of(model)?;
            let all = self.all()?.cast_unsigned();
            if !is_of {
                return Ok((0, all));
            }
            // The index of those without is mostly empty.
            let mut without = self.db.prepare_cached("SELECT count(*) FROM docs WHERE is_embedded = 0")?;
            let without: i64 = without.query_row([], |row| row.get(0))?;
            Ok((all.saturating_sub(without.cast_unsigned()), all))
        };
        self.try_to(work())
    }

    /// Keeps the vectors of an entry's passages; none is right for one that says nothing.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn set_vectors(&mut self, model: &str, vectors: &[(i64, Vec<Vec<f32>>)]) -> Result<(), SearchError> {
        let mut work = || -> rusqlite::Result<()> {
            self.begin_model(model)?;
            let transaction = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
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
        self.try_to(done)
    }

    /// The entry with this content, and its vectors of a model, one for each of its passages; nothing where there are none, or they are of
    /// what it said before.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn vectors_of(&mut self, model: &str, sha256: &digest::Bytes) -> Result<Option<WithVectors>, SearchError> {
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
        self.try_to(work())
    }

    /// The entries whose best passage is nearest to a vector, with the cosine.
    ///
    /// # Errors
    /// As [`Self::detach`].
    pub fn dense(
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

    /// What the file of vectors finds, and up to which id it has them; nothing where there is none.
    fn in_file(&mut self, model: &str, vector: &[f32], allowed: Option<&HashSet<i64>>, limit: usize) -> (i64, Vec<Neighbour>) {
        if self.nearest.is_none() {
            self.nearest = self.identity(model, vector.len()).and_then(|identity| self.open_nearest(&identity));
        }
        let Some(nearest) = &self.nearest else { return (0, Vec::new()) };
        // An entry has several passages, and some may be gone.
        match nearest.search(vector, allowed, limit * PASSAGES) {
            Ok(found) => (nearest.last(), found),
            Err(_) => {
                self.nearest = None;
                fs::remove_file(self.nearest_path()).ok();
                (0, Vec::new())
            }
        }
    }

    /// One that is of another index, or damaged, is removed: the vectors in the database are as good, and slower.
    fn open_nearest(&self, identity: &Identity) -> Option<Nearest> {
        let path = self.nearest_path();
        Nearest::open(&path, identity).unwrap_or_else(|_| {
            fs::remove_file(path).ok();
            None
        })
    }

    fn nearest_path(&self) -> PathBuf {
        self.path.with_file_name(NEAREST)
    }

    fn identity(&self, model: &str, dimensions: usize) -> Option<Identity> {
        let note = self.note("identity").ok()??;
        let number = u128::from_str_radix(&note, 16).ok()?;
        Some(Identity { model: model.to_owned(), dimensions, of: number.to_be_bytes() })
    }

    fn has_vector(&self, id: i64) -> Result<bool, SearchError> {
        let work = || self.db.prepare_cached("SELECT 1 FROM vectors WHERE id = ?1")?.exists([id]);
        self.try_to(work())
    }

    /// Writes the file of vectors that makes it fast to find the nearest of many, where it is missing or out of date by much.
    ///
    /// # Errors
    /// When the index cannot be read. A file that cannot be written is none: what it would find is found without it.
    pub fn arrange(&mut self, model: &str, dimensions: usize) -> Result<bool, SearchError> {
        let counted = self.db.query_row("SELECT count(*) FROM vectors", [], |row| row.get::<_, i64>(0));
        let all = self.try_to(counted)?.unsigned_abs() as usize;
        let is_of = self.try_to(self.is_of(model))?;
        let Some(identity) = self.identity(model, dimensions).filter(|_| is_of && all > FEW) else { return Ok(false) };
        if let Some(nearest) = self.open_nearest(&identity) {
            let work = || {
                let mut count = self.db.prepare_cached("SELECT count(*) FROM vectors WHERE id > ?1")?;
                count.query_row([nearest.last()], |row| row.get::<_, i64>(0))
            };
            let newer = self.try_to(work())?.unsigned_abs() as usize;
            let gone = (nearest.len() + newer).saturating_sub(all);
            if newer + gone <= FEW.max(all / STALE) {
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
                Ok((id, entry, vector)) => vector.map(|vector| Ok(Row { id, entry, vector })),
                Err(error) => Some(Err(error)),
            });
            match Nearest::write(&self.nearest_path(), &identity, rows) {
                Ok(_) => Ok(true),
                Err(WriteError::Rows(error)) => Err(error),
                Err(WriteError::Busy(_) | WriteError::File { .. }) => Ok(false),
            }
        };
        let written = work();
        self.nearest = None;
        self.matrix = None;
        self.try_to(written)
    }

    /// The cosines of these entries, where they have vectors.
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
        self.try_to(work())
    }

    /// All vectors with a higher id.
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
            None => self.try_to(read())?,
        };
        Ok(&self.matrix.insert((above, matrix)).1)
    }
}
