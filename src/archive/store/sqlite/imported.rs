//! Data from other tools' archives: usage and confidence of entries, and vectors, which have a table of their own (`imported`).

use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};

use super::SqliteStore;
use super::cycle::{self, TOTAL_LOSS};
use crate::maintenance::CONFIDENCE_TOLERANCE;
use crate::store::{ImportedEmbedding, ImportedUsage, StoreError, UsageWriter};
use crate::{CONFIDENCE_BOOST, INITIAL_CONFIDENCE};
use ctxbridge_common::digest;

/// Returns the usage of turns' entries that were restored, or whose confidence differs from that of a new one.
pub(super) fn entry_usage(db: &Connection) -> Result<Vec<(digest::Sha256Digest, ImportedUsage)>> {
    let known = cycle::confidence(TOTAL_LOSS);
    let sql = format!(
        "SELECT sha256, id, access_count, accessed_ms, {known} FROM entries
         WHERE text IS NULL AND confidence IS NOT 0.0 AND (access_count > 0 OR abs({known} - {INITIAL_CONFIDENCE:?}) > {CONFIDENCE_TOLERANCE:?})"
    );
    db.prepare_cached(&sql)?.query_map([], |row| Ok((row.get(0)?, adopted(row)?)))?.collect()
}

/// Returns the usage of one entry, whatever it is.
pub(super) fn usage_of(db: &Connection, content: &digest::Sha256Digest) -> Result<Option<ImportedUsage>> {
    let known = cycle::confidence(TOTAL_LOSS);
    let sql = format!("SELECT sha256, id, access_count, accessed_ms, {known} FROM entries WHERE sha256 = ?1 AND text IS NULL");
    db.prepare_cached(&sql)?.query_row([content], adopted).optional()
}

fn adopted(row: &Row<'_>) -> Result<ImportedUsage> {
    let (entry, access_count, accessed_ms) = (row.get(1)?, row.get(2)?, row.get(3)?);
    Ok(ImportedUsage { entry, access_count, accessed_ms, confidence: row.get(4)?, is_new: false })
}

impl UsageWriter for SqliteStore {
    /// Counts a restore of entries and raises their confidence a little.
    fn touch(&mut self, entries: &[i64], now_ms: i64) -> Result<(), StoreError> {
        self.write(|db| {
            let sql = format!(
                "UPDATE entries SET access_count = access_count + 1, accessed_ms = ?3,
                 confidence = {TOTAL_LOSS} + min(1.0, {} + ?2)
              WHERE id = ?1",
                cycle::confidence(TOTAL_LOSS)
            );
            let mut update = db.prepare_cached(&sql)?;
            for entry in entries {
                update.execute(params![entry, CONFIDENCE_BOOST, now_ms])?;
            }
            Ok(())
        })
    }

    /// Raises the usage of entries; new ones take the given values. An entry that was pruned here stays pruned, unless it was restored
    /// there since.
    fn merge_usage(&mut self, adopted: &[ImportedUsage]) -> Result<usize, StoreError> {
        self.write(|db| {
            let known = cycle::confidence(TOTAL_LOSS);
            let sql = format!(
                "UPDATE entries SET access_count = max(access_count, :count), accessed_ms = coalesce(max(accessed_ms, :ms), accessed_ms, :ms),
                    confidence = {TOTAL_LOSS} + iif(:is_new, :confidence, max({known}, :confidence))
                 WHERE id = :entry AND text IS NULL AND (access_count < :count OR entries.confidence IS NOT 0.0) AND (access_count < :count OR coalesce(accessed_ms, 0) < coalesce(:ms, 0)
                    OR {known} < :confidence - {CONFIDENCE_TOLERANCE:?} OR (:is_new AND {known} > :confidence + {CONFIDENCE_TOLERANCE:?}))"
            );
            let mut update = db.prepare_cached(&sql)?;
            let mut changed = 0;
            for one in adopted {
                changed += update.execute(named_params! {
                    ":entry": one.entry,
                    ":count": one.access_count,
                    ":ms": one.accessed_ms,
                    ":confidence": one.confidence,
                    ":is_new": one.is_new,
                })?;
            }
            Ok(changed)
        })
    }

    fn keep_embeddings(&mut self, embeddings: &[ImportedEmbedding]) -> Result<usize, StoreError> {
        self.write(|db| {
            let mut upsert = db.prepare_cached(
                "INSERT INTO imported (source, source_id, entry, model, dimensions, embedding) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (source, source_id) DO UPDATE SET entry = excluded.entry, model = excluded.model,
                    dimensions = excluded.dimensions, embedding = excluded.embedding
                 WHERE entry <> excluded.entry OR embedding <> excluded.embedding OR model <> excluded.model",
            )?;
            let mut kept = 0;
            for one in embeddings {
                let bytes: Vec<u8> = one.vector.iter().flat_map(|value| value.to_le_bytes()).collect();
                kept +=
                    upsert.execute(params![one.source, one.source_id, one.entry, one.model, one.vector.len() as i64, bytes])?;
            }
            Ok(kept)
        })
    }
}
