//! A disk that is full, and files and folders that are not ours to write.

use std::fs;

use ctxbridge_testkit::is_left_out;
use ctxbridge_testkit::sandbox::{give_away, is_root, set_mode};

use super::bundle::Bundle;
use super::client::{Client, other_file_system};

/// Larger than any file that the journal needs.
const LARGE: usize = 3_000_000;

/// What a full disk is here: no file may grow beyond some 512-byte blocks, and who tries gets an error instead of a signal.
fn full_beyond(blocks: usize) -> String {
    format!("trap '' XFSZ; ulimit -f {blocks}")
}

/// Room for the journal, but not for the client. (POSIX counts in 512 bytes, some shells in 1024.)
const JOURNAL_ONLY: usize = 1_000_000 / 512;

#[test]
fn no_room_for_the_patched_file() {
    let client = Client::new(Bundle::new().bytes(LARGE));
    let before = client.photo();
    let words = ["cannot write", ".ctxbridge-", "File too large", "free some space and try again"];
    client.run_behind(&full_beyond(JOURNAL_ONLY), &["apply", "--no-smoke"]).refused(&words);
    client.assert_untouched(&before);
    client.run(&["apply", "--no-smoke"]).done();
}

/// The new file is there by then, and goes again.
#[test]
fn no_place_for_the_backup() {
    let client = Client::new(Bundle::new());
    fs::create_dir_all(client.data()).unwrap();
    fs::write(client.data().join("backups"), "a file where a folder should be").unwrap();
    let before = client.photo();
    client.run(&["apply", "--no-smoke"]).refused(&["cannot create", "backups"]);
    client.assert_untouched(&before);
}

/// Nothing is backed up for an apply that cannot write beside the client.
#[test]
fn no_room_for_the_patched_file_leaves_no_backup() {
    let Some(elsewhere) = other_file_system() else { return };
    let client = Client::new(Bundle::new().bytes(LARGE)).data_in(elsewhere.path());
    let before = client.photo();
    client.run_behind(&full_beyond(JOURNAL_ONLY), &["apply", "--no-smoke"]).refused(&["cannot write", ".ctxbridge-"]);
    client.assert_untouched(&before);
    assert!(!client.data().join("backups").exists(), "an original was backed up for nothing");
}

#[test]
fn no_room_for_the_original() {
    // The backup is a copy, so that it takes room to bring it back.
    let Some(elsewhere) = other_file_system() else { return };
    let client = Client::new(Bundle::new().bytes(LARGE)).data_in(elsewhere.path());
    let original = client.bytes();
    client.run(&["apply", "--no-smoke"]).done();
    let before = client.photo();
    let words = ["cannot write", ".ctxbridge-", "File too large", "free some space and try again"];
    client.run_behind(&full_beyond(JOURNAL_ONLY), &["revert"]).refused(&words);
    client.assert_untouched(&before);
    client.run(&["revert"]).done();
    assert_eq!(client.bytes(), original);
}

#[test]
fn no_room_for_anything() {
    let client = Client::new(Bundle::new());
    let before = client.photo();
    for blocks in [0, 8, 16] {
        for command in ["apply", "revert"] {
            let ran = client.run_behind(&full_beyond(blocks), &[command]);
            ran.refused(&["state.db", "free some space and try again"]);
            client.assert_untouched(&before);
        }
        // To look takes no journal.
        let ran = client.run_behind(&full_beyond(blocks), &["verify"]).says_no();
        assert!(ran.stdout.contains("unpatched") && ran.stderr.contains("looking at the file alone"), "{ran:?}");
        client.assert_untouched(&before);
    }
    // What the attempts left of the journal is no obstacle, and nothing to be told about.
    let original = client.bytes();
    assert_eq!(client.run(&["apply", "--no-smoke"]).done().stderr, "");

    let before = client.photo();
    client.run_behind(&full_beyond(0), &["revert"]).refused(&["state.db", "free some space and try again"]);
    client.assert_untouched(&before);
    client.run(&["revert"]).done();
    assert_eq!(client.bytes(), original);
}

#[test]
fn a_folder_that_is_read_only() {
    let client = Client::new(Bundle::new());
    give_away(&client.target());
    give_away(&client.package());
    let original = client.bytes();
    let words = ["cannot write", "Permission denied", "run as the user who owns the client"];

    set_mode(&client.package(), 0o555);
    let before = client.photo();
    client.run_unprivileged(&["apply", "--no-smoke"]).refused(&words);
    client.assert_untouched(&before);

    set_mode(&client.package(), 0o755);
    client.run_unprivileged(&["apply", "--no-smoke"]).done();
    set_mode(&client.package(), 0o555);
    let before = client.photo();
    client.run_unprivileged(&["revert"]).refused(&words);
    client.assert_untouched(&before);
    set_mode(&client.package(), 0o755);
    client.run_unprivileged(&["revert"]).done();
    assert_eq!(client.bytes(), original);
}

#[test]
fn a_file_that_may_not_be_read() {
    let client = Client::new(Bundle::new());
    give_away(&client.target());
    give_away(&client.package());
    set_mode(&client.target(), 0o000);
    let before = client.photo();
    for command in ["apply", "verify", "revert"] {
        let words = ["cannot read", "cli.js", "Permission denied", "run as the user who owns the client"];
        client.run_unprivileged(&[command]).refused(&words);
    }
    client.assert_untouched(&before);
}

#[test]
fn a_folder_of_somebody_else() {
    if is_left_out("root", is_root()) {
        return;
    }
    let client = Client::new(Bundle::new());
    let before = client.photo();
    let words = ["cannot write", "Permission denied", "run as the user who owns the client"];
    client.run_unprivileged(&["apply", "--no-smoke"]).refused(&words);
    client.assert_untouched(&before);
}

#[test]
fn a_file_of_somebody_else_in_a_folder_of_ours() {
    if is_left_out("root", is_root()) {
        return;
    }
    // A new file could take the place of it, but not with its owner.
    let client = Client::new(Bundle::new());
    give_away(&client.package());
    let before = client.photo();
    let words = ["cannot give the client's owner to", "not permitted", "run as the user who owns the client"];
    client.run_unprivileged(&["apply", "--no-smoke"]).refused(&words);
    client.assert_untouched(&before);
}

#[test]
fn a_data_folder_that_is_read_only() {
    let client = Client::new(Bundle::new());
    give_away(&client.target());
    give_away(&client.package());
    client.run_unprivileged(&["apply", "--no-smoke"]).done();
    let before = client.photo();
    for folder in ["", "locks", "backups"] {
        set_mode(&client.data().join(folder), 0o555);
    }
    for file in fs::read_dir(client.data()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        set_mode(&file, 0o444);
    }
    let ran = client.run_unprivileged(&["revert"]);
    ran.refused(&["state.db", "CTXBRIDGE_DATA_DIR"]);
    set_mode(client.data(), 0o755);
    client.assert_untouched(&before);
}
