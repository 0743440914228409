//! The pages of a damaged file, with those of its log, as far as they may be trusted.

use std::fs::File;
use std::io;
use std::path::Path;

use super::btree::{BtreePage, u32_at};
use ctxbridge_common::files;
use ctxbridge_common::sqlite::DatabaseLog;
use ctxbridge_common::sqlite::page_sum::{PAGE_BYTES, SUM_BYTES};
use ctxbridge_common::sqlite::pages::read_page_at;

/// Maximum number of bytes that the format lets a page of this size reserve here.
const MAX_RESERVED_BYTES: usize = 32;

/// Answers `true` for a page that can be trusted, by its number from 1 and its bytes.
pub type SoundPage<'a> = &'a dyn Fn(u32, &[u8]) -> bool;

/// Condition of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageCondition {
    Bad,
    Unseen,
    /// It belongs to a tree or to a record, or is free.
    Taken,
}

/// The pages of a file.
#[derive(Debug)]
pub(super) struct DatabasePages {
    file: File,
    log: Option<DatabaseLog>,
    conditions: Vec<PageCondition>,
    /// Bytes of each page that are not reserved.
    pub usable: usize,
    /// Number of pages that the header says there are; `None` if the header is damaged.
    pub expected: Option<u32>,
    /// First page of the list of free pages; 0 if there is none.
    pub first_trunk: u32,
    /// Version of the schema; 0 if the header is damaged.
    pub schema_version: u32,
}

impl DatabasePages {
    /// Opens a file and looks at each of its pages once.
    pub fn open(path: &Path, is_sound: SoundPage<'_>) -> io::Result<Self> {
        let file = files::open(path)?;
        let bytes = file.metadata()?.len();
        let file_pages = u32::try_from(bytes / PAGE_BYTES as u64).unwrap_or(u32::MAX - 1);
        let log = DatabaseLog::open(path)?;
        let count = log.as_ref().map_or(file_pages, |log| file_pages.max(log.page_count(file_pages)));
        let conditions = vec![PageCondition::Unseen; count as usize];
        let mut pages = Self { file, log, conditions, usable: PAGE_BYTES, expected: None, first_trunk: 0, schema_version: 0 };
        for number in 1..=count {
            // The log has checksums of its own.
            let is_logged = || pages.log.as_ref().is_some_and(|log| log.page(number).is_some());
            if pages.is_lost(number) || !pages.page(number).is_some_and(|page| is_logged() || is_sound(number, &page)) {
                pages.set(number, PageCondition::Bad);
            }
        }
        if let Some(header) = pages.page(1).filter(|page| is_header(page)) {
            pages.usable = PAGE_BYTES - usize::from(header.get(20).copied().unwrap_or_default());
            pages.expected = u32_at(&header, 28);
            pages.first_trunk = u32_at(&header, 32).unwrap_or_default();
            pages.schema_version = u32_at(&header, 60).unwrap_or_default();
        } else {
            if count > 0 {
                pages.set(1, PageCondition::Bad);
            }
            pages.usable = pages.guess_usable();
        }
        Ok(pages)
    }

    /// `true` if the newest version of a page is in the log, and damaged: an older one would not fit the others.
    fn is_lost(&self, number: u32) -> bool {
        self.log.as_ref().is_some_and(|log| log.has_lost(number))
    }

    /// Number of pages.
    pub fn count(&self) -> u32 {
        self.conditions.len() as u32
    }

    /// Reads a page; `None` if it is bad, or there is none.
    pub fn page(&self, number: u32) -> Option<Vec<u8>> {
        if matches!(self.condition(number)?, PageCondition::Bad) {
            return None;
        }
        let logged = self.log.as_ref().and_then(|log| log.page(number));
        logged.or_else(|| read_page_at(&self.file, u64::from(number - 1) * PAGE_BYTES as u64).ok())
    }

    /// Reads a page that nothing was found to belong to.
    pub fn unseen_page(&self, number: u32) -> Option<Vec<u8>> {
        if self.condition(number)? == PageCondition::Unseen { self.page(number) } else { None }
    }

    /// Notes that a page belongs to something.
    pub fn take(&mut self, number: u32) {
        if self.condition(number) == Some(PageCondition::Unseen) {
            self.set(number, PageCondition::Taken);
        }
    }

    /// Gives back a page that belongs to nothing after all.
    pub fn give_back(&mut self, number: u32) {
        if self.condition(number) == Some(PageCondition::Taken) {
            self.set(number, PageCondition::Unseen);
        }
    }

    /// Numbers of the pages that cannot be trusted.
    pub fn bad(&self) -> Vec<u32> {
        (1..).zip(&self.conditions).filter(|(_, condition)| **condition == PageCondition::Bad).map(|(number, _)| number).collect()
    }

    fn condition(&self, number: u32) -> Option<PageCondition> {
        self.conditions.get(number.checked_sub(1)? as usize).copied()
    }

    fn set(&mut self, number: u32, condition: PageCondition) {
        if let Some(known) = self.conditions.get_mut(number.wrapping_sub(1) as usize) {
            *known = condition;
        }
    }

    /// Tells without a header if pages have checksums: a file without them has cells at the very end of most of its pages.
    fn guess_usable(&self) -> usize {
        let (mut ends_before, mut goes_on) = (0, 0);
        for number in 2..=self.count() {
            let Some(page) = self.page(number) else { continue };
            let fits = |usable| {
                let parsed = BtreePage::parse(number, &page, usable)?;
                let end = parsed.cells().try_fold(0, |end, cell| Some(cell?.end.max(end)))?;
                (end == usable).then_some(())
            };
            ends_before += u32::from(fits(PAGE_BYTES - SUM_BYTES).is_some());
            goes_on += u32::from(fits(PAGE_BYTES).is_some());
        }
        if ends_before > goes_on { PAGE_BYTES - SUM_BYTES } else { PAGE_BYTES }
    }
}

/// `true` if page 1 has the header of a database like ours.
fn is_header(page: &[u8]) -> bool {
    page.starts_with(b"SQLite format 3\0")
        && page.get(16..18) == Some(&(PAGE_BYTES as u16).to_be_bytes()[..])
        && page.get(20).is_some_and(|reserved| usize::from(*reserved) <= MAX_RESERVED_BYTES)
}
