//! Finds the records of a damaged file: through the trees where they hold together, and by their shapes where they do not.

use rusqlite::types::ValueRef;

use super::btree::{BtreePage, Cell, PageKind, u32_at};
use super::freelist::take_free_pages;
use super::pages::DatabasePages;
use super::record::{decode, decode_begin};
use super::shapes::TableShape;

/// Receives the rows that were found.
pub(super) trait RowSink {
    type Error;

    /// Takes a row.
    fn row(&mut self, shape: &TableShape, rowid: Option<i64>, values: &[ValueRef<'_>]) -> Result<(), Self::Error>;

    /// Takes the first values of a row whose others are lost.
    fn torn_row(&mut self, shape: &TableShape, rowid: Option<i64>, values: &[ValueRef<'_>]);

    /// Answers `true` if a row makes sense beside those that were taken.
    fn is_plausible(
        &mut self,
        query: &str,
        shape: &TableShape,
        rowid: Option<i64>,
        values: &[ValueRef<'_>],
    ) -> Result<bool, Self::Error>;
}

/// A table or index in the schema of the file.
#[derive(Debug)]
struct Root {
    name: String,
    page: u32,
}

/// Goes through a file.
pub(super) struct Walk<'a> {
    pages: DatabasePages,
    shapes: &'a [TableShape],
    /// Names of the shapes whose trees could not be followed to the end.
    broken: Vec<&'a str>,
    /// Records that could not be placed, and cells that could not be read.
    pub unplaced: u64,
}

impl<'a> Walk<'a> {
    pub fn new(pages: DatabasePages, shapes: &'a [TableShape]) -> Self {
        Self { pages, shapes, broken: Vec::new(), unplaced: 0 }
    }

    /// Passes on all rows, each at least once.
    pub fn run<S: RowSink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let (roots, is_schema_whole) = self.roots();
        let shapes = self.shapes;
        // Tables before indexes, which are only a second chance, and those before what is not ours.
        for shape in shapes {
            let root = roots.iter().find(|root| root.name == shape.name);
            let is_whole = match root {
                Some(root) => self.tree(root.page, shape, sink)?,
                // An older archive has fewer tables.
                None => is_schema_whole,
            };
            if !is_whole {
                self.broken.push(&shape.name);
            }
        }
        for root in roots.iter().filter(|root| !shapes.iter().any(|shape| shape.name == root.name)) {
            self.foreign_tree(root.page);
        }
        if self.broken.is_empty() {
            return Ok(());
        }
        take_free_pages(&mut self.pages);
        let ambiguous = self.loose_pages(false, sink)?;
        if ambiguous { self.loose_pages(true, sink).map(drop) } else { Ok(()) }
    }

    /// The roots of all tables and indexes, as far as the schema can be read; `true` if these are all.
    fn roots(&mut self) -> (Vec<Root>, bool) {
        let mut found = Vec::new();
        let (mut stack, mut is_whole) = (vec![1], true);
        while let Some(number) = stack.pop() {
            let page = self.pages.unseen_page(number);
            let Some(page) = page.filter(|page| PageKind::of(number, page).is_some_and(PageKind::is_table)) else {
                is_whole = false;
                continue;
            };
            match self.schema_page(number, &page) {
                Some((roots, children)) => {
                    self.pages.take(number);
                    is_whole &= !children.contains(&0);
                    found.extend(roots);
                    stack.extend(children.into_iter().filter(|child| *child > 0));
                }
                None => is_whole = false,
            }
        }
        for number in 2..=self.pages.count() {
            if is_whole {
                break;
            }
            let page = self.pages.unseen_page(number);
            let Some(page) = page.filter(|page| PageKind::of(number, page) == Some(PageKind::TableLeaf)) else { continue };
            if let Some((roots, _)) = self.schema_page(number, &page).filter(|(roots, _)| !roots.is_empty()) {
                self.pages.take(number);
                found.extend(roots);
            }
        }
        (found, is_whole)
    }

    /// The roots that a page of the schema lists, and the pages below it; 0 for those that cannot be read. `None` if it is no page of a schema.
    fn schema_page(&mut self, number: u32, page: &[u8]) -> Option<(Vec<Root>, Vec<u32>)> {
        let parsed = BtreePage::parse(number, page, self.pages.usable)?;
        let (mut roots, mut children): (Vec<Root>, Vec<u32>) = (Vec::new(), parsed.rightmost().into_iter().collect());
        for cell in parsed.cells() {
            let Some(cell) = cell else {
                children.push(0);
                continue;
            };
            children.extend(cell.child);
            if parsed.kind.is_interior() {
                continue;
            }
            let Some((record, _)) = self.payload(&cell) else {
                children.push(0);
                continue;
            };
            match decode(&record)?[..] {
                [ValueRef::Text(kind), ValueRef::Text(name), ValueRef::Text(_), ValueRef::Integer(root), _] => {
                    if matches!(kind, b"table" | b"index")
                        && let (Ok(page), Ok(name)) = (u32::try_from(root), std::str::from_utf8(name))
                        && page > 1
                    {
                        roots.push(Root { name: name.to_owned(), page });
                    }
                }
                _ => return None,
            }
        }
        Some((roots, children))
    }

    /// Passes on the rows of a tree; `false` if a part of it could not be reached.
    fn tree<S: RowSink>(&mut self, root: u32, shape: &TableShape, sink: &mut S) -> Result<bool, S::Error> {
        let (mut stack, mut is_whole) = (vec![root], true);
        while let Some(number) = stack.pop() {
            match self.tree_page(number, shape, sink)? {
                // The last is the first in the order of keys.
                Some(children) => stack.extend(children.into_iter().rev()),
                None => is_whole = false,
            }
        }
        Ok(is_whole)
    }

    /// Passes on the rows of a page of a tree, and returns the pages below it. `None` if it is none of the tree's.
    fn tree_page<S: RowSink>(&mut self, number: u32, shape: &TableShape, sink: &mut S) -> Result<Option<Vec<u32>>, S::Error> {
        let Some(page) = self.pages.unseen_page(number) else { return Ok(None) };
        let usable = self.pages.usable;
        let parsed = BtreePage::parse(number, &page, usable).filter(|parsed| parsed.kind.is_table() == shape.has_rowid);
        let Some(parsed) = parsed else { return Ok(None) };
        let (mut children, mut fitting, mut others) = (Vec::new(), 0_u64, 0_u64);
        let before = self.unplaced;
        for cell in parsed.cells() {
            children.extend(cell.as_ref().and_then(|cell| cell.child));
            let has_record = parsed.kind != PageKind::TableInterior;
            let fits = match &cell {
                Some(cell) if has_record && shape.has_rows => self.pass_on(cell, shape, sink)?,
                cell => cell.is_some(),
            };
            *(if fits { &mut fitting } else { &mut others }) += 1;
            self.unplaced += u64::from(!fits && has_record);
        }
        children.extend(parsed.rightmost());
        if fitting == 0 && others > 0 {
            self.unplaced = before;
            return Ok(None);
        }
        self.pages.take(number);
        if others > 0 && parsed.kind.is_interior() {
            // What was below the damaged cell is somewhere in the file.
            children.push(0);
        }
        Ok(Some(children))
    }

    /// Passes on the record of a cell; `false` if it is none of this shape.
    fn pass_on<S: RowSink>(&mut self, cell: &Cell<'_>, shape: &TableShape, sink: &mut S) -> Result<bool, S::Error> {
        let Some((record, chain)) = self.payload(cell) else {
            if let Some(values) = decode_begin(cell.local).filter(|values| shape.begins(values)) {
                sink.torn_row(shape, cell.rowid, &values);
            }
            return Ok(false);
        };
        let Some(values) = decode(&record).filter(|values| shape.fits(values)) else { return Ok(false) };
        chain.into_iter().for_each(|number| self.pages.take(number));
        sink.row(shape, cell.rowid, &values)?;
        Ok(true)
    }

    /// Takes the pages of a tree that has no rows of ours.
    fn foreign_tree(&mut self, root: u32) {
        let mut stack = vec![root];
        while let Some(number) = stack.pop() {
            let Some(page) = self.pages.unseen_page(number) else { continue };
            let Some(parsed) = BtreePage::parse(number, &page, self.pages.usable) else { continue };
            self.pages.take(number);
            stack.extend(parsed.rightmost());
            stack.extend(parsed.cells().flatten().filter_map(|cell| cell.child));
        }
    }

    /// Passes on the rows of pages that no tree reaches. Pages that fit several tables are left for a second pass, when all others have
    /// been read; `true` if there are some.
    fn loose_pages<S: RowSink>(&mut self, is_second: bool, sink: &mut S) -> Result<bool, S::Error> {
        let mut has_ambiguous = false;
        for number in 2..=self.pages.count() {
            let Some(page) = self.pages.unseen_page(number) else { continue };
            let Some(parsed) = BtreePage::parse(number, &page, self.pages.usable) else { continue };
            if parsed.kind == PageKind::TableInterior {
                continue;
            }
            let fitting = self.fitting(&parsed);
            let candidates: Vec<(&TableShape, usize)> =
                fitting.iter().filter(|(shape, _)| shape.has_rows && self.broken.contains(&&*shape.name)).copied().collect();
            let is_ambiguous = candidates.iter().any(|(shape, _)| shape.plausible().is_some());
            if is_ambiguous != is_second {
                has_ambiguous |= is_ambiguous;
                continue;
            }
            let found = if is_ambiguous { self.most_plausible(&parsed, &candidates, sink)? } else { clear_winner(&candidates) };
            let Some(shape) = found else {
                // Indexes are made anew, and a table that was read whole has no other rows.
                let is_known = fitting.iter().any(|(shape, _)| !candidates.iter().any(|(known, _)| known.name == shape.name));
                self.unplaced += if is_known { 0 } else { parsed.cells().count() as u64 };
                continue;
            };
            self.pages.take(number);
            for cell in parsed.cells() {
                let fits = match cell {
                    Some(cell) => self.pass_on(&cell, shape, sink)?,
                    None => false,
                };
                self.unplaced += u64::from(!fits);
            }
        }
        Ok(has_ambiguous)
    }

    /// The shapes that records of a page fit, each with their number.
    fn fitting(&mut self, page: &BtreePage<'_>) -> Vec<(&'a TableShape, usize)> {
        let shapes = self.shapes.iter().filter(|shape| shape.has_rowid == page.kind.is_table());
        let mut fitting: Vec<(&TableShape, usize)> = shapes.map(|shape| (shape, 0)).collect();
        for cell in page.cells().flatten() {
            let Some((record, _)) = self.payload(&cell) else { continue };
            let Some(values) = decode(&record) else { continue };
            fitting.iter_mut().filter(|(shape, _)| shape.fits(&values)).for_each(|(_, count)| *count += 1);
        }
        fitting.retain(|(_, count)| *count > 0);
        fitting
    }

    /// The shape in which most of a page's rows make sense beside those that were taken.
    fn most_plausible<S: RowSink>(
        &mut self,
        page: &BtreePage<'_>,
        candidates: &[(&'a TableShape, usize)],
        sink: &mut S,
    ) -> Result<Option<&'a TableShape>, S::Error> {
        let mut plausible = Vec::new();
        for (shape, count) in candidates {
            let Some(query) = shape.plausible() else {
                plausible.push((*shape, *count));
                continue;
            };
            let mut held = 0;
            for cell in page.cells().flatten() {
                let Some((record, _)) = self.payload(&cell) else { continue };
                let Some(values) = decode(&record).filter(|values| shape.fits(values)) else { continue };
                held += usize::from(sink.is_plausible(query, shape, cell.rowid, &values)?);
            }
            plausible.push((*shape, held));
        }
        Ok(clear_winner(&plausible).filter(|winner| {
            // By accident, a few may make sense.
            plausible.iter().any(|(shape, held)| shape.name == winner.name && 2 * held > page.cells().count())
        }))
    }

    /// The payload of a cell, with the pages that it goes on upon; `None` if one of those is bad or belongs to something else.
    fn payload(&mut self, cell: &Cell<'_>) -> Option<(Vec<u8>, Vec<u32>)> {
        let on_page = self.pages.usable as u64 - 4;
        let (mut payload, mut chain) = (cell.local.to_vec(), Vec::new());
        let Some(mut next) = cell.overflow else { return Some((payload, chain)) };
        let chain_pages = cell.payload.checked_sub(payload.len() as u64)?.div_ceil(on_page);
        // Nothing is read for a record that would be longer than the file.
        if chain_pages > u64::from(self.pages.count()) {
            return None;
        }
        while (chain.len() as u64) < chain_pages {
            let Some(page) = self.pages.unseen_page(next) else { break };
            let wanted = (cell.payload - payload.len() as u64).min(on_page) as usize;
            payload.extend(page.iter().skip(4).take(wanted));
            // A circle would come back to it.
            self.pages.take(next);
            chain.push(next);
            next = u32_at(&page, 0).unwrap_or_default();
        }
        chain.iter().for_each(|number| self.pages.give_back(*number));
        (chain.len() as u64 == chain_pages && next == 0).then_some((payload, chain))
    }
}

/// The shape that most records fit, if there is one.
fn clear_winner<'a>(counted: &[(&'a TableShape, usize)]) -> Option<&'a TableShape> {
    let most = counted.iter().map(|(_, count)| *count).max().filter(|most| *most > 0)?;
    let mut best = counted.iter().filter(|(_, count)| *count == most);
    let (winner, _) = best.next()?;
    best.next().is_none().then_some(*winner)
}
