//! Pages of b-trees, and the cells on them.

use super::record::varint;

/// Bytes of the file's header, before the b-tree on page 1.
const FILE_HEADER_BYTES: usize = 100;

/// Kinds of pages of b-trees. Rows of tables without rowids are in indexes, on their interior pages as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    IndexInterior,
    TableInterior,
    IndexLeaf,
    TableLeaf,
}

impl PageKind {
    /// The kind of a page, by its first byte.
    pub fn of(number: u32, page: &[u8]) -> Option<Self> {
        match page.get(header_start(number))? {
            0x02 => Some(Self::IndexInterior),
            0x05 => Some(Self::TableInterior),
            0x0a => Some(Self::IndexLeaf),
            0x0d => Some(Self::TableLeaf),
            _ => None,
        }
    }

    pub fn is_interior(self) -> bool {
        matches!(self, Self::IndexInterior | Self::TableInterior)
    }

    pub fn is_table(self) -> bool {
        matches!(self, Self::TableInterior | Self::TableLeaf)
    }
}

fn header_start(number: u32) -> usize {
    if number == 1 { FILE_HEADER_BYTES } else { 0 }
}

/// A page of a b-tree. `usable` bytes of it are for the b-tree, the rest is reserved.
#[derive(Debug)]
pub(super) struct BtreePage<'a> {
    pub kind: PageKind,
    bytes: &'a [u8],
    usable: usize,
    cells: &'a [u8],
    cells_end: usize,
    rightmost: Option<u32>,
}

/// A cell. `local` is the begin of the payload, as far as it is on the page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cell<'a> {
    pub child: Option<u32>,
    pub rowid: Option<i64>,
    /// Bytes of the payload; 0 on interior pages of tables, which have none.
    pub payload: u64,
    pub local: &'a [u8],
    /// First page of the rest of the payload.
    pub overflow: Option<u32>,
    /// Offset behind the cell on its page.
    pub end: usize,
}

impl<'a> BtreePage<'a> {
    /// Reads the header of a page; `None` if it is no page of a b-tree.
    pub fn parse(number: u32, page: &'a [u8], usable: usize) -> Option<Self> {
        let kind = PageKind::of(number, page)?;
        let bytes = page.get(..usable)?;
        let header = bytes.get(header_start(number)..)?;
        let count = usize::from(u16_at(header, 3)?);
        let rightmost = if kind.is_interior() { Some(u32_at(header, 8)?) } else { None };
        let cells_start = if kind.is_interior() { 12 } else { 8 };
        let cells = header.get(cells_start..cells_start + 2 * count)?;
        let cells_end = header_start(number) + cells_start + 2 * count;
        Some(Self { kind, bytes, usable, cells, cells_end, rightmost })
    }

    /// The cells in the order of their keys; `None` for each that is damaged.
    pub fn cells(&self) -> impl Iterator<Item = Option<Cell<'a>>> {
        let (pointers, _) = self.cells.as_chunks();
        pointers.iter().map(|pointer| self.cell(usize::from(u16::from_be_bytes(*pointer))))
    }

    /// The page of all that is behind the last cell; only interior pages have one.
    pub fn rightmost(&self) -> Option<u32> {
        self.rightmost
    }

    fn cell(&self, start: usize) -> Option<Cell<'a>> {
        if start < self.cells_end {
            return None;
        }
        let mut rest = self.bytes.get(start..)?;
        let child = if self.kind.is_interior() {
            let child = u32_at(rest, 0)?;
            rest = rest.get(4..)?;
            Some(child)
        } else {
            None
        };
        let end_of = |rest: &[u8]| self.bytes.len() - rest.len();
        if self.kind == PageKind::TableInterior {
            let (rowid, rest) = varint(rest)?;
            let (rowid, end) = (Some(rowid.cast_signed()), end_of(rest));
            return Some(Cell { child, rowid, payload: 0, local: &[], overflow: None, end });
        }
        let (payload, mut rest) = varint(rest)?;
        let mut rowid = None;
        if self.kind == PageKind::TableLeaf {
            let (id, behind) = varint(rest)?;
            (rowid, rest) = (Some(id.cast_signed()), behind);
        }
        let local_bytes = local_bytes(payload, self.usable, self.kind);
        let (local, rest) = rest.split_at_checked(local_bytes)?;
        if local_bytes as u64 == payload {
            return Some(Cell { child, rowid, payload, local, overflow: None, end: end_of(rest) });
        }
        let overflow = Some(u32_at(rest, 0)?);
        Some(Cell { child, rowid, payload, local, overflow, end: end_of(rest) + 4 })
    }
}

/// Bytes of a payload that are on the page of its cell.
fn local_bytes(payload: u64, usable: usize, kind: PageKind) -> usize {
    let most = if kind.is_table() { usable - 35 } else { (usable - 12) * 64 / 255 - 23 };
    if payload <= most as u64 {
        return payload as usize;
    }
    let least = (usable - 12) * 32 / 255 - 23;
    let some = least + ((payload - least as u64) % (usable as u64 - 4)) as usize;
    if some <= most { some } else { least }
}

/// A big-endian number of two bytes.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// A big-endian number of four bytes.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leaf of a table with one cell of these bytes at the end.
    fn leaf(cell: &[u8], usable: usize) -> Vec<u8> {
        let mut page = vec![0; 4096];
        let start = usable - cell.len();
        page[..8].copy_from_slice(&[0x0d, 0, 0, 0, 1, 0, 0, 0]);
        page[8..10].copy_from_slice(&(start as u16).to_be_bytes());
        page[start..usable].copy_from_slice(cell);
        page
    }

    #[test]
    fn a_cell_is_on_its_page_or_goes_on_elsewhere() {
        let page = leaf(&[3, 0x81, 0x00, 2, 1, 7], 4088);
        let parsed = BtreePage::parse(2, &page, 4088).expect("a page");
        let cells: Vec<_> = parsed.cells().collect();
        let expected = Cell { child: None, rowid: Some(128), payload: 3, local: &[2, 1, 7], overflow: None, end: 4088 };
        assert_eq!(cells, [Some(expected)]);

        let mut cell = vec![0xa7, 0x10, 5];
        let payload = 0x27 << 7 | 0x10;
        let local = local_bytes(payload, 4096, PageKind::TableLeaf);
        assert_eq!((payload, local), (5008, 489 + (5008 - 489) % 4092));
        cell.extend(vec![9; local]);
        cell.extend(77_u32.to_be_bytes());
        let page = leaf(&cell, 4096);
        let parsed = BtreePage::parse(2, &page, 4096).expect("a page");
        let cell = parsed.cells().next().flatten().expect("a cell");
        assert_eq!((cell.payload, cell.local.len(), cell.overflow, cell.end), (payload, local, Some(77), 4096));
    }

    #[test]
    fn a_cell_that_leaves_its_page_is_none() {
        let mut page = leaf(&[3, 1, 2, 1, 7], 4096);
        page[9] += 3;
        let parsed = BtreePage::parse(2, &page, 4096).expect("a page");
        assert_eq!(parsed.cells().collect::<Vec<_>>(), [None]);
        page[8..10].copy_from_slice(&[0, 4]);
        let parsed = BtreePage::parse(2, &page, 4096).expect("a page");
        assert_eq!(parsed.cells().collect::<Vec<_>>(), [None], "it would be in the header");
        page[3..5].copy_from_slice(&[0xff, 0xff]);
        assert!(BtreePage::parse(2, &page, 4096).is_none());
    }
}
