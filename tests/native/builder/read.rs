//! Reads what was made, and what became of it, in the plainest way: panics where anything is not as it should be.

use std::ops::Range;

use super::TRAILER;

/// A module as the table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub name: String,
    pub contents: Vec<u8>,
    pub source_map: Vec<u8>,
    pub bytecode: Vec<u8>,
    /// Of entries of 52 bytes.
    pub info: Vec<u8>,
    pub origin: Vec<u8>,
    /// Encoding, loader, format, side.
    pub kinds: [u8; 4],
    /// Offset and length of each of these, in the order of the table.
    pub spans: Vec<[usize; 2]>,
}

/// A graph that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    pub modules: Vec<Found>,
    pub entry_point: u32,
    pub argv: Vec<u8>,
    pub flags: u32,
    /// The module table in the blob.
    pub table: Range<usize>,
    /// Where arguments begin in the blob.
    pub argv_at: usize,
    /// How long the data is, and so where the offsets begin.
    pub byte_count: usize,
}

impl Reading {
    /// Of the section `.bun`; what is behind the blob does not count.
    pub fn of(section: &[u8], entry_size: usize) -> Self {
        let blob = &section[8..][..long(section, 0)];
        assert!(blob.ends_with(TRAILER), "no trailer");
        let offsets = blob.len() - TRAILER.len() - 32;
        let byte_count = long(blob, offsets);
        assert_eq!(byte_count, offsets, "the wrong count of bytes");
        let numbers: Vec<usize> = (0..6).map(|number| short(blob, offsets + 8 + 4 * number)).collect();
        let table = numbers[0]..numbers[0] + numbers[1];
        let modules = blob[table.clone()].chunks_exact(entry_size).map(|row| found(blob, row)).collect();
        Self {
            modules,
            entry_point: numbers[2] as u32,
            argv: blob[numbers[3]..][..numbers[4]].to_vec(),
            flags: numbers[5] as u32,
            table,
            argv_at: numbers[3],
            byte_count,
        }
    }

    pub fn module(&self, name: &str) -> &Found {
        self.modules.iter().find(|module| module.name.ends_with(name)).unwrap_or_else(|| panic!("no module {name}"))
    }
}

fn found(blob: &[u8], row: &[u8]) -> Found {
    let spans: Vec<[usize; 2]> = (0..(row.len() - 4) / 8).map(|pair| [short(row, 8 * pair), short(row, 8 * pair + 4)]).collect();
    let bytes = |pair: usize| spans.get(pair).map_or_else(Vec::new, |[at, length]| blob[*at..][..*length].to_vec());
    for [at, length] in &spans[..2] {
        assert!(row[row.len() - 4] == 0 || blob[at + length] == 0, "no NUL behind a text");
    }
    Found {
        name: String::from_utf8_lossy(&bytes(0)).into_owned(),
        contents: bytes(1),
        source_map: bytes(2),
        bytecode: bytes(3),
        info: bytes(4),
        origin: bytes(5),
        kinds: [row[row.len() - 4], row[row.len() - 3], row[row.len() - 2], row[row.len() - 1]],
        spans,
    }
}

/// The section `.bun` of an ELF file, by its section headers.
pub fn bun_of_elf(file: &[u8]) -> Range<usize> {
    let (headers, count, names) = (long(file, 40), usize::from(file[60]), usize::from(file[62]));
    let row = |index: usize| &file[headers + 64 * index..][..64];
    let names = long(row(names), 24);
    let is_bun = |index: &usize| file[names + short(row(*index), 0)..].starts_with(b".bun\0");
    let bun = (0..count).find(is_bun).map(row).unwrap_or_else(|| panic!("no section .bun"));
    long(bun, 24)..long(bun, 24) + long(bun, 32)
}

pub fn short(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + 4].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

pub fn long(bytes: &[u8], at: usize) -> usize {
    short(bytes, at) | short(bytes, at + 4) << 32
}
