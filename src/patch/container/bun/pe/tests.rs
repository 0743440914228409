use proptest::prelude::*;

use super::*;
use crate::container::FilePiece;

/// Positions and sizes of the headers in the synthetic files.
const HEADERS: usize = 0x80;
const OPTIONAL: usize = HEADERS + 24;
const DIRECTORIES: usize = OPTIONAL + 112;
const TABLE: usize = OPTIONAL + 240;
const ROW: usize = 40;

/// A small executable in the shape that Bun's have.
#[derive(Clone, Debug)]
struct Image {
    machine: u16,
    file_alignment: u32,
    section_alignment: u32,
    /// The mapped part of `.bun`.
    bun: Vec<u8>,
    /// Length of the table of certificates; 0 if there is none.
    certificates: usize,
    /// Size in memory of the section before `.bun`: more than in the file.
    before: u32,
}

impl Default for Image {
    fn default() -> Self {
        let bun = (0..1234_u32).map(|at| (at * 7 % 251) as u8).collect();
        Self { machine: 0x8664, file_alignment: 512, section_alignment: 4096, bun, certificates: 0x28a0, before: 0x1800 }
    }
}

/// The rows of the section table in the synthetic files.
const TEXT: usize = TABLE;
const DATA: usize = TABLE + ROW;
const BUN: usize = TABLE + 3 * ROW;

impl Image {
    fn build(&self) -> Vec<u8> {
        let sections = [
            // Real files have a `.bunid`: the whole name is compared.
            (*b".text\0\0\0", 0x60000020_u32, vec![0xcc; 5000], 5000),
            (*b".data\0\0\0", 0xc0000040, vec![0xdd; 300], self.before),
            (*b".bunid\0\0", 0x40000040, vec![0xee; 32], 32),
            (*b".bun\0\0\0\0", 0x40000040, self.bun.clone(), self.bun.len() as u32),
        ];
        let headers_end = ((TABLE + sections.len() * ROW) as u32).next_multiple_of(self.file_alignment);
        let mut file = vec![0; headers_end as usize];
        file[..2].copy_from_slice(b"MZ");
        put(&mut file, 0x3c, HEADERS as u32);
        file[HEADERS..HEADERS + 4].copy_from_slice(b"PE\0\0");
        file[HEADERS + 4..HEADERS + 6].copy_from_slice(&self.machine.to_le_bytes());
        file[HEADERS + 6] = sections.len() as u8;
        file[HEADERS + 20] = 240;
        file[HEADERS + 22] = 0x22;
        file[OPTIONAL..OPTIONAL + 2].copy_from_slice(&0x20b_u16.to_le_bytes());
        put(&mut file, OPTIONAL + 32, self.section_alignment);
        put(&mut file, OPTIONAL + 36, self.file_alignment);
        put(&mut file, OPTIONAL + 60, headers_end);
        put(&mut file, OPTIONAL + 108, 16);
        // An import directory, in `.text`.
        put(&mut file, DIRECTORIES + 8, self.section_alignment + 64);
        put(&mut file, DIRECTORIES + 12, 40);
        let mut address = headers_end.next_multiple_of(self.section_alignment);
        let mut initialized = 0;
        for (index, (name, flags, bytes, size)) in sections.into_iter().enumerate() {
            let row = TABLE + index * ROW;
            let raw = (bytes.len() as u32).next_multiple_of(self.file_alignment);
            file[row..row + 8].copy_from_slice(&name);
            let start = file.len() as u32;
            for (at, value) in [(8, size), (12, address), (16, raw), (20, start), (36, flags)] {
                put(&mut file, row + at, value);
            }
            initialized += if flags & 0x40 == 0 { 0 } else { raw };
            address += size.next_multiple_of(self.section_alignment);
            file.extend(bytes);
            file.resize((start + raw) as usize, 0);
        }
        put(&mut file, OPTIONAL + 8, initialized);
        put(&mut file, OPTIONAL + 56, address);
        if self.certificates > 0 {
            let start = file.len() as u32;
            put(&mut file, DIRECTORIES + 32, start);
            put(&mut file, DIRECTORIES + 36, self.certificates as u32);
            file.extend((0..self.certificates.next_multiple_of(8)).map(|at| at as u8 | 1));
        }
        let checksum = textbook(&file);
        put(&mut file, OPTIONAL + 64, checksum);
        file
    }
}

fn put(file: &mut [u8], at: usize, value: u32) {
    file[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get(file: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(file[at..at + 4].try_into().unwrap())
}

fn add(file: &mut [u8], at: usize, value: u32) {
    put(file, at, get(file, at) + value);
}

/// The checksum, word by word, as in the specification of ImageHlp.
fn textbook(file: &[u8]) -> u32 {
    let mut sum = 0;
    for (index, word) in file.chunks(2).enumerate() {
        if index * 2 != OPTIONAL + 64 && index * 2 != OPTIONAL + 66 {
            sum += u32::from(word[0]) + 256 * u32::from(*word.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    sum + file.len() as u32
}

fn refusal(file: &[u8]) -> String {
    Pe::parse(file).map(|pe| pe.section()).expect_err("it should be refused").to_string()
}

/// The section with this many bytes inserted at a position.
fn with_bytes(pe: &Pe, at: usize, count: usize) -> PiecewiseFile {
    let section = pe.section();
    let mut new = PiecewiseFile::kept(section.start..section.start + at);
    new.insert((0..count).map(|byte| (byte % 255) as u8).collect::<Vec<_>>());
    new.keep(section.start + at..section.end);
    new
}

fn rewritten(file: &[u8], at: usize, count: usize) -> Vec<u8> {
    let pe = Pe::parse(file).unwrap();
    let new = pe.with_section(file, with_bytes(&pe, at, count)).unwrap();
    pe.finish(&source(file), new).unwrap().to_bytes(file)
}

fn image() -> impl Strategy<Value = Image> {
    let alignments = prop::sample::select(vec![(512, 4096), (4096, 4096), (1024, 8192), (512, 65536), (4096, 65536)]);
    let certificates = prop_oneof![Just(0), 1..3000_usize];
    (any::<bool>(), alignments, 1..6000_usize, certificates, 300..20000_u32).prop_map(
        |(arm, (file_alignment, section_alignment), length, certificates, before)| Image {
            machine: if arm { 0xaa64 } else { 0x8664 },
            file_alignment,
            section_alignment,
            bun: (0..length).map(|at| (at * 31 % 256) as u8).collect(),
            certificates,
            before,
        },
    )
}

fn source(bytes: &[u8]) -> FileBytes {
    bytes.to_vec().into()
}

proptest! {
    /// A rewritten file equals the old one, except for the section, the sizes that follow from it, the checksum and the
    /// certificates. It is a file like the old one: it can be rewritten again.
    #[test]
    fn only_what_must_change_changes(image in image(), at in any::<prop::sample::Index>(), blocks in 0..20_usize) {
        let file = image.build();
        let pe = Pe::parse(&file).unwrap();
        prop_assert_eq!(&file[pe.section()], &image.bun);
        let at = at.index(image.bun.len());
        let new = rewritten(&file, at, blocks * 4096);
        let grown = blocks as u32 * 4096;

        let mut section = image.bun.clone();
        section.splice(at..at, (0..blocks * 4096).map(|byte| (byte % 255) as u8));
        let like = Image { bun: section, certificates: 0, ..image.clone() }.build();
        prop_assert!(like == new, "the file is not what the same section gives when the file is built with it");

        prop_assert_eq!(get(&new, BUN + 8), image.bun.len() as u32 + grown);
        prop_assert_eq!(get(&new, BUN + 16), get(&file, BUN + 16) + grown);
        prop_assert_eq!(get(&new, OPTIONAL + 8), get(&file, OPTIONAL + 8) + grown);
        prop_assert_eq!(get(&new, OPTIONAL + 64), textbook(&new));
        prop_assert_eq!(new.len() as u32, get(&new, BUN + 16) + get(&new, BUN + 20));
        prop_assert_eq!(verify_checksum(&source(&new)), Ok(()));
        let again = Pe::parse(&new).unwrap();
        prop_assert_eq!(again.checksum(), pe.checksum());
        prop_assert_eq!(rewritten(&new, 0, 4096).len(), new.len() + 4096);
    }

    /// However a file is cut into runs, its sum is that of its words, and both ways to compute it agree.
    #[test]
    fn runs_of_any_length_have_the_same_sum(
        cuts in prop::collection::vec(0..9_usize, 0..40),
        bytes in prop::collection::vec(prop_oneof![Just(0xff_u8), Just(0), any::<u8>()], 0..200),
    ) {
        let mut file = Image::default().build();
        file.extend(&bytes);
        let length = file.len();
        put(&mut file, OPTIONAL + 64, 0);
        let mut words = WordSum::default();
        let mut rest = &file[..];
        for cut in cuts.into_iter().chain([length]) {
            let (run, behind) = rest.split_at(cut.min(rest.len()));
            words.add(run);
            rest = behind;
        }
        let checksum = words.folded() + length as u32;
        prop_assert_eq!(checksum, textbook(&file));
        put(&mut file, OPTIONAL + 64, checksum);
        prop_assert_eq!(verify_checksum(&source(&file)), Ok(()));
        put(&mut file, OPTIONAL + 64, checksum ^ 1);
        prop_assert!(verify_checksum(&source(&file)).is_err());
    }

    /// After any change to a file, it is refused, or can be rewritten into one that is not refused; nothing panics.
    #[test]
    fn changed_files_are_refused_or_rewritten_soundly(
        image in image(),
        changes in prop::collection::vec((0..TABLE / 4 + 40, value(), any::<bool>()), 0..4),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
    ) {
        let mut file = image.build();
        for (word, value, half) in changes {
            let at = (word * 4).min(file.len() - 4);
            let value = if half { get(&file, at) & 0xffff_0000 | value & 0xffff } else { value };
            put(&mut file, at, value);
        }
        file.truncate(cut.map_or(file.len(), |cut| cut.index(file.len())));
        survives(&file)?;
    }

    #[test]
    fn noise_is_refused_or_rewritten_soundly(mut bytes in prop::collection::vec(any::<u8>(), 0..700), headers in prop::option::of(0..300_u32)) {
        if let Some(headers) = headers.filter(|headers| bytes.len() >= *headers as usize + 4 && *headers >= 0x40) {
            bytes[..2].copy_from_slice(b"MZ");
            put(&mut bytes, 0x3c, headers);
            bytes[headers as usize..headers as usize + 4].copy_from_slice(b"PE\0\0");
        }
        prop_assert!(bytes.starts_with(b"MZ") || Pe::parse(&bytes).is_err(), "a file without the magic bytes");
        survives(&bytes)?;
    }
}

/// Values at which something could go wrong, and others.
fn value() -> impl Strategy<Value = u32> {
    let edges = [0, 1, 2, 4, 8, 0x3f, 511, 513, 4095, 4097, 0x7fff_ffff, 0x8000_0000, u32::MAX - 4095, u32::MAX - 1, u32::MAX];
    prop_oneof![prop::sample::select(edges.to_vec()), 0..0x6000_u32, any::<u32>()]
}

fn survives(file: &[u8]) -> Result<(), TestCaseError> {
    let checked = verify_checksum(&source(file));
    let Ok(pe) = Pe::parse(file) else { return Ok(()) };
    prop_assert!(pe.section().end <= file.len());
    let Ok(new) = pe.with_section(file, with_bytes(&pe, 0, 4096)) else { return Ok(()) };
    let new = pe.finish(&source(file), new).unwrap().to_bytes(file);
    prop_assert_eq!(verify_checksum(&source(&new)), Ok(()), "before: {:?}", checked);
    let again = Pe::parse(&new).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(again.section().len(), pe.section().len() + 4096);
    Ok(())
}

#[test]
fn growth_within_the_alignment_leaves_the_image_as_large_as_it_is() {
    let image = Image { section_alignment: 65536, ..Image::default() };
    let file = image.build();
    let size = |file: &[u8]| get(file, OPTIONAL + 56);
    assert_eq!(size(&rewritten(&file, 8, 8192)), size(&file));
    assert_eq!(size(&rewritten(&file, 8, 65536)), size(&file) + 65536);
}

#[test]
fn an_untouched_file_keeps_its_checksum_and_certificates() {
    for checksum in [0, 77] {
        let mut file = Image::default().build();
        put(&mut file, OPTIONAL + 64, checksum);
        let pe = Pe::parse(&file).unwrap();
        let same = PiecewiseFile::kept(0..file.len());
        assert_eq!(pe.finish(&source(&file), same.clone()).unwrap(), same);
    }
}

#[test]
fn a_section_of_the_same_length_loses_the_certificates_only() {
    let file = Image::default().build();
    let new = rewritten(&file, 0, 0);
    assert_eq!(new, Image { certificates: 0, ..Image::default() }.build());
}

#[test]
fn finishing_twice_is_finishing_once() {
    let file = Image::default().build();
    let pe = Pe::parse(&file).unwrap();
    let new = pe.with_section(&file, with_bytes(&pe, 77, 4096)).unwrap();
    assert_eq!(new.to_bytes(&file)[pe.checksum()], [0; 4]);
    let once = pe.finish(&source(&file), new).unwrap();
    assert_eq!(pe.finish(&source(&file), once.clone()).unwrap(), once);
}

#[test]
fn what_did_not_change_is_a_range_of_the_old_file() {
    let file = Image::default().build();
    let pe = Pe::parse(&file).unwrap();
    let new = pe.finish(&source(&file), pe.with_section(&file, with_bytes(&pe, 77, 4096)).unwrap()).unwrap();
    let written: usize = new.iter().map(|piece| if let FilePiece::New(bytes) = piece { bytes.len() } else { 0 }).sum();
    // Three sizes, the checksum and the directory's two numbers, and `SizeOfRawData`.
    assert_eq!(written, 4096 + 7 * 4);
}

#[test]
fn sections_that_the_format_cannot_hold_are_refused() {
    let file = Image::default().build();
    let pe = Pe::parse(&file).unwrap();
    let resized = |section: PiecewiseFile| pe.with_section(&file, section).map(|new| new.len()).unwrap_err().to_string();
    assert_eq!(resized(with_bytes(&pe, 0, 100)), "`.bun` of a PE file can only grow by whole blocks");
    assert_eq!(resized(PiecewiseFile::kept(0..10)), "`.bun` of a PE file can only grow by whole blocks");
    assert_eq!(pe.finish(&source(&file), PiecewiseFile::kept(0..10)).unwrap_err().to_string(), "a PE file cannot have 10 bytes");

    let file = Image { before: 0xffff_9000, ..Image::default() };
    let file = file.build();
    let pe = Pe::parse(&file).unwrap();
    let large = pe.with_section(&file, with_bytes(&pe, 0, 8192)).map(|new| new.len());
    assert_eq!(large.unwrap_err().to_string(), "the PE file would be larger than the format allows");
}

#[test]
fn a_wrong_checksum_is_told() {
    let mut file = Image::default().build();
    assert_eq!(verify_checksum(&source(&file)), Ok(()));
    let due = get(&file, OPTIONAL + 64);
    let last = file.len() - 1;
    file[last] ^= 2;
    let error = verify_checksum(&source(&file)).unwrap_err();
    assert!(error.starts_with(&format!("the PE file's checksum is {due:#x} where 0x")), "{error}");
    assert_eq!(verify_checksum(&source(b"MZ")).unwrap_err(), "the file has no PE headers");
}

#[test]
fn a_sum_that_is_all_ones_is_not_zero() {
    let mut file = Image::default().build();
    let missing = 0xffff - (textbook(&file) - file.len() as u32);
    file.extend((missing as u16).to_le_bytes());
    let checksum = file.len() as u32 + 0xffff;
    assert_eq!(textbook(&file), checksum);
    put(&mut file, OPTIONAL + 64, 0);
    let mut words = WordSum::default();
    words.add(&file);
    assert_eq!(words.folded(), 0xffff);
    put(&mut file, OPTIONAL + 64, checksum);
    assert_eq!(verify_checksum(&source(&file)), Ok(()));
}

#[test]
fn files_that_end_too_soon_are_refused() {
    let file = Image::default().build();
    let pe = Pe::parse(&file).unwrap();
    // Each of them: within the headers, the sections, the zeros after `.bun` and the certificates.
    for end in 0..file.len() {
        let error = refusal(&file[..end]);
        if end >= pe.raw_end {
            assert_eq!(error, "the PE file has something behind `.bun` that is not its certificates");
        } else if end >= pe.section.start {
            assert_eq!(error, "the PE file ends within `.bun`");
        }
    }
}

/// A change to the synthetic file, and the error it causes.
type PeCase = (&'static str, fn(&mut Vec<u8>));

const CASES: &[PeCase] = &[
    ("has no readable DOS header", |file| file[0] = b'N'),
    ("has no readable headers for 64 bits", |file| put(file, 0x3c, u32::MAX)),
    ("has no readable headers for 64 bits", |file| file[HEADERS] = 0),
    // PE32, for 32 bits.
    ("has no readable headers for 64 bits", |file| file[OPTIONAL + 1] = 1),
    ("has no readable headers for 64 bits", |file| put(file, OPTIONAL + 108, u32::MAX)),
    ("is for neither x86-64 nor ARM64", |file| file[HEADERS + 4] = 0x4c),
    ("has a table of COFF symbols", |file| put(file, HEADERS + 12, 0x2000)),
    ("has alignments of 0 and 4096", |file| put(file, OPTIONAL + 36, 0)),
    ("has alignments of 8192 and 8192", |file| {
        put(file, OPTIONAL + 36, 8192);
        put(file, OPTIONAL + 32, 8192);
    }),
    ("has alignments of 512 and 512", |file| put(file, OPTIONAL + 32, 512)),
    ("has no readable section headers", |file| file[HEADERS + 7] = 0xff),
    ("has no sections", |file| file[HEADERS + 6] = 0),
    ("has headers that are larger than it says", |file| put(file, OPTIONAL + 60, (BUN + ROW - 1) as u32)),
    // The headers begin within the DOS header, of which only two fields count.
    ("has headers that are larger than it says", |file| {
        file.copy_within(HEADERS..BUN + ROW, 8);
        put(file, 0x3c, 8);
    }),
    ("has not one section `.bun`", |file| file[BUN + 4] = b'L'),
    ("has not one section `.bun`", |file| file.copy_within(BUN..BUN + 8, DATA)),
    ("has sections behind `.bun`", |file| {
        file.copy_within(DATA..DATA + 8, BUN);
        file[DATA..DATA + 8].copy_from_slice(&NAME);
    }),
    ("has sections that are not one behind the other in the file", |file| put(file, BUN + 20, 0x400)),
    ("has sections that are not one behind the other in the file", |file| put(file, TEXT + 20, 0)),
    ("has sections that are not one behind the other in memory", |file| put(file, DATA + 8, 0x100_0000)),
    ("has sections that are not one behind the other in memory", |file| put(file, DATA + 12, u32::MAX)),
    ("has sections that are not one behind the other in the file", |file| put(file, DATA + 16, u32::MAX)),
    ("has sections that are not one behind the other in memory", |file| put(file, DATA + 12, 0x1000 + 5120)),
    // The size in memory does not say it, but the one in the file does.
    ("has sections that are not one behind the other in memory", |file| {
        put(file, TEXT + 8, 0);
        put(file, DATA + 12, 0x2000);
    }),
    ("has sizes of `.bun` that do not fit together", |file| put(file, BUN + 8, 0)),
    ("has sizes of `.bun` that do not fit together", |file| add(file, BUN + 12, 8)),
    ("has sizes of `.bun` that do not fit together", |file| put(file, BUN + 8, 0xffff_0000)),
    ("has sizes of `.bun` that do not fit together", |file| add(file, BUN + 16, 512)),
    ("has sizes of `.bun` that do not fit together", |file| add(file, BUN + 20, 8)),
    ("has sizes of `.bun` that do not fit together", |file| add(file, OPTIONAL + 56, 4096)),
    ("ends within `.bun`", |file| put(file, BUN + 20, 0xffff_fe00)),
    ("has a section `.bun` that is not plain data", |file| file[BUN + 32] = 1),
    ("has a section `.bun` that is not plain data", |file| file[BUN + 36] = 0x80),
    ("has a data directory that reaches into `.bun`", |file| put(file, DIRECTORIES + 12, 0x10_0000)),
    ("demands a valid signature", |file| file[OPTIONAL + 70] |= 0x80),
    ("has too few data directories", |file| put(file, OPTIONAL + 108, 4)),
    ("has its certificates elsewhere than right behind `.bun`", |file| put(file, DIRECTORIES + 32, 0x400)),
    ("has its certificates elsewhere than right behind `.bun`", |file| put(file, DIRECTORIES + 36, 0)),
    ("has its certificates elsewhere than right behind `.bun`", |file| put(file, DIRECTORIES + 32, 0)),
    ("has something behind `.bun` that is not its certificates", |file| put(file, DIRECTORIES + 36, u32::MAX)),
    ("has something behind `.bun` that is not its certificates", |file| file.push(0)),
    ("has something behind `.bun` that is not its certificates", |file| {
        put(file, DIRECTORIES + 32, 0);
        put(file, DIRECTORIES + 36, 0);
    }),
];

#[test]
fn layouts_that_are_not_understood_are_refused_by_name() {
    for (index, (said, change)) in CASES.iter().enumerate() {
        let mut file = Image::default().build();
        change(&mut file);
        let error = refusal(&file);
        assert!(error.starts_with(&format!("the PE file {said}")), "case {index}, {said}: {error}");
    }
}
