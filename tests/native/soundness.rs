//! Only the bytes that were written are ever called `patched`, and nearly every other byte makes them `modified`.

use std::ops::Range;
use std::sync::LazyLock;

use ctxbridge::common::digest;
use ctxbridge::patch::container::{ContainerError, ContainerKind};
use ctxbridge::patch::inspect::{TargetState, inspect};
use ctxbridge::patch::install::{Target, TargetOpenError};
use ctxbridge::patch::journal::Application;
use ctxbridge_testkit::some_of;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::native::builder::{Macho, Pe, Reading, bun_of_elf};
use crate::native::client::{CODE, Installation, LOOPS, arm64, chunks, everywhere, whole, x64};

const OPEN: &[u8] = b"/*! ctxbridge ";
const MODIFIED: [Option<TargetState>; 2] = [Some(TargetState::Modified); 2];
const REFUSED: [Option<TargetState>; 2] = [None; 2];
const SEAL: &[u8] = b"\"seal\":\"";

/// A patched client, with what the journal knows of it.
struct Patched {
    bytes: Vec<u8>,
    known: Application,
}

impl Patched {
    fn of(original: &[u8]) -> Self {
        let installation = Installation::of(original);
        let applied = installation.apply();
        let known = Application {
            version: applied.version,
            patches: applied.patches,
            original_sha256: applied.original_sha256,
            patched_sha256: applied.patched_sha256,
            original: None,
        };
        Self { bytes: installation.bytes(), known }
    }

    /// What these bytes are, without the journal and with it; nothing when they are refused as no executable that is known.
    fn states(&self, bytes: &[u8]) -> [Option<TargetState>; 2] {
        let version = self.known.version.as_ref().map(|version| version.parse().unwrap());
        let target = Target { path: "/claude".into(), kind: ContainerKind::of(bytes), package: None, version };
        let sha256 = digest::of_bytes(bytes);
        [None, Some(&self.known)].map(|known| match inspect(&target, &bytes.to_vec().into(), sha256.clone(), known) {
            Ok(inspection) => Some(inspection.state),
            Err(TargetOpenError::Container { cause: ContainerError::Layout { .. }, .. }) => None,
            Err(error) => panic!("{error}"),
        })
    }

    /// With one byte changed.
    fn states_with(&self, at: usize, flip: u8) -> [Option<TargetState>; 2] {
        let mut bytes = self.bytes.clone();
        bytes[at] ^= flip;
        self.states(&bytes)
    }

    fn place(&self, of: &[u8]) -> Range<usize> {
        let at = self.bytes.windows(of.len()).position(|window| window == of).unwrap();
        at..at + of.len()
    }
}

static CHUNKS: LazyLock<Patched> = LazyLock::new(|| Patched::of(&arm64(&chunks(LOOPS[2]))));
static WHOLE: LazyLock<Patched> = LazyLock::new(|| Patched::of(&x64(&whole("e4d"))));

#[test]
fn what_was_written_is_patched_and_the_original_is_not() {
    for graph in [whole("e4a"), chunks(LOOPS[0])] {
        for (kind, original) in everywhere(&graph) {
            let patched = Patched::of(&original);
            assert_eq!(patched.states(&patched.bytes), [Some(TargetState::Patched); 2], "{kind}");
            assert_eq!(patched.states(&original), [Some(TargetState::Unpatched); 2], "{kind}");
        }
    }
}

#[test]
fn the_seal_is_the_hash_of_the_file_without_it() {
    let patched = &*CHUNKS;
    let seal = patched.place(SEAL).end..patched.place(SEAL).end + 64;
    let mut blank = patched.bytes.clone();
    blank[seal.clone()].fill(b'0');
    assert_eq!(patched.bytes[seal], *digest::of_bytes(&blank).as_bytes());
    assert_eq!(patched.states(&blank), MODIFIED);
}

/// The places that matter.
#[test]
fn a_changed_byte_is_modified() {
    for patched in [&*CHUNKS, &*WHOLE] {
        let section = bun_of_elf(&patched.bytes);
        let read = Reading::of(&patched.bytes[section.clone()], 52);
        let blob = section.start + 8;
        let span = |module: usize, field: usize| {
            let [at, length] = read.modules[module].spans[field];
            blob + at..blob + at + length
        };
        let (open, seal) = (patched.place(OPEN), patched.place(SEAL));
        let injected = patched.place(b"ctxbridgeAggressiveTextPrune(messages, purpose)");
        let headers = patched.bytes.len() - 64 * 9;
        let places = [
            // The marker behind its first words, the seal among it, and the first of the injected code.
            open.end..injected.end,
            seal.end..seal.end + 64,
            // Files and code of others, names, bytecode or what is at its place.
            span(CODE + 1, 1),
            span(CODE, 0),
            // What is behind the table.
            blob + read.table.end..blob + read.byte_count,
            // Code and data of the program.
            0x400..0x440,
            0x1000..0x1010,
        ];
        for at in places.into_iter().flat_map(some_of) {
            assert_eq!(patched.states_with(at, 1), MODIFIED, "at {at:#x}");
        }
        // Numbers: of the graph, of the file, of its segments and sections; and what has to be zero.
        let offsets = blob + read.byte_count..blob + read.byte_count + 48;
        let numbers = [blob - 8..blob, offsets, section.end..section.end + 16, 0..64 + 5 * 56, headers..patched.bytes.len()];
        for at in numbers.into_iter().flat_map(some_of) {
            // The very first bytes say what kind of file it is.
            let states = patched.states_with(at, 1);
            assert!(states == MODIFIED || states == REFUSED, "at {at:#x}: {states:?}");
        }
        // What names our marker, or makes its module one of ours: without it nothing says that it was patched but the journal.
        for at in [open, blob + read.table.start..blob + read.table.end].into_iter().flat_map(some_of) {
            let [alone, known] = patched.states_with(at, 1);
            assert!(matches!(alone, None | Some(TargetState::Modified | TargetState::Unpatched)), "at {at:#x}: {alone:?}");
            assert!(matches!(known, None | Some(TargetState::Modified | TargetState::Foreign)), "at {at:#x}: {known:?}");
        }
    }
}

/// The checksum of a PE file is made when all the rest is, and no seal is over it.
#[test]
fn a_changed_checksum_is_modified() {
    for machine in [0x8664, 0xaa64] {
        let patched = Patched::of(&Pe { machine }.build(&chunks(LOOPS[0]).section()));
        let checksum = 0x80 + 24 + 64;
        for at in some_of(0..0x400) {
            let states = patched.states_with(at, 1);
            assert!(states == MODIFIED || states == REFUSED, "at {at:#x}: {states:?}");
            assert!(states == MODIFIED || !(checksum..checksum + 4).contains(&at));
        }
    }
}

/// Nor over the signature of a Mach-O file.
#[test]
fn a_changed_signature_is_modified() {
    for arm64 in [true, false] {
        let patched = Patched::of(&Macho { arm64 }.build(&chunks(LOOPS[0]).section()));
        let file = &patched.bytes;
        let big = |at: usize| file[at..at + 4].iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
        let signature = patched.place(&[0xfa, 0xde, 0x0c, 0xc0]).start;
        let directory = signature + big(signature + 16);
        assert_eq!(big(directory), 0xfade_0c02);
        let identifier = directory + big(directory + 20);
        // Name, flags and the hash of a property list are taken over from the signature before, and nothing else tells them.
        let hashes = directory + big(directory + 16);
        let pages = hashes..hashes + 32 * big(directory + 28);
        let (flags, text_flags) = (directory + 12..directory + 16, directory + 80..directory + 88);
        let taken_over = [flags, text_flags, identifier..identifier + 8, hashes - 32..hashes];
        for at in some_of(signature..file.len()) {
            if !taken_over.iter().any(|range| range.contains(&at)) {
                let states = patched.states_with(at, 1);
                assert!(states == MODIFIED || states == REFUSED, "at {at:#x}: {states:?}");
                assert!(states == MODIFIED || !pages.contains(&at), "at {at:#x}");
            }
        }
        for at in [0..0x400, signature - 16..signature].into_iter().flat_map(some_of) {
            let states = patched.states_with(at, 1);
            assert!(states == MODIFIED || states == REFUSED, "at {at:#x}: {states:?}");
        }
    }
}

#[test]
fn a_seal_alone_proves_nothing() {
    let patched = &*CHUNKS;
    // Ours, over code that is not: sealed anew by somebody who knows how.
    let mut bytes = patched.bytes.clone();
    let code = patched.place(b"DEFAULT_KEEP_TURNS = 4").end - 1;
    bytes[code] = b'9';
    let seal = patched.place(SEAL).end..patched.place(SEAL).end + 64;
    bytes[seal.clone()].fill(b'0');
    let forged = digest::of_bytes(&bytes);
    bytes[seal].copy_from_slice(forged.as_bytes());
    assert_eq!(patched.states(&bytes), MODIFIED);
}

/// What another file was sealed with, and a marker that stands in another module as well.
#[test]
fn a_marker_that_is_elsewhere_is_modified() {
    let patched = &*CHUNKS;
    let seal = patched.place(SEAL).end..patched.place(SEAL).end + 64;
    let other = WHOLE.place(SEAL).end..WHOLE.place(SEAL).end + 64;
    let mut bytes = patched.bytes.clone();
    bytes[seal].copy_from_slice(&WHOLE.bytes[other]);
    assert_eq!(patched.states(&bytes), MODIFIED);

    let mut graph = chunks(LOOPS[2]);
    graph.modules[1].contents.extend(b"/*! ctxbridge {}*/");
    assert_eq!(patched.states(&arm64(&graph)), MODIFIED);
    // Nested, so that one seal is two.
    graph.modules[1].contents.extend([OPEN, OPEN, SEAL, &[b'0'; 64], b"\"}*/"].concat());
    assert_eq!(patched.states(&arm64(&graph)), MODIFIED);
    graph.modules[1].contents.extend([OPEN, SEAL, &[0xe9; 64], b"\"}*/"].concat());
    assert_eq!(patched.states(&arm64(&graph)), MODIFIED);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ctxbridge_testkit::share_of(1000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_other_byte_is_never_patched(at in any::<Index>(), flip in 1_u8.., whole in any::<bool>()) {
        let patched = if whole { &*WHOLE } else { &*CHUNKS };
        for state in patched.states_with(at.index(patched.bytes.len()), flip) {
            prop_assert_ne!(state, Some(TargetState::Patched));
        }
    }

    #[test]
    fn a_file_cut_short_or_lengthened_is_never_patched(at in any::<Index>(), more in prop::collection::vec(any::<u8>(), 1..20)) {
        let cut = &CHUNKS.bytes[..at.index(CHUNKS.bytes.len())];
        prop_assert!(!CHUNKS.states(cut).contains(&Some(TargetState::Patched)));
        prop_assert!(!CHUNKS.states(&[&CHUNKS.bytes, &more[..]].concat()).contains(&Some(TargetState::Patched)));
    }
}
