//! Recompresses hot segments to warm ones, a few at a time.

use std::time::Instant;

use super::dictionary::{self, GROWTH, MAX_SAMPLED_BYTES, MIN_TRAINING_BYTES, Packer, Samples};
use super::{TIER_COMPRESSION_LEVEL, TierReport};
use crate::segment::{self, Dictionary, SegmentCheck};
use crate::store::StoreError;
use crate::store::sqlite::{RepackCandidate, Repacked, SqliteStore};

/// Compressed bytes that are replaced in one transaction: other writers wait for some milliseconds.
const WARM_BATCH_BYTES: u64 = 2 << 20;

/// Maximum size ratio for a replacement: a segment that does not get this small stays as it is.
const MAX_REPACKED_RATIO: f64 = 0.99;

/// Number of segments that dictionaries are compared by.
const MAX_COMPARED_SEGMENTS: usize = 8;

/// `true` if recompressing these is worth starting or continuing.
pub(super) fn is_worth(store: &mut SqliteStore, candidates: &[RepackCandidate]) -> Result<bool, StoreError> {
    Ok(!candidates.is_empty() && (bytes(candidates) >= MIN_TRAINING_BYTES || store.dictionary()?.is_some()))
}

/// Recompresses segments of these sessions, until the deadline.
pub(super) fn run(
    store: &mut SqliteStore,
    sessions: &[i64],
    deadline: Option<Instant>,
    moves: &mut TierReport,
    progress: &mut dyn FnMut(&str),
) -> Result<(), StoreError> {
    let candidates = store.warm_candidates(sessions)?;
    if !is_worth(store, &candidates)? {
        return Ok(());
    }
    progress("looking for what texts have in common");
    // What is compressed with an earlier one counts as well, or a dictionary would never be outgrown.
    let all = store.idle_segments(sessions)?;
    let dictionary = dictionary_for(store, &all)?;
    let data = dictionary.as_ref().map(|(_, data)| data.as_slice());
    let (Ok(mut packer), Ok(reader)) = (Packer::new(data, TIER_COMPRESSION_LEVEL), data.map(Dictionary::new).transpose()) else {
        return Ok(());
    };
    let id = dictionary.as_ref().map(|(id, _)| *id);
    let mut waiting: Vec<(Repacked, u64, u64)> = Vec::new();
    for (number, candidate) in candidates.iter().enumerate() {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            moves.is_cut = true;
            break;
        }
        progress(&format!("compressing anew: {number} of {} pieces", candidates.len()));
        let bytes = match store.segment_bytes(candidate.id, &candidate.sha256) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => continue,
            Err(error @ StoreError::Segment { .. }) => {
                moves.failed.push((None, error.to_string()));
                continue;
            }
            Err(error) => return Err(error),
        };
        let smaller = packer.pack(&bytes).ok().filter(|data| {
            let comes_back =
                segment::unpack(data, bytes.len() as u32, &candidate.sha256, reader.as_ref(), SegmentCheck::Sha256).is_ok();
            comes_back && (data.len() as f64) < MAX_REPACKED_RATIO * candidate.packed as f64
        });
        let after = smaller.as_ref().map_or(candidate.packed, |data| data.len() as u64);
        let data = smaller.map(|data| (data, id));
        waiting.push((Repacked { id: candidate.id, sha256: candidate.sha256, data }, candidate.packed, after));
        if waiting.iter().map(|(_, _, after)| after).sum::<u64>() >= WARM_BATCH_BYTES {
            replace(store, &mut waiting, moves)?;
        }
    }
    replace(store, &mut waiting, moves)?;
    store.forget_dictionaries()
}

fn replace(store: &mut SqliteStore, waiting: &mut Vec<(Repacked, u64, u64)>, moves: &mut TierReport) -> Result<(), StoreError> {
    let (repacked, sizes): (Vec<_>, Vec<_>) = waiting.drain(..).map(|(one, before, after)| (one, (before, after))).unzip();
    if repacked.is_empty() {
        return Ok(());
    }
    for (done, (before, after)) in store.repack(&repacked)?.into_iter().zip(sizes) {
        if done {
            moves.warm.segments += 1;
            moves.warm.before += before;
            moves.warm.after += after;
        }
    }
    Ok(())
}

fn bytes(candidates: &[RepackCandidate]) -> u64 {
    candidates.iter().map(|candidate| candidate.bytes).sum()
}

/// Returns the newest dictionary. A new one is trained if there is none, or if the texts have grown so much that it may pay and
/// does.
fn dictionary_for(store: &mut SqliteStore, texts: &[RepackCandidate]) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
    let known = store.dictionary()?;
    let there_is = bytes(texts);
    if let Some((id, data, seen)) = &known
        && there_is < seen.saturating_mul(GROWTH)
    {
        return Ok(Some((*id, data.clone())));
    }
    let (sampled, others): (Vec<_>, Vec<_>) = texts.iter().enumerate().partition(|(number, _)| number % 2 == 0);
    let mut samples = Samples::default();
    let of_sampled: u64 = sampled.iter().map(|(_, candidate)| candidate.bytes).sum();
    // Of each text a share, so that all have their say, and no more than is read quickly.
    let share = of_sampled.div_ceil(MAX_SAMPLED_BYTES).max(1);
    let (every, step) = if share > 8 { (share / 4, 4) } else { (1, share) };
    for (_, candidate) in sampled.iter().step_by(every as usize) {
        if let Ok(Some(bytes)) = store.segment_bytes(candidate.id, &candidate.sha256) {
            samples.take(&bytes, step as usize);
        }
    }
    let Some(new) = samples.train(there_is) else { return Ok(known.map(|(id, data, _)| (id, data))) };
    if let Some((id, old, _)) = known {
        let compared = others.iter().step_by(others.len().div_ceil(MAX_COMPARED_SEGMENTS).max(1));
        let compared = compared.filter_map(|(_, candidate)| store.segment_bytes(candidate.id, &candidate.sha256).ok().flatten());
        let compared: Vec<Vec<u8>> = compared.collect();
        if !dictionary::is_better(&new, &old, &compared).unwrap_or(false) {
            store.dictionary_will_do(id, there_is)?;
            return Ok(Some((id, old)));
        }
    }
    let id = store.add_dictionary(&new, there_is)?;
    Ok(Some((id, new)))
}
