//! Free pages. They may have old rows, which must not come back.

use super::btree::u32_at;
use super::pages::DatabasePages;

/// Takes the free pages out of those that may have rows.
///
/// The list may be broken by a bad page, so its trunks are found by their form too: a page in a tree begins with a kind, one of a
/// trunk with the number of the next, whose first byte is 0 in any file below 64 GB.
pub(super) fn take_free_pages(pages: &mut DatabasePages) {
    let mut next = pages.first_trunk;
    while let Some(page) = pages.unseen_page(next) {
        pages.take(next);
        take_leaves(pages, &page);
        next = u32_at(&page, 0).unwrap_or_default();
    }
    for number in 1..=pages.count() {
        if let Some(page) = pages.unseen_page(number)
            && u32_at(&page, 0).is_some_and(|next| next <= pages.count() && next < 1 << 24)
        {
            take_leaves(pages, &page);
        }
    }
}

/// Takes the pages that a trunk lists, if all that it lists can be.
fn take_leaves(pages: &mut DatabasePages, trunk: &[u8]) {
    let Some(listed) = leaves(trunk, pages.count(), pages.usable) else { return };
    listed.into_iter().for_each(|leaf| pages.take(leaf));
}

fn leaves(trunk: &[u8], count: u32, usable: usize) -> Option<Vec<u32>> {
    let listed = u32_at(trunk, 4)? as usize;
    let (numbers, _) = trunk.get(8..usable)?.as_chunks();
    let numbers: Vec<u32> = numbers.get(..listed)?.iter().map(|number| u32::from_be_bytes(*number)).collect();
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    (sorted.len() == numbers.len() && numbers.iter().all(|number| (2..=count).contains(number))).then_some(numbers)
}
