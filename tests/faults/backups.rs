//! Backups that are gone, damaged or of something else: `revert` and a change of patches refuse, and say where they looked.

use std::fs;

use ctxbridge::common::digest;
use ctxbridge_testkit::sandbox::{Ran, run};

use super::bundle::Bundle;
use super::client::Client;

const OTHER_SET: [&str; 4] = ["apply", "--no-smoke", "--patch", "microcompact-thresholds"];

/// A patched client whose backup `spoil` has been at: nothing that needs the original is done.
#[track_caller]
fn refuses_without(spoil: impl FnOnce(&Client, &[u8]), words: &[&str]) {
    let client = Client::new(Bundle::new());
    let original = client.bytes();
    client.run(&["apply", "--no-smoke"]).done();
    let backup = client.backup_of(&original);
    // The original has other names, which go with its bytes: spoil a file that is the backup alone.
    fs::remove_file(&backup).unwrap();
    fs::write(&backup, &original).unwrap();
    spoil(&client, &original);
    let before = client.photo();

    let whole = |ran: Ran| ran.refused(words).refused(&[backup.to_str().unwrap(), "reinstall the client"]);
    whole(client.run(&["revert"]));
    whole(client.run(&OTHER_SET));
    client.assert_untouched(&before);
    // That it is patched is true all the same.
    assert_eq!(client.state(), "patched");
    let again = client.run(&["apply", "--json"]).done().json();
    assert_eq!(again["state"], "already_patched");
    client.assert_untouched(&before);
}

#[test]
fn missing() {
    let words = ["backup of the original is missing", "looked for"];
    refuses_without(|client, original| fs::remove_file(client.backup_of(original)).unwrap(), &words);
    refuses_without(|client, _| fs::remove_dir_all(client.data().join("backups")).unwrap(), &words);
}

#[test]
fn damaged() {
    let flip = |client: &Client, original: &[u8]| {
        let mut bytes = original.to_owned();
        bytes[original.len() / 2] ^= 1;
        fs::write(client.backup_of(original), bytes).unwrap();
    };
    refuses_without(flip, &["is damaged", "SHA-256"]);
    let cut = |client: &Client, original: &[u8]| fs::write(client.backup_of(original), &original[..100]).unwrap();
    refuses_without(cut, &["is damaged", "SHA-256"]);
}

#[test]
fn of_another_version() {
    let other = Bundle::new().version("2.0.98").into_bytes();
    let sha256 = digest::of_bytes(&other);
    let swap = |client: &Client, original: &[u8]| fs::write(client.backup_of(original), &other).unwrap();
    refuses_without(swap, &["is damaged", &sha256]);
}

#[test]
fn a_folder_in_its_place() {
    let folder = |client: &Client, original: &[u8]| {
        fs::remove_file(client.backup_of(original)).unwrap();
        fs::create_dir(client.backup_of(original)).unwrap();
    };
    refuses_without(folder, &["cannot be read"]);
}

#[test]
fn one_that_is_damaged_is_made_anew_from_the_original() {
    let client = Client::new(Bundle::new());
    let original = client.bytes();
    client.run(&["apply", "--no-smoke"]).done();
    client.run(&["revert"]).done();
    let backup = client.backup_of(&original);
    assert!(!backup.exists(), "it is the client's file again, and would change with it");
    fs::write(&backup, "something else").unwrap();
    client.run(&["apply", "--no-smoke"]).done();
    assert_eq!(fs::read(&backup).unwrap(), original);
    client.run(&["revert"]).done();
    assert_eq!(client.bytes(), original);
}

/// Lets the journal believe that all it knows of happened two hours earlier.
fn let_two_hours_pass(client: &Client) {
    let earlier = "UPDATE backups SET created_at = created_at - 7200;
                   UPDATE applications SET applied_at = applied_at - 7200, ended_at = ended_at - 7200;";
    client.journal().execute_batch(earlier).unwrap();
}

#[test]
fn what_nothing_needs_is_collected_after_an_hour() {
    let client = Client::new(Bundle::new());
    let old = client.bytes();
    client.run(&["apply", "--no-smoke"]).done();
    let new = Bundle::new().version("2.0.100").into_bytes();
    client.install(&new);
    client.run(&["apply", "--no-smoke"]).done();
    assert!(client.backup_of(&old).exists());

    let_two_hours_pass(&client);
    let newest = Bundle::new().version("2.0.101").into_bytes();
    client.install(&newest);
    client.run(&["apply", "--no-smoke"]).done();
    assert!(!client.backup_of(&old).exists(), "ended two hours ago");
    // Needed until a moment ago.
    assert!(client.backup_of(&new).exists());
    client.run(&["revert"]).done();
    assert_eq!(client.bytes(), newest);
}

#[test]
fn a_client_that_is_gone_needs_no_backup() {
    let client = Client::new(Bundle::new());
    let other = |name: &str| {
        let path = client.path(name).join("cli.js");
        fs::create_dir(client.path(name)).unwrap();
        fs::write(&path, Bundle::new().version(&format!("2.0.{}", name.len())).into_bytes()).unwrap();
        client.run_on(&path, &["apply", "--no-smoke"]).done();
        path
    };
    let (removed, away, there) = (other("removed"), other("away"), other("there"));
    let backups = || {
        let listed = run(client.bare(&["backups", "--json"]), b"").done().json();
        listed.as_array().unwrap().iter().map(|known| known["backup"]["version"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(backups(), ["2.0.7", "2.0.4", "2.0.5"]);
    // As an updater removes an old release; and as a drive is not there.
    fs::remove_file(&removed).unwrap();
    fs::remove_dir_all(away.parent().unwrap()).unwrap();
    let listed = run(client.bare(&["backups"]), b"").done();
    assert!(listed.stdout.contains("not needed") && listed.stdout.contains("--prune` removes 1"), "{}", listed.stdout);
    run(client.bare(&["backups", "--prune"]), b"").done();
    assert_eq!(backups(), ["2.0.4", "2.0.5"]);
    run(client.bare(&["backups", "--prune"]), b"").says_no();
    client.run_on(&there, &["revert"]).done();
}

#[test]
fn what_a_killed_command_needs_is_not_collected() {
    let client = Client::new(Bundle::new());
    let original = client.bytes();
    client.run(&["apply", "--no-smoke"]).done();
    client.run(&["revert"]).done();
    let_two_hours_pass(&client);
    // Patched again with the old backup, and killed between the rename and the journal: the application is not written yet.
    client.run(&["apply", "--no-smoke"]).done();
    let forget = "DELETE FROM applications WHERE ended_at IS NULL;
                  UPDATE intents SET finished_at = NULL, outcome = NULL WHERE id = (SELECT max(id) FROM intents);";
    client.journal().execute_batch(forget).unwrap();

    // Another installation is patched before anybody looks after the first.
    let other = client.path("other/cli.js");
    fs::create_dir(client.path("other")).unwrap();
    fs::write(&other, Bundle::new().version("2.0.100").into_bytes()).unwrap();
    client.run_on(&other, &["apply", "--no-smoke"]).done();
    let reverted = client.run(&["revert"]).done();
    assert!(reverted.stderr.contains("an interrupted apply had come through"), "{}", reverted.stderr);
    assert_eq!(client.bytes(), original);
}
