/*!
The code signature of a Mach-O executable: reads the existing one and makes an ad-hoc one with the same properties.

An ad-hoc signature names no signer. It has hashes of the file's bytes, and macOS on arm64 runs nothing without them. It is a
table of blobs, in Apple's words a SuperBlob; all numbers are big-endian:

```text
magic, length, count, then for each blob: slot, offset
CodeDirectory     slot 0        identifier, flags, a hash of each page of the file up to the signature, a hash of each other blob
requirements      slot 2        whom else to trust: here nobody
entitlements      slots 5, 7    what the program may do, as XML and as DER
CMS               slot 0x10000  who signed: empty
```

`codesign --sign -` writes the same. The format is described in `cs_blobs.h` of Apple's kernel sources. No crate fits:
`apple_codesign_adhoc` is for arm64 only, names every program `a.out` and leaves entitlements out. `apple-codesign` reads the
whole file into memory and adds some hundred crates for certificates and notarization.
*/

mod entitlements;
mod verify;

use std::collections::BTreeMap;
use std::ops::Range;

use sha2::{Digest, Sha256};

use super::LayoutError;
pub use verify::verify_signature;

const SUPER_BLOB: u32 = 0xfade_0cc0;
const CODE_DIRECTORY: u32 = 0xfade_0c02;
const REQUIREMENTS: u32 = 0xfade_0c01;
const CMS: u32 = 0xfade_0b01;

/// Slots of the table. Slots 1 to 11 have a hash in the code directory.
mod slot {
    use std::ops::Range;

    pub const CODE_DIRECTORY: u32 = 0;
    /// Has no blob: the hash is of a property list in the program, or next to it.
    pub const INFO_PLIST: u32 = 1;
    pub const REQUIREMENTS: u32 = 2;
    /// Hashes of parts of a bundle of files, or of a disk image.
    pub const EXTERNAL: [u32; 3] = [3, 4, 6];
    pub const ENTITLEMENTS_XML: u32 = 5;
    pub const ENTITLEMENTS_DER: u32 = 7;
    pub const ALTERNATE_CODE_DIRECTORIES: Range<u32> = 0x1000..0x1005;
    pub const CMS: u32 = 0x10000;
}

const ADHOC: u32 = 0x2;
/// The hardened runtime.
const RUNTIME: u32 = 0x10000;
/// Other flags that are kept: HARD, KILL, EXPIRATION, RESTRICT, ENFORCEMENT. They only make the system stricter. The flags that are
/// dropped are about the signer: libraries must have the same one (REQUIRE_LV, FORCED_LV), but an ad-hoc signature has none; or it
/// was a linker (LINKER_SIGNED), whose signatures have no entitlements.
const STRICTER: u32 = 0x1f00;

const EXECUTABLE_IS_MAIN: u64 = 1;
const SHA256: u8 = 2;
const HASH: usize = 32;
/// Version and length of a code directory's fixed part: 0x20400, and 0x20500, which adds the version of the hardened runtime.
const PLAIN: (u32, usize) = (0x20400, 88);
const HARDENED: (u32, usize) = (0x20500, 96);
/// Alignment of signatures, to which Apple's tools also pad them.
const ALIGNMENT: usize = 16;
/// Upper limits, more than any signature has: anything larger is not a signature, and not worth the memory.
const MAX_BLOBS: usize = 64;
const MAX_ENTITLEMENTS_BYTES: usize = 1 << 20;

/// Makes ad-hoc signatures for one program.
#[derive(Clone, Debug)]
pub struct Signer {
    identifier: Vec<u8>,
    flags: u32,
    /// Version of the hardened runtime, which `flags` turns on or off.
    runtime: u32,
    /// Base-2 logarithm of the page size. Each page has its own hash.
    page: u8,
    /// The segment `__TEXT` in the file.
    text: Range<u64>,
    text_flags: u64,
    info_plist: Option<[u8; HASH]>,
    /// Every blob but the code directory, by slot.
    blobs: BTreeMap<u32, Vec<u8>>,
}

fn refuse(what: &str) -> LayoutError {
    LayoutError::new(format!("the code signature {what}"))
}

impl Signer {
    /// A signer that keeps everything of the original signature that an ad-hoc one can have: identifier, page size, the hardened
    /// runtime, entitlements. `text` is the segment `__TEXT` in the file.
    ///
    /// The hardened runtime refuses libraries of another signer; for a program without a signer, that is every library. The client
    /// has add-ons (`.node`) inside, so it stays hardened only if its entitlements allow them, as those of 2.1.330 do.
    ///
    /// Parts that name the signer are dropped: team, requirements, certificates, and launch constraints (slots 8 to 11).
    ///
    /// # Errors
    /// If the signature cannot be read, or is one for more than this file.
    pub fn like(original: &[u8], text: Range<u64>) -> Result<Self, LayoutError> {
        let index = index(original).ok_or_else(|| refuse("cannot be read"))?;
        let directories =
            index.iter().filter(|(slot, _)| *slot == slot::CODE_DIRECTORY || slot::ALTERNATE_CODE_DIRECTORIES.contains(slot));
        let directory = directories.filter_map(|(_, blob)| Directory::read(blob)).next();
        let directory = directory.ok_or_else(|| refuse("has no code directory with SHA-256 that ctxbridge can read"))?;
        if slot::EXTERNAL.iter().any(|slot| directory.special(*slot).is_some()) {
            return Err(refuse("is one for a bundle of files"));
        }
        if ![12, 14].contains(&directory.page) {
            return Err(refuse("has hashes of pages that are neither 4 nor 16 KiB"));
        }
        let mut blobs = BTreeMap::new();
        let mut open = true;
        for (slot, blob) in &index {
            if let Some(form) = entitlements::EntitlementsFormat::of_slot(*slot) {
                let kept = Some(*blob).filter(|blob| blob.len() <= MAX_ENTITLEMENTS_BYTES);
                let kept = kept.and_then(|blob| entitlements::without_restricted(form, blob));
                let kept = kept.ok_or_else(|| refuse("has entitlements in a form that ctxbridge does not know"))?;
                open &= entitlements::allow_foreign_libraries(form, &kept);
                blobs.insert(*slot, kept);
            }
        }
        open &= !blobs.is_empty();
        // No requirements but the implied one, to be these bytes; and no certificates.
        blobs.insert(slot::REQUIREMENTS, [REQUIREMENTS, 12, 0].map(u32::to_be_bytes).concat());
        blobs.insert(slot::CMS, [CMS, 8].map(u32::to_be_bytes).concat());
        let kept = if open { STRICTER | RUNTIME } else { STRICTER };
        Ok(Self {
            identifier: directory.identifier.to_vec(),
            flags: ADHOC | directory.flags & kept,
            runtime: directory.runtime,
            page: directory.page,
            text,
            text_flags: directory.text_flags | EXECUTABLE_IS_MAIN,
            info_plist: directory.special(slot::INFO_PLIST),
            blobs,
        })
    }

    /// Size of the signature for a program that ends at `limit`, in bytes. The signature starts there.
    pub fn size(&self, limit: usize) -> usize {
        self.length(limit).next_multiple_of(ALIGNMENT)
    }

    /// Creates the collector for the hashes of the file's pages, up to the signature.
    pub fn pages(&self) -> Pages {
        Pages { hasher: Sha256::new(), size: 1 << self.page, room: 1 << self.page, hashes: Vec::new() }
    }

    /// The signature of a file that ends at `limit`; `pages` must have received all bytes before.
    pub fn sign(&self, limit: usize, pages: Pages) -> Vec<u8> {
        let mut blobs = BTreeMap::from([(slot::CODE_DIRECTORY, self.directory(limit, pages))]);
        blobs.extend(self.blobs.clone());
        let mut signature = Vec::with_capacity(self.size(limit));
        signature.extend([SUPER_BLOB, word(self.length(limit)), word(blobs.len())].map(u32::to_be_bytes).concat());
        let mut at = 12 + 8 * blobs.len();
        for (slot, blob) in &blobs {
            signature.extend([*slot, word(at)].map(u32::to_be_bytes).concat());
            at += blob.len();
        }
        signature.extend(blobs.into_values().flatten());
        signature.resize(self.size(limit), 0);
        signature
    }

    fn length(&self, limit: usize) -> usize {
        let blobs: usize = self.blobs.values().map(Vec::len).sum();
        12 + 8 * (self.blobs.len() + 1) + blobs + self.hashes_at() + HASH * self.page_count(limit)
    }

    fn page_count(&self, limit: usize) -> usize {
        limit.div_ceil(1 << self.page)
    }

    /// Number of hashes that are not of pages: one for each slot up to the last used one.
    fn specials(&self) -> u32 {
        self.blobs.keys().rev().find(|slot| **slot < slot::CMS).copied().unwrap_or_default()
    }

    fn layout(&self) -> (u32, usize) {
        if self.flags & RUNTIME != 0 && self.runtime != 0 { HARDENED } else { PLAIN }
    }

    /// Offset of the page hashes in the code directory. The hashes of the slots come before them, the last one first.
    fn hashes_at(&self) -> usize {
        self.layout().1 + self.identifier.len() + 1 + HASH * self.specials() as usize
    }

    fn directory(&self, limit: usize, pages: Pages) -> Vec<u8> {
        let (version, fixed) = self.layout();
        let length = self.hashes_at() + HASH * self.page_count(limit);
        let mut directory = Vec::with_capacity(length);
        let head = [
            CODE_DIRECTORY,
            word(length),
            version,
            self.flags,
            word(self.hashes_at()),
            word(fixed),
            self.specials(),
            word(self.page_count(limit)),
            word(limit),
        ];
        directory.extend(head.map(u32::to_be_bytes).concat());
        directory.extend([HASH as u8, SHA256, 0, self.page]);
        // No scattered pages, no team, no limit of 64 bits.
        directory.extend([0; 24]);
        let text = [self.text.start, self.text.end - self.text.start, self.text_flags];
        directory.extend(text.map(u64::to_be_bytes).concat());
        if version == HARDENED.0 {
            directory.extend([self.runtime, 0].map(u32::to_be_bytes).concat());
        }
        directory.extend(&self.identifier);
        directory.push(0);
        for slot in (1..=self.specials()).rev() {
            directory.extend(match self.blobs.get(&slot) {
                Some(blob) => Sha256::digest(blob).into(),
                None => self.info_plist.filter(|_| slot == slot::INFO_PLIST).unwrap_or([0; HASH]),
            });
        }
        directory.extend(pages.finish());
        directory
    }
}

/// Collects the hashes of a file's pages. The last page ends with the file; it is not padded, and macOS does not pad it, either.
pub struct Pages {
    hasher: Sha256,
    size: usize,
    room: usize,
    hashes: Vec<u8>,
}

impl Pages {
    /// Adds the next bytes of the file.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(self.room.min(bytes.len()));
            self.hasher.update(now);
            bytes = rest;
            self.room -= now.len();
            if self.room == 0 {
                self.hashes.extend(self.hasher.finalize_reset());
                self.room = self.size;
            }
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.room < self.size {
            self.hashes.extend(self.hasher.finalize());
        }
        self.hashes
    }
}

/// The fields of a code directory that are kept.
struct Directory<'file> {
    blob: &'file [u8],
    flags: u32,
    identifier: &'file [u8],
    page: u8,
    text_flags: u64,
    runtime: u32,
}

impl<'file> Directory<'file> {
    /// Reads a code directory with hashes of SHA-256.
    fn read(blob: &'file [u8]) -> Option<Self> {
        let kinds = blob.get(36..40)?;
        if u32_at(blob, 0)? != CODE_DIRECTORY || kinds.get(..2)? != [HASH as u8, SHA256] {
            return None;
        }
        let version = u32_at(blob, 8)?;
        let identifier = blob.get(u32_at(blob, 20)? as usize..)?.split(|byte| *byte == 0).next()?;
        let text_flags = if version >= PLAIN.0 { u64::from_be_bytes(*blob.get(80..)?.first_chunk()?) } else { 0 };
        let runtime = if version >= HARDENED.0 { u32_at(blob, 88)? } else { 0 };
        // The hashes of the slots have to be there.
        let hashes = u32_at(blob, 16)? as usize;
        blob.get(hashes.checked_sub(HASH.checked_mul(u32_at(blob, 24)? as usize)?)?..hashes)?;
        Some(Self { blob, flags: u32_at(blob, 12)?, identifier, page: *kinds.last()?, text_flags, runtime })
    }

    /// The hash of a slot, if it has one.
    fn special(&self, slot: u32) -> Option<[u8; HASH]> {
        let slot = (slot <= u32_at(self.blob, 24)?).then_some(slot as usize)?;
        let at = (u32_at(self.blob, 16)? as usize).checked_sub(HASH * slot)?;
        self.blob.get(at..)?.first_chunk().copied().filter(|hash| *hash != [0; HASH])
    }
}

/// The blobs of a signature, each with its slot.
fn index(signature: &[u8]) -> Option<Vec<(u32, &[u8])>> {
    let signature = signature.get(..u32_at(signature, 4)? as usize)?;
    let count = u32_at(signature, 8)? as usize;
    let rows = signature.get(12..12usize.checked_add(count.checked_mul(8)?)?)?;
    if u32_at(signature, 0)? != SUPER_BLOB || count > MAX_BLOBS {
        return None;
    }
    let blob = |row: &[u8]| {
        let blob = signature.get(u32_at(row, 4)? as usize..)?;
        Some((u32_at(row, 0)?, blob.get(..u32_at(blob, 4)? as usize)?))
    };
    rows.chunks_exact(8).map(blob).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// A number as a signature has it. All written numbers count bytes of a file smaller than 4 GiB.
fn word(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
