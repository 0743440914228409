/*!
Checksums of database pages, and the correction of single flipped bits.

A page of [`PAGE_BYTES`] ends with the CRC-64/XZ of the bytes before it, little endian, in the [`SUM_BYTES`] that SQLite leaves free
for this ("reserved space" in its file format, byte 20 of the header). One flipped bit is found by it and turned back ([`crc`]).
*/

use crate::crc;

/// Bytes of a page: SQLite's default, which all databases here have.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of a checksum, at the end of each page.
pub const SUM_BYTES: usize = 8;

/// Bytes of a page before its checksum.
const CONTENT_BYTES: usize = PAGE_BYTES - SUM_BYTES;

/// Position in the file's header of the size of a page (two bytes, the higher one first), and its value here.
const PAGE_SIZE_AT: usize = 16;
const PAGE_SIZE: [u8; 2] = [0x10, 0x00];

/// Position in the file's header of the number of bytes that are reserved in each page.
const RESERVED_AT: usize = 20;

/// The checksum of a page's content.
fn sum(content: &[u8]) -> [u8; SUM_BYTES] {
    crc::sum64(content).to_le_bytes()
}

/// `true` if the checksum of a page fits its content; `false` also for anything that is no whole page.
pub fn is_sound(page: &[u8]) -> bool {
    page.len() == PAGE_BYTES && page.split_at_checked(CONTENT_BYTES).is_some_and(|(content, stored)| sum(content) == stored)
}

/// Writes the checksum of a page into it. Anything that is no whole page stays as it is.
pub fn seal(page: &mut [u8]) {
    if page.len() == PAGE_BYTES
        && let Some((content, stored)) = page.split_at_mut_checked(CONTENT_BYTES)
    {
        stored.copy_from_slice(&sum(content));
    }
}

/// Turns the one flipped bit of a damaged page back. Returns `false`, and leaves the page as it is, if the damage is another one.
pub fn correct(page: &mut [u8]) -> bool {
    if page.len() != PAGE_BYTES {
        return false;
    }
    let (content, stored) = page.split_at_mut(CONTENT_BYTES);
    let right = sum(content);
    let difference = u64::from_le_bytes(right) ^ stored.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    if difference == 0 {
        return true;
    }
    if difference.is_power_of_two() {
        // The content is whole, and a bit of the checksum was flipped.
        stored.copy_from_slice(&right);
        return true;
    }
    match crc::CRC_64.find(content.len(), difference) {
        Some(flipped) => {
            flipped.flip(content);
            true
        }
        None => false,
    }
}

/// `true` if the start of a database, its header at least, says that each page ends with its checksum.
pub(super) fn are_said_in(header: &[u8]) -> bool {
    header.get(RESERVED_AT).is_some_and(|reserved| usize::from(*reserved) == SUM_BYTES)
        && header.get(PAGE_SIZE_AT..PAGE_SIZE_AT + 2) == Some(&PAGE_SIZE)
}

/// `true` if the first page of a database says, or said before it was damaged, that each page ends with its checksum.
pub fn are_in(first_page: &[u8]) -> bool {
    if first_page.len() <= RESERVED_AT || are_said_in(first_page) {
        return are_said_in(first_page);
    }
    // The very bytes that say it may be the damaged ones.
    let mut page = first_page.to_vec();
    page[RESERVED_AT] = SUM_BYTES as u8;
    if is_sound(&page) {
        return true;
    }
    page[RESERVED_AT] = first_page[RESERVED_AT];
    page[PAGE_SIZE_AT..PAGE_SIZE_AT + 2].copy_from_slice(&PAGE_SIZE);
    is_sound(&page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut page: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .take(PAGE_BYTES)
        .collect();
        seal(&mut page);
        page
    }

    #[test]
    fn every_single_bit_is_found_and_turned_back() {
        let whole = page(7);
        assert!(is_sound(&whole));
        for bit in 0..PAGE_BYTES * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_sound(&damaged), "bit {bit}");
            assert!(correct(&mut damaged), "bit {bit}");
            assert!(damaged == whole, "bit {bit}");
        }
    }

    #[test]
    fn a_page_of_zeros_is_not_sound() {
        assert!(!is_sound(&[0; PAGE_BYTES]));
        let mut sealed = vec![0; PAGE_BYTES];
        seal(&mut sealed);
        assert!(is_sound(&sealed));
    }

    #[test]
    fn what_is_no_page_is_left_alone() {
        for length in [0, 1, 100, PAGE_BYTES - 1, PAGE_BYTES + 1] {
            let mut bytes = vec![1; length];
            seal(&mut bytes);
            assert!(!is_sound(&bytes) && !correct(&mut bytes) && bytes.iter().all(|byte| *byte == 1));
        }
    }

    #[test]
    fn the_byte_that_tells_of_checksums_may_be_damaged() {
        let mut first = page(3);
        first[RESERVED_AT] = 8;
        first[PAGE_SIZE_AT..PAGE_SIZE_AT + 2].copy_from_slice(&PAGE_SIZE);
        seal(&mut first);
        assert!(are_in(&first));
        for at in [PAGE_SIZE_AT, PAGE_SIZE_AT + 1, RESERVED_AT] {
            let mut damaged = first.clone();
            damaged[at] ^= 1 << 5;
            assert!(are_in(&damaged), "{at}");
            damaged[500] ^= 1;
            assert!(!are_in(&damaged), "{at}");
        }
        // With other pages, it was written by another program, which puts no checksum where we look for one.
        first[PAGE_SIZE_AT] = 0x20;
        first[500] ^= 1;
        assert!(!are_in(&first));
        assert!(!are_in(&[8; 10]));
    }

    proptest! {
        #[test]
        fn other_damage_is_found_and_left_as_it_is(seed: u64, at in 0..PAGE_BYTES - 1, first: u8, second in 1_u8..) {
            let whole = page(seed);
            let mut damaged = whole.clone();
            damaged[at] ^= first | 1;
            damaged[at + 1] ^= second;
            let before = damaged.clone();
            prop_assert!(!is_sound(&damaged));
            prop_assert!(!correct(&mut damaged));
            prop_assert!(damaged == before);
        }
    }
}
