//! PE files: code, and `.bun` as the last section, without certificates.

/// An executable for Windows to be made.
#[derive(Clone, Debug)]
pub struct Pe {
    pub machine: u16,
}

const HEADERS: usize = 0x80;
const OPTIONAL: usize = HEADERS + 24;
const TABLE: usize = OPTIONAL + 240;
const FILE_ALIGNMENT: u32 = 512;
const PAGE: u32 = 4096;

impl Default for Pe {
    fn default() -> Self {
        Self { machine: 0x8664 }
    }
}

impl Pe {
    /// The file with this section.
    pub fn build(&self, section: &[u8]) -> Vec<u8> {
        let sections = [(*b".text\0\0\0", 0x6000_0020_u32, &[0xcc; 100][..]), (*b".bun\0\0\0\0", 0x4000_0040, section)];
        let mut file = vec![0; 0x400];
        put(&mut file, 0, b"MZ");
        put(&mut file, 0x3c, &(HEADERS as u32).to_le_bytes());
        put(&mut file, HEADERS, b"PE\0\0");
        put(&mut file, HEADERS + 4, &[self.machine, sections.len() as u16].map(u16::to_le_bytes).concat());
        put(&mut file, HEADERS + 20, &[240, 0x22].map(u16::to_le_bytes).concat());
        put(&mut file, OPTIONAL, &0x20b_u16.to_le_bytes());
        put(&mut file, OPTIONAL + 32, &[PAGE, FILE_ALIGNMENT].map(u32::to_le_bytes).concat());
        put(&mut file, OPTIONAL + 60, &0x400_u32.to_le_bytes());
        put(&mut file, OPTIONAL + 108, &16_u32.to_le_bytes());
        let mut address = PAGE;
        let mut initialized = 0;
        for (index, (name, flags, bytes)) in sections.into_iter().enumerate() {
            let row = TABLE + 40 * index;
            let (size, start) = (bytes.len() as u32, file.len() as u32);
            let raw = size.next_multiple_of(FILE_ALIGNMENT);
            put(&mut file, row, &name);
            put(&mut file, row + 8, &[size, address, raw, start].map(u32::to_le_bytes).concat());
            put(&mut file, row + 36, &flags.to_le_bytes());
            file.extend(bytes);
            file.resize((start + raw) as usize, 0);
            initialized += if flags & 0x40 == 0 { 0 } else { raw };
            address += size.next_multiple_of(PAGE);
        }
        put(&mut file, OPTIONAL + 8, &initialized.to_le_bytes());
        put(&mut file, OPTIONAL + 56, &address.to_le_bytes());
        file
    }
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}
