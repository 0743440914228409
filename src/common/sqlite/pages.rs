/*!
Pages of a database file, read and mended without SQLite: it stops at the first one that is damaged.

Corrections are written in place. A page that is torn by a loss of power while it is corrected was damaged before, and is found
again.
*/

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use super::page_sum::{self, PAGE_BYTES};
use crate::files;

/// Number of times that a page is read again, and the pause before: another process may have been writing it.
const RETRIES: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Pages that are read at once.
const CHUNK_PAGES: usize = 256;

/// The numbers, from 1, of the pages whose checksum does not fit, or that were cut off; `None` if the file has no checksums. Pages of
/// zeros were never written.
///
/// # Errors
/// If the file cannot be read.
pub fn damaged_pages(path: &Path) -> io::Result<Option<Vec<u32>>> {
    let mut file = files::open(path)?;
    let mut chunk = Vec::new();
    let mut damaged = Vec::new();
    for first in (1..).step_by(CHUNK_PAGES) {
        chunk.clear();
        Read::by_ref(&mut file).take((CHUNK_PAGES * PAGE_BYTES) as u64).read_to_end(&mut chunk)?;
        if first == 1 && !page_sum::are_in(&chunk[..chunk.len().min(PAGE_BYTES)]) && !says_so_elsewhere(&chunk) {
            return Ok(None);
        }
        damaged.extend((first..).zip(chunk.chunks(PAGE_BYTES)).filter(|(_, page)| !is_whole(page)).map(|(number, _)| number));
        if chunk.len() < CHUNK_PAGES * PAGE_BYTES {
            break;
        }
    }
    for _ in 0..RETRIES {
        if damaged.is_empty() {
            break;
        }
        std::thread::sleep(RETRY_PAUSE);
        let mut still = Vec::new();
        for number in damaged {
            if !is_whole(&read_page(&mut file, number)?) {
                still.push(number);
            }
        }
        damaged = still;
    }
    Ok(Some(damaged))
}

/// Turns single flipped bits of these pages back, and returns the numbers of the pages with other damage, which stay as they are.
/// Nobody may have the database open.
///
/// # Errors
/// If the file cannot be read or written.
pub fn correct_pages(path: &Path, damaged: &[u32]) -> io::Result<Vec<u32>> {
    rewrite_pages(path, damaged, page_sum::correct)
}

/// Gives these pages the checksums of what they are. Nobody may have the database open. Pages that were cut off stay so, and their
/// numbers are returned.
///
/// # Errors
/// If the file cannot be read or written.
pub fn reseal_pages(path: &Path, pages: &[u32]) -> io::Result<Vec<u32>> {
    rewrite_pages(path, pages, |page| {
        page_sum::seal(page);
        page_sum::is_sound(page)
    })
}

/// Changes these pages, and returns the numbers of those that could not be.
fn rewrite_pages(path: &Path, pages: &[u32], change: fn(&mut [u8]) -> bool) -> io::Result<Vec<u32>> {
    if pages.is_empty() {
        return Ok(Vec::new());
    }
    let mut file = File::options().read(true).write(true).open(path)?;
    let mut left = Vec::new();
    for number in pages {
        let mut page = read_page(&mut file, *number)?;
        if change(&mut page) {
            file.seek(offset(*number))?;
            file.write_all(&page)?;
        } else {
            left.push(*number);
        }
    }
    file.sync_all()?;
    Ok(left)
}

/// `true` if most of the first pages have checksums that fit, whatever the header says now. A header that makes sense and says
/// otherwise is right.
fn says_so_elsewhere(chunk: &[u8]) -> bool {
    let sound = chunk.chunks(PAGE_BYTES).skip(1).filter(|page| page_sum::is_sound(page)).count();
    sound > 0 && sound >= chunk.len() / PAGE_BYTES / 2
}

fn is_whole(page: &[u8]) -> bool {
    page_sum::is_sound(page) || (page.len() == PAGE_BYTES && page.iter().all(|byte| *byte == 0))
}

fn read_page(file: &mut File, number: u32) -> io::Result<Vec<u8>> {
    let mut page = Vec::with_capacity(PAGE_BYTES);
    file.seek(offset(number))?;
    file.take(PAGE_BYTES as u64).read_to_end(&mut page)?;
    Ok(page)
}

/// Reads a page's bytes at an offset.
///
/// # Errors
/// If the file cannot be read, or ends there.
pub fn read_page_at(mut file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut page = vec![0; PAGE_BYTES];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut page)?;
    Ok(page)
}

fn offset(number: u32) -> SeekFrom {
    SeekFrom::Start(u64::from(number.saturating_sub(1)) * PAGE_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of so many pages, all with checksums.
    fn written(count: usize) -> (tempfile::TempDir, std::path::PathBuf, Vec<u8>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.db");
        let mut bytes = Vec::new();
        for number in 0..count {
            let mut page = vec![number as u8; PAGE_BYTES];
            page[16..18].copy_from_slice(&[0x10, 0]);
            page[20] = 8;
            page_sum::seal(&mut page);
            bytes.extend(page);
        }
        std::fs::write(&path, &bytes).expect("writable");
        (folder, path, bytes)
    }

    #[test]
    fn flipped_bits_are_found_and_turned_back() {
        let (_folder, path, whole) = written(600);
        assert_eq!(damaged_pages(&path).expect("reads"), Some(Vec::new()));
        let mut damaged = whole.clone();
        damaged[20] ^= 1;
        damaged[257 * PAGE_BYTES + 17] ^= 0x80;
        damaged[599 * PAGE_BYTES + 4090] ^= 2;
        std::fs::write(&path, &damaged).expect("writable");
        assert_eq!(damaged_pages(&path).expect("reads"), Some(vec![1, 258, 600]));
        assert_eq!(correct_pages(&path, &[1, 258, 600]).expect("corrects"), [] as [u32; 0]);
        assert!(std::fs::read(&path).expect("readable") == whole);
    }

    #[test]
    fn other_damage_is_told_and_left() {
        let (_folder, path, mut damaged) = written(20);
        damaged[..PAGE_BYTES].fill(0x5a);
        damaged[3 * PAGE_BYTES..4 * PAGE_BYTES].fill(0xa5);
        damaged[5 * PAGE_BYTES..6 * PAGE_BYTES].fill(0);
        damaged.truncate(20 * PAGE_BYTES - 7);
        std::fs::write(&path, &damaged).expect("writable");
        assert_eq!(damaged_pages(&path).expect("reads"), Some(vec![1, 4, 20]));
        assert_eq!(correct_pages(&path, &[1, 4, 20]).expect("corrects"), [1, 4, 20]);
        assert!(std::fs::read(&path).expect("readable") == damaged);
        assert_eq!(reseal_pages(&path, &[1, 4, 20]).expect("seals"), [20]);
        assert_eq!(damaged_pages(&path).expect("reads"), Some(vec![20]));
    }

    #[test]
    fn a_file_without_checksums() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.db");
        for length in [0, 10, PAGE_BYTES, 10 * PAGE_BYTES] {
            std::fs::write(&path, vec![1; length]).expect("writable");
            assert_eq!(damaged_pages(&path).expect("reads"), None);
        }
    }
}
