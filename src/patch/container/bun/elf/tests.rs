use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::container::bun::builder::{self, AARCH64, X86_64, bun_of_elf};

/// Rows of the segment table in the synthetic files, from 64 on, and of their section headers.
const CODE_SEGMENT: usize = 64;
const DATA_SEGMENT: usize = 64 + 56;
const OWN_SEGMENT: usize = 64 + 2 * 56;
const TEXT: usize = 1;
const BUN: usize = 3;
const BSS: usize = 4;
const COMMENT: usize = 5;

const P_OFFSET: usize = 8;
const P_VADDR: usize = 16;
const SH_TYPE: usize = 4;
const SH_FLAGS: usize = 8;
const SH_ADDR: usize = 16;

fn section(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 % 251) as u8).collect()
}

fn files() -> impl Strategy<Value = (builder::Elf, usize)> {
    let machine = prop::sample::select(vec![X86_64, AARCH64]);
    let page = prop::sample::select(vec![0x1000, 0x1_0000]);
    let length = prop_oneof![1..3000_usize, 4090..4100_usize, Just(8192)];
    (machine, any::<bool>(), page, length).prop_map(|(machine, alone, page, length)| {
        let elf = builder::Elf { machine, alone, interpreter: None, page };
        (elf, length)
    })
}

fn get(file: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(file[at..at + 8].try_into().unwrap())
}

fn put(file: &mut [u8], at: usize, value: u64) {
    file[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Position of a section's header.
fn header(file: &[u8], index: usize) -> usize {
    get(file, E_SHOFF) as usize + 64 * index
}

/// Changes a field of a section's header.
fn set(file: &mut [u8], section: usize, field: usize, value: u64) {
    let at = header(file, section) + field;
    put(file, at, value);
}

fn set_byte(file: &mut [u8], section: usize, field: usize, value: u8) {
    let at = header(file, section) + field;
    file[at] = value;
}

/// The section with this many bytes inserted at a position.
fn with_bytes(elf: &Elf, at: usize, count: usize) -> PiecewiseFile {
    let section = elf.section();
    let mut new = PiecewiseFile::kept(section.start..section.start + at);
    new.insert(vec![0xab; count]);
    new.keep(section.start + at..section.end);
    new
}

proptest! {
    #[test]
    fn an_unchanged_section_gives_the_same_file((made, length) in files()) {
        let file = made.build(&section(length));
        let elf = Elf::parse(&file).unwrap();
        prop_assert_eq!(elf.section(), bun_of_elf(&file));
        prop_assert_eq!(elf.with_section(&file, PiecewiseFile::kept(elf.section())).unwrap().to_bytes(&file), file);
    }

    /// A section that has grown gives the file that would have been made with it, up to the end of its segment's pages.
    #[test]
    fn only_what_must_change_changes((made, length) in files(), at in any::<Index>(), pages in 0..6_usize) {
        let file = made.build(&section(length));
        let elf = Elf::parse(&file).unwrap();
        let (at, grown) = (at.index(length), pages * 0x1_0000);
        let new = elf.with_section(&file, with_bytes(&elf, at, grown)).unwrap().to_bytes(&file);
        let mut longer = section(length);
        longer.splice(at..at, vec![0xab; grown]);
        prop_assert!(made.build(&longer) == new, "the file is not what the same section gives when the file is built with it");
        prop_assert_eq!(Elf::parse(&new).unwrap().section().len(), length + grown);
    }

    /// Pages of other files are larger: the parts after the section still move as far as they must.
    #[test]
    fn growth_by_small_pages_keeps_everything_in_place((made, length) in files(), pages in 1..20_usize) {
        let file = made.build(&section(length));
        let elf = Elf::parse(&file).unwrap();
        let grown = 4096 * pages;
        let new = elf.with_section(&file, with_bytes(&elf, length / 2, grown)).unwrap().to_bytes(&file);
        prop_assert_eq!(new.len(), file.len() + grown);
        let read = Elf::parse(&new).unwrap();
        prop_assert_eq!((read.section().start, read.section().end), (elf.section().start, elf.section().end + grown));
        // Other loaded parts are where they were; parts that are not loaded have moved.
        for index in (0..8).filter(|index| *index != BUN) {
            let (old, new_row) = (header(&file, index), header(&new, index));
            let (range, moved) = (get(&file, old + SH_OFFSET) as usize, get(&new, new_row + SH_OFFSET) as usize);
            let size = get(&file, old + SH_SIZE) as usize;
            prop_assert_eq!(&new[new_row..new_row + SH_OFFSET], &file[old..old + SH_OFFSET]);
            prop_assert_eq!(moved - range, if index >= COMMENT { grown } else { 0 });
            if index != BSS {
                prop_assert_eq!(&new[moved..moved + size], &file[range..range + size]);
            }
        }
    }

    /// After any change to a file, it is refused, or can be rewritten into one that is not refused; nothing panics.
    #[test]
    fn changed_files_are_refused_or_rewritten_soundly(
        (made, length) in files(),
        changes in prop::collection::vec((any::<Index>(), any::<bool>(), value(), prop::sample::select(vec![1, 2, 4, 8])), 0..4),
        cut in prop::option::weighted(0.2, any::<Index>()),
    ) {
        let mut file = made.build(&section(length));
        let headers = header(&file, 0);
        for (at, front, value, width) in changes {
            let at = if front { at.index(150) * 4 } else { headers + at.index(128) * 4 };
            let end = (at + width).min(file.len());
            file[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        }
        file.truncate(cut.map_or(file.len(), |cut| cut.index(file.len())));
        survives(&file)?;
    }

    #[test]
    fn noise_is_refused_or_rewritten_soundly(bytes in prop::collection::vec(any::<u8>(), 0..400), magic in any::<bool>()) {
        let file = if magic { [&b"\x7fELF\x02\x01\x01"[..], &bytes].concat() } else { bytes };
        prop_assert!(magic || Elf::parse(&file).is_err(), "a file without the magic bytes");
        survives(&file)?;
    }
}

/// Values at which something could go wrong, and others.
fn value() -> impl Strategy<Value = u64> {
    let edges = [0, 1, 2, 3, 8, 63, 64, 0xfff, 0x1000, 0x1001, 0x1100, 0x2000, u64::MAX - 4095, u64::MAX - 1, u64::MAX];
    prop_oneof![prop::sample::select(edges.to_vec()), 0..0x6000_u64, 0x40_0000..0x40_6000_u64, any::<u64>()]
}

fn survives(file: &[u8]) -> Result<(), TestCaseError> {
    let Ok(elf) = Elf::parse(file) else { return Ok(()) };
    prop_assert!(elf.section().end <= file.len());
    prop_assert_eq!(&elf.with_section(file, PiecewiseFile::kept(elf.section())).unwrap().to_bytes(file), file);
    let Ok(new) = elf.with_section(file, with_bytes(&elf, 0, 4096)) else { return Ok(()) };
    let new = new.to_bytes(file);
    let again = Elf::parse(&new).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(again.section(), elf.section().start..elf.section().end + 4096);
    prop_assert_eq!(&new[again.section()][4096..], &file[elf.section()], "the section has other bytes");
    Ok(())
}

#[test]
fn files_that_end_too_soon_are_refused() {
    for made in [builder::Elf::new(X86_64), builder::Elf::new(AARCH64).alone()] {
        let file = made.build(&section(500));
        for end in 0..file.len() {
            assert!(Elf::parse(&file[..end]).is_err(), "{end} of {}", file.len());
        }
    }
}

type ElfCase = (&'static str, fn(&mut Vec<u8>));

const CASES: &[ElfCase] = &[
    ("is not one for 64 bits", |file| file[0] = 0),
    ("is not one for 64 bits", |file| file[4] = 1),
    ("is not one for 64 bits", |file| file.truncate(63)),
    ("is big-endian", |file| file[5] = 2),
    ("has no readable sections", |file| put(file, E_SHOFF, u64::MAX)),
    ("has no readable sections", |file| {
        let end = file.len() as u64 - 64;
        put(file, E_SHOFF, end);
    }),
    ("has no readable sections", |file| file[58] = 63),
    ("has no readable sections", |file| file[62] = 200),
    ("has not one section `.bun`", |file| put(file, E_SHOFF, 0)),
    ("has not one section `.bun`", |file| {
        let at = header(file, BUN);
        file[at] += 1;
    }),
    // Another one of that name.
    ("has not one section `.bun`", |file| {
        let (bun, text) = (header(file, BUN), header(file, TEXT));
        file.copy_within(bun..bun + 4, text);
    }),
    ("ends within `.bun`", |file| set(file, BUN, SH_SIZE, 0x10_0000)),
    ("ends within `.bun`", |file| set(file, BUN, SH_SIZE, u64::MAX)),
    ("ends within `.bun`", |file| set(file, BUN, SH_OFFSET, u64::MAX)),
    ("has a section `.bun` that is not plain data", |file| set_byte(file, BUN, SH_TYPE, 8)),
    ("has no readable segments", |file| put(file, 32, u64::MAX)),
    ("has no readable segments", |file| file[54] = 32),
    ("does not load `.bun`", |file| file[DATA_SEGMENT] = 4),
    ("does not load `.bun`", |file| put(file, DATA_SEGMENT + P_OFFSET, 0x3000)),
    // Its memory goes on where its bytes do not.
    ("loads something behind `.bun`", |file| file[DATA_SEGMENT + P_MEMSZ] += 1),
    // A segment above it, also one with nothing in the file.
    ("loads something behind `.bun`", |file| put(file, CODE_SEGMENT + P_VADDR, 0x50_0000)),
    ("loads something behind `.bun`", |file| {
        put(file, CODE_SEGMENT + P_VADDR, 0x50_0000);
        put(file, CODE_SEGMENT + P_FILESZ, 0);
    }),
    // A section above it.
    ("loads something behind `.bun`", |file| set(file, BSS, SH_ADDR, 0x50_0000)),
    ("loads something behind `.bun`", |file| {
        set(file, COMMENT, SH_ADDR, 0x50_0000);
        set_byte(file, COMMENT, SH_FLAGS, 2);
    }),
    ("has segments that reach beyond `.bun`", |file| {
        let end = get(file, E_SHOFF) - 0x80;
        put(file, OWN_SEGMENT + P_OFFSET, end);
    }),
    ("has segments that reach beyond `.bun`", |file| put(file, CODE_SEGMENT + P_FILESZ, 0x2001)),
    ("has its headers in `.bun`", |file| {
        file.copy_within(64..64 + 5 * 56, 0x2000);
        put(file, 32, 0x2000);
    }),
    ("has its headers in `.bun`", |file| {
        let headers = header(file, 0);
        file.copy_within(headers..headers + 9 * 64, 0x2000);
        put(file, E_SHOFF, 0x2000);
    }),
    ("has `.bun` at an address that is not that of its bytes", |file| set(file, BUN, SH_ADDR, 0x40_2008)),
    // Not the end of its segment.
    ("has something behind `.bun` in its segment", |file| file[0x2000 + 1300] = 1),
    ("has sections that overlap `.bun`", |file| set(file, COMMENT, SH_OFFSET, 0x2100)),
    ("has sections that overlap `.bun`", |file| set(file, TEXT, SH_SIZE, 0x1c01)),
    ("has sections that overlap its headers", |file| set(file, TEXT, SH_OFFSET, 63)),
    ("has sections that overlap its headers", |file| set(file, TEXT, SH_OFFSET, 64 + 3 * 56)),
    ("has sections that overlap its headers", |file| set(file, COMMENT, SH_SIZE, 0x200)),
    ("ends within its sections", |file| set(file, COMMENT, SH_SIZE, 0x1000)),
    ("ends within its sections", |file| set(file, COMMENT, SH_OFFSET, u64::MAX)),
];

#[test]
fn layouts_that_are_not_understood_are_refused_by_name() {
    for (index, (said, change)) in CASES.iter().enumerate() {
        let mut file = builder::Elf::new(X86_64).build(&section(1300));
        assert!(Elf::parse(&file).is_ok());
        change(&mut file);
        let error = Elf::parse(&file).map(|elf| elf.section()).expect_err(said).to_string();
        assert!(error.starts_with(&format!("the ELF file {said}")), "case {index}, {said}: {error}");
    }
}
