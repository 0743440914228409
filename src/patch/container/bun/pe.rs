/*!
A Bun executable for Windows: the graph is the section `.bun`, the last one in the file and in memory.

After it the file has only the table of Authenticode certificates, which is not loaded. So the section can grow in place, and
nothing that is loaded gets another address.

At run time Bun searches the section headers of its own image for the name `.bun`, and reads the length and the blob at that
section's address (`initializePESection` in its c-bindings.cpp). It ignores the section's sizes; Windows maps `VirtualSize` bytes.
Bun's own writer (`addBunSection` in its pe.zig) sets `VirtualSize` to the used size, and `SizeOfRawData` to the same, padded with
zeros to the next multiple of `FileAlignment`. Releases have that layout (2.1.330 for x64 and ARM64), a rewritten file keeps it,
and any other is refused. Names of fields are those of Microsoft's "PE Format".
*/

use std::ops::Range;

use object::LittleEndian as LE;
use object::pe::{self, ImageDosHeader, ImageNtHeaders64, ImageSectionHeader};
use object::read::pe::{DataDirectories, ImageNtHeaders as _, ImageOptionalHeader as _};

use super::LayoutError;
use crate::container::{FileBytes, PiecewiseFile};

const NAME: [u8; 8] = *b".bun\0\0\0\0";

/// Offsets of the fields that change, in bytes from the start of the optional header …
const SIZE_OF_INITIALIZED_DATA: usize = 8;
const SIZE_OF_IMAGE: usize = 56;
const CHECK_SUM: usize = 64;
const SECURITY_DIRECTORY: usize = 144;
/// … and of the section's header.
const VIRTUAL_SIZE: usize = 8;
const SIZE_OF_RAW_DATA: usize = 16;

/// From the start of the PE headers: the signature and the file header come first.
const OPTIONAL_HEADER: usize = 24;
/// The smallest `FileAlignment` of an executable; also a multiple of the alignment of certificates.
const SECTOR: u32 = 512;
/// The smallest `SectionAlignment` of an image whose sections are mapped one by one, on both architectures.
const PAGE: u32 = 4096;
/// Certificates start and end at multiples of this; the size in the directory may leave the last padding out.
const CERTIFICATE_ALIGNMENT: u64 = 8;

/// Positions of everything that changes with `.bun`.
#[derive(Clone, Debug)]
pub struct Pe {
    /// Range of the file that is mapped for the section.
    section: Range<usize>,
    /// End of the section in the file, zeros up to the alignment included.
    raw_end: usize,
    /// Address of the section in memory.
    address: u32,
    file_alignment: u32,
    section_alignment: u32,
    size_of_initialized_data: u32,
    /// Start of the optional header.
    optional: usize,
    /// Start of the section's header.
    row: usize,
}

impl Pe {
    /// Reads the headers of an executable for x86-64 or ARM64.
    ///
    /// # Errors
    /// If the file is not such an executable or is cut short, if it has anything but certificates after `.bun`, or if its order or
    /// sizes are not those of Bun and of the linkers of its releases.
    pub fn parse(file: &[u8]) -> Result<Self, LayoutError> {
        let dos = ImageDosHeader::parse(file).map_err(|error| refuse(format!("has no readable DOS header: {error}")))?;
        let start = u64::from(dos.nt_headers_offset());
        let mut table = start;
        let (headers, directories) = ImageNtHeaders64::parse(file, &mut table)
            .map_err(|error| refuse(format!("has no readable headers for 64 bits: {error}")))?;
        let (coff, optional) = (headers.file_header(), headers.optional_header());
        if !matches!(coff.machine.get(LE), pe::IMAGE_FILE_MACHINE_AMD64 | pe::IMAGE_FILE_MACHINE_ARM64) {
            return Err(refuse("is for neither x86-64 nor ARM64"));
        }
        if coff.pointer_to_symbol_table.get(LE) != 0 || coff.number_of_symbols.get(LE) != 0 {
            return Err(refuse("has a table of COFF symbols"));
        }
        let (file_alignment, section_alignment) = (optional.file_alignment(), optional.section_alignment());
        let aligned = file_alignment.is_power_of_two() && section_alignment.is_power_of_two();
        if !aligned || !(SECTOR..=PAGE).contains(&file_alignment) || section_alignment < PAGE {
            return Err(refuse(format!("has alignments of {file_alignment} and {section_alignment}")));
        }
        let sections =
            headers.sections(file, table).map_err(|error| refuse(format!("has no readable section headers: {error}")))?;
        let sections = sections.iter().as_slice();
        let Some((bun, before)) = sections.split_last() else { return Err(refuse("has no sections")) };
        let row = table + size_of_val(before) as u64;
        let headers_end = u64::from(optional.size_of_headers());
        if start < size_of::<ImageDosHeader>() as u64 || headers_end < row + size_of_val(bun) as u64 {
            return Err(refuse("has headers that are larger than it says"));
        }
        if sections.iter().filter(|section| section.name == NAME).count() != 1 {
            return Err(refuse("has not one section `.bun`"));
        }
        if bun.name != NAME {
            return Err(refuse("has sections behind `.bun`"));
        }
        refuse_disorder(sections, headers_end, section_alignment.into())?;

        let (address, virtual_size) = (bun.virtual_address.get(LE), u64::from(bun.virtual_size.get(LE)));
        let (raw, raw_size) = (u64::from(bun.pointer_to_raw_data.get(LE)), u64::from(bun.size_of_raw_data.get(LE)));
        let memory_end = (u64::from(address) + virtual_size).next_multiple_of(section_alignment.into());
        let sizes = virtual_size > 0
            && raw_size == virtual_size.next_multiple_of(file_alignment.into())
            && raw.is_multiple_of(file_alignment.into())
            && address.is_multiple_of(section_alignment)
            && memory_end == u64::from(optional.size_of_image());
        if !sizes {
            return Err(refuse("has sizes of `.bun` that do not fit together"));
        }
        let fixups = bun.number_of_relocations.get(LE) != 0 || bun.number_of_linenumbers.get(LE) != 0;
        if fixups || !bun.characteristics.get(LE).contains(pe::IMAGE_SCN_CNT_INITIALIZED_DATA) {
            return Err(refuse("has a section `.bun` that is not plain data"));
        }
        if (file.len() as u64) < raw + raw_size {
            return Err(refuse("ends within `.bun`"));
        }
        refuse_pointers(&directories, address.into())?;
        // Windows does not start such a file without its signature, and a changed file cannot have that.
        if optional.dll_characteristics().contains(pe::IMAGE_DLLCHARACTERISTICS_FORCE_INTEGRITY) {
            return Err(refuse("demands a valid signature"));
        }
        if certificates_end(&directories, raw + raw_size)? != file.len() as u64 {
            return Err(refuse("has something behind `.bun` that is not its certificates"));
        }
        // All of these lie within the file, and so within `usize`.
        let raw = raw as usize;
        Ok(Self {
            section: raw..raw + virtual_size as usize,
            raw_end: raw + raw_size as usize,
            address,
            file_alignment,
            section_alignment,
            size_of_initialized_data: optional.size_of_initialized_data(),
            optional: start as usize + OPTIONAL_HEADER,
            row: row as usize,
        })
    }

    /// Range of the section in the file: the part that is mapped, without the zeros after it.
    pub fn section(&self) -> Range<usize> {
        self.section.clone()
    }

    /// Range of the checksum, both in the old file and in a new one.
    pub fn checksum(&self) -> Range<usize> {
        let start = self.optional + CHECK_SUM;
        start..start + size_of::<u32>()
    }

    /// The file with another section, whose kept pieces are ranges of the file. The section may have grown, by a multiple of
    /// `FileAlignment`, which is at most 4096. The checksum is zero until [`Self::finish`].
    ///
    /// The certificates are left out. Their signature is for the old bytes and cannot be made for the new ones. If they were kept,
    /// Windows and virus scanners would report a file that was tampered with, instead of one that is not signed. Bun drops them,
    /// too, when it makes an executable out of its own.
    ///
    /// # Errors
    /// If the section is smaller or has grown by another amount, or if the file gets too large for the format.
    pub fn with_section(&self, _file: &[u8], section: PiecewiseFile) -> Result<PiecewiseFile, LayoutError> {
        let large = || LayoutError::new("the PE file would be larger than the format allows".to_owned());
        let alignment = self.file_alignment as usize;
        let grown = section.len().checked_sub(self.section.len()).filter(|grown| grown.is_multiple_of(alignment));
        let grown = grown.ok_or_else(|| LayoutError::new("`.bun` of a PE file can only grow by whole blocks".to_owned()))?;
        // The largest of all that is computed here: ends of the section in the file and in memory.
        let raw_end = u32::try_from(self.raw_end + grown).map_err(|_| large())?;
        let virtual_size = u32::try_from(section.len()).map_err(|_| large())?;
        let memory_end = self.address.checked_add(virtual_size).ok_or_else(large)?;
        let memory_end = memory_end.checked_next_multiple_of(self.section_alignment).ok_or_else(large)?;
        let initialized = u32::try_from(grown).ok().and_then(|grown| self.size_of_initialized_data.checked_add(grown));
        let initialized = initialized.ok_or_else(large)?;

        let mut new = PiecewiseFile::kept(0..self.section.start);
        let mut set = |at: usize, value: u32| new.overwrite(at, &value.to_le_bytes());
        // Linkers count every section of data here, as large as it is in the file, and so do the releases for `.bun`.
        set(self.optional + SIZE_OF_INITIALIZED_DATA, initialized);
        set(self.optional + SIZE_OF_IMAGE, memory_end);
        set(self.optional + CHECK_SUM, 0);
        set(self.optional + SECURITY_DIRECTORY, 0);
        set(self.optional + SECURITY_DIRECTORY + size_of::<u32>(), 0);
        set(self.row + VIRTUAL_SIZE, virtual_size);
        set(self.row + SIZE_OF_RAW_DATA, raw_end - self.section.start as u32);
        new.append(section);
        new.keep(self.section.end..self.raw_end);
        Ok(new)
    }

    /// The new file with its checksum; an unchanged file keeps the checksum it has.
    ///
    /// # Errors
    /// If the file is too large for the checksum, which includes the length, or cannot be read any more.
    pub fn finish(&self, file: &FileBytes, mut new: PiecewiseFile) -> Result<PiecewiseFile, LayoutError> {
        if new == PiecewiseFile::kept(0..file.len()) {
            return Ok(new);
        }
        let place = self.checksum();
        let length = u32::try_from(new.len()).ok().filter(|_| new.len() >= place.end);
        let length = length.ok_or_else(|| LayoutError::new(format!("a PE file cannot have {} bytes", new.len())))?;
        new.overwrite(place.start, &[0; size_of::<u32>()]);
        let mut words = WordSum::default();
        let read = new.stream(file, 0, &mut |chunk| words.add(chunk));
        read.map_err(|error| refuse(format!("cannot be read: {error}")))?;
        let checksum = words.folded().checked_add(length);
        let checksum = checksum.ok_or_else(|| LayoutError::new("the PE file is too large for a checksum".to_owned()))?;
        new.overwrite(place.start, &checksum.to_le_bytes());
        Ok(new)
    }
}

fn refuse(what: impl AsRef<str>) -> LayoutError {
    LayoutError::new(format!("the PE file {}", what.as_ref()))
}

/// Refuses sections that do not follow each other in the order of their header table, in the file and in memory. So only sections
/// after `.bun` in the table can be after it elsewhere.
fn refuse_disorder(sections: &[ImageSectionHeader], headers_end: u64, alignment: u64) -> Result<(), LayoutError> {
    let (mut file_end, mut memory_end) = (headers_end, headers_end);
    for section in sections {
        let (raw, raw_size) = (u64::from(section.pointer_to_raw_data.get(LE)), u64::from(section.size_of_raw_data.get(LE)));
        let (address, size) = (u64::from(section.virtual_address.get(LE)), u64::from(section.virtual_size.get(LE)));
        if raw_size > 0 {
            if raw < file_end {
                return Err(refuse("has sections that are not one behind the other in the file"));
            }
            file_end = raw + raw_size;
        }
        if address < memory_end {
            return Err(refuse("has sections that are not one behind the other in memory"));
        }
        // Bun's writer takes the larger one, too; without a virtual size, Windows takes the raw one.
        memory_end = (address + size.max(raw_size)).next_multiple_of(alignment);
    }
    Ok(())
}

/// Refuses data directories that reach into `.bun`: their targets might move within it.
fn refuse_pointers(directories: &DataDirectories<'_>, address: u64) -> Result<(), LayoutError> {
    let loaded = directories.enumerate().filter(|(index, _)| *index != pe::IMAGE_DIRECTORY_ENTRY_SECURITY);
    for (_, directory) in loaded {
        let (start, size) = directory.address_range();
        if u64::from(start) + u64::from(size) > address {
            return Err(refuse("has a data directory that reaches into `.bun`"));
        }
    }
    Ok(())
}

/// End of the certificates in the file, or of the sections if there are none. The directory of certificates is the only one that
/// has a file offset, not an address.
fn certificates_end(directories: &DataDirectories<'_>, sections_end: u64) -> Result<u64, LayoutError> {
    let directory =
        directories.iter().nth(pe::IMAGE_DIRECTORY_ENTRY_SECURITY).ok_or_else(|| refuse("has too few data directories"))?;
    let (start, size) = directory.address_range();
    match (u64::from(start), u64::from(size)) {
        (0, 0) => Ok(sections_end),
        (start, size) if start == sections_end && size > 0 => Ok((start + size).next_multiple_of(CERTIFICATE_ALIGNMENT)),
        _ => Err(refuse("has its certificates elsewhere than right behind `.bun`")),
    }
}

/// The sum of a file's 16-bit words, little-endian, as ImageHlp's `CheckSumMappedFile` computes it: each carry is added again at
/// the lower end. A file of an odd length is padded with a zero. The field of the checksum counts as zero, and the file's length is
/// added to the sum.
#[derive(Default)]
struct WordSum {
    /// Carries not yet added, and so congruent to the sum modulo 65535. Files shorter than 4 GiB cannot make it overflow.
    sum: u64,
    /// `true` if a word is half complete: runs of a file can have odd lengths.
    odd: bool,
}

impl WordSum {
    fn add(&mut self, mut run: &[u8]) {
        if self.odd
            && let Some((high, rest)) = run.split_first()
        {
            self.sum += u64::from(*high) << 8;
            self.odd = false;
            run = rest;
        }
        // Two words at a time: the upper one counts 65536 times too much, which is once with its carries added.
        let (pairs, rest) = run.as_chunks::<4>();
        self.sum += pairs.iter().map(|pair| u64::from(u32::from_le_bytes(*pair))).sum::<u64>();
        for word in rest.chunks(2) {
            self.sum += word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        }
        self.odd |= rest.len() % 2 == 1;
    }

    fn folded(&self) -> u32 {
        let mut sum = self.sum;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u32
    }
}

/// Checks the checksum of a PE file as an independent reader: it shares no code with the writer.
///
/// # Errors
/// A description of the problem, with the right checksum.
pub fn verify_checksum(file: &FileBytes) -> Result<(), String> {
    let number = |at: usize| file.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let headers = number(0x3c).map(|headers| headers as usize).filter(|headers| number(*headers) == Some(0x4550));
    let place = headers.filter(|_| file.starts_with(b"MZ")).map(|headers| headers + 0x58);
    let found = place.and_then(|place| Some((place, number(place)?)));
    let (place, checksum) = found.ok_or_else(|| "the file has no PE headers".to_owned())?;
    // The sum of all words is that of all lower bytes and, 256 times, of all upper ones. The sum with the carries added is its
    // remainder modulo 65535, with 65535 in the place of 0, since there are bytes that are not zero.
    let (mut lower, mut upper, mut at) = (0_u64, 0_u64, 0_usize);
    let read = file.stream(0..file.len(), &mut |run| {
        let even = run.iter().step_by(2).map(|byte| u64::from(*byte)).sum::<u64>();
        let odd = run.iter().skip(1).step_by(2).map(|byte| u64::from(*byte)).sum::<u64>();
        let (low, high) = if at.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        (lower, upper, at) = (lower + low, upper + high, at + run.len());
    });
    read.map_err(|error| format!("the file cannot be read: {error}"))?;
    for (at, byte) in (place..).zip(checksum.to_le_bytes()) {
        *(if at % 2 == 0 { &mut lower } else { &mut upper }) -= u64::from(byte);
    }
    let remainder = (lower + 256 * (upper % 0xffff)) % 0xffff;
    let due = file.len() as u64 + if remainder == 0 { 0xffff } else { remainder };
    if u64::from(checksum) == due {
        return Ok(());
    }
    Err(format!("the PE file's checksum is {checksum:#x} where {due:#x} is due"))
}

#[cfg(test)]
mod tests;
