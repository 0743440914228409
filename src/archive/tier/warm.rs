//! Hot segments become warm: compressed anew, a few at a time.

use std::time::Instant;

use super::dictionary::{self, GROWTH, MOST_SAMPLED, Packer, Samples, WORTH_BYTES};
use super::{LEVEL, Moves};
use crate::segment::{self, Check, Dictionary};
use crate::store::StoreError;
use crate::store::sqlite::{Candidate, Repacked, SqliteStore};

/// Bytes, when compressed, that are replaced in one transaction: whoever else wants to write waits for some milliseconds.
const AT_ONCE: u64 = 2 << 20;

/// What is not this much smaller stays as it is.
const GAIN: f64 = 0.99;

/// Segments that a new dictionary is compared by.
const COMPARED: usize = 8;

/// Whether it is worth to begin, or go on, with these.
pub(super) fn is_worth(store: &mut SqliteStore, candidates: &[Candidate]) -> Result<bool, StoreError> {
    Ok(!candidates.is_empty() && (bytes(candidates) >= WORTH_BYTES || store.dictionary()?.is_some()))
}

/// Compresses segments of these sessions anew, until there is no more time.
pub(super) fn run(
    store: &mut SqliteStore,
    sessions: &[i64],
    deadline: Option<Instant>,
    moves: &mut Moves,
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
    let (Ok(mut packer), Ok(reader)) = (Packer::new(data, LEVEL), data.map(Dictionary::new).transpose()) else {
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
            let comes_back = segment::unpack(data, bytes.len() as u32, &candidate.sha256, reader.as_ref(), Check::Sha256).is_ok();
            comes_back && (data.len() as f64) < GAIN * candidate.packed as f64
        });
        let after = smaller.as_ref().map_or(candidate.packed, |data| data.len() as u64);
        let data = smaller.map(|data| (data, id));
        waiting.push((Repacked { id: candidate.id, sha256: candidate.sha256, data }, candidate.packed, after));
        if waiting.iter().map(|(_, _, after)| after).sum::<u64>() >= AT_ONCE {
            replace(store, &mut waiting, moves)?;
        }
    }
    replace(store, &mut waiting, moves)?;
    store.forget_dictionaries()
}

fn replace(store: &mut SqliteStore, waiting: &mut Vec<(Repacked, u64, u64)>, moves: &mut Moves) -> Result<(), StoreError> {
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

fn bytes(candidates: &[Candidate]) -> u64 {
    candidates.iter().map(|candidate| candidate.bytes).sum()
}

/// The newest dictionary, or a new one where there is none, or where there is so much more now that it may pay and does.
fn dictionary_for(store: &mut SqliteStore, texts: &[Candidate]) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
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
    let share = of_sampled.div_ceil(MOST_SAMPLED).max(1);
    let (every, step) = if share > 8 { (share / 4, 4) } else { (1, share) };
    for (_, candidate) in sampled.iter().step_by(every as usize) {
        if let Ok(Some(bytes)) = store.segment_bytes(candidate.id, &candidate.sha256) {
            samples.take(&bytes, step as usize);
        }
    }
    let Some(new) = samples.train(there_is) else { return Ok(known.map(|(id, data, _)| (id, data))) };
    if let Some((id, old, _)) = known {
        let compared = others.iter().step_by(others.len().div_ceil(COMPARED).max(1));
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
