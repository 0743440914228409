//! ELF files: two segments of code and data, and `.bun` at the end of the second or in a third.

pub const X86_64: u16 = 62;
pub const AARCH64: u16 = 183;

/// An executable for Linux to be made.
#[derive(Clone, Debug)]
pub struct Elf {
    pub machine: u16,
    /// Whether `.bun` is in a read-only segment of its own, as up to 2.1.129; later it ends the last writable one.
    pub alone: bool,
    /// The loader that it asks for.
    pub interpreter: Option<&'static str>,
    /// What segments are aligned to.
    pub page: usize,
}

const BASE: u64 = 0x40_0000;
const CODE: usize = 0x400;
const DATA: usize = 0x1000;
const DATA_SIZE: usize = 0x100;
const BSS_SIZE: usize = 0x80;

const PROGBITS: u32 = 1;
const NOBITS: u32 = 8;

impl Elf {
    pub fn new(machine: u16) -> Self {
        Self { machine, alone: false, interpreter: None, page: 0x1000 }
    }

    pub fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    /// The file with this section.
    pub fn build(&self, section: &[u8]) -> Vec<u8> {
        let bun = (DATA + DATA_SIZE + BSS_SIZE).next_multiple_of(self.page);
        let end = (bun + section.len()).next_multiple_of(self.page);
        let mut file = vec![0; end];
        file[CODE..CODE + 64].fill(0x90);
        file[DATA..DATA + DATA_SIZE].fill(0xdd);
        file[bun..bun + section.len()].copy_from_slice(section);

        // Type, flags, offset, size in the file, size in memory.
        let mut segments = vec![(1, 5, 0, CODE + 64, CODE + 64)];
        if self.alone {
            segments.push((1, 6, DATA, DATA_SIZE, DATA_SIZE + BSS_SIZE));
            segments.push((1, 4, bun, end - bun, end - bun));
        } else {
            segments.push((1, 6, DATA, end - DATA, end - DATA));
        }
        segments.push((0x6474_e552, 4, DATA, 0x80, 0x80));
        segments.push((0x6474_e551, 6, 0, 0, 0));
        if let Some(path) = self.interpreter {
            file[0x300..0x300 + path.len()].copy_from_slice(path.as_bytes());
            segments.push((3, 4, 0x300, path.len() + 1, path.len() + 1));
        }
        for (index, (kind, flags, offset, in_file, in_memory)) in segments.iter().enumerate() {
            let row = 64 + 56 * index;
            put(&mut file, row, &u32::to_le_bytes(*kind));
            put(&mut file, row + 4, &u32::to_le_bytes(*flags));
            let address = if *in_memory == 0 { 0 } else { BASE + *offset as u64 };
            let numbers = [*offset as u64, address, address, *in_file as u64, *in_memory as u64, self.page as u64];
            put(&mut file, row + 8, &numbers.map(u64::to_le_bytes).concat());
        }

        let mut names = vec![0];
        let mut headers = vec![0; 64];
        let mut section_header = |name: &str, kind: u32, flags: u64, offset: usize, size: usize| {
            let numbers = [names.len() as u32, kind].map(u32::to_le_bytes).concat();
            names.extend(name.as_bytes());
            names.push(0);
            let address = if flags & 2 == 0 { 0 } else { BASE + offset as u64 };
            headers.extend(numbers);
            headers.extend([flags, address, offset as u64, size as u64, 0, 16, 0].map(u64::to_le_bytes).concat());
        };
        section_header(".text", PROGBITS, 6, CODE, 64);
        section_header(".data", PROGBITS, 3, DATA, DATA_SIZE);
        section_header(".bun", PROGBITS, if self.alone { 2 } else { 3 }, bun, section.len());
        // Real files have it behind `.bun` in the table, and before it in memory.
        section_header(".bss", NOBITS, 3, DATA + DATA_SIZE, BSS_SIZE);
        for (name, kind, bytes) in
            [(".comment", PROGBITS, &b"made by hand\0"[..]), (".symtab", 2, &[0; 24]), (".strtab", 3, b"\0_start\0")]
        {
            section_header(name, kind, 0, file.len(), bytes.len());
            file.extend(bytes);
        }
        section_header(".shstrtab", 3, 0, file.len(), 0);
        let last = headers.len() - 64;
        put(&mut headers, last + 32, &(names.len() as u64).to_le_bytes());
        file.extend(names);
        file.resize(file.len().next_multiple_of(8), 0);

        put(&mut file, 0, b"\x7fELF\x02\x01\x01");
        put(&mut file, 16, &[[2, 0], self.machine.to_le_bytes()].concat());
        put(&mut file, 20, &1_u32.to_le_bytes());
        let table = file.len() as u64;
        put(&mut file, 24, &[BASE + CODE as u64, 64, table].map(u64::to_le_bytes).concat());
        let count = (headers.len() / 64) as u16;
        put(&mut file, 52, &[64, 56, segments.len() as u16, 64, count, count - 1].map(u16::to_le_bytes).concat());
        file.extend(headers);
        file
    }
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}
