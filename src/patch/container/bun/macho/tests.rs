//! Tests with a small program in the shape of the client's, for both architectures.

use proptest::prelude::*;

use object::read::macho::LoadCommandVariant;
use sha2::{Digest, Sha256};

use super::super::codesign::verify_signature;
use super::*;
use crate::container::FileBytes;

const ARM64: Arch = Arch { cpu: 0x0100_000c, page: 0x4000, shift: 14 };
const X86_64: Arch = Arch { cpu: 0x0100_0007, page: 0x1000, shift: 12 };

/// Length of the section, and the rest of its last page.
const SECTION: usize = 0x5100;
const SLACK: usize = 0x2f00;
const TEXT: usize = 0x4000;

const XML: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"\">\n\
    <plist version=\"1.0\"><dict>\n<key>com.apple.security.cs.allow-jit</key><true/>\n\
    <key>com.apple.security.cs.disable-library-validation</key>\n<true/></dict></plist>\n";
const DER: &[u8] = b"\x70\x62\x02\x01\x01\xb0\x5d\x30\x24\x0c\x1fcom.apple.security.cs.allow-jit\x01\x01\xff\
    \x30\x35\x0c\x30com.apple.security.cs.disable-library-validation\x01\x01\xff";

#[derive(Clone, Copy, Debug)]
struct Arch {
    cpu: u32,
    page: usize,
    shift: u8,
}

/// The options of a program, and then the program.
#[derive(Clone, Debug)]
struct MachoFixture {
    arch: Arch,
    xml: Option<String>,
    /// 1 if dyld adjusts a pointer in `__BUN`.
    fixups: u32,
    more: Vec<u8>,
}

impl MachoFixture {
    fn new(arch: Arch) -> Self {
        Self { arch, xml: Some(XML.to_owned()), fixups: 0, more: Vec::new() }
    }

    fn bun(&self) -> usize {
        TEXT + self.arch.page
    }

    fn build(&self) -> Vec<u8> {
        let linkedit = self.bun() + SECTION + SLACK;
        let mut tables: Vec<u8> = Vec::new();
        let mut table = |bytes: &[u8]| {
            let at = linkedit + tables.len();
            tables.extend(bytes);
            [at as u32, bytes.len() as u32]
        };
        let fixups = [0, 32, 60, 60, 0, 1, 0, 0, 5, 0, 0, 0, self.fixups, 0, 0].map(u32::to_le_bytes).concat();
        let fixups = table(&fixups);
        let exports = table(b"exports trie....");
        let starts = table(b"function starts.");
        let symbols = table(&[&1u32.to_le_bytes()[..], &[0xf, 1, 0, 0], &0x1_0000_0000u64.to_le_bytes()].concat());
        let indirect = table(&[0; 8]);
        let strings = table(b"\0__mh_execute_header\0\0\0\0");
        let note = table(b"a note.!");
        let limit = (linkedit + tables.len()).next_multiple_of(16);
        let signed = self.signature(&vec![0; limit]).len();

        let address = |at: usize| 0x1_0000_0000 + at as u64;
        let mut commands = vec![
            segment("__PAGEZERO", 0..0, 0..1 << 32, &[]),
            segment(
                "__TEXT",
                0..TEXT,
                address(0)..address(TEXT),
                &[("__text", address(0x2000), 0x100, 0x2000), ("__info_plist", address(0x3000), 40, 0x3000)],
            ),
            segment("__DATA", TEXT..self.bun(), address(TEXT)..address(0x10000), &[("__bss", address(0xc000), 64, 0)]),
            segment(
                "__BUN",
                self.bun()..linkedit,
                address(0x10000)..address(0x10000 + linkedit - self.bun()),
                &[("__bun", address(0x10000), SECTION as u64, self.bun() as u32)],
            ),
            segment(
                "__LINKEDIT",
                linkedit..limit + signed,
                address(0x10000 + linkedit - self.bun())..address(0x10000 + linkedit - self.bun() + 0x8000),
                &[],
            ),
            words(&[0x8000_0034, 16, fixups[0], fixups[1]]),
            words(&[0x8000_0033, 16, exports[0], exports[1]]),
            words(&[0x2, 24, symbols[0], 1, strings[0], strings[1]]),
            words(&[0xb, 80, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, indirect[0], 2, 0, 0, 0, 0]),
            [words(&[0xe, 32, 12]), b"/usr/lib/dyld\0\0\0\0\0\0\0".to_vec()].concat(),
            words(&[0x8000_0028, 24, 0x2000, 0, 0, 0]),
            [words(&[0x31, 40, 0, 0, 0, 0]), [u64::from(note[0]), 8].map(u64::to_le_bytes).concat()].concat(),
            words(&[0x26, 16, starts[0], starts[1]]),
            words(&[0x29, 16, symbols[0], 0]),
            words(&[0x1d, 16, limit as u32, signed as u32]),
        ];
        if !self.more.is_empty() {
            commands.push(self.more.clone());
        }
        let all = commands.concat();
        let mut file = words(&[0xfeed_facf, self.arch.cpu, 0, 2, commands.len() as u32, all.len() as u32, 0x0020_0085, 0]);
        file.extend(all);
        assert!(file.len() < 0x2000);
        file.extend((file.len()..linkedit).map(|at| (at % 251) as u8));
        file[self.bun() + SECTION..].fill(0);
        file.extend(tables);
        file.resize(limit, 0);
        let signature = self.signature(&file);
        file.extend(signature);
        file
    }

    /// A signature like that of a company: with a team, requirements, certificates, and room for more of them.
    fn signature(&self, code: &[u8]) -> Vec<u8> {
        let hash = |bytes: &[u8]| Sha256::digest(bytes).to_vec();
        let blob = |magic: u32, bytes: &[u8]| [&magic.to_be_bytes()[..], &(bytes.len() as u32 + 8).to_be_bytes(), bytes].concat();
        let requirements = blob(0xfade_0c01, &[0, 0, 0, 0, 1, 2, 3, 4]);
        let xml = self.xml.as_ref().map(|xml| blob(0xfade_7171, xml.as_bytes()));
        let der = self.xml.as_ref().map(|_| blob(0xfade_7172, DER));
        let plist = code.get(0x3000..0x3028).unwrap_or_default();
        let none = vec![0; 32];
        let special = |blob: &Option<Vec<u8>>| blob.as_ref().map_or(none.clone(), |blob| hash(blob));
        let hashes =
            [special(&der), none.clone(), special(&xml), none.clone(), none.clone(), hash(&requirements), hash(plist)].concat();
        let pages: Vec<u8> = code.chunks(self.arch.page).flat_map(hash).collect();
        let names = b"com.example.program\0TEAM123456\0";
        let at = 96 + names.len() + hashes.len();
        let head = [
            0x20500,
            0x10000 | 0x2000 | 0x200,
            at as u32,
            96,
            7,
            (pages.len() / 32) as u32,
            code.len() as u32,
            u32::from_be_bytes([32, 2, 0, self.arch.shift]),
            0,
            0,
            116,
        ];
        let mut directory = head.map(u32::to_be_bytes).concat();
        directory.extend([0; 12]);
        directory.extend([0, TEXT as u64, 1].map(u64::to_be_bytes).concat());
        directory.extend([0x000e_0500u32, 0].map(u32::to_be_bytes).concat());
        directory.extend([&names[..], &hashes, &pages].concat());
        let blobs = [
            (0u32, Some(blob(0xfade_0c02, &directory))),
            (2, Some(requirements)),
            (5, xml),
            (7, der),
            (8, None),
            (0x10000, Some(blob(0xfade_0b01, &[7; 500]))),
        ];
        let blobs: Vec<_> = blobs.into_iter().filter_map(|(slot, blob)| Some((slot, blob?))).collect();
        let mut index = (blobs.len() as u32).to_be_bytes().to_vec();
        let mut offset = 12 + 8 * blobs.len() as u32;
        for (slot, blob) in &blobs {
            index.extend([*slot, offset].map(u32::to_be_bytes).concat());
            offset += blob.len() as u32;
        }
        index.extend(blobs.into_iter().flat_map(|(_, blob)| blob));
        let mut signature = blob(0xfade_0cc0, &index);
        signature.resize(signature.len().next_multiple_of(16) + 4096, 0xaa);
        signature
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn label(name: &str) -> Vec<u8> {
    let mut label = name.as_bytes().to_vec();
    label.resize(16, 0);
    label
}

fn segment(name: &str, file: Range<usize>, memory: Range<u64>, sections: &[(&str, u64, u64, u32)]) -> Vec<u8> {
    let mut command = words(&[0x19, 72 + 80 * sections.len() as u32]);
    command.extend(label(name));
    let ranges = [memory.start, memory.end - memory.start, file.start as u64, file.len() as u64];
    command.extend(ranges.map(u64::to_le_bytes).concat());
    command.extend(words(&[7, 3, sections.len() as u32, 0]));
    for (section, address, size, offset) in sections {
        command.extend([label(section), label(name)].concat());
        command.extend([*address, *size].map(u64::to_le_bytes).concat());
        command.extend(words(&[*offset, 2, 0, 0, if *offset == 0 { 1 } else { 0 }, 0, 0, 0]));
    }
    command
}

/// The bytes that each load command points to, read with the offsets and sizes of `object`.
fn tables(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let header = MachoHeader::parse(file, 0).expect("a header");
    let mut commands = header.load_commands(ENDIAN, file, 0).expect("load commands");
    let mut tables = Vec::new();
    while let Some(command) = commands.next().expect("a load command") {
        let mut add = |offset: u64, size: u64| {
            tables.push((command.cmd().0, file[offset as usize..][..size as usize].to_vec()));
        };
        match command.variant().expect("a load command") {
            LoadCommandVariant::LinkeditData(_) if command.cmd() == macho::LC_CODE_SIGNATURE => (),
            LoadCommandVariant::LinkeditData(data) => add(data.dataoff.get(ENDIAN).into(), data.datasize.get(ENDIAN).into()),
            LoadCommandVariant::Symtab(symtab) => {
                add(symtab.symoff.get(ENDIAN).into(), u64::from(symtab.nsyms.get(ENDIAN)) * 16);
                add(symtab.stroff.get(ENDIAN).into(), symtab.strsize.get(ENDIAN).into());
            }
            LoadCommandVariant::Dysymtab(table) => {
                add(table.indirectsymoff.get(ENDIAN).into(), u64::from(table.nindirectsyms.get(ENDIAN)) * 4);
                assert_eq!(table.tocoff.get(ENDIAN), 0);
            }
            LoadCommandVariant::Note(note) => add(note.offset.get(ENDIAN), note.size.get(ENDIAN)),
            _ => (),
        }
    }
    tables
}

fn grown(file: &[u8], by: usize) -> (Macho, PiecewiseFile) {
    let macho = Macho::parse(file).expect("a program");
    let mut section = PiecewiseFile::default();
    section.insert(b"new head");
    section.keep(8..macho.section().len());
    section.insert(vec![b'+'; by]);
    let new = macho.with_section(file, section.within(macho.section().start)).expect("a new program");
    (macho, new)
}

fn flags_and_slots(file: &[u8]) -> (u32, Vec<u32>) {
    let macho = Macho::parse(file).expect("a program");
    let signature = &file[macho.signature()];
    let big = |at: usize| u32::from_be_bytes(*signature[at..].first_chunk().expect("four bytes"));
    ((big(big(16) as usize + 12)), (0..big(8) as usize).map(|row| big(12 + 8 * row)).collect())
}

fn change(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Position of a segment's load command, or of one of another kind.
fn command(file: &[u8], kind: u32, name: &str) -> usize {
    let header = MachoHeader::parse(file, 0).expect("a header");
    let commands = header.load_commands(ENDIAN, file, 0).expect("load commands");
    let mut commands = commands.map(|command| command.expect("a load command"));
    let named = |bytes: &[u8]| name.is_empty() || bytes[8..].starts_with(&label(name));
    commands.find(|command| command.cmd().0 == kind && named(command.raw_data())).expect("such a command").offset() as usize
}

fn programs() -> impl Strategy<Value = MachoFixture> {
    prop_oneof![Just(MachoFixture::new(ARM64)), Just(MachoFixture::new(X86_64))]
}

fn source(bytes: &[u8]) -> FileBytes {
    bytes.to_vec().into()
}

proptest! {
    /// The section grows, everything else stays what it was, and a reader of its own finds the signature right.
    #[test]
    fn grows(program in programs(), by in prop_oneof![(0usize..20).prop_map(|pages| pages * 4096), 0usize..100_000]) {
        let file = program.build();
        prop_assert_eq!(verify_signature(&source(&file)), Ok(()));
        let (macho, pieces) = grown(&file, by);
        let pieces = macho.finish(&source(&file), pieces).expect("signed");
        prop_assert_eq!(&macho.finish(&source(&file), pieces.clone()).expect("signed again"), &pieces);
        let new = pieces.to_bytes(&file);
        prop_assert_eq!(verify_signature(&source(&new)), Ok(()));

        let read = Macho::parse(&new).expect("readable");
        let (old, section) = (macho.section(), read.section());
        prop_assert_eq!((section.start, section.len()), (old.start, old.len() + by));
        prop_assert_eq!(&new[section.start..][..8], b"new head");
        prop_assert_eq!(&new[section.start + 8..][..old.len() - 8], &file[old.start + 8..old.end]);
        prop_assert!(new[section.end - by..section.end].iter().all(|byte| *byte == b'+'));
        prop_assert!(new[section.end..read.linkedit.file.start].iter().all(|byte| *byte == 0));
        // The load commands end before 0x2000, and after them nothing changes.
        prop_assert_eq!(&new[0x2000..section.start], &file[0x2000..section.start]);
        prop_assert_eq!(tables(&new), tables(&file));
        let moved = read.linkedit.file.start - macho.linkedit.file.start;
        prop_assert_eq!(moved, by.saturating_sub(SLACK).next_multiple_of(0x4000));
        prop_assert_eq!(read.linkedit.memory.start - macho.linkedit.memory.start, moved as u64);
        prop_assert!(read.linkedit.memory.end - read.linkedit.memory.start >= read.linkedit.file.len() as u64);
        // What is signed ad hoc can be patched again.
        let (again, pieces) = grown(&new, by);
        prop_assert_eq!(verify_signature(&source(&again.finish(&source(&new), pieces).expect("signed").to_bytes(&new))), Ok(()));
    }

    /// Every change of a signed byte is noticed.
    #[test]
    fn a_changed_byte_is_noticed(program in programs(), at in any::<prop::sample::Index>(), flip in 1u8..) {
        let file = program.build();
        let (macho, pieces) = grown(&file, 0);
        let mut new = macho.finish(&source(&file), pieces).expect("signed").to_bytes(&file);
        let signature = Macho::parse(&new).expect("readable").signature();
        let at = at.index(signature.start);
        new[at] ^= flip;
        prop_assert!(verify_signature(&source(&new)).is_err());
    }

    /// Arbitrary bytes give an error or a program, never a panic.
    #[test]
    fn never_panics(
        program in programs(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<bool>(), prop_oneof![any::<u64>(), 0..0x20000u64, Just(u64::MAX)], 1usize..8),
            0..6,
        ),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut file = program.build();
        let signature = Macho::parse(&file).expect("a program").signature();
        for (at, signed, value, width) in changes {
            // Where the numbers are: in the load commands, or in the signature.
            let at = if signed { signature.start + at.index(signature.len() - 8) } else { at.index(0x700) };
            change(&mut file, at, &value.to_le_bytes()[..width]);
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        let _ = verify_signature(&source(&file));
        if let Ok(macho) = Macho::parse(&file) {
            prop_assert!(file.get(macho.section()).is_some() && file.get(macho.signature()).is_some());
            let mut section = PiecewiseFile::kept(macho.section());
            section.insert(vec![1; 5000]);
            let new = macho.with_section(&file, section).and_then(|new| macho.finish(&source(&file), new));
            if let Ok(new) = new {
                prop_assert!(new.len() <= file.len() + 0x10000);
                prop_assert!(Macho::parse(&new.to_bytes(&file)).is_ok());
            }
        }
    }

    #[test]
    fn never_panics_on_noise(bytes in prop::collection::vec(any::<u8>(), 0..300), magic in any::<bool>()) {
        let mut file = words(&[0xfeed_facf, ARM64.cpu, 0, 2, 3, 200, 0, 0]);
        if !magic { file.clear() }
        file.extend(bytes);
        prop_assert!(Macho::parse(&file).is_err() && verify_signature(&source(&file)).is_err());
    }
}

#[test]
fn keeps_what_is_kept_of_the_signature() {
    for arch in [ARM64, X86_64] {
        let file = MachoFixture::new(arch).build();
        let (macho, pieces) = grown(&file, 4096);
        let new = macho.finish(&source(&file), pieces).expect("signed").to_bytes(&file);
        // KILL and RUNTIME stay, REQUIRE_LV goes, ADHOC comes.
        assert_eq!(flags_and_slots(&new), (0x10202, vec![0, 2, 5, 7, 0x10000]));
        let signature = &new[Macho::parse(&new).expect("readable").signature()];
        let has = |bytes: &[u8]| signature.windows(bytes.len()).any(|part| part == bytes);
        assert!(has(b"com.example.program\0") && has(XML.as_bytes()) && has(DER));
        assert!(!has(b"TEAM123456"));
    }
}

#[test]
fn is_not_hardened_when_add_ons_could_not_be_loaded() {
    let without = XML.replace("<true/></dict>", "<false/></dict>");
    for xml in [Some(without), None] {
        let file = MachoFixture { xml, ..MachoFixture::new(ARM64) }.build();
        assert_eq!(verify_signature(&source(&file)), Ok(()));
        let (macho, pieces) = grown(&file, 4096);
        let new = macho.finish(&source(&file), pieces).expect("signed").to_bytes(&file);
        assert_eq!(verify_signature(&source(&new)), Ok(()));
        assert_eq!(flags_and_slots(&new).0, 0x202);
    }
}

#[test]
fn an_unchanged_file_keeps_its_signature() {
    let file = MachoFixture::new(ARM64).build();
    let macho = Macho::parse(&file).expect("a program");
    let whole = PiecewiseFile::kept(0..file.len());
    assert_eq!(macho.finish(&source(&file), whole.clone()), Ok(whole));
    // And what is not of this program is not signed.
    for foreign in [PiecewiseFile::default(), PiecewiseFile::kept(0..file.len() - 16), PiecewiseFile::kept(0..40)] {
        assert!(macho.finish(&source(&file), foreign).is_err());
    }
}

#[test]
fn refuses_by_name() {
    let sound = MachoFixture::new(ARM64).build();
    let bun = command(&sound, 0x19, "__BUN");
    let linkedit = command(&sound, 0x19, "__LINKEDIT");
    let data = command(&sound, 0x19, "__DATA");
    let starts = command(&sound, 0x26, "");
    let symbols = command(&sound, 0x2, "");
    let signature = command(&sound, 0x1d, "");
    let blobs = Macho::parse(&sound).expect("a program").signature().start;
    let cases: [(&str, usize, &[u8]); 26] = [
        ("universal (fat)", 0, &[0xca, 0xfe, 0xba, 0xbe]),
        ("universal (fat)", 0, &[0xca, 0xfe, 0xba, 0xbf]),
        ("for 64 bits", 0, &[0xce, 0xfa, 0xed, 0xfe]),
        ("big-endian", 0, &[0xfe, 0xed, 0xfa, 0xcf]),
        ("no Mac of today", 4, &[18, 0, 0, 0]),
        ("not an executable", 12, &[6]),
        ("has not one segment", 16, &[0, 0, 0, 0]),
        ("load commands", 20, &[0xff; 4]),
        ("cannot be read", 36, &[0; 4]),
        ("cannot be read", bun + 4, &[0xff; 4]),
        ("not one segment `__BUN`", bun + 8, b"__BUM"),
        ("not one segment `__BUN`", data + 8, b"__BUN\0"),
        ("ends within the segment", bun + 48, &[0xff; 8]),
        ("overlap", data + 48, &[0, 0x80]),
        ("overlap", data + 32, &[0, 0, 2]),
        ("as its last segments", data + 26, &[8]),
        ("a gap behind `__BUN`", linkedit + 48, &[1]),
        ("a gap behind `__BUN`", bun + 32, &[0, 0x70]),
        ("no section `__bun`", bun + 72, b"__but"),
        ("no section `__bun`", bun + 72 + 40, &[0xff; 8]),
        ("not loaded as it is", bun + 72 + 32, &[0xff]),
        ("points into `__BUN`", symbols + 8, &[1, 0x90, 0, 0]),
        ("a load command 0x99", starts, &[0x99]),
        ("does not end with its signature", signature + 12, &[1]),
        ("does not end with its signature", symbols + 8, &[0xff; 3]),
        ("signature cannot be read", blobs, &[0]),
    ];
    for (reason, at, bytes) in cases {
        let mut file = sound.clone();
        change(&mut file, at, bytes);
        let refused = Macho::parse(&file).expect_err(reason).to_string();
        assert!(refused.contains(reason), "{refused}, and not {reason}");
    }
    let with = |more: &[u32]| MachoFixture { more: words(more), ..MachoFixture::new(ARM64) }.build();
    let fixups = MachoFixture { fixups: 28, ..MachoFixture::new(ARM64) }.build();
    let unsigned = {
        let mut file = sound.clone();
        change(&mut file, signature, &[0x2b]);
        file
    };
    let others = [
        ("0x80000099, which ctxbridge does not know", with(&[0x8000_0099, 16, 0, 0])),
        ("too short", with(&[0x2, 16, 0, 0])),
        ("two signatures", with(&[0x1d, 16, 0, 0])),
        ("cannot be read", with(&[0x26, 4])),
        ("adjusted when it is loaded", fixups),
        ("not signed", unsigned),
        ("is not one for 64 bits", Vec::new()),
    ];
    for (reason, file) in others {
        let refused = Macho::parse(&file).expect_err(reason).to_string();
        assert!(refused.contains(reason), "{refused}, and not {reason}");
    }
    for length in 0..sound.len() / 16 {
        assert!(Macho::parse(&sound[..length * 16]).is_err());
    }
}
