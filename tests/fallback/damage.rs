//! A flipped bit is found, said and turned back; other damage takes nothing with it but itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ctxbridge::archive::store::jsonl::{JournalFinding, JsonlStore};
use ctxbridge_testkit::sandbox::{Sandbox, Talk, run};
use ctxbridge_testkit::share_of;
use serde_json::Value;

use super::lines::Lines;
use super::obstacle::{assert_lines_sound, choosing_lines, lines_folder, lines_hook, lines_restored, moved};
use super::place::{files, put};

fn archived() -> (Sandbox, Talk, Talk) {
    let sandbox = Sandbox::new();
    let (first, second) = (sandbox.talk(1, Lines::of("s").turns(3)), sandbox.talk(2, Lines::of("t").seed(4).turns(3)));
    for talk in [&first, &second] {
        lines_hook(&sandbox, "stop", &talk.input());
    }
    (sandbox, first, second)
}

fn flip(path: &Path, bit: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[bit / 8] ^= 1 << (bit % 8);
    fs::write(path, bytes).unwrap();
}

/// Damage that is no single flipped bit.
fn garble(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at..at + 9].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(3).wrapping_add(1));
    fs::write(path, bytes).unwrap();
}

/// Copies of transcripts.
fn copies(sandbox: &Sandbox) -> Vec<PathBuf> {
    let listed = fs::read_dir(lines_folder(sandbox).join("transcripts")).unwrap().map(|entry| entry.unwrap().path());
    listed.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect()
}

fn findings(sandbox: &Sandbox) -> Vec<JournalFinding> {
    JsonlStore::open_read_only(&lines_folder(sandbox)).unwrap().unwrap().integrity_check().unwrap()
}

/// What the command says that looks through all of it.
fn optimize(sandbox: &Sandbox) -> (Option<i32>, String) {
    let ran = run(choosing_lines(sandbox, &["archive", "optimize"]), b"");
    (ran.code, ran.stdout + &ran.stderr)
}

#[test]
fn in_a_transcript() {
    let (sandbox, first, second) = archived();
    let file = copies(&sandbox).into_iter().find(|path| path.to_string_lossy().contains(&first.id)).unwrap();
    garble(&file, 50);
    let found = findings(&sandbox);
    assert!(matches!(&found[..], [JournalFinding::Transcript { file: of, start: 0, .. }] if *of == file), "{found:?}");
    // Its file would bring it back; here it is gone.
    fs::remove_file(&first.path).unwrap();
    let (code, told) = optimize(&sandbox);
    assert!(code == Some(1) && told.contains(file.to_str().unwrap()), "{code:?} {told}");
    assert_eq!(told.matches("needed by ctx:").count(), 1, "{told}");
    assert!(lines_restored(&sandbox, &second) == second.bytes());
    // Who finds nothing is told that there is something.
    let ran = run(choosing_lines(&sandbox, &["archive", "search", "zzyzx"]), b"");
    assert!(ran.stderr.contains("3 turns are damaged and were not looked through"), "{ran:?}");
    let ran = run(choosing_lines(&sandbox, &["archive", "restore", &first.id]), b"");
    assert!(ran.code != Some(0) && ran.stderr.contains("damaged"), "{ran:?}");
}

/// Most of a damaged piece can be read; what cannot is named.
#[test]
fn in_a_part_of_a_piece() {
    let sandbox = Sandbox::new();
    let talk = sandbox.talk(1, Lines::of("s").turns(60));
    lines_hook(&sandbox, "stop", &talk.input());
    let whole = talk.bytes();
    fs::remove_file(&talk.path).unwrap();
    assert!(whole.len() > 5 * 4096, "{}", whole.len());
    garble(&copies(&sandbox)[0], 9_000);
    let found = findings(&sandbox);
    assert!(matches!(&found[..], [JournalFinding::Transcript { start: 8192, turns, .. }] if turns.len() < 20), "{found:?}");
    let ran = run(choosing_lines(&sandbox, &["archive", "restore", &talk.id, "--partial"]), b"").with_code(1);
    assert!(ran.stderr.contains("left out: 4096 bytes from byte 8192 on"), "{ran:?}");
    assert!(ran.stdout.as_bytes() == [&whole[..8192], &whole[12288..]].concat());
    let ran = run(choosing_lines(&sandbox, &["archive", "search", "zzyzx"]), b"");
    let JournalFinding::Transcript { turns, .. } = &found[0] else { unreachable!() };
    assert!(ran.stderr.contains(&format!("{} turns are damaged and were not looked through", turns.len())), "{ran:?}");
}

#[test]
fn in_the_entries() {
    let (sandbox, first, second) = archived();
    let entries = lines_folder(&sandbox).join("entries.jsonl");
    let whole = fs::read(&entries).unwrap();
    // The quote that a line's first key begins with.
    flip(&entries, 8);
    let found = findings(&sandbox);
    assert!(matches!(&found[..], [JournalFinding::Entries { bad, missing: 1, .. }] if *bad == [1]), "{found:?}");
    let (_, told) = optimize(&sandbox);
    assert!(told.contains(entries.to_str().unwrap()), "{told}");
    // They are made anew of the bytes.
    assert_eq!(findings(&sandbox), []);
    let lines = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let mut ids: Vec<String> =
            text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["key"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(lines(&fs::read(&entries).unwrap()), lines(&whole));
    for talk in [&first, &second] {
        assert!(lines_restored(&sandbox, talk) == talk.bytes());
    }
}

/// Wherever in the folder it is, nothing needs a transcript to turn it back.
#[test]
fn a_flipped_bit_costs_nothing() {
    let (sandbox, first, second) = archived();
    let talks = [&first, &second];
    let texts = talks.map(Talk::bytes);
    talks.iter().for_each(|talk| fs::remove_file(&talk.path).unwrap());
    let folder = lines_folder(&sandbox);
    fs::remove_file(folder.join("journal.image")).ok();
    let whole = files(&folder);
    let content = |files: &BTreeMap<PathBuf, Vec<u8>>| -> BTreeMap<PathBuf, Vec<u8>> {
        let is_content = |path: &Path| path.starts_with("transcripts") && path.extension().is_some_and(|name| name == "jsonl");
        files.clone().into_iter().filter(|(path, _)| is_content(path)).collect()
    };
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    for _ in 0..share_of(60) {
        fs::remove_dir_all(&folder).unwrap();
        put(&folder, &whole);
        let (name, bytes) = whole.iter().nth(below(whole.len())).unwrap();
        if bytes.is_empty() {
            continue;
        }
        let bit = below(bytes.len() * 8);
        flip(&folder.join(name), bit);
        let damage = || format!("bit {bit} of {}", name.display());
        for (talk, text) in talks.iter().zip(&texts) {
            assert!(lines_restored(&sandbox, talk) == *text, "{}", damage());
        }
        // Checksums are an aid, and the text of an entry is read by nobody.
        let is_needed = name.extension().is_some_and(|extension| extension == "jsonl") && !name.starts_with("entries.jsonl");
        let (code, told) = optimize(&sandbox);
        assert!(!is_needed || code == Some(1) && told.contains("all damage was undone"), "{}: {code:?} {told}", damage());
        assert_eq!(content(&files(&folder)), content(&whole), "{}", damage());
        assert_lines_sound(&sandbox);
    }
    assert!(moved(&sandbox, "damaged").is_empty());
    let journal = folder.join("journal.jsonl");
    // Behind its first line, nobody else reads what is in the image as well.
    flip(&journal, 8_000);
    let doctor = run(choosing_lines(&sandbox, &["doctor"]), b"").stdout;
    assert!(doctor.contains("1 bit is flipped at byte 1000 "), "{doctor}");
    let (code, told) = optimize(&sandbox);
    assert!(code == Some(1) && told.contains("1 line of the journal had a flipped bit, which was turned back"), "{told}");
    let doctor = run(choosing_lines(&sandbox, &["doctor"]), b"").stdout;
    assert!(doctor.contains("damaged and mended"), "{doctor}");
}

/// The journal says what everything else is. A damaged one is moved aside with all of the folder, and the next archive is filled from the
/// transcripts that still exist.
#[test]
fn in_the_journal() {
    let (sandbox, first, second) = archived();
    let journal = lines_folder(&sandbox).join("journal.jsonl");
    let line = fs::read_to_string(&journal).unwrap().find('\n').unwrap();
    garble(&journal, line + 40);
    fs::remove_file(lines_folder(&sandbox).join("journal.image")).ok();
    let error = JsonlStore::open_read_only(&lines_folder(&sandbox)).unwrap_err().to_string();
    assert!(error.contains("line 2 of journal.jsonl"), "{error}");
    let (code, told) = optimize(&sandbox);
    let aside = moved(&sandbox, "damaged");
    assert_eq!(aside.len(), 1, "{told}");
    assert!(code == Some(1) && told.contains(aside[0].to_str().unwrap()), "{code:?} {told}");
    // The bytes of transcripts are still there, as they were.
    let kept: Vec<_> =
        fs::read_dir(aside[0].join("transcripts")).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(kept.contains(&first.bytes()) && kept.contains(&second.bytes()));
    run(choosing_lines(&sandbox, &["archive", "import"]), b"").done();
    for talk in [&first, &second] {
        assert!(lines_restored(&sandbox, talk) == talk.bytes());
    }
    assert_lines_sound(&sandbox);
}

/// What the journal came to is in its image, where there is one: nothing is lost.
#[test]
fn in_a_journal_of_which_there_is_an_image() {
    let (sandbox, first, second) = archived();
    optimize(&sandbox);
    let journal = lines_folder(&sandbox).join("journal.jsonl");
    assert!(lines_folder(&sandbox).join("journal.image").exists());
    let line = fs::read_to_string(&journal).unwrap().find('\n').unwrap();
    garble(&journal, line + 40);
    let found = findings(&sandbox);
    assert!(matches!(&found[..], [JournalFinding::Journal { folder, .. }] if *folder == lines_folder(&sandbox)), "{found:?}");
    let doctor = run(choosing_lines(&sandbox, &["doctor"]), b"").stdout;
    assert!(
        doctor.contains("line 2 of journal.jsonl") && doctor.contains("`ctxbridge archive optimize` makes it anew"),
        "{doctor}"
    );
    let (code, told) = optimize(&sandbox);
    assert!(code == Some(1) && told.contains("line 2 of journal.jsonl"), "{code:?} {told}");
    assert!(moved(&sandbox, "damaged").is_empty());
    assert_eq!(findings(&sandbox), []);
    fs::remove_file(lines_folder(&sandbox).join("journal.image")).unwrap();
    for talk in [&first, &second] {
        assert!(lines_restored(&sandbox, talk) == talk.bytes());
    }
    assert_lines_sound(&sandbox);
}

/// While the client's file is there, a damaged piece is put back from it: by an import, and by a maintenance run.
#[test]
fn pieces_are_put_back_from_the_transcripts() {
    let (sandbox, first, second) = archived();
    for arguments in [["archive", "import"], ["archive", "optimize"]] {
        copies(&sandbox).iter().for_each(|file| garble(file, 40));
        assert_eq!(findings(&sandbox).len(), 2);
        run(choosing_lines(&sandbox, &arguments), b"");
        assert_eq!(findings(&sandbox), []);
        for talk in [&first, &second] {
            assert!(lines_restored(&sandbox, talk) == talk.bytes());
        }
    }
}
