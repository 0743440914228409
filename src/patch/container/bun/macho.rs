/*!
A Bun executable for macOS: the graph is the section `__bun`, alone in the segment `__BUN`.

```text
__TEXT … __DATA     code and data; the header and the load commands are the first bytes of __TEXT
__BUN               the section, then zeros up to the end of the page
__LINKEDIT          tables for dyld and the symbols, then the code signature, with which the file ends
```

`__LINKEDIT` comes after `__BUN` in the file and in memory. Nothing uses addresses in it: dyld and the kernel find its tables by
the file offsets in the load commands. So the section can grow: first into the rest of its page, then `__LINKEDIT` moves by whole
pages, and those file offsets with it. Everything that has an address in the program stays where it is.

The signature has a hash of each page, so [`Signer`] makes a new one. Apple's `<mach-o/loader.h>` describes the format.
*/

use std::ops::Range;

use object::Endianness;
use object::macho::{self, MachHeader64};
use object::read::macho::MachHeader as _;

use super::LayoutError;
use super::codesign::Signer;
use crate::container::{FileBytes, PiecewiseFile};
use commands::{MachoSegment, Pointer, check_fixups, field, file_offsets, name, section, segment, signature};

mod commands;
#[cfg(test)]
mod tests;

type MachoHeader = MachHeader64<Endianness>;

const ENDIAN: Endianness = Endianness::Little;

/// Unit by which `__BUN` grows, and of sizes in memory: the page of arm64. The page of x86-64 is a quarter of it; but in 2.1.330
/// for x86-64, too, `__BUN` and `__LINKEDIT` are at multiples of this in memory, and stay so.
const GROWTH_UNIT: usize = 16 << 10;

/// Maximum length of the header and the load commands in bytes; the client's have 3 KB.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// A Mach-O executable whose layout is understood.
#[derive(Clone, Debug)]
pub struct Macho {
    /// The length of the header and the load commands.
    head: usize,
    section: Range<usize>,
    bun: MachoSegment,
    linkedit: MachoSegment,
    /// The file offsets that point into `__LINKEDIT`.
    pointers: Vec<Pointer>,
    /// Position of the load command of the signature.
    signature_command: usize,
    signature: Range<usize>,
    signer: Signer,
}

fn refuse(what: &str) -> LayoutError {
    LayoutError::new(format!("the Mach-O file {what}"))
}

fn unreadable(error: object::read::Error) -> LayoutError {
    refuse(&format!("cannot be read: {error}"))
}

impl Macho {
    /// Reads the layout of a file.
    ///
    /// # Errors
    /// If it is not a signed executable for one 64-bit architecture of a Mac, or something in it is not known to
    /// stay right when `__BUN` grows.
    pub fn parse(file: &[u8]) -> Result<Self, LayoutError> {
        let (header, page) = header(file)?;
        let head = size_of::<MachoHeader>() + header.sizeofcmds(ENDIAN) as usize;
        if head > MAX_HEAD_BYTES {
            return Err(refuse("has more load commands than any linker writes"));
        }
        let mut commands = Vec::new();
        let mut iterator = header.load_commands(ENDIAN, file, 0).map_err(unreadable)?;
        while let Some(command) = iterator.next().map_err(unreadable)? {
            commands.push(command);
        }
        let mut segments = Vec::new();
        for command in &commands {
            segments.extend(segment(command, file)?);
        }
        let [bun, linkedit, text] = ["__BUN", "__LINKEDIT", "__TEXT"].map(|name| {
            let mut found = segments.iter().filter(|segment| segment.name == name);
            match (found.next(), found.next()) {
                (Some(segment), None) => Ok(segment.clone()),
                _ => Err(refuse(&format!("has not one segment `{name}`"))),
            }
        });
        let (bun, linkedit, text) = (bun?, linkedit?, text?);
        check_order(&segments, &bun, &linkedit, page, file)?;
        let section = section(&commands, &bun)?;
        if text.file.start != 0 || text.file.end < head || bun.file.start < head {
            return Err(refuse("does not begin with `__TEXT`"));
        }

        let mut pointers = Vec::new();
        let mut signed = None;
        for command in &commands {
            let at = command.offset() as usize;
            for pointer in file_offsets(command)? {
                let pointer = Pointer { at: at + pointer.at, ..pointer };
                let target = pointer.read(file).ok_or_else(|| refuse("ends within its load commands"))?;
                if target >= linkedit.file.start as u64 {
                    pointers.push(pointer);
                } else if target > bun.file.start as u64 {
                    return Err(refuse(&format!("has a load command {} that points into `__BUN`", name(command.cmd()))));
                }
            }
            if command.cmd() == macho::LC_DYLD_CHAINED_FIXUPS {
                check_fixups(file, at, segments.iter().map(|segment| segment.memory.start >= bun.memory.start))?;
            }
            if command.cmd() == macho::LC_CODE_SIGNATURE && signed.replace(at).is_some() {
                return Err(refuse("has two signatures"));
            }
        }
        let signature_command = signed.ok_or_else(|| refuse("is not signed"))?;
        let signature = signature(file, signature_command).ok_or_else(|| refuse("has no readable signature command"))?;
        let behind = |pointer: &Pointer| pointer.read(file) > Some(signature.start as u64);
        if signature.end != file.len() || signature.start < linkedit.file.start || pointers.iter().any(behind) {
            return Err(refuse("does not end with its signature"));
        }
        let bytes = file.get(signature.clone()).ok_or_else(|| refuse("ends within its signature"))?;
        let signer = Signer::like(bytes, text.file.start as u64..text.file.end as u64)?;
        Ok(Self { head, section, bun, linkedit, pointers, signature_command, signature, signer })
    }

    /// The bytes of the section with the graph, in the file.
    pub fn section(&self) -> Range<usize> {
        self.section.clone()
    }

    /// The bytes of the tables for dyld and of the symbols, before the signature.
    pub fn tables(&self) -> Range<usize> {
        self.linkedit.file.start..self.signature.start
    }

    /// The bytes of the code signature, at the end of the file. In the result of [`Self::finish`], the rest of the file determines
    /// them.
    pub fn signature(&self) -> Range<usize> {
        self.signature.clone()
    }

    /// The file with another section, whose kept pieces are ranges of the file. The signature is replaced by zeros.
    ///
    /// # Errors
    /// If the new file would be too large for the format.
    pub fn with_section(&self, file: &[u8], section: PiecewiseFile) -> Result<PiecewiseFile, LayoutError> {
        let room = self.bun.file.end - self.section.start;
        let grown = section.len().saturating_sub(room).next_multiple_of(GROWTH_UNIT);
        let slack = room + grown - section.len();
        let signed = self.signature.start + grown;
        let signature = self.signer.size(signed);
        let linkedit = signed + signature - (self.linkedit.file.start + grown);
        let too_large = || refuse("would be larger than 4 GiB");
        if u32::try_from(signed + signature).is_err() {
            return Err(too_large());
        }

        let mut head = HeadBuffer(file.get(..self.head).ok_or_else(|| refuse("has become shorter"))?.to_vec());
        let row = self.bun.command;
        head.put_u64(row + field::SEGMENT_VMSIZE, self.bun.memory.end - self.bun.memory.start + grown as u64);
        head.put_u64(row + field::SEGMENT_FILESIZE, (self.bun.file.len() + grown) as u64);
        head.put_u64(row + field::SECTIONS + field::SECTION_SIZE, section.len() as u64);
        let row = self.linkedit.command;
        head.put_u64(row + field::SEGMENT_VMADDR, self.linkedit.memory.start + grown as u64);
        head.put_u64(row + field::SEGMENT_VMSIZE, linkedit.next_multiple_of(GROWTH_UNIT) as u64);
        head.put_u64(row + field::SEGMENT_FILEOFF, (self.linkedit.file.start + grown) as u64);
        head.put_u64(row + field::SEGMENT_FILESIZE, linkedit as u64);
        for pointer in &self.pointers {
            let moved = pointer.read(&head.0).ok_or_else(|| refuse("has changed"))? + grown as u64;
            match pointer.wide {
                true => head.put_u64(pointer.at, moved),
                false => head.put_u32(pointer.at, u32::try_from(moved).map_err(|_| too_large())?),
            }
        }
        head.put_u32(self.signature_command + field::DATA_SIZE, u32::try_from(signature).map_err(|_| too_large())?);

        let mut new = PiecewiseFile::default();
        new.insert(head.0);
        new.keep(self.head..self.section.start);
        new.append(section);
        new.insert(vec![0; slack]);
        new.keep(self.linkedit.file.start..self.signature.start);
        new.insert(vec![0; signature]);
        Ok(new)
    }

    /// Signs a file that [`Self::with_section`] made: computes the signature from the rest of the file and inserts it. An unchanged
    /// file keeps its signature, which is better than any of ours.
    ///
    /// # Errors
    /// If `new` does not come from this file, or if the file cannot be read any more.
    pub fn finish(&self, file: &FileBytes, new: PiecewiseFile) -> Result<PiecewiseFile, LayoutError> {
        if new == PiecewiseFile::kept(0..file.len()) {
            return Ok(new);
        }
        let foreign = || refuse("is not the one that is to be signed");
        if new.len() < self.head {
            return Err(foreign());
        }
        let head = new.slice(0..self.head).to_bytes(file);
        let place = signature(&head, self.signature_command).filter(|place| place.start >= self.head).ok_or_else(foreign)?;
        if place.end != new.len() || place.len() != self.signer.size(place.start) {
            return Err(foreign());
        }
        let mut signed = new.slice(0..place.start);
        let mut pages = self.signer.pages();
        let read = signed.stream(file, 0, &mut |bytes| pages.update(bytes));
        read.map_err(|error| refuse(&format!("cannot be read: {error}")))?;
        signed.insert(self.signer.sign(place.start, pages));
        Ok(signed)
    }
}

/// The header, and the page size of its architecture.
fn header(file: &[u8]) -> Result<(&MachoHeader, usize), LayoutError> {
    let magic = file.first_chunk().map_or(0, |magic| u32::from_be_bytes(*magic));
    if [macho::FAT_MAGIC, macho::FAT_MAGIC_64].contains(&magic) {
        return Err(refuse("is a universal (fat) one, for several architectures"));
    }
    let header = MachoHeader::parse(file, 0).map_err(|error| refuse(&format!("is not one for 64 bits: {error}")))?;
    if !header.is_little_endian() {
        return Err(refuse("is big-endian"));
    }
    if header.filetype(ENDIAN) != macho::MH_EXECUTE {
        return Err(refuse("is not an executable"));
    }
    match header.cputype(ENDIAN) {
        macho::CPU_TYPE_ARM64 => Ok((header, 16 << 10)),
        macho::CPU_TYPE_X86_64 => Ok((header, 4 << 10)),
        _ => Err(refuse("is for an architecture that no Mac of today has")),
    }
}

/// Refuses segments that overlap, and any but `__LINKEDIT` after `__BUN`, which must fill whole pages.
fn check_order(
    segments: &[MachoSegment],
    bun: &MachoSegment,
    linkedit: &MachoSegment,
    page: usize,
    file: &[u8],
) -> Result<(), LayoutError> {
    let mut in_file: Vec<_> = segments.iter().filter(|segment| !segment.file.is_empty()).collect();
    in_file.sort_by_key(|segment| segment.file.start);
    let mut in_memory: Vec<_> = segments.iter().filter(|segment| !segment.memory.is_empty()).collect();
    in_memory.sort_by_key(|segment| segment.memory.start);
    let overlap = in_file.windows(2).any(|pair| matches!(pair, [one, next] if one.file.end > next.file.start))
        || in_memory.windows(2).any(|pair| matches!(pair, [one, next] if one.memory.end > next.memory.start));
    if overlap {
        return Err(refuse("has segments that overlap"));
    }
    let last = |ordered: &[&MachoSegment]| matches!(ordered, [.., one, two] if one.command == bun.command && two.command == linkedit.command);
    if !last(&in_file) || !last(&in_memory) {
        return Err(refuse("does not have `__BUN` and `__LINKEDIT` as its last segments"));
    }
    let contiguous = bun.file.end == linkedit.file.start && bun.memory.end == linkedit.memory.start;
    if !contiguous || linkedit.file.end != file.len() || bun.file.len() as u64 != bun.memory.end - bun.memory.start {
        return Err(refuse("has a gap behind `__BUN`, or something behind `__LINKEDIT`"));
    }
    let aligned = [bun.file.start as u64, bun.file.end as u64, bun.memory.start, bun.memory.end];
    if aligned.iter().any(|at| at % page as u64 != 0) {
        return Err(refuse("has a `__BUN` that does not fill whole pages"));
    }
    // Addresses that grow as the file does, or the new ones could overflow.
    match linkedit.memory.end.checked_add(1 << 33) {
        Some(_) => Ok(()),
        None => Err(refuse("has a segment at the end of memory")),
    }
}

/// The header and the load commands of the new file. `parse` has checked that all writes are within.
struct HeadBuffer(Vec<u8>);

impl HeadBuffer {
    fn put_u32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    fn put_u64(&mut self, at: usize, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}
