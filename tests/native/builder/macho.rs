//! Mach-O files: `__TEXT`, `__BUN` and `__LINKEDIT`, which ends with a signature whose hashes are zeros: whoever changes the file
//! makes them anew.

use std::ops::Range;

/// An executable for macOS to be made.
#[derive(Clone, Debug)]
pub struct Macho {
    pub arm64: bool,
}

const TEXT: usize = 0x4000;
const BASE: u64 = 0x1_0000_0000;

impl Macho {
    /// The file with this section.
    pub fn build(&self, section: &[u8]) -> Vec<u8> {
        let (cpu, page, shift) = if self.arm64 { (0x0100_000c, 0x4000, 14) } else { (0x0100_0007, 0x1000, 12) };
        let bun = TEXT..(TEXT + section.len()).next_multiple_of(page);
        let strings = b"\0__mh_execute_header\0\0\0\0";
        let signed = bun.end + strings.len().next_multiple_of(16);
        let signature = signature(signed, shift);
        let end = signed + signature.len();
        let commands = [
            segment("__PAGEZERO", 0..0, 0..BASE, None),
            segment("__TEXT", 0..TEXT, at(0)..at(TEXT), None),
            segment("__BUN", bun.clone(), at(bun.start)..at(bun.end), Some(section.len())),
            segment("__LINKEDIT", bun.end..end, at(bun.end)..at(end.next_multiple_of(0x4000)), None),
            words(&[0x2, 24, 0, 0, bun.end as u32, strings.len() as u32]),
            words(&[0x1d, 16, signed as u32, signature.len() as u32]),
        ];
        let all = commands.concat();
        let mut file = words(&[0xfeed_facf, cpu, 0, 2, commands.len() as u32, all.len() as u32, 0x0020_0085, 0]);
        file.extend(all);
        file.resize(TEXT, 0x1f);
        file.extend(section);
        file.resize(bun.end, 0);
        file.extend(strings);
        file.resize(signed, 0);
        file.extend(signature);
        file
    }
}

fn at(offset: usize) -> u64 {
    BASE + offset as u64
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn label(name: &str) -> Vec<u8> {
    let mut label = name.as_bytes().to_vec();
    label.resize(16, 0);
    label
}

/// The load command of a segment; `__BUN` has a section of this size.
fn segment(name: &str, file: Range<usize>, memory: Range<u64>, section: Option<usize>) -> Vec<u8> {
    let count = u32::from(section.is_some());
    let mut command = words(&[0x19, 72 + 80 * count]);
    command.extend(label(name));
    let ranges = [memory.start, memory.end - memory.start, file.start as u64, file.len() as u64];
    command.extend(ranges.map(u64::to_le_bytes).concat());
    command.extend(words(&[1, 1, count, 0]));
    if let Some(size) = section {
        command.extend([label("__bun"), label(name)].concat());
        command.extend([memory.start, size as u64].map(u64::to_le_bytes).concat());
        command.extend(words(&[file.start as u32, 3, 0, 0, 0, 0, 0, 0]));
    }
    command
}

/// A table with a code directory of version 0x20400, for the program `fixture`.
fn signature(limit: usize, shift: u8) -> Vec<u8> {
    let big = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    let pages = limit.div_ceil(1 << shift);
    let (identifier, fixed) = (b"fixture\0", 88);
    let hashes = fixed + identifier.len();
    let length = hashes + 32 * pages;
    let mut directory =
        big(&[0xfade_0c02, length as u32, 0x20400, 2, hashes as u32, fixed as u32, 0, pages as u32, limit as u32]);
    directory.extend([32, 2, 0, shift]);
    directory.extend([0; 24]);
    directory.extend([0, TEXT as u64, 1].map(u64::to_be_bytes).concat());
    directory.extend(identifier);
    directory.resize(length, 0);
    let mut signature = big(&[0xfade_0cc0, 20 + length as u32, 1, 0, 20]);
    signature.extend(directory);
    signature.resize(signature.len().next_multiple_of(16), 0);
    signature
}
