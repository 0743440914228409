//! Targets that somebody else has changed, and a journal that is damaged, gone, or from the future.

use std::fs;

use ctxbridge::common::digest;
use ctxbridge_testkit::sandbox::{Ran, finish, start};

use super::bundle::Bundle;
use super::client::{Client, DEFAULT_PATCH};

/// A patched client.
fn patched() -> (Client, Vec<u8>) {
    let client = Client::new(Bundle::new());
    let original = client.bytes();
    client.run(&["apply", "--no-smoke"]).done();
    (client, original)
}

/// `verify` says `state`, and neither `apply` nor `revert` touches anything.
#[track_caller]
fn is_left_alone(client: &Client, state: &str, words: &[&str]) {
    let before = client.photo();
    let verified = client.run(&["verify", "--json"]).says_no().json();
    assert_eq!(verified["state"], state);
    assert_eq!(verified["current_sha256"], digest::of_bytes(&client.bytes()));
    assert!(client.run(&["verify"]).says_no().stdout.starts_with(&format!("{state}: ")));
    client.run(&["apply", "--no-smoke"]).refused(words);
    client.run(&["apply", "--no-smoke", "--patch", "microcompact-thresholds"]).refused(words);
    client.run(&["apply", "--dry-run"]).refused(words);
    client.run(&["revert"]).refused(words);
    client.assert_untouched(&before);
}

#[test]
fn a_file_with_the_mark_of_another_tool() {
    let text = Bundle::new().text().replace("übrig", "patched by tweakcc 3.2.1");
    let client = Client::with_bytes(text.as_bytes());
    is_left_alone(&client, "foreign", &["patched by another tool", "marks of tweakcc", "reinstall the client"]);
}

#[test]
fn a_release_with_another_hash_than_published() {
    let client = Client::new(Bundle::new().version("2.0.76"));
    client.manifest("2.0.76");
    is_left_alone(&client, "foreign", &["is not the published @anthropic-ai/claude-code 2.0.76", "reinstall the client"]);
}

#[test]
fn a_patched_file_that_was_edited_afterwards() {
    type Edit = fn(&str) -> String;
    let edits: [(&str, Edit); 5] = [
        ("one byte of the client", |text| text.replacen("kept:", "kepd:", 1)),
        ("one byte of the runtime", |text| text.replacen("DEFAULT_KEEP_TURNS = 4", "DEFAULT_KEEP_TURNS = 5", 1)),
        ("the call taken out", |text| {
            let call = text.find("=ctxbridgeAggressiveTextPrune(").or(text.find(" = ctxbridgeAggressiveTextPrune(")).unwrap();
            let end = call + text[call..].find(')').unwrap() + 1;
            format!("{}{}", &text[..call], &text[end..])
        }),
        ("a line at the end", |text| format!("{text}// mine\n")),
        ("another tool's mark", |text| format!("{text}// tweakcc\n")),
    ];
    for (what, edit) in edits {
        let (client, _) = patched();
        let text = String::from_utf8(client.bytes()).unwrap();
        let edited = edit(&text);
        assert_ne!(edited, text, "{what}");
        fs::write(client.target(), edited).unwrap();
        is_left_alone(&client, "modified", &["was changed after it was patched", "reinstall the client"]);
        // By the file alone as well.
        fs::remove_file(client.data().join("state.db")).unwrap();
        is_left_alone(&client, "modified", &["was changed after it was patched", "reinstall the client"]);
    }
}

#[test]
fn a_patched_file_that_lost_our_comment() {
    let (client, _) = patched();
    let text = String::from_utf8(client.bytes()).unwrap();
    fs::write(client.target(), text.replace("/*! ctxbridge ", "/*! ")).unwrap();
    is_left_alone(&client, "foreign", &["neither the original nor the patched file", "reinstall the client"]);
}

/// Writes what another tool makes of a patched file; returns it.
fn changed_by_another_tool(client: &Client) -> Vec<u8> {
    let mut bytes = client.bytes();
    bytes.extend(b"// tweakcc\n");
    fs::write(client.target(), &bytes).unwrap();
    bytes
}

#[test]
fn force_puts_the_original_back_and_keeps_what_another_tool_changed() {
    for is_journal_lost in [false, true] {
        let (client, original) = patched();
        let changed = changed_by_another_tool(&client);
        if is_journal_lost {
            fs::remove_file(client.data().join("state.db")).unwrap();
        }
        let before = client.photo();
        client.run(&["revert"]).refused(&[
            "was changed after it was patched",
            "`ctxbridge patch revert --force`",
            "checksum is right",
        ]);
        client.assert_untouched(&before);

        let kept = client.target().with_file_name("cli.js.changed");
        let told = client.run(&["revert", "--force"]).done().stdout;
        assert!(told.contains("is the original again") && told.contains(&format!("kept: {}", kept.display())), "{told}");
        assert_eq!((client.bytes(), fs::read(&kept).unwrap()), (original.clone(), changed.clone()));
        client.assert_settled();
        // Again there is nothing to do.
        let photo = client.photo();
        let again = client.run(&["revert", "--force"]).says_no();
        assert!(again.stdout.contains("not patched"), "{again:?}");
        client.assert_untouched(&photo);
        assert_eq!(client.state(), "unpatched");

        // An older kept file is never written over, whatever it is.
        let second = client.target().with_file_name("cli.js.changed2");
        std::os::unix::fs::symlink("nowhere", &second).unwrap();
        client.run(&["apply", "--no-smoke"]).done();
        let newer = changed_by_another_tool(&client);
        let reverted = client.run(&["revert", "--force", "--json"]).done().json();
        let third = client.target().with_file_name("cli.js.changed3");
        assert_eq!((&reverted["state"], reverted["kept"].as_str()), (&"reverted".into(), third.to_str()));
        assert_eq!((client.bytes(), fs::read(&kept).unwrap(), fs::read(&third).unwrap()), (original, changed, newer));
        assert!(second.is_symlink());
        client.assert_settled();
    }
}

#[test]
fn force_also_undoes_a_tool_that_took_our_comment_away() {
    let (client, original) = patched();
    let changed = String::from_utf8(client.bytes()).unwrap().replace("/*! ctxbridge ", "/*! ");
    fs::write(client.target(), &changed).unwrap();
    client.run(&["revert"]).refused(&["neither the original nor the patched file", "`ctxbridge patch revert --force`"]);
    client.run(&["revert", "--force"]).done();
    assert_eq!(client.bytes(), original);
    assert_eq!(fs::read_to_string(client.target().with_file_name("cli.js.changed")).unwrap(), changed);
}

#[test]
fn force_refuses_what_it_has_no_original_of() {
    // Another tool's alone: nothing of it was ever backed up.
    let text = Bundle::new().text().replace("übrig", "patched by tweakcc 3.2.1");
    let client = Client::with_bytes(text.as_bytes());
    let before = client.photo();
    let refused = client.run(&["revert", "--force"]).refused(&["patched by another tool", "reinstall the client"]);
    assert!(!refused.stderr.contains("--force"), "{refused:?}");
    client.assert_untouched(&before);

    // Another release since, and that changed by another tool: the original is of the older one.
    let (client, _) = patched();
    client.manifest("2.0.98");
    client.install(Bundle::new().version("2.0.98").text().replace("übrig", "patched by tweakcc 3.2.1").as_bytes());
    let before = client.photo();
    let refused = client.run(&["revert", "--force"]).refused(&["patched by another tool"]);
    assert!(!refused.stderr.contains("--force"), "{refused:?}");
    client.assert_untouched(&before);
}

#[test]
fn force_loses_nothing_where_the_backup_is_damaged() {
    let (client, original) = patched();
    let changed = changed_by_another_tool(&client);
    let backup = client.backup_of(&original);
    fs::remove_file(&backup).unwrap();
    fs::write(&backup, &original[..original.len() - 1]).unwrap();
    let before = client.photo();
    // It is not even offered.
    let refused = client.run(&["revert"]).refused(&["was changed after it was patched", "reinstall the client"]);
    assert!(!refused.stderr.contains("--force"), "{refused:?}");
    client.run(&["revert", "--force"]).refused(&["is damaged", "SHA-256"]);
    client.assert_untouched(&before);
    fs::remove_file(&backup).unwrap();
    let before = client.photo();
    client.run(&["revert", "--force"]).refused(&["backup of the original is missing"]);
    client.assert_untouched(&before);
    assert_eq!(client.bytes(), changed);
    client.assert_settled();
}

#[test]
fn a_journal_that_is_garbage_is_moved_aside() {
    let garbage = |client: &Client| fs::write(client.data().join("state.db"), "no database at all\n".repeat(900)).unwrap();
    goes_on_by_the_markers(garbage);
}

#[test]
fn a_journal_that_is_damaged_in_the_middle_is_moved_aside() {
    // Its first page, which says what is in it, is whole.
    let scribble = |client: &Client| {
        let path = client.data().join("state.db");
        let mut bytes = fs::read(&path).unwrap();
        bytes[4096..].fill(0x5A);
        fs::write(&path, bytes).unwrap();
    };
    goes_on_by_the_markers(scribble);
    let cut = |client: &Client| {
        let path = client.data().join("state.db");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    };
    goes_on_by_the_markers(cut);
}

/// With a journal that `damage` has been at, it is said once, the damaged file is kept, and all goes on.
fn goes_on_by_the_markers(damage: impl Fn(&Client)) {
    let (client, original) = patched();
    damage(&client);
    let first = client.run(&["verify", "--json"]).done();
    assert!(first.stderr.contains("state.db is damaged; it is now"), "{}", first.stderr);
    assert_eq!(first.json()["state"], "patched");
    assert_eq!(first.json()["patches"][0], DEFAULT_PATCH);
    let names = fs::read_dir(client.data()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("state.db.damaged-")).count(), 1);
    let second = client.run(&["verify"]).done();
    assert_eq!(second.stderr, "");
    assert_eq!(client.run(&["apply", "--json"]).done().json()["state"], "already_patched");
    client.run(&["revert"]).done();
    assert_eq!(client.bytes(), original);
    client.run(&["apply", "--no-smoke"]).done();
    client.assert_settled();
}

#[test]
fn many_commands_that_find_a_damaged_journal_at_once() {
    let (client, original) = patched();
    let others: Vec<_> = (0..6)
        .map(|number| {
            let folder = client.path(&format!("other-{number}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("cli.js"), &original).unwrap();
            folder.join("cli.js")
        })
        .collect();
    fs::write(client.data().join("state.db"), "garbage ".repeat(2000)).unwrap();
    let running: Vec<_> = others.iter().map(|other| start(client.bare(&["apply", "--no-smoke"]).arg(other), b"")).collect();
    let ended: Vec<Ran> = running.into_iter().map(|child| finish(child).done()).collect();
    let told = ended.iter().filter(|ran| ran.stderr.contains("is damaged; it is now")).count();
    assert_eq!(told, 1, "{ended:?}");
    // What each wrote down is there: nobody moved another's new journal away.
    let count: i64 =
        client.journal().query_row("SELECT count(*) FROM applications WHERE ended_at IS NULL", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 6);
}

#[test]
fn a_journal_from_the_future() {
    let (client, _) = patched();
    client.journal().pragma_update(None, "user_version", 999).unwrap();
    let journal = || fs::read(client.data().join("state.db")).unwrap();
    let (before, photo) = (journal(), client.photo());
    for command in ["apply", "revert"] {
        client.run(&[command]).refused(&["state.db", "version 999", "upgrade ctxbridge"]);
    }
    assert!(client.run(&["verify"]).done().stderr.contains("looking at the file alone"));
    assert_eq!(journal(), before);
    client.assert_untouched(&photo);
}

#[test]
fn a_journal_from_the_past() {
    let (client, original) = patched();
    let first_schema = "DROP TABLE hashes;
        ALTER TABLE applications DROP COLUMN original;
        ALTER TABLE applications DROP COLUMN placed;
        ALTER TABLE backups ADD COLUMN linked INTEGER NOT NULL DEFAULT 1;
        ALTER TABLE backups ADD COLUMN mode INTEGER NOT NULL DEFAULT 493;
        ALTER TABLE backups ADD COLUMN uid INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE backups ADD COLUMN gid INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE backups ADD COLUMN mtime_ns INTEGER NOT NULL DEFAULT 0;
        PRAGMA user_version = 1;";
    client.journal().execute_batch(first_schema).unwrap();
    assert_eq!(client.run(&["verify"]).done().stderr, "");
    let backed_up = fs::metadata(client.backup_of(&original)).unwrap().modified().unwrap();
    client.run(&["revert"]).done();
    assert_eq!(client.bytes(), original);
    // The times are the backup's, where nothing else is known of them.
    assert_eq!(fs::metadata(client.target()).unwrap().modified().unwrap(), backed_up);
    client.run(&["apply", "--no-smoke"]).done();
    client.assert_settled();
}

#[test]
fn a_journal_that_cannot_be_opened() {
    let (client, _) = patched();
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        fs::remove_file(client.data().join(name)).ok();
    }
    fs::create_dir(client.data().join("state.db")).unwrap();
    let before = client.photo();
    for command in ["apply", "revert"] {
        client.run(&[command]).refused(&["cannot open", "state.db", "CTXBRIDGE_DATA_DIR"]);
    }
    assert!(client.run(&["verify"]).done().stderr.contains("looking at the file alone"));
    client.assert_untouched(&before);
}

#[test]
fn a_journal_that_takes_no_intent() {
    let (client, _) = patched();
    let refuse = "CREATE TRIGGER full BEFORE INSERT ON intents BEGIN SELECT RAISE(ABORT, 'no more'); END";
    client.journal().execute_batch(refuse).unwrap();
    let before = client.photo();
    client.run(&["revert"]).refused(&["state.db", "no more"]);
    client.assert_untouched(&before);
}

#[test]
fn a_journal_that_fails_after_the_swap() {
    // What was done is not called a failure, and is written down the next time.
    let (client, original) = patched();
    let refuse = "CREATE TRIGGER full BEFORE UPDATE ON intents BEGIN SELECT RAISE(ABORT, 'no more'); END";
    client.journal().execute_batch(refuse).unwrap();
    let reverted = client.run(&["revert", "--json"]).done();
    assert!(reverted.stderr.contains("could not be written down") && reverted.stderr.contains("no more"), "{}", reverted.stderr);
    assert_eq!(reverted.json()["state"], "reverted");
    assert_eq!(client.bytes(), original);
    assert_eq!(client.open_intents(), Some(1));

    client.journal().execute_batch("DROP TRIGGER full").unwrap();
    let verified = client.run(&["verify"]).says_no();
    assert!(verified.stderr.contains("an interrupted revert had come through"), "{}", verified.stderr);
    client.assert_settled();
}

#[test]
fn without_any_data_the_file_itself_says_that_it_is_patched() {
    let (client, original) = patched();
    fs::remove_dir_all(client.data()).unwrap();
    let verified = client.run(&["verify", "--json"]).done().json();
    assert_eq!(verified["state"], "patched");
    assert_eq!(verified["original_sha256"], digest::of_bytes(&original));
    let before = client.photo();
    let backup = client.backup_of(&original);
    client.run(&["revert"]).refused(&["backup of the original is missing", backup.to_str().unwrap(), "reinstall the client"]);
    client.assert_untouched(&before);

    // Found again, it is used.
    fs::create_dir_all(client.data().join("backups")).unwrap();
    fs::write(&backup, &original).unwrap();
    client.run(&["revert"]).done();
    assert_eq!(client.bytes(), original);
}

#[test]
fn a_data_folder_that_cannot_be_made() {
    let client = Client::new(Bundle::new());
    let before = client.photo();
    fs::write(client.data(), "in the way").unwrap();
    for command in ["apply", "verify", "revert"] {
        client.run(&[command]).refused(&["cannot create", "data", "set CTXBRIDGE_DATA_DIR"]);
    }
    client.assert_untouched(&before);
    assert_eq!(fs::read(client.data()).unwrap(), b"in the way");
}
