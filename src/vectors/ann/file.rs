/*!
The file: a header, the vectors, the lists of their codes, a directory of entries, and tables of offsets. All numbers are
little-endian. Sizes follow from the header, so a file that was cut off has the wrong length.

Header and tables have a checksum that is verified when the file is opened. A vector, a list and a page of the directory have one
each, verified whenever they are read. So all data is verified before use, and only what is needed is read.
*/

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::bit_codes::{LANES, code_bytes};
use super::centroids::Centroids;
use super::{AnnIdentity, Quantized, Unusable};
use ctxbridge_common::files;

/// Magic number of the file; the digit is the version of the format.
const MAGIC: &[u8; 8] = b"ctxnear1";
/// Bytes of the header.
pub(super) const HEADER: usize = 128;
/// Maximum number of bytes of a model's name.
const MODEL_BYTES: usize = 40;
/// Entries in a page of the directory.
pub(super) const PAGE_LINES: usize = 128;
/// Bytes of a directory's line: an entry, a row.
pub(super) const DIRECTORY_LINE_BYTES: usize = 12;
/// Bytes in the tables for a list or a page.
const TABLE_ENTRY_BYTES: usize = 12;
/// Maximum of the numbers in our files; products of them fit 64 bits.
const MAX_STORED_NUMBER: u64 = u32::MAX as u64;

/// A list of vectors around a center, as blocks of codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IvfList {
    /// The first of its blocks.
    pub first: u32,
    /// Number of its blocks.
    pub blocks: u32,
    /// Checksum of all of them.
    pub crc: u32,
}

/// A page of the directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DirectoryPage {
    /// The first entry in it.
    pub entry: i64,
    /// Its checksum.
    pub crc: u32,
}

/// Numbers of all parts, from which their offsets follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnnLayout {
    pub dimensions: usize,
    pub rows: usize,
    pub lists: usize,
    pub blocks: usize,
    /// The highest id.
    pub last: i64,
}

impl AnnLayout {
    /// Bytes of a vector's row: id, entry, scale, values, checksum.
    pub fn row_bytes(&self) -> usize {
        24 + self.dimensions
    }

    /// Bytes of a block: codes, then for each lane the factor of its sums, then rows, then entries.
    pub fn block_bytes(&self) -> usize {
        LANES * (code_bytes(self.dimensions) + 16)
    }

    fn pages(&self) -> usize {
        self.rows.div_ceil(PAGE_LINES)
    }

    /// Bytes of centers, lists and pages.
    fn table_bytes(&self) -> usize {
        self.lists * (4 + self.dimensions + TABLE_ENTRY_BYTES) + self.pages() * TABLE_ENTRY_BYTES
    }

    pub fn row_at(&self, row: usize) -> u64 {
        (HEADER + row * self.row_bytes()) as u64
    }

    pub fn block_at(&self, block: usize) -> u64 {
        self.row_at(self.rows) + (block * self.block_bytes()) as u64
    }

    pub fn line_at(&self, line: usize) -> u64 {
        self.block_at(self.blocks) + (line * DIRECTORY_LINE_BYTES) as u64
    }

    pub fn tables_at(&self) -> u64 {
        self.line_at(self.rows)
    }

    pub fn end(&self) -> u64 {
        self.tables_at() + self.table_bytes() as u64
    }
}

/// Tables of an open file that are kept in memory.
#[derive(Debug)]
pub(super) struct Tables {
    pub centers: Centroids,
    pub lists: Vec<IvfList>,
    pub pages: Vec<DirectoryPage>,
}

impl Tables {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for list in 0..self.centers.len() {
            let (scale, values) = self.centers.get(list);
            bytes.extend(scale.to_le_bytes());
            bytes.extend(values.iter().map(|value| value.cast_unsigned()));
        }
        for list in &self.lists {
            bytes.extend([list.first, list.blocks, list.crc].iter().flat_map(|number| number.to_le_bytes()));
        }
        for page in &self.pages {
            bytes.extend(page.entry.to_le_bytes());
            bytes.extend(page.crc.to_le_bytes());
        }
        bytes
    }

    /// Decodes the tables; `None` if they contradict each other.
    fn parse(bytes: &[u8], layout: &AnnLayout) -> Option<Self> {
        let (centers_bytes, rest) = bytes.split_at_checked(layout.lists * (4 + layout.dimensions))?;
        let (lists_bytes, pages_bytes) = rest.split_at_checked(layout.lists * TABLE_ENTRY_BYTES)?;
        let mut centers = Centroids::new(layout.dimensions);
        for center in centers_bytes.chunks_exact(4 + layout.dimensions) {
            centers.push(&Quantized::from_bytes(center, layout.dimensions)?);
        }
        let mut lists = Vec::with_capacity(layout.lists);
        let mut next = 0_usize;
        for mut bytes in lists_bytes.chunks_exact(TABLE_ENTRY_BYTES) {
            let list = IvfList {
                first: u32::from_le_bytes(take_array(&mut bytes)?),
                blocks: u32::from_le_bytes(take_array(&mut bytes)?),
                crc: u32::from_le_bytes(take_array(&mut bytes)?),
            };
            if list.first as usize != next {
                return None;
            }
            next = next.checked_add(list.blocks as usize)?;
            lists.push(list);
        }
        let mut pages: Vec<DirectoryPage> = Vec::with_capacity(layout.pages());
        for mut bytes in pages_bytes.chunks_exact(TABLE_ENTRY_BYTES) {
            let page = DirectoryPage {
                entry: i64::from_le_bytes(take_array(&mut bytes)?),
                crc: u32::from_le_bytes(take_array(&mut bytes)?),
            };
            if pages.last().is_some_and(|last| last.entry > page.entry) {
                return None;
            }
            pages.push(page);
        }
        (next == layout.blocks).then_some(Self { centers, lists, pages })
    }
}

/// Cuts an array off the front.
pub(super) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

/// Encodes the header, with the checksum of the tables in it, and its own at the end.
pub(super) fn header(layout: &AnnLayout, identity: &AnnIdentity, tables: &[u8]) -> Option<[u8; HEADER]> {
    let model = identity.model.as_bytes();
    if model.len() > MODEL_BYTES
        || [layout.rows, layout.lists, layout.blocks, layout.dimensions].iter().any(|n| *n as u64 > MAX_STORED_NUMBER)
    {
        return None;
    }
    let mut bytes = Vec::with_capacity(HEADER);
    bytes.extend(MAGIC);
    bytes.extend((layout.dimensions as u32).to_le_bytes());
    bytes.extend((layout.lists as u32).to_le_bytes());
    bytes.extend((layout.rows as u64).to_le_bytes());
    bytes.extend((layout.blocks as u64).to_le_bytes());
    bytes.extend(layout.last.to_le_bytes());
    bytes.extend(identity.index_id);
    bytes.extend(crc32fast::hash(tables).to_le_bytes());
    bytes.push(model.len() as u8);
    bytes.extend(model);
    bytes.resize(HEADER - 4, 0);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.try_into().ok()
}

/// A file that is open for reading.
#[derive(Debug)]
pub(super) struct AnnFileReader {
    file: File,
    path: PathBuf,
    pub layout: AnnLayout,
}

impl AnnFileReader {
    /// Opens a file, and reads its header and tables; `None` if there is no file.
    pub fn open(path: &Path, identity: &AnnIdentity) -> Result<Option<(Self, Tables)>, Unusable> {
        let file = match files::open(path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(Unusable::new(path, cause.to_string())),
        };
        let length = file.metadata().map_err(|cause| Unusable::new(path, cause.to_string()))?.len();
        let mut header = [0; HEADER];
        let mut reader =
            Self { file, path: path.to_owned(), layout: AnnLayout { dimensions: 0, rows: 0, lists: 0, blocks: 0, last: 0 } };
        reader.read(0, &mut header)?;
        let (layout, crc) = decode_header(&header, identity).map_err(|why| reader.unusable(why))?;
        if layout.end() != length {
            return Err(reader.unusable(format!("it has {length} bytes, not {}", layout.end())));
        }
        reader.layout = layout;
        let mut tables = vec![0; reader.layout.table_bytes()];
        reader.read(reader.layout.tables_at(), &mut tables)?;
        if crc32fast::hash(&tables) != crc {
            return Err(reader.unusable("the checksum of its tables is wrong"));
        }
        let tables = Tables::parse(&tables, &reader.layout).ok_or_else(|| reader.unusable("its tables contradict each other"))?;
        Ok(Some((reader, tables)))
    }

    pub fn unusable(&self, why: impl Into<String>) -> Unusable {
        Unusable::new(&self.path, why)
    }

    /// Reads bytes at an offset.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Result<(), Unusable> {
        read_exact_at(&self.file, bytes, at).map_err(|cause| match cause.kind() {
            io::ErrorKind::UnexpectedEof => self.unusable("it is cut off"),
            _ => self.unusable(cause.to_string()),
        })
    }
}

/// Decodes a header; also returns the checksum of the tables.
fn decode_header(header: &[u8; HEADER], identity: &AnnIdentity) -> Result<(AnnLayout, u32), &'static str> {
    let damaged = "its header is damaged";
    let (content, crc) = header.split_last_chunk::<4>().ok_or(damaged)?;
    let mut bytes = content;
    let magic: [u8; 8] = take_array(&mut bytes).ok_or(damaged)?;
    if &magic != MAGIC {
        return Err(if magic[..7] == MAGIC[..7] { "it is of another version" } else { "it is something else" });
    }
    if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
        return Err("the checksum of its header is wrong");
    }
    let dimensions = u32::from_le_bytes(take_array(&mut bytes).ok_or(damaged)?) as usize;
    let lists = u32::from_le_bytes(take_array(&mut bytes).ok_or(damaged)?) as usize;
    let rows = u64::from_le_bytes(take_array(&mut bytes).ok_or(damaged)?);
    let blocks = u64::from_le_bytes(take_array(&mut bytes).ok_or(damaged)?);
    let last = i64::from_le_bytes(take_array(&mut bytes).ok_or(damaged)?);
    let of: [u8; 16] = take_array(&mut bytes).ok_or(damaged)?;
    let tables = u32::from_le_bytes(take_array(&mut bytes).ok_or(damaged)?);
    let [length] = take_array(&mut bytes).ok_or(damaged)?;
    let model = bytes.get(..usize::from(length)).ok_or(damaged)?;
    if of != identity.index_id {
        return Err("it was made of another index");
    }
    if model != identity.model.as_bytes() || dimensions != identity.dimensions {
        return Err("its vectors are of another model");
    }
    if dimensions > 1 << 16 || rows > MAX_STORED_NUMBER || blocks > MAX_STORED_NUMBER {
        return Err(damaged);
    }
    Ok((AnnLayout { dimensions, rows: rows as usize, lists, blocks: blocks as usize, last }, tables))
}

/// Reads at an offset and leaves the file's own position alone, so several threads may read at once.
#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => (bytes, offset) = (&mut bytes[read..], offset + read as u64),
        }
    }
    Ok(())
}
