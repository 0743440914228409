//! Runs of bytes that texts have in common. A release of the client has 13 MB, so this is optimized where tests are not.

use std::collections::HashMap;

/// Bits of a hash that are looked up before the map.
const SLOT_BITS: u32 = 20;

/// All runs of a length in some texts.
pub struct RunIndex<'t> {
    texts: &'t [Vec<u8>],
    length: usize,
    /// Text and start of the runs with a hash.
    runs: HashMap<u64, Vec<(usize, usize)>>,
    /// Most hashes of others are not there, and this says so faster than the map.
    is_there: Vec<bool>,
}

impl<'t> RunIndex<'t> {
    /// Takes in every run of `length` bytes.
    pub fn new(texts: &'t [Vec<u8>], length: usize) -> Self {
        let mut runs: HashMap<u64, Vec<(usize, usize)>> = HashMap::new();
        for (at, text) in texts.iter().enumerate() {
            for_each_run(text, length, |hash, begin| runs.entry(hash).or_default().push((at, begin)));
        }
        let mut is_there = vec![false; 1 << SLOT_BITS];
        runs.keys().for_each(|hash| is_there[slot(*hash)] = true);
        Self { texts, length, runs, is_there }
    }

    /// The text and the start of each run that `bytes` have as well.
    pub fn shared_with(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut shared = Vec::new();
        for_each_run(bytes, self.length, |hash, begin| {
            if self.is_there[slot(hash)] {
                let run = &bytes[begin..begin + self.length];
                let same = |&&(at, own): &&(usize, usize)| self.texts[at][own..own + self.length] == *run;
                shared.extend(self.runs.get(&hash).into_iter().flatten().filter(same));
            }
        });
        shared
    }
}

fn slot(hash: u64) -> usize {
    (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SLOT_BITS)) as usize
}

/// Gives the hash and the start of every run. The hash rolls: a text is read once, not once for each run.
fn for_each_run(bytes: &[u8], length: usize, mut take: impl FnMut(u64, usize)) {
    const BASE: u64 = 0x0100_0000_01B3;
    let leading = (1..length).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let add = |hash: u64, byte: u8| hash.wrapping_mul(BASE).wrapping_add(byte.into());
    let mut rest = bytes.iter().take(length - 1).fold(0, |hash, byte| add(hash, *byte));
    for (begin, run) in bytes.windows(length).enumerate() {
        let hash = add(rest, run[length - 1]);
        rest = hash.wrapping_sub(leading.wrapping_mul(run[0].into()));
        take(hash, begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_runs_are_found_wherever_they_are() {
        let texts = [b"one two three".to_vec(), b"two".to_vec(), b"xy".to_vec()];
        let index = RunIndex::new(&texts, 3);
        assert_eq!(index.shared_with(b"a two!"), [(0, 3), (0, 4), (1, 0)]);
        assert_eq!(index.shared_with(b"xy"), []);
    }
}
