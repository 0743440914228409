/*!
Flipped bits, found by the checksum of the bytes.

A CRC is linear: the checksum of bytes with one flipped bit differs from the right one by a value that only depends on the distance
of that bit from the end. So one flipped bit is found again and turned back. Other damage to 4,096 bytes passes for one flipped bit
once in 2^49 times with CRC-64, and once in 2^17 times with CRC-32, which needs another proof.
*/

use crc64fast::Digest;

/// Finds flipped bits by CRC-64/XZ (ECMA-182).
pub static CRC_64: BitFinder = BitFinder::new(0xC96C_5795_D787_0F42);

/// Finds flipped bits by CRC-32 (IEEE 802.3).
pub static CRC_32: BitFinder = BitFinder::new(0xEDB8_8320);

/// Returns the CRC-64/XZ of bytes.
pub fn sum64(bytes: &[u8]) -> u64 {
    let mut digest = Digest::new();
    digest.write(bytes);
    digest.sum64()
}

/// A bit that was flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlippedBit {
    /// Position of its byte.
    pub at: usize,
    /// The bit, in its byte.
    pub mask: u8,
}

impl FlippedBit {
    /// Flips it in the bytes in which it was found.
    pub fn flip(self, bytes: &mut [u8]) {
        if let Some(byte) = bytes.get_mut(self.at) {
            *byte ^= self.mask;
        }
    }
}

/// Finds flipped bits by a CRC whose bits are reversed.
#[derive(Debug)]
pub struct BitFinder {
    /// Change of the remainder by each byte.
    changes: [u64; 256],
}

impl BitFinder {
    /// Creates the finder of a polynomial with reversed bits.
    const fn new(polynomial: u64) -> Self {
        let mut changes = [0; 256];
        let mut byte = 0;
        while byte < changes.len() {
            let mut remainder = byte as u64;
            let mut bit = 0;
            while bit < 8 {
                remainder = if remainder & 1 == 1 { remainder >> 1 ^ polynomial } else { remainder >> 1 };
                bit += 1;
            }
            changes[byte] = remainder;
            byte += 1;
        }
        Self { changes }
    }

    /// Finds the flipped bit in so many bytes whose checksum differs from the right one by this (XOR). Returns `None` if the damage is
    /// another one, or there is none.
    pub fn find(&self, length: usize, difference: u64) -> Option<FlippedBit> {
        // What each bit of a byte changes, beginning with the last byte; one byte earlier, it goes through one more step.
        let mut changes: [u64; 8] = std::array::from_fn(|bit| self.changes[1 << bit]);
        for at in (0..length).rev() {
            if let Some(bit) = changes.iter().position(|change| *change == difference) {
                return Some(FlippedBit { at, mask: 1 << bit });
            }
            changes = changes.map(|change| change >> 8 ^ self.changes[(change & 0xff) as usize]);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_flipped_bit_is_found(whole in proptest::collection::vec(any::<u8>(), 1..9_000), bit: proptest::sample::Index) {
            let bit = bit.index(whole.len() * 8);
            let flipped = FlippedBit { at: bit / 8, mask: 1 << (bit % 8) };
            let mut damaged = whole.clone();
            flipped.flip(&mut damaged);
            prop_assert_eq!(CRC_64.find(whole.len(), sum64(&whole) ^ sum64(&damaged)), Some(flipped));
        }

        #[test]
        fn other_damage_is_not_taken_for_it(whole in proptest::collection::vec(any::<u8>(), 2..5_000), first: u8, second in 1_u8..) {
            let mut damaged = whole.clone();
            damaged[0] ^= first | 1;
            damaged[1] ^= second;
            prop_assert_eq!(CRC_64.find(whole.len(), sum64(&whole) ^ sum64(&damaged)), None);
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        assert_eq!(CRC_64.find(100, 0), None);
        assert_eq!(CRC_64.find(0, 1), None);
        assert_eq!(CRC_32.find(100, 0), None);
    }
}
