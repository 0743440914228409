/*!
The contents of a Mach-O file's load commands that matter when `__BUN` grows: the segments, and the positions of file offsets.
*/

use std::ops::Range;

use object::Endianness;
use object::macho::{self, LoadCommandType, SegmentCommand64};
use object::read::macho::{LoadCommandData, Section as _, Segment as _};

use super::{ENDIAN, refuse, unreadable};
use crate::container::bun::LayoutError;

pub type MachoCommand<'file> = LoadCommandData<'file, Endianness>;

/// Offsets of the fields that change, in bytes from the start of their load command or section header.
pub mod field {
    pub const SEGMENT_VMADDR: usize = 24;
    pub const SEGMENT_VMSIZE: usize = 32;
    pub const SEGMENT_FILEOFF: usize = 40;
    pub const SEGMENT_FILESIZE: usize = 48;
    /// The headers of a segment's sections follow its load command.
    pub const SECTIONS: usize = 72;
    pub const SECTION: usize = 80;
    pub const SECTION_SIZE: usize = 40;
    pub const SECTION_OFFSET: usize = 48;
    pub const SECTION_RELOFF: usize = 56;
    pub const DATA_OFFSET: usize = 8;
    pub const DATA_SIZE: usize = 12;
    pub const NOTE_OFFSET: usize = 24;
}

/// A segment: the position of its load command, and its bytes in the file and in memory.
#[derive(Clone, Debug)]
pub struct MachoSegment {
    pub name: String,
    pub command: usize,
    pub file: Range<usize>,
    pub memory: Range<u64>,
}

/// A file offset in a load command.
#[derive(Clone, Copy, Debug)]
pub struct Pointer {
    pub at: usize,
    /// `true` if it has 64 bits, not 32.
    pub wide: bool,
}

impl Pointer {
    fn width(self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    /// The file offset it holds.
    pub fn read(self, head: &[u8]) -> Option<u64> {
        let bytes = head.get(self.at..)?;
        match self.wide {
            true => bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)),
            false => bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes).into()),
        }
    }
}

/// The segment that a load command describes, if it describes one.
pub fn segment(command: &MachoCommand, file: &[u8]) -> Result<Option<MachoSegment>, LayoutError> {
    let Some((segment, _)) = command.segment_64().map_err(unreadable)? else { return Ok(None) };
    let name = String::from_utf8_lossy(segment.name()).into_owned();
    let file_end = segment.fileoff(ENDIAN).checked_add(segment.filesize(ENDIAN)).filter(|end| *end <= file.len() as u64);
    let memory_end = segment.vmaddr(ENDIAN).checked_add(segment.vmsize(ENDIAN));
    let (Some(file_end), Some(memory_end)) = (file_end, memory_end) else {
        return Err(refuse(&format!("ends within the segment `{name}`")));
    };
    let file = segment.fileoff(ENDIAN) as usize..file_end as usize;
    Ok(Some(MachoSegment { name, command: command.offset() as usize, file, memory: segment.vmaddr(ENDIAN)..memory_end }))
}

/// The bytes of the section `__bun`.
pub fn section(commands: &[MachoCommand], bun: &MachoSegment) -> Result<Range<usize>, LayoutError> {
    let command = commands.iter().find(|command| command.offset() as usize == bun.command);
    let parsed = command.map(|command| command.segment_64()).transpose().map_err(unreadable)?.flatten();
    let (segment, data): (&SegmentCommand64<_>, _) = parsed.ok_or_else(|| refuse("has no segment `__BUN`"))?;
    let [section] = segment.sections(ENDIAN, data).map_err(unreadable)? else {
        return Err(refuse("has not one section in `__BUN`"));
    };
    let (offset, size) = (u64::from(section.offset.get(ENDIAN)), section.size.get(ENDIAN));
    let inside = offset >= bun.file.start as u64 && offset.checked_add(size).is_some_and(|end| end <= bun.file.end as u64);
    if section.name() != b"__bun" || !inside {
        return Err(refuse("has no section `__bun` within `__BUN`"));
    }
    let in_memory = section.addr.get(ENDIAN).checked_sub(bun.memory.start);
    if in_memory != Some(offset - bun.file.start as u64) || section.nreloc.get(ENDIAN) != 0 {
        return Err(refuse("has a section `__bun` that is not loaded as it is in the file"));
    }
    Ok(offset as usize..(offset + size) as usize)
}

/// The file offsets in a load command, with positions from its start.
pub fn file_offsets(command: &MachoCommand) -> Result<Vec<Pointer>, LayoutError> {
    let narrow = |at: &[usize]| at.iter().map(|at| Pointer { at: *at, wide: false }).collect();
    let pointers: Vec<Pointer> = match command.cmd() {
        macho::LC_SEGMENT_64 => section_offsets(command)?,
        macho::LC_NOTE => vec![Pointer { at: field::NOTE_OFFSET, wide: true }],
        other => match data_offsets(other) {
            Some(at) => narrow(at),
            None => return Err(refuse(&format!("has a load command {}, which ctxbridge does not know", name(other)))),
        },
    };
    // Behind each of these offsets comes another field of the same width, mostly the size of what is there.
    let inside = |pointer: &Pointer| pointer.at + 2 * pointer.width() <= command.raw_data().len();
    match pointers.iter().all(inside) {
        true => Ok(pointers),
        false => Err(refuse(&format!("has a load command {} that is too short", name(command.cmd())))),
    }
}

fn section_offsets(command: &MachoCommand) -> Result<Vec<Pointer>, LayoutError> {
    let Some((segment, data)) = command.segment_64().map_err(unreadable)? else { return Ok(Vec::new()) };
    let sections = segment.sections(ENDIAN, data).map_err(unreadable)?;
    match segment.name() {
        // Its section stays where it is.
        b"__BUN" => Ok(Vec::new()),
        // They would have addresses that move.
        b"__LINKEDIT" if !sections.is_empty() => Err(refuse("has sections in `__LINKEDIT`")),
        _ => {
            let row = |index| field::SECTIONS + index * field::SECTION;
            let at =
                (0..sections.len()).flat_map(|index| [row(index) + field::SECTION_OFFSET, row(index) + field::SECTION_RELOFF]);
            Ok(at.map(|at| Pointer { at, wide: false }).collect())
        }
    }
}

/// Positions of 32-bit file offsets in a load command of this kind, if it is known.
fn data_offsets(command: LoadCommandType) -> Option<&'static [usize]> {
    Some(match command {
        macho::LC_SYMTAB => &[8, 16],
        macho::LC_DYSYMTAB => &[32, 40, 48, 56, 64, 72],
        macho::LC_DYLD_INFO | macho::LC_DYLD_INFO_ONLY => &[8, 16, 24, 32, 40],
        macho::LC_CODE_SIGNATURE
        | macho::LC_SEGMENT_SPLIT_INFO
        | macho::LC_FUNCTION_STARTS
        | macho::LC_DATA_IN_CODE
        | macho::LC_DYLIB_CODE_SIGN_DRS
        | macho::LC_LINKER_OPTIMIZATION_HINT
        | macho::LC_DYLD_EXPORTS_TRIE
        | macho::LC_DYLD_CHAINED_FIXUPS
        | macho::LC_ATOM_INFO
        | macho::LC_FUNCTION_VARIANTS
        | macho::LC_FUNCTION_VARIANT_FIXUPS
        | macho::LC_TWOLEVEL_HINTS
        | macho::LC_ENCRYPTION_INFO_64 => &[field::DATA_OFFSET],
        // The entry point of the program is an offset into `__TEXT`, which does not move.
        macho::LC_MAIN
        | macho::LC_LOAD_DYLIB
        | macho::LC_LOAD_WEAK_DYLIB
        | macho::LC_LAZY_LOAD_DYLIB
        | macho::LC_LOAD_UPWARD_DYLIB
        | macho::LC_REEXPORT_DYLIB
        | macho::LC_LOAD_DYLINKER
        | macho::LC_DYLD_ENVIRONMENT
        | macho::LC_RPATH
        | macho::LC_UUID
        | macho::LC_SOURCE_VERSION
        | macho::LC_BUILD_VERSION
        | macho::LC_VERSION_MIN_MACOSX
        | macho::LC_TARGET_TRIPLE => &[],
        _ => return None,
    })
}

/// Refuses pointers that dyld adjusts when it loads the file, in the marked segments, since these would move.
/// `LC_DYLD_CHAINED_FIXUPS` has, for each segment in the order of the load commands, the position of a list of its pages, or 0.
pub fn check_fixups(file: &[u8], command: usize, marked: impl Iterator<Item = bool>) -> Result<(), LayoutError> {
    let lists = || {
        let fixups = u32_at(file, command + field::DATA_OFFSET)? as usize;
        let starts = fixups.checked_add(u32_at(file, fixups.checked_add(4)?)? as usize)?;
        let count = u32_at(file, starts)? as usize;
        let marked = marked.enumerate().take(count).filter(|(_, marked)| *marked);
        marked.map(|(index, _)| u32_at(file, starts.checked_add(4 + 4 * index)?)).collect::<Option<Vec<_>>>()
    };
    match lists() {
        Some(lists) if lists.iter().all(|list| *list == 0) => Ok(()),
        Some(_) => Err(refuse("has pointers in `__BUN` that are adjusted when it is loaded")),
        None => Err(refuse("ends within its fixups")),
    }
}

/// The range of the signature, according to the load command at this position.
pub fn signature(head: &[u8], command: usize) -> Option<Range<usize>> {
    let start = u32_at(head, command + field::DATA_OFFSET)? as usize;
    Some(start..start.checked_add(u32_at(head, command + field::DATA_SIZE)? as usize)?)
}

pub fn name(command: LoadCommandType) -> String {
    format!("{:#x}", command.0)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
