//! What is sent from one archive to another: all of it, once, without secrets, whatever happens on the way.

use crate::transcript::changes;
mod history;
use crate::transcript::lines;
mod place;

use ctxbridge::archive::store::{Compaction, SessionMove, TurnSelection};
use ctxbridge::team::sync::SyncError;
use lines::{boundary, calls, compact_summary, result, says, text, user, with};
use place::{Place, SESSION, conversation};
use serde_json::json;

/// When conversations begin, in milliseconds since 1970.
const BEGIN: i64 = 1_780_272_000_000;

#[test]
fn what_is_new_is_sent_once() {
    let place = Place::new();
    place.archive(SESSION, &text(&conversation(0..6)));
    let sent = place.sync().unwrap();
    assert_eq!((sent.sessions, sent.transcripts, sent.turns), (1, 1, 6));
    place.check_same();
    // Nothing is new.
    let again = place.sync().unwrap();
    assert_eq!((again.looked_at, again.sessions, again.bytes), (1, 0, 0));
    // The open turn has grown, and there is another session.
    place.archive(SESSION, &text(&conversation(0..9)));
    place.archive("other", &text(&[user(90, "Another prompt."), says(91, "Another answer.")]));
    let sent = place.sync().unwrap();
    assert_eq!((sent.looked_at, sent.sessions, sent.transcripts), (2, 2, 2));
    place.check_same();
}

#[test]
fn everything_is_asked_for_again_where_nothing_is_known_of_it() {
    let place = Place::new();
    place.archive(SESSION, &text(&conversation(0..6)));
    place.sync().unwrap();
    std::fs::remove_dir_all(place.here().join("sync")).unwrap();
    let sent = place.sync().unwrap();
    assert_eq!((sent.sessions, sent.bytes, sent.turns), (1, 0, 0));
    place.check_same();
    // The same is asked for.
    let sent = place.sync_whole().unwrap();
    assert_eq!((sent.sessions, sent.bytes), (1, 0));
    place.check_same();
}

#[test]
fn a_store_that_lost_what_was_sent_gets_it_again() {
    let place = Place::new();
    place.archive(SESSION, &text(&conversation(0..3)));
    place.sync().unwrap();
    let backup = place.copy_of_there();
    // Long enough that the next run would not begin at the start.
    place.archive(SESSION, &text(&conversation(0..400)));
    place.sync().unwrap();
    place.put_there(&backup);
    place.archive(SESSION, &text(&conversation(0..401)));
    place.sync().unwrap();
    place.check_same();
}

#[test]
fn rewritten_transcripts_are_rewritten_there_as_well() {
    let place = Place::new();
    place.archive(SESSION, &text(&conversation(0..5)));
    place.sync().unwrap();
    let rewritten = [&conversation(0..2)[..], &conversation(70..74)].concat();
    place.archive(SESSION, &text(&rewritten));
    // And once more before anything is sent.
    place.archive(SESSION, &text(&conversation(0..1)));
    place.sync().unwrap();
    place.check_same();
    let mut there = place.there();
    let session = there.session(SESSION).unwrap().unwrap();
    assert_eq!(there.transcripts(session.key).unwrap()[0].generation, 2);
    assert!(!there.turns(session.key, TurnSelection::Superseded).unwrap().is_empty());
}

#[test]
fn secrets_stay_here() {
    const TOKEN: &str = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let place = Place::new();
    let lines = [
        user(0, format!("Use {TOKEN} for it.")),
        calls(1, "Bash", json!({ "command": "env", "env": { "PASSWORD": "correct-horse-7" } })),
        result(2, format!("export GH={TOKEN}")),
        says(3, "It is used."),
        user(4, "And now?"),
        says(5, "Done."),
    ];
    place.archive(SESSION, &text(&lines));
    let sent = place.sync().unwrap();
    assert!(sent.secrets.values().sum::<usize>() >= 2, "{:?}", sent.secrets);
    let there = String::from_utf8(place.raw(&mut *place.there(), SESSION)).unwrap();
    assert!(!there.contains(TOKEN), "{there}");
    assert_eq!(there.lines().count(), lines.len());
    there.lines().for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).unwrap()));
    // Here, not a byte is another one.
    assert_eq!(place.raw(&mut *place.open_here(), SESSION), text(&lines).into_bytes());
    // What comes later is sent from where that was.
    let more = [&lines[..], &[user(6, "More."), says(7, "More of it.")]].concat();
    place.archive(SESSION, &text(&more));
    let sent = place.sync().unwrap();
    assert_eq!(sent.turns, 2);
    let there = String::from_utf8(place.raw(&mut *place.there(), SESSION)).unwrap();
    assert!(!there.contains(TOKEN) && there.ends_with(&text(&more[6..])), "{there}");
}

#[test]
fn what_hooks_and_the_user_told_is_sent_as_well() {
    let place = Place::new();
    let mut here = place.open_here();
    let told = |at_ms, is_blocked, turns| Compaction {
        at_ms,
        cause: Some("auto".to_owned()),
        context_tokens: Some(160_000),
        is_blocked,
        turns,
    };
    place.archive(SESSION, &text(&conversation(0..3)));
    here.record_compaction(SESSION, &told(BEGIN + 1_000, true, None)).unwrap();
    here.record_compaction(SESSION, &told(BEGIN + 2_000, false, None)).unwrap();
    let lines = [&conversation(0..3)[..], &[boundary(80), compact_summary(81, "In short: it was done.")], &conversation(4..5)];
    place.archive(SESSION, &text(&lines.concat()));
    let session = here.session(SESSION).unwrap().unwrap();
    let first = here.turns(session.key, TurnSelection::All).unwrap().remove(0);
    here.set_pinned(&first.turn.id, true, 3_000).unwrap();
    here.end_session(SESSION, "clear", 4_000).unwrap();
    place.sync().unwrap();
    place.check_same();
    let mut there = place.there();
    let session = there.session(SESSION).unwrap().unwrap();
    assert_eq!(session.end_reason.as_deref(), Some("clear"));
    let known = there.compactions(Some(session.key), i64::MIN).unwrap();
    let known: Vec<_> = known.iter().map(|known| (known.at_ms, known.turns, known.is_blocked, known.is_done)).collect();
    assert_eq!(known, [(BEGIN + 1_000, 3, true, false), (BEGIN + 2_000, 3, false, true)]);
    assert_eq!(there.turns(session.key, TurnSelection::Pinned).unwrap().len(), 1);
    // The user keeps it no longer.
    here.set_pinned(&first.turn.id, false, 5_000).unwrap();
    assert_eq!(place.sync().unwrap().sessions, 1);
    assert_eq!(there.turns(session.key, TurnSelection::Pinned).unwrap().len(), 0);
    assert_eq!(place.sync().unwrap().sessions, 0);
    assert_eq!(there.compactions(Some(session.key), i64::MIN).unwrap().len(), 2);
}

#[test]
fn what_was_decided_is_found_out_there() {
    let place = Place::new();
    let lines = [user(0, "Which database?"), says(1, "I decided to use SQLite because it needs no server."), user(2, "Good.")];
    place.archive(SESSION, &text(&lines));
    assert_eq!(place.sync().unwrap().learnings, 1);
    let found = place.there().learnings(&ctxbridge::archive::store::LearningQuery::default()).unwrap();
    assert!(found[0].sentence.contains("SQLite"), "{found:?}");
}

#[test]
fn two_at_once_are_one() {
    let place = Place::new();
    place.archive(SESSION, &text(&conversation(0..2)));
    let lock = place.here().join("sync/lock");
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let held = std::fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    assert!(matches!(place.sync(), Err(SyncError::Running)));
    drop(held);
    place.sync().unwrap();
    place.check_same();
}

#[test]
fn a_project_that_moved_moves_there_as_well() {
    let place = Place::new();
    let moved = |session: &str, folder: &str| {
        let one = SessionMove { session: session.to_owned(), folder: folder.to_owned() };
        place.open_here().move_sessions(&[one]).unwrap();
    };
    place.archive(SESSION, &text(&conversation(0..6)));
    place.sync().unwrap();
    moved(SESSION, "/work/new");
    place.archive("other", &text(&[user(90, "Another prompt."), says(91, "Another answer.")]));
    moved("other", "/work/new/web");
    assert_eq!(place.sync().unwrap().sessions, 2);
    assert_eq!(place.there().session(SESSION).unwrap().unwrap().folder.as_deref(), Some("/work/new"));
    place.check_same();
    assert_eq!(place.sync().unwrap().sessions, 0, "nothing is new");
    // And back.
    moved(SESSION, "/work/p");
    assert_eq!(place.sync().unwrap().sessions, 1);
    assert_eq!(place.there().session(SESSION).unwrap().unwrap().moved_from, None);
    place.check_same();
}

/// What is in files beside the transcript is sent without secrets, and not at all where secrets would not be found.
#[test]
fn files_beside_a_transcript_are_redacted() {
    use ctxbridge::archive::side_files::{SideFileEffort, ingest_side_files};
    use ctxbridge::archive::store::{EVERYTHING, SessionPart, Transcript};
    use ctxbridge::archive::turn_text;

    let place = Place::new();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let body = [
        "MIIEowIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MhgHcTz6sE2I2yPB",
        "aFDrBz9vFqU4yTjVq8YxW2Q1kLm3nOpQrStUvWxYz0123456789+/abcdefghij",
    ];
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", body.join("\n"));
    let pointing = with(
        result(2, "the start"),
        json!({ "toolUseResult": { "persistedOutputPath": format!("/gone/{SESSION}/tool-results/out.txt") } }),
    );
    let lines = [user(0, "Look."), calls(1, "Bash", json!({ "command": "env" })), pointing, says(3, "Seen.")];
    place.archive(SESSION, &text(&lines));
    place.sync().unwrap();
    // They come later than the turn that points to one.
    let folder = place.transcript(SESSION).with_extension("").join("tool-results");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("out.txt"), format!("puffinburrow\ntoken {secret}\n{key}\n")).unwrap();
    std::fs::write(folder.join("out.bin"), [b"\xff\xfe".as_slice(), secret.as_bytes()].concat()).unwrap();
    let path = ctxbridge::common::paths::real(place.transcript(SESSION)).unwrap();
    let named =
        Transcript { path: path.to_string_lossy().into_owned(), session: SESSION.to_owned(), part: SessionPart::Conversation };
    let append = &mut |store: &mut dyn ctxbridge::archive::store::Store, batch: &_| store.append(batch);
    ingest_side_files(&mut *place.open_here(), &named, SideFileEffort::Whole, append).unwrap();
    let sent = place.sync().unwrap();
    assert_eq!((sent.sessions, sent.not_text), (1, 1));
    let mut there = place.there();
    let session = there.session(SESSION).unwrap().unwrap();
    let files: Vec<_> = there.transcripts(session.key).unwrap().into_iter().filter(|file| !file.part.is_transcript()).collect();
    assert_eq!(files.iter().map(|file| &file.part).collect::<Vec<_>>(), [&SessionPart::SideFile("tool-results/out.txt".into())]);
    let mut bytes = Vec::new();
    there.read_bytes(files[0].key, 0, EVERYTHING, &mut bytes).unwrap();
    let sent = String::from_utf8(bytes).unwrap();
    assert!(sent.starts_with("puffinburrow\ntoken [redacted:") && !sent.contains(secret), "{sent}");
    assert!(!sent.contains(body[1]), "a secret of several lines: {sent}");
    let turn = there.turns(session.key, TurnSelection::All).unwrap().remove(0);
    assert!(turn_text::content(&mut *there, &turn).unwrap().contains("puffinburrow"));
    // Once.
    let again = place.sync().unwrap();
    assert_eq!((again.sessions, again.not_text), (0, 0));
}

#[test]
fn a_preview_shows_what_is_redacted_and_sends_nothing() {
    let place = Place::new();
    let lines = [
        user(0, "Set it up.".to_owned()),
        calls(1, "Bash", json!({ "command": "export DB_PASSWORD=kQ83mxP02v && run", "env": { "PASSWORD": "correct-horse-7" } })),
        result(2, "done"),
        user(3, "Log in with API_TOKEN=a8Kd03mXq9ZbL2wR7tYv".to_owned()),
        says(4, "It works."),
    ];
    place.archive(SESSION, &text(&lines));
    let (report, secrets) = place.preview();
    assert_eq!((report.sessions, report.secrets.values().sum::<usize>()), (1, 3), "{secrets:?}");
    assert!(secrets.iter().all(|secret| secret.session == SESSION && secret.finding.context.contains("[redacted:")));
    let shown = format!("{secrets:?}");
    assert!(["kQ83", "correct-horse", "a8Kd"].iter().all(|secret| !shown.contains(secret)), "{shown}");
    // Each is of its turn.
    let places: Vec<_> = secrets.iter().map(|secret| secret.place.clone().unwrap()).collect();
    assert!(places[0] == places[1] && places[1] != places[2] && places[0].starts_with("ctx:"), "{places:?}");
    // Nothing was sent, and the run finds the same.
    let sent = place.sync().unwrap();
    assert_eq!(sent.secrets, report.secrets);
    assert_eq!(place.preview().0.sessions, 0);
    // Of what has grown, only what is new.
    let more = [&lines[..], &[user(5, "PASSWORD=kQ83mxP02w".to_owned()), says(6, "Yes.")]].concat();
    place.archive(SESSION, &text(&more));
    let (report, secrets) = place.preview();
    assert_eq!((report.sessions, secrets.len()), (1, 1), "{secrets:?}");
}
