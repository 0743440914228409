//! Backups that are gone, damaged or of something else: `revert` and a change of patches refuse, and say where they looked.

use std::fs;

use ctxbridge::common::digest;

use super::bundle::Bundle;
use super::sandbox::{Ran, Sandbox};

const OTHER_SET: [&str; 4] = ["apply", "--no-smoke", "--patch", "microcompact-thresholds"];

/// A patched client whose backup `spoil` has been at: nothing that needs the original is done.
#[track_caller]
fn refuses_without(spoil: impl FnOnce(&Sandbox, &[u8]), words: &[&str]) {
    let sandbox = Sandbox::new(Bundle::new());
    let original = sandbox.bytes();
    sandbox.run(&["apply", "--no-smoke"]).done();
    let backup = sandbox.backup_of(&original);
    // The original has other names, which go with its bytes: spoil a file that is the backup alone.
    fs::remove_file(&backup).unwrap();
    fs::write(&backup, &original).unwrap();
    spoil(&sandbox, &original);
    let before = sandbox.photo();

    let whole = |ran: Ran| ran.refused(words).refused(&[backup.to_str().unwrap(), "reinstall the client"]);
    whole(sandbox.run(&["revert"]));
    whole(sandbox.run(&OTHER_SET));
    sandbox.assert_untouched(&before);
    // That it is patched is true all the same.
    assert_eq!(sandbox.state(), "patched");
    let again = sandbox.run(&["apply", "--json"]).done().json();
    assert_eq!(again["state"], "already_patched");
    sandbox.assert_untouched(&before);
}

#[test]
fn missing() {
    let words = ["backup of the original is missing", "looked for"];
    refuses_without(|sandbox, original| fs::remove_file(sandbox.backup_of(original)).unwrap(), &words);
    refuses_without(|sandbox, _| fs::remove_dir_all(sandbox.data().join("backups")).unwrap(), &words);
}

#[test]
fn damaged() {
    let flip = |sandbox: &Sandbox, original: &[u8]| {
        let mut bytes = original.to_owned();
        bytes[original.len() / 2] ^= 1;
        fs::write(sandbox.backup_of(original), bytes).unwrap();
    };
    refuses_without(flip, &["is damaged", "SHA-256"]);
    let cut = |sandbox: &Sandbox, original: &[u8]| fs::write(sandbox.backup_of(original), &original[..100]).unwrap();
    refuses_without(cut, &["is damaged", "SHA-256"]);
}

#[test]
fn of_another_version() {
    let other = Bundle::new().version("2.0.98").into_bytes();
    let sha256 = digest::of_bytes(&other);
    let swap = |sandbox: &Sandbox, original: &[u8]| fs::write(sandbox.backup_of(original), &other).unwrap();
    refuses_without(swap, &["is damaged", &sha256]);
}

#[test]
fn a_folder_in_its_place() {
    let folder = |sandbox: &Sandbox, original: &[u8]| {
        fs::remove_file(sandbox.backup_of(original)).unwrap();
        fs::create_dir(sandbox.backup_of(original)).unwrap();
    };
    refuses_without(folder, &["cannot be read"]);
}

#[test]
fn one_that_is_damaged_is_made_anew_from_the_original() {
    let sandbox = Sandbox::new(Bundle::new());
    let original = sandbox.bytes();
    sandbox.run(&["apply", "--no-smoke"]).done();
    sandbox.run(&["revert"]).done();
    let backup = sandbox.backup_of(&original);
    fs::remove_file(&backup).unwrap();
    fs::write(&backup, "something else").unwrap();
    sandbox.run(&["apply", "--no-smoke"]).done();
    assert_eq!(fs::read(&backup).unwrap(), original);
    sandbox.run(&["revert"]).done();
    assert_eq!(sandbox.bytes(), original);
}

/// Lets the journal believe that all it knows of happened 40 days earlier.
fn let_forty_days_pass(sandbox: &Sandbox) {
    let earlier = "UPDATE backups SET created_at = created_at - 3456000;
                   UPDATE applications SET applied_at = applied_at - 3456000, ended_at = ended_at - 3456000;";
    sandbox.journal().execute_batch(earlier).unwrap();
}

#[test]
fn what_nothing_needs_is_collected_after_a_month() {
    let sandbox = Sandbox::new(Bundle::new());
    let old = sandbox.bytes();
    sandbox.run(&["apply", "--no-smoke"]).done();
    let new = Bundle::new().version("2.0.100").into_bytes();
    sandbox.install(&new);
    sandbox.run(&["apply", "--no-smoke"]).done();
    assert!(sandbox.backup_of(&old).exists());

    let_forty_days_pass(&sandbox);
    let newest = Bundle::new().version("2.0.101").into_bytes();
    sandbox.install(&newest);
    sandbox.run(&["apply", "--no-smoke"]).done();
    assert!(!sandbox.backup_of(&old).exists(), "ended 40 days ago");
    // Needed until a moment ago.
    assert!(sandbox.backup_of(&new).exists());
    sandbox.run(&["revert"]).done();
    assert_eq!(sandbox.bytes(), newest);
}

#[test]
fn what_a_killed_command_needs_is_not_collected() {
    let sandbox = Sandbox::new(Bundle::new());
    let original = sandbox.bytes();
    sandbox.run(&["apply", "--no-smoke"]).done();
    sandbox.run(&["revert"]).done();
    let_forty_days_pass(&sandbox);
    // Patched again with the old backup, and killed between the rename and the journal: the application is not written yet.
    sandbox.run(&["apply", "--no-smoke"]).done();
    let forget = "DELETE FROM applications WHERE ended_at IS NULL;
                  UPDATE intents SET finished_at = NULL, outcome = NULL WHERE id = (SELECT max(id) FROM intents);";
    sandbox.journal().execute_batch(forget).unwrap();

    // Another installation is patched before anybody looks after the first.
    let other = sandbox.path("other/cli.js");
    fs::create_dir(sandbox.path("other")).unwrap();
    fs::write(&other, Bundle::new().version("2.0.100").into_bytes()).unwrap();
    sandbox.run_on(&other, &["apply", "--no-smoke"]).done();
    let reverted = sandbox.run(&["revert"]).done();
    assert!(reverted.stderr.contains("an interrupted apply had come through"), "{}", reverted.stderr);
    assert_eq!(sandbox.bytes(), original);
}
