/*!
Checks a code signature as macOS does: every page and every blob must have the hash that is in the code directory.

The reader uses the bytes of the file alone. It shares no arithmetic with the writer, so that a mistake there is not repeated
here. The signer is not checked.
*/

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::container::FileBytes;

/// Checks the signature of a thin 64-bit Mach-O file: the hashes of pages and of blobs in all its code directories.
///
/// # Errors
/// A description of the first problem.
pub fn verify_signature(file: &FileBytes) -> Result<(), String> {
    let program = SignedProgram::read(file)?;
    let signature = &program.signature;
    if signature.end != file.len() || program.linkedit != Some(signature.end) {
        return Err("the signature is not the end of the file and of `__LINKEDIT`".to_owned());
    }
    let bytes = part(file, signature.start, signature.end - signature.start)?;
    let total = read_be_u32(bytes, 4)?;
    if read_be_u32(bytes, 0)? != 0xfade_0cc0 || total > bytes.len() {
        return Err("the signature does not begin as one".to_owned());
    }
    let bytes = part(bytes, 0, total)?;
    let mut blobs = Vec::new();
    for row in 0..read_be_u32(bytes, 8)? {
        let (slot, offset) = (read_be_u32(bytes, 12 + row * 8)?, read_be_u32(bytes, 16 + row * 8)?);
        let length = read_be_u32(bytes, offset + 4)?;
        blobs.push((slot, part(bytes, offset, length)?));
    }
    let directories: Vec<_> = blobs.iter().filter(|(slot, _)| *slot == 0 || (0x1000..0x1005).contains(slot)).collect();
    if !directories.iter().any(|(slot, _)| *slot == 0) {
        return Err("the signature has no code directory".to_owned());
    }
    for (_, directory) in directories {
        check_pages(file, &program, directory)?;
        check_specials(file, &program, directory, &blobs)?;
    }
    Ok(())
}

/// The parts of a program that the signature refers to.
struct SignedProgram {
    signature: Range<usize>,
    /// End of `__LINKEDIT` in the file.
    linkedit: Option<usize>,
    text: Option<Range<usize>>,
    info_plist: Option<Range<usize>>,
}

impl SignedProgram {
    fn read(file: &[u8]) -> Result<Self, String> {
        if read_le_u32(file, 0)? != 0xfeed_facf {
            return Err("this is no Mach-O file for one 64-bit architecture".to_owned());
        }
        let (mut linkedit, mut text, mut info_plist, mut signature) = (None, None, None, None);
        let mut at = 32;
        for _ in 0..read_le_u32(file, 16)? {
            let (command, size) = (read_le_u32(file, at)?, read_le_u32(file, at + 4)?);
            if size < 8 {
                return Err("a load command has no size".to_owned());
            }
            let bytes = part(file, at, size)?;
            if command == 0x19 {
                let (start, length) = (read_le_u64(bytes, 40)?, read_le_u64(bytes, 48)?);
                let range = start..start.saturating_add(length);
                match label(bytes, 8)? {
                    b"__LINKEDIT" => linkedit = Some(range.end),
                    b"__TEXT" => text = Some(range),
                    _ => (),
                }
                for row in bytes.get(72..).unwrap_or_default().chunks_exact(80).take(read_le_u32(bytes, 64)?) {
                    if label(row, 0)? == b"__info_plist" && label(row, 16)? == b"__TEXT" {
                        let start = read_le_u32(row, 48)?;
                        info_plist = Some(start..start.saturating_add(read_le_u64(row, 40)?));
                    }
                }
            }
            if command == 0x1d {
                let start = read_le_u32(bytes, 8)?;
                signature = Some(start..start + read_le_u32(bytes, 12)?);
            }
            at += size;
        }
        let signature = signature.ok_or("the file is not signed")?;
        Ok(Self { signature, linkedit, text, info_plist })
    }
}

fn check_pages(file: &FileBytes, program: &SignedProgram, directory: &[u8]) -> Result<(), String> {
    let (hashes, count, limit) = (read_be_u32(directory, 16)?, read_be_u32(directory, 28)?, read_be_u32(directory, 32)?);
    let &[size, kind, _, page] = part(directory, 36, 4)? else { return Err("the code directory is too short".to_owned()) };
    if read_be_u32(directory, 0)? != 0xfade_0c02 || (size, kind) != (32, 2) || !(12..=16).contains(&page) {
        return Err("a code directory is of a kind that is not known".to_owned());
    }
    if read_be_u32(directory, 8)? >= 0x20400 {
        let text = program.text.clone().ok_or("there is no segment `__TEXT`")?;
        let base = u64::from_be_bytes(*part(directory, 64, 8)?.first_chunk().ok_or("too short")?);
        let length = u64::from_be_bytes(*part(directory, 72, 8)?.first_chunk().ok_or("too short")?);
        if base != text.start as u64 || length != (text.end - text.start) as u64 {
            return Err("the code directory is about another `__TEXT`".to_owned());
        }
    }
    if limit != program.signature.start {
        return Err(format!("{limit} bytes are signed, and not the {} before the signature", program.signature.start));
    }
    let expected = part(directory, hashes, count.saturating_mul(32))?;
    let page = 1usize << page;
    if count != limit.div_ceil(page) {
        return Err(format!("{count} pages are signed, and not {}", limit.div_ceil(page)));
    }
    let (mut at, mut hasher, mut wrong) = (0, Sha256::new(), None);
    let read = file.stream(0..limit, &mut |run| {
        let mut rest = run;
        while !rest.is_empty() {
            let now = rest.len().min(page - at % page);
            hasher.update(&rest[..now]);
            rest = &rest[now..];
            at += now;
            if at % page == 0 || at == limit {
                let number = (at - 1) / page;
                let right = expected.chunks_exact(32).nth(number) == Some(&hasher.finalize_reset()[..]);
                wrong = wrong.or((!right).then_some(number));
            }
        }
    });
    read.map_err(|error| format!("the file cannot be read: {error}"))?;
    match wrong {
        Some(page) => Err(format!("page {page} has another hash than the one that is signed")),
        None if at != limit => Err(format!("{at} bytes could be read, and not {limit}")),
        None => Ok(()),
    }
}

fn check_specials(file: &[u8], program: &SignedProgram, directory: &[u8], blobs: &[(usize, &[u8])]) -> Result<(), String> {
    let (hashes, count) = (read_be_u32(directory, 16)?, read_be_u32(directory, 24)?);
    // Certificates, tickets and other code directories are not among what is signed.
    let signed = |slot: usize| (1..0x1000).contains(&slot);
    if let Some((slot, _)) = blobs.iter().find(|(slot, _)| signed(*slot) && *slot > count) {
        return Err(format!("slot {slot} has no hash"));
    }
    for slot in 1..=count {
        let at = slot.checked_mul(32).and_then(|distance| hashes.checked_sub(distance));
        let expected = part(directory, at.ok_or("the code directory is too short")?, 32)?;
        let mut blob = blobs.iter().filter(|(other, _)| *other == slot).map(|(_, blob)| *blob);
        let bound = expected.iter().any(|byte| *byte != 0);
        let found = match (slot, &program.info_plist, blob.next()) {
            (1, Some(plist), None) if bound => Some(part(file, plist.start, plist.end - plist.start)?),
            (_, _, found) => found,
        };
        if blob.next().is_some() {
            return Err(format!("slot {slot} is there twice"));
        }
        let right = match found {
            Some(bytes) => Sha256::digest(bytes)[..] == *expected,
            None => !bound,
        };
        if !right {
            return Err(format!("slot {slot} has another hash than the one that is signed"));
        }
    }
    Ok(())
}

fn part(bytes: &[u8], start: usize, length: usize) -> Result<&[u8], String> {
    let end = start.checked_add(length);
    end.and_then(|end| bytes.get(start..end)).ok_or_else(|| format!("{length} bytes at {start} are not there"))
}

/// The name in a field of 16 bytes.
fn label(bytes: &[u8], at: usize) -> Result<&[u8], String> {
    part(bytes, at, 16).map(|name| name.split(|byte| *byte == 0).next().unwrap_or_default())
}

fn read_le_u32(bytes: &[u8], at: usize) -> Result<usize, String> {
    part(bytes, at, 4).map(|bytes| bytes.iter().rev().fold(0, |number, byte| number << 8 | *byte as usize))
}

fn read_be_u32(bytes: &[u8], at: usize) -> Result<usize, String> {
    part(bytes, at, 4).map(|bytes| bytes.iter().fold(0, |number, byte| number << 8 | *byte as usize))
}

/// A little-endian number of 64 bits: an offset or a size in a file.
fn read_le_u64(bytes: &[u8], at: usize) -> Result<usize, String> {
    let number = part(bytes, at, 8)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    usize::try_from(number).map_err(|_| "a size is larger than memory".to_owned())
}
