//! Sessions of which the archive has the client's own transcript: that says more, and counts.

use std::fs;

use ctxbridge_testkit::sandbox::{Sandbox, Talk};
use ctxbridge_testkit::transcript::Kind;

use super::theirs::{NOW, Theirs, database as write, of_transcript, open, put};
use super::{counts, database, found, import, turns_of};

/// A word of theirs that is once in the transcript.
fn rare(rows: &[Theirs], bytes: &[u8]) -> String {
    let all = String::from_utf8_lossy(bytes);
    let words = rows.iter().flat_map(|one| one.content.split(|c: char| !c.is_ascii_lowercase()));
    words.filter(|word| word.len() > 7).find(|word| all.matches(word).count() == 1).unwrap().to_owned()
}

#[test]
fn entries_bring_their_counts_to_the_turns_that_are_there() {
    for kind in Kind::ALL {
        let sandbox = Sandbox::new();
        let sessions = sandbox.generate(kind, 200, 3);
        sandbox.cli(&["archive", "import"]);
        let before = sandbox.json(&["archive", "status"]);
        let mut rows: Vec<Theirs> = Vec::new();
        for session in &sessions {
            rows.extend(of_transcript(&fs::read(&session.path).unwrap(), &session.id));
        }
        for one in &mut rows {
            (one.access_count, one.confidence, one.accessed_ms) = (3, 0.97, NOW);
        }
        write(&database(&sandbox), &rows);
        assert_eq!(counts(&import(&sandbox, &database(&sandbox))), [0, rows.len() as u64, 0, 0], "{kind:?}");
        let after = sandbox.json(&["archive", "status"]);
        for same in ["sessions", "turns", "transcripts", "bytes_raw"] {
            assert_eq!(before[same], after[same], "{kind:?} {same}");
        }
        let turns = turns_of(&sandbox, &sessions[0].id);
        let raised = turns.iter().filter(|turn| turn.access_count == 3 && turn.confidence > 0.96).count();
        assert!(raised > 0 && turns.iter().all(|turn| turn.access_count <= 3), "{kind:?}");
        if kind == Kind::Chat {
            assert_eq!(raised, turns.len());
        }
        assert_eq!(counts(&import(&sandbox, &database(&sandbox))), [0, rows.len() as u64, 0, 0], "{kind:?}");
    }
}

#[test]
fn transcripts_that_still_exist_are_archived_first() {
    let sandbox = Sandbox::new();
    let session = Talk::from(&sandbox.generate(Kind::Chat, 60, 4)[0]);
    let rows = of_transcript(&session.bytes(), &session.id);
    // Nothing was archived yet; then the session goes on, and only their hook has seen it.
    write(&database(&sandbox), &rows);
    assert_eq!(counts(&import(&sandbox, &database(&sandbox))), [0, rows.len() as u64, 0, 0]);
    assert_eq!(sandbox.restored(&session.id, &[]), session.bytes());
    ctxbridge_testkit::transcript::append_turn(&session.path, 9).unwrap();
    let rows = of_transcript(&session.bytes(), &session.id);
    put(&open(&database(&sandbox)), &rows);
    assert_eq!(counts(&import(&sandbox, &database(&sandbox))), [0, rows.len() as u64, 0, 0]);
    assert_eq!(sandbox.restored(&session.id, &[]), session.bytes());
}

#[test]
fn the_transcript_that_comes_later_takes_the_place_of_what_was_imported() {
    let sandbox = Sandbox::new();
    let session = Talk::from(&sandbox.generate(Kind::Tools, 200, 5)[0]);
    let bytes = session.bytes();
    fs::remove_file(&session.path).unwrap();
    let mut rows = of_transcript(&bytes, &session.id);
    // Something that the transcript does not have.
    rows.push(Theirs::new(999, &session.id, "Do lapwings winter here?", "Some do."));
    for one in &mut rows {
        (one.access_count, one.confidence) = (2, 0.9);
    }
    write(&database(&sandbox), &rows);
    assert_eq!(counts(&import(&sandbox, &database(&sandbox))), [rows.len() as u64, 0, 0, 0]);
    let word = rare(&rows[..rows.len() - 1], &bytes);
    assert_eq!(found(&sandbox, &word).len(), 1, "{word}");

    session.write(&bytes);
    sandbox.cli(&["archive", "import"]);
    let [(handle, _)] = &found(&sandbox, &word)[..] else { panic!("{word}: {:?}", found(&sandbox, &word)) };
    assert_eq!(sandbox.restored(&session.id, &[]), bytes, "the client's own comes first");
    let turns = turns_of(&sandbox, &session.id);
    let (own, imported): (Vec<_>, Vec<_>) = turns.iter().partition(|turn| turn.transcript != turns.last().unwrap().transcript);
    assert_eq!(imported.len(), 1, "only what the transcript does not have: {imported:?}");
    assert!(own.iter().any(|turn| handle.contains(&ctxbridge::common::digest::hex(&turn.turn.id)[..8])));
    assert!(own.iter().any(|turn| turn.access_count == 2 && turn.confidence > 0.89), "the counts came along");
    assert_eq!(found(&sandbox, "lapwings").len(), 1);
    // And so it stays.
    assert_eq!(counts(&import(&sandbox, &database(&sandbox))), [0, rows.len() as u64 - 1, 1, 0]);
    assert_eq!(turns_of(&sandbox, &session.id).len(), turns.len());
    assert_eq!(found(&sandbox, &word).len(), 1);
}

#[test]
fn a_hook_does_that_as_well() {
    let sandbox = Sandbox::new();
    let session = Talk::from(&sandbox.generate(Kind::Chat, 40, 6)[0]);
    let bytes = session.bytes();
    fs::remove_file(&session.path).unwrap();
    let rows = of_transcript(&bytes, &session.id);
    write(&database(&sandbox), &rows);
    assert_eq!(counts(&import(&sandbox, &database(&sandbox)))[0], rows.len() as u64);
    session.write(&bytes);
    sandbox.quiet_hook("stop", &session.input());
    assert_eq!(sandbox.restored(&session.id, &[]), bytes);
    let turns = turns_of(&sandbox, &session.id);
    assert!(turns.iter().all(|turn| turn.transcript == turns[0].transcript), "{turns:#?}");
}
