//! Damage to a folder whose transcripts are gone.

use std::fs;
use std::path::{Path, PathBuf};

use ctxbridge_testkit::{is_left_out, share_of};
use tempfile::TempDir;

use super::{JournalFinding, JsonlStore, LockPolicy};
use crate::ingest::{IngestReport, ingest};
use crate::recovery;
use crate::store::{
    EVERYTHING, MaintenanceStore, SegmentReader, SessionReader, Transcript, TranscriptAppender, TurnReader, TurnSelection,
};

const SESSION: &str = "s";

/// An archive of a transcript that was rewritten once.
struct RewrittenArchive {
    root: TempDir,
    /// The bytes of its generations.
    generations: [Vec<u8>; 2],
}

/// A prompt and its answer; the answer has about a thousand words.
fn turn(number: u32, word: &str) -> String {
    let line = |id: u32, kind: &str, text: &str| {
        format!(
            "{{\"uuid\":\"{id:08x}-0000-4000-8000-000000000000\",\"type\":\"{kind}\",\"sessionId\":\"{SESSION}\",\
             \"timestamp\":\"2026-06-01T10:{:02}:{:02}.000Z\",\"cwd\":\"/work\",\"message\":{{\"role\":\"{kind}\",\"content\":\"{text}\"}}}}\n",
            id / 60,
            id % 60
        )
    };
    let answer: String = (0..1_000).map(|n| format!(" {word}{}", n * number)).collect();
    line(2 * number, "user", &format!("Question {number}?")) + &line(2 * number + 1, "assistant", &answer)
}

impl RewrittenArchive {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let turns = |words: &[&str]| (1..).zip(words).map(|(number, word)| turn(number, word)).collect::<String>().into_bytes();
        let mut words = ["word"; 40];
        let first = turns(&words);
        words[30..].fill("other");
        let archive = Self { root, generations: [first, turns(&words)] };
        let mut store = archive.open();
        // A long piece, and small ones that are joined; then the end is rewritten.
        let begin = archive.generations[0].len() / 2;
        for bytes in [&archive.generations[0][..begin], &archive.generations[0], &archive.generations[1]] {
            archive.archive(&mut store, bytes);
        }
        fs::remove_file(archive.transcript()).expect("removed");
        archive.remove_image();
        archive
    }

    fn archive(&self, store: &mut JsonlStore, bytes: &[u8]) -> IngestReport {
        let path = self.transcript();
        fs::write(&path, bytes).expect("written");
        let named = Transcript {
            path: path.to_string_lossy().into_owned(),
            session: SESSION.to_owned(),
            part: Option::<String>::None.into(),
        };
        ingest(store, &named, &path).expect("archived")
    }

    /// Nobody needs it, and a damaged journal is not read where it is.
    fn remove_image(&self) {
        fs::remove_file(self.file("journal.image")).ok();
    }

    fn transcript(&self) -> PathBuf {
        self.root.path().join("s.jsonl")
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join(JsonlStore::FOLDER)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn open(&self) -> JsonlStore {
        JsonlStore::open(&self.folder(), LockPolicy::Background).expect("opened").noting_repairs(self.root.path())
    }

    fn look(&self) -> JsonlStore {
        JsonlStore::open_read_only(&self.folder()).expect("opened").expect("an archive")
    }

    fn findings(&self) -> Vec<JournalFinding> {
        self.look().integrity_check().expect("checked")
    }

    /// Files beside transcripts with this extension, by their names.
    fn copies(&self, extension: &str) -> Vec<PathBuf> {
        let listed = fs::read_dir(self.file("transcripts")).expect("listed").map(|entry| entry.expect("an entry").path());
        let mut found: Vec<_> = listed.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
        found.sort();
        found
    }

    fn assert_restored(&self) {
        let mut store = self.look();
        let key = store.session(SESSION).expect("read").expect("a session").key;
        let transcript = store.transcripts(key).expect("read").remove(0);
        for (generation, bytes) in (0..).zip(&self.generations) {
            let mut read = Vec::new();
            store.read_bytes(transcript.key, generation, EVERYTHING, &mut read).expect("readable");
            assert!(read == *bytes, "generation {generation}");
        }
    }

    /// The turns that can be read, as they were, and those that cannot, both by their ids.
    fn turns(&self) -> (Vec<[u8; 16]>, Vec<[u8; 16]>) {
        let mut store = self.look();
        let key = store.session(SESSION).expect("read").expect("a session").key;
        let (mut readable, mut lost) = (Vec::new(), Vec::new());
        for stored in store.turns(key, TurnSelection::All).expect("read") {
            let range = (stored.turn.start, stored.turn.end);
            let mut read = Vec::new();
            match store.read_bytes(stored.transcript, stored.generation, range, &mut read) {
                Ok(()) => {
                    assert!(read == self.generations[1][range.0 as usize..range.1 as usize]);
                    readable.push(stored.turn.id);
                }
                Err(error) => {
                    assert!(error.is_session_local(), "{error}");
                    lost.push(stored.turn.id);
                }
            }
        }
        (readable, lost)
    }
}

/// `true` where a file that somebody has open cannot be replaced, and the run says so: compaction replaces the journal.
fn replaces_no_open_file() -> bool {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let open = fs::File::create(path("old")).and_then(|open| fs::write(path("new"), "").map(|()| open)).expect("written");
    let is_replaced = fs::rename(path("new"), path("old")).is_ok();
    drop(open);
    is_left_out("posix-rename", is_replaced)
}

fn flip(path: &Path, bit: usize) {
    let mut bytes = fs::read(path).expect("read");
    bytes[bit / 8] ^= 1 << (bit % 8);
    fs::write(path, bytes).expect("written");
}

fn overwrite(path: &Path, at: usize, length: usize) {
    let mut bytes = fs::read(path).expect("read");
    let end = (at + length).min(bytes.len());
    for byte in &mut bytes[at..end] {
        *byte = byte.wrapping_mul(7).wrapping_add(93);
    }
    fs::write(path, bytes).expect("written");
}

/// Numbers below a limit that look random, the same in each run.
fn numbers(below: usize, count: u32) -> impl Iterator<Item = usize> {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    })
}

#[test]
fn a_flipped_bit_is_found_read_over_and_turned_back() {
    let archive = RewrittenArchive::new();
    let mut files = archive.copies("jsonl");
    assert_eq!((files.len(), archive.copies("sums").len()), (2, 2));
    files.push(archive.file("journal.jsonl"));
    for file in files {
        let whole = fs::read(&file).expect("read");
        for bit in numbers(whole.len() * 8, share_of(200)) {
            flip(&file, bit);
            let findings = archive.findings();
            let is_it = matches!(&findings[..], [JournalFinding::FlippedBits { file: found, bits: 1, .. }] if *found == file);
            assert!(is_it, "bit {bit} of {}: {findings:?}", file.display());
            archive.assert_restored();
            archive.open().heal().expect("healed");
            assert!(fs::read(&file).expect("read") == whole, "bit {bit} of {}", file.display());
        }
    }
    assert_eq!(archive.findings(), []);
}

/// Corrections of the journal are noted, whoever makes them; those before its image are made by a maintenance run.
#[test]
fn a_corrected_journal_is_noted() {
    if replaces_no_open_file() {
        return;
    }
    let archive = RewrittenArchive::new();
    let journal = archive.file("journal.jsonl");
    let corrected = || recovery::repairs(archive.root.path()).iter().map(|repair| repair.corrected_lines).sum::<u64>();
    let whole = fs::read(&journal).expect("read");
    flip(&journal, 900);
    archive.assert_restored();
    assert!(fs::read(&journal).expect("read") != whole && corrected() == 0, "who reads writes nothing");
    archive.open().end_session(SESSION, "clear", 1).expect("written");
    assert!(fs::read(&journal).expect("read").starts_with(&whole) && corrected() == 1);
    // The image has what it comes to, and nobody reads so far back.
    let mut store = archive.open();
    store.optimize().expect("done");
    let whole = fs::read(&journal).expect("read");
    flip(&journal, 900);
    let mut store = archive.open();
    assert_eq!(store.integrity_check().expect("checked").len(), 1);
    store.heal().expect("healed");
    assert!(fs::read(&journal).expect("read") == whole && corrected() == 2);
}

/// The last line is read although its line break is damaged, and the next one is written behind it.
#[test]
fn the_last_line_break_of_the_journal() {
    let archive = RewrittenArchive::new();
    let journal = archive.file("journal.jsonl");
    for bit in 0..8 {
        let whole = fs::read(&journal).expect("read");
        flip(&journal, whole.len() * 8 - 8 + bit);
        archive.assert_restored();
        archive.open().end_session(SESSION, "clear", 1).expect("written");
        assert!(fs::read(&journal).expect("read").starts_with(&whole), "{bit}");
        archive.remove_image();
        assert_eq!(archive.findings(), []);
    }
}

#[test]
fn noise_costs_the_turns_that_it_is_in() {
    let archive = RewrittenArchive::new();
    let copies = archive.copies("jsonl");
    let newest = &copies[1];
    let whole: Vec<_> = copies.iter().map(|file| fs::read(file).expect("read")).collect();
    let (all, none) = archive.turns();
    assert_eq!((all.len(), none.len()), (40, 0));
    for at in numbers(whole[0].len().min(whole[1].len()) - 4096, share_of(40)) {
        // What both generations share is nowhere else then.
        copies.iter().for_each(|file| overwrite(file, at, 4096));
        let (readable, lost) = archive.turns();
        // Two blocks of 4 KB are damaged at most, and a turn has more.
        assert!((1..=3).contains(&lost.len()) && readable.len() + lost.len() == 40, "{at}: {}", lost.len());
        let findings = archive.findings();
        let named = findings.iter().flat_map(|finding| match finding {
            JournalFinding::Transcript { turns, file, .. } if file == newest => turns.clone(),
            JournalFinding::Transcript { .. } => Vec::new(),
            other => panic!("{at}: {other:?}"),
        });
        assert_eq!(named.collect::<Vec<_>>(), lost, "{at}");
        assert_eq!(archive.open().heal().expect("healed"), 0);
        copies.iter().zip(&whole).for_each(|(file, bytes)| fs::write(file, bytes).expect("written"));
    }
}

#[test]
fn noise_is_put_back_from_another_generation() {
    let archive = RewrittenArchive::new();
    let copies = archive.copies("jsonl");
    for file in &copies {
        overwrite(file, 9_000, 4096);
        assert!(matches!(archive.findings()[..], [JournalFinding::Transcript { .. }]));
        assert_eq!(archive.open().heal().expect("healed"), 1);
        assert_eq!(archive.findings(), []);
        archive.assert_restored();
    }
}

/// A bit in each of several blocks, and damage that no bit explains: the others are turned back for who reads.
#[test]
fn a_flipped_bit_beside_other_damage() {
    let archive = RewrittenArchive::new();
    let newest = archive.copies("jsonl").remove(1);
    let whole = fs::read(&newest).expect("read");
    let end = whole.len();
    for at in [end - 4_000, end - 13_000, end - 22_000] {
        flip(&newest, at * 8 + 3);
    }
    assert!(matches!(archive.findings()[..], [JournalFinding::FlippedBits { bits: 3, .. }]));
    archive.assert_restored();
    overwrite(&newest, end - 30_000, 100);
    let (_, lost) = archive.turns();
    assert!((1..=2).contains(&lost.len()), "{lost:?}");
    // Some bytes are not there at all.
    fs::write(&newest, &whole[..end - 5_000]).expect("written");
    let (_, lost) = archive.turns();
    assert!((1..=2).contains(&lost.len()), "{lost:?}");
    fs::write(&newest, &whole).expect("written");
    archive.assert_restored();
}

#[test]
fn checksums_are_an_aid() {
    if replaces_no_open_file() {
        return;
    }
    let archive = RewrittenArchive::new();
    let sums = archive.copies("sums");
    let whole: Vec<_> = sums.iter().map(|file| fs::read(file).expect("read")).collect();
    let restore = |damage: &dyn Fn(&Path)| {
        sums.iter().for_each(|file| damage(file));
        assert_eq!(archive.findings(), []);
        archive.assert_restored();
        archive.open().optimize().expect("done");
        // Lines of pieces that grew are not written again.
        let renewed = sums.iter().map(|file| fs::read(file).expect("read"));
        for (renewed, whole) in renewed.zip(&whole) {
            let (renewed, whole) = (String::from_utf8_lossy(&renewed).into_owned(), String::from_utf8_lossy(whole));
            assert!(!renewed.is_empty() && renewed.lines().all(|line| whole.lines().any(|known| known == line)));
        }
    };
    restore(&|_| {});
    restore(&|file| fs::remove_file(file).expect("removed"));
    restore(&|file| fs::write(file, b"").expect("written"));
    restore(&|file| fs::write(file, [0xff; 9_000]).expect("written"));
    restore(&|file| overwrite(file, 40, 500));
    restore(&|file| fs::write(file, &fs::read(file).expect("read")[..90]).expect("written"));
    // They are no transcripts.
    fs::remove_dir_all(archive.file("transcripts")).expect("removed");
    fs::create_dir(archive.file("transcripts")).expect("made");
    fs::write(archive.file("transcripts/s.0.sums"), b"").expect("written");
    assert!(!super::Folder::at(&archive.folder()).has_transcripts().expect("listed"));
    assert_eq!(super::Folder::at(&archive.folder()).bytes().0, 0);
}

/// Archiving goes on behind damage, and with lines that were not finished.
#[test]
fn archiving_goes_on() {
    let archive = RewrittenArchive::new();
    let newest = archive.copies("jsonl").remove(1);
    let whole = fs::read(&newest).expect("read");
    flip(&newest, whole.len() * 8 - 800);
    let sums = archive.copies("sums").remove(1);
    let lines = fs::read_to_string(&sums).expect("read");
    fs::write(&sums, lines + "0 4096 0011").expect("written");
    let more = [&archive.generations[1][..], turn(41, "new").as_bytes()].concat();
    let archive = RewrittenArchive { generations: [archive.generations[0].clone(), more], root: archive.root };
    archive.archive(&mut archive.open(), &archive.generations[1]);
    fs::remove_file(archive.transcript()).expect("removed");
    archive.assert_restored();
    assert_eq!(archive.open().heal().expect("healed"), 1);
    assert_eq!(archive.findings(), []);
    // The new line is a line of its own.
    flip(&newest, (whole.len() + 100) * 8);
    archive.assert_restored();
}
