//! Random numbers that are the same for a seed on every machine and in every release: SplitMix64.

/// A sequence of numbers; clones go on alike.
#[derive(Clone, Debug)]
pub struct Rng(u64);

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE62: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789";

impl Rng {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A sequence of its own for a part of what is made.
    pub(crate) fn fork(&self, part: u64) -> Self {
        let mut rng = Self(self.0 ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93));
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to 1, which is not reached.
    pub fn roll(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `end`; 0 when there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, among: &[&'a T]) -> &'a T {
        among[self.below(among.len())]
    }

    /// A random UUID, version 4.
    pub(crate) fn uuid(&mut self) -> String {
        let high = self.next() & 0xffff_ffff_ffff_0fff | 0x4000;
        let low = self.next() & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
        let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
        format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
    }

    /// An id as the API makes them: `prefix` and 22 letters and digits.
    pub(crate) fn id(&mut self, prefix: &str) -> String {
        let tail = (0..22).map(|_| char::from(BASE62[self.below(BASE62.len())]));
        prefix.chars().chain(tail).collect()
    }

    pub(crate) fn base64(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(BASE64[self.below(64)])).collect()
    }

    pub(crate) fn hex(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(b"0123456789abcdef"[self.below(16)])).collect()
    }
}
