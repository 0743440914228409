/*!
A Bun executable for Linux: the graph is the section `.bun`, the last thing in the last writable `PT_LOAD`, or alone in one of its
own.

After that segment the file has only parts that are not loaded: symbols, comments, the section headers. So the section can grow in
place: the segment grows with it, and the parts after it move. Nothing that is loaded gets another address.

Releases pad the segment with zeros to the next page, have each part of the file in one place, and no other segment that
reaches as far as `.bun` (2.1.110 to 2.1.330, all architectures). Any other layout is refused.
*/

use std::ops::Range;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};

use super::LayoutError;
use crate::container::PiecewiseFile;

#[cfg(test)]
mod tests;

type ElfHeader = FileHeader64<Endianness>;

/// Offsets of the fields that change, in bytes; the names are those of the ELF specification.
const E_SHOFF: usize = 40;
const P_FILESZ: usize = 32;
const P_MEMSZ: usize = 40;
const SH_OFFSET: usize = 24;
const SH_SIZE: usize = 32;

#[derive(Clone, Debug)]
pub struct Elf {
    section: Range<usize>,
    /// Index of the segment at whose end the section is.
    segment: usize,
    segment_end: usize,
}

impl Elf {
    pub fn parse(file: &[u8]) -> Result<Self, LayoutError> {
        let refuse = |what: &str| LayoutError::new(format!("the ELF file {what}"));
        let header = ElfHeader::parse(file).map_err(|error| refuse(&format!("is not one for 64 bits: {error}")))?;
        let endian = header.endian().map_err(|error| refuse(&format!("has no known byte order: {error}")))?;
        if endian != Endianness::Little {
            return Err(refuse("is big-endian"));
        }
        let sections = header.sections(endian, file).map_err(|error| refuse(&format!("has no readable sections: {error}")))?;
        let mut found = sections.iter().filter(|section| sections.section_name(endian, section) == Ok(b".bun"));
        let (Some(bun), None) = (found.next(), found.next()) else { return Err(refuse("has not one section `.bun`")) };
        let section = range(bun.sh_offset(endian), bun.sh_size(endian), file).ok_or_else(|| refuse("ends within `.bun`"))?;
        if bun.sh_type(endian) != elf::SHT_PROGBITS {
            return Err(refuse("has a section `.bun` that is not plain data"));
        }
        let segments =
            header.program_headers(endian, file).map_err(|error| refuse(&format!("has no readable segments: {error}")))?;
        let loads = || segments.iter().enumerate().filter(|(_, segment)| segment.p_type(endian) == elf::PT_LOAD);
        let holds = |segment: &elf::ProgramHeader64<Endianness>| {
            range(segment.p_offset(endian), segment.p_filesz(endian), file)
                .filter(|bytes| bytes.start <= section.start && section.end <= bytes.end)
        };
        let holder = loads().find_map(|(index, segment)| Some((index, segment, holds(segment)?)));
        let (index, segment, bytes) = holder.ok_or_else(|| refuse("does not load `.bun`"))?;
        // What would be overwritten in the file or in memory, if the section grew.
        let behind = |other: &elf::SectionHeader64<Endianness>| {
            section_is_loaded(other, endian) && other.sh_addr(endian) > bun.sh_addr(endian)
        };
        let above = loads().any(|(other, load)| other != index && load.p_vaddr(endian) > segment.p_vaddr(endian));
        if segment.p_filesz(endian) != segment.p_memsz(endian) || above || sections.iter().any(behind) {
            return Err(refuse("loads something behind `.bun`"));
        }
        let beyond = segments.iter().enumerate().any(|(other, segment)| {
            let (offset, size) = (segment.p_offset(endian), segment.p_filesz(endian));
            other != index && size > 0 && offset.saturating_add(size) > section.start as u64
        });
        if beyond {
            return Err(refuse("has segments that reach beyond `.bun`"));
        }
        let table_end = |start: u64, rows: usize, size: u16| start as usize + rows * usize::from(size);
        let segments_end = table_end(header.e_phoff(endian), segments.len(), header.e_phentsize(endian));
        let (shoff, headers) = (header.e_shoff(endian) as usize, sections.len());
        let headers_end = table_end(header.e_shoff(endian), headers, header.e_shentsize(endian));
        if segments_end.max(size_of::<ElfHeader>()) > section.start || (shoff < bytes.end && headers_end > section.start) {
            return Err(refuse("has its headers in `.bun`"));
        }
        let address = segment.p_vaddr(endian).checked_add((section.start - bytes.start) as u64);
        if address != Some(bun.sh_addr(endian)) {
            return Err(refuse("has `.bun` at an address that is not that of its bytes"));
        }
        let overlaps = |other: &elf::SectionHeader64<Endianness>, part: &Range<usize>| {
            let (offset, size) = (other.sh_offset(endian), other.sh_size(endian));
            let in_file = other.sh_type(endian) != elf::SHT_NOBITS && size > 0;
            in_file && offset < part.end as u64 && offset.saturating_add(size) > part.start as u64
        };
        let (phoff, whole) = (header.e_phoff(endian) as usize, section.start..bytes.end);
        let rewritten = [0..size_of::<ElfHeader>(), phoff..segments_end, shoff..headers_end];
        for other in sections.iter().filter(|other| !std::ptr::eq(*other, bun)) {
            let (offset, size) = (other.sh_offset(endian), other.sh_size(endian));
            if other.sh_type(endian) != elf::SHT_NOBITS && size > 0 && range(offset, size, file).is_none() {
                return Err(refuse("ends within its sections"));
            }
            if overlaps(other, &whole) {
                return Err(refuse("has sections that overlap `.bun`"));
            }
            if rewritten.iter().any(|part| overlaps(other, part)) {
                return Err(refuse("has sections that overlap its headers"));
            }
        }
        if file[section.end..bytes.end].iter().any(|byte| *byte != 0) {
            return Err(refuse("has something behind `.bun` in its segment"));
        }
        Ok(Self { section, segment: index, segment_end: bytes.end })
    }

    pub fn section(&self) -> Range<usize> {
        self.section.clone()
    }

    /// The file with another section; it has grown by whole pages.
    pub fn with_section(&self, file: &[u8], section: PiecewiseFile) -> Result<PiecewiseFile, LayoutError> {
        let endian = Endianness::Little;
        let broken = |error: object::read::Error| LayoutError::new(format!("the ELF file cannot be read any more: {error}"));
        let header = ElfHeader::parse(file).map_err(broken)?;
        let (phoff, phentsize) = (header.e_phoff(endian) as usize, usize::from(header.e_phentsize(endian)));
        let (shoff, shentsize) = (header.e_shoff(endian), usize::from(header.e_shentsize(endian)));
        let sections = header.section_headers(endian, file).map_err(broken)?;
        let segment = &header.program_headers(endian, file).map_err(broken)?[self.segment];
        let grown = section.len() - self.section.len();

        let mut new = PiecewiseFile::kept(0..self.section.start);
        new.append(section);
        new.keep(self.section.end..file.len());
        // Of a section that takes nothing in the file, the offset may be any.
        let moved = |offset: u64| if offset >= self.segment_end as u64 { offset.saturating_add(grown as u64) } else { offset };
        let row = phoff + self.segment * phentsize;
        new.overwrite(row + P_FILESZ, &(segment.p_filesz(endian) + grown as u64).to_le_bytes());
        new.overwrite(row + P_MEMSZ, &(segment.p_memsz(endian) + grown as u64).to_le_bytes());
        new.overwrite(E_SHOFF, &moved(shoff).to_le_bytes());
        for (index, header) in sections.iter().enumerate() {
            let row = moved(shoff) as usize + index * shentsize;
            let (offset, size) = (header.sh_offset(endian), header.sh_size(endian));
            if offset == self.section.start as u64
                && size == self.section.len() as u64
                && header.sh_type(endian) == elf::SHT_PROGBITS
            {
                new.overwrite(row + SH_SIZE, &(size + grown as u64).to_le_bytes());
            } else if moved(offset) != offset {
                new.overwrite(row + SH_OFFSET, &moved(offset).to_le_bytes());
            }
        }
        Ok(new)
    }
}

fn section_is_loaded(section: &elf::SectionHeader64<Endianness>, endian: Endianness) -> bool {
    section.sh_flags.get(endian).contains(elf::SHF_ALLOC)
}

fn range(offset: u64, size: u64, file: &[u8]) -> Option<Range<usize>> {
    let range = usize::try_from(offset).ok()?..usize::try_from(offset.checked_add(size)?).ok()?;
    file.get(range.clone()).map(|_| range)
}
