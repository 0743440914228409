//! Finds constant words in a text, in any case. It is built in microseconds, since a hook runs for milliseconds.

use std::ops::Range;

/// Number of chains, by three bytes.
const CHAINS: usize = 1 << 16;
/// Bytes by which a word is found.
const HEAD_BYTES: usize = 3;

/// Words, found by their first three bytes.
#[derive(Debug)]
pub struct SecretKeywords {
    /// For each chain the number of its first word, from 1 on; 0 if there is none.
    heads: Vec<u16>,
    /// Each word in lower case, and the number of the next one of its chain.
    words: Vec<(&'static [u8], u16)>,
}

impl SecretKeywords {
    /// The words with their indexes. Each is in lower case, at least in ASCII, and has three bytes or more.
    pub fn new(words: &[&'static str]) -> Self {
        let mut keywords = Self { heads: vec![0; CHAINS], words: words.iter().map(|word| (word.as_bytes(), 0)).collect() };
        // From the last one on, so that a chain is in order.
        for at in (0..words.len()).rev() {
            let head = &mut keywords.heads[chain(words[at].as_bytes())];
            keywords.words[at].1 = *head;
            *head = u16::try_from(at + 1).unwrap_or(0);
        }
        keywords
    }

    /// Every occurrence of every word, in the order of their starts: the index of the word, and its range.
    pub fn find<'k>(&'k self, text: &'k str) -> impl Iterator<Item = (usize, Range<usize>)> + 'k {
        let bytes = text.as_bytes();
        let (mut start, mut next) = (0, 0);
        std::iter::from_fn(move || {
            loop {
                while next == 0 {
                    let head = bytes.get(start..start + HEAD_BYTES)?;
                    next = self.heads[chain(head)];
                    start += 1;
                }
                let at = usize::from(next) - 1;
                let (word, after) = self.words[at];
                next = after;
                let found = start - 1..start - 1 + word.len();
                if bytes.get(found.clone()).is_some_and(|said| said.eq_ignore_ascii_case(word)) {
                    return Some((at, found));
                }
            }
        })
    }
}

/// The chain of three bytes. Cases differ in one bit, which is left out; other bytes that meet in a chain are compared.
fn chain(bytes: &[u8]) -> usize {
    let byte = |at: usize| usize::from(bytes[at] | 0x20);
    (byte(0) << 8 ^ byte(1) << 4 ^ byte(2) ^ byte(0) << 3) % CHAINS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_occurrence_is_found() {
        let keywords = SecretKeywords::new(&["key", "key:", "api_key", "密码"]);
        let found = |text: &'static str| keywords.find(text).map(|(at, range)| (at, &text[range])).collect::<Vec<_>>();
        assert_eq!(found("API_KEY:"), [(2, "API_KEY"), (0, "KEY"), (1, "KEY:")]);
        assert_eq!(found("x密码key"), [(3, "密码"), (0, "key")]);
        assert!(found("ke").is_empty() && found("").is_empty());
    }
}
