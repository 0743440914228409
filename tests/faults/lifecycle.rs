//! The long way of an installation: patched, upgraded, patched otherwise, put back, with everything that belongs to the file.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use ctxbridge::common::digest;
use ctxbridge_testkit::sandbox::{NOBODY, give_away, is_root, set_mode};

use super::bundle::Bundle;
use super::client::{Client, DEFAULT_PATCH, other_file_system};

const THRESHOLDS: &str = "microcompact-thresholds";

#[test]
fn there_and_back() {
    let client = Client::new(Bundle::new());
    let original = client.bytes();
    let applied = client.run(&["apply", "--json"]).done().json();
    let patched = client.bytes();
    assert_eq!(applied["state"], "patched");
    assert_eq!(applied["original_sha256"], digest::of_bytes(&original));
    assert_eq!(applied["patched_sha256"], digest::of_bytes(&patched));
    assert_eq!(applied["smoke"]["output"], "2.0.99 (Claude Code)");
    assert_eq!(applied["grew_by_bytes"], patched.len() - original.len());
    assert_eq!(fs::read(client.backup_of(&original)).unwrap(), original);
    assert_eq!(client.state(), "patched");

    let reverted = client.run(&["revert", "--json"]).done().json();
    assert_eq!(reverted["restored_sha256"], digest::of_bytes(&original));
    assert_eq!(client.bytes(), original);
    assert_eq!(client.state(), "unpatched");
    assert!(client.run(&["revert"]).says_no().stdout.contains("not patched"));
    client.assert_settled();
}

#[test]
fn a_dry_run_changes_nothing() {
    let client = Client::new(Bundle::new());
    let before = client.photo();
    assert!(client.run(&["apply", "--dry-run"]).done().stdout.contains("ctxbridgeAggressiveTextPrune("));
    client.assert_untouched(&before);
    assert!(!client.backup_of(&client.bytes()).exists());
}

#[test]
fn applying_twice_does_nothing_the_second_time() {
    let client = Client::new(Bundle::new());
    let first = client.run(&["apply", "--json", "--no-smoke"]).done().json();
    let before = client.photo();
    let second = client.run(&["apply", "--json"]).done().json();
    assert_eq!(second["state"], "already_patched");
    for key in ["patches", "original_sha256", "patched_sha256", "backup", "grew_by_bytes"] {
        assert_eq!(second[key], first[key], "{key}");
    }
    client.assert_untouched(&before);
}

#[test]
fn another_set_of_patches_starts_from_the_original() {
    let (straight, roundabout) = (Client::new(Bundle::new()), Client::new(Bundle::new()));
    let original = straight.bytes();
    straight.run(&["apply", "--patch", THRESHOLDS]).done();

    roundabout.run(&["apply"]).done();
    let applied = roundabout.run(&["apply", "--json", "--patch", THRESHOLDS]).done().json();
    assert_eq!(applied["state"], "patched");
    assert_eq!(roundabout.bytes(), straight.bytes());
    let both = ["apply", "--patch", DEFAULT_PATCH, "--patch", THRESHOLDS];
    roundabout.run(&both).done();
    assert_eq!(roundabout.state(), "patched");
    straight.run(&both).done();
    assert_eq!(roundabout.bytes(), straight.bytes());

    roundabout.run(&["revert"]).done();
    assert_eq!(roundabout.bytes(), original);
    roundabout.assert_settled();
}

#[test]
fn an_upgraded_client_is_patched_anew_and_the_old_original_is_kept() {
    let client = Client::new(Bundle::new());
    let old = client.bytes();
    client.run(&["apply", "--no-smoke"]).done();

    let new = Bundle::new().version("2.0.100").into_bytes();
    client.install(&new);
    client.manifest("2.0.100");
    let upgraded = client.run(&["verify", "--json"]).says_no().json();
    assert_eq!(upgraded["state"], "upgraded");
    assert_eq!(upgraded["original_sha256"], digest::of_bytes(&old));
    // There is nothing to take out, and the old version must not come back.
    client.run(&["revert"]).says_no();
    assert_eq!(client.bytes(), new);

    client.run(&["apply"]).done();
    assert_eq!(client.state(), "patched");
    assert_eq!(fs::read(client.backup_of(&old)).unwrap(), old);
    client.run(&["revert"]).done();
    assert_eq!(client.bytes(), new);
    assert_eq!(fs::read(client.backup_of(&old)).unwrap(), old);
    client.assert_settled();
}

/// What comes back with a file besides its bytes.
fn belongings(path: &Path) -> (u32, (u32, u32), (i64, i64)) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.mode(), (metadata.uid(), metadata.gid()), (metadata.mtime(), metadata.mtime_nsec()))
}

/// Makes the client one with a past: rare mode, long ago, and, when we may, somebody else's.
fn age(target: &Path, mode: u32, seconds: u64) {
    let file = fs::File::options().write(true).open(target).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::new(seconds, 123_456_789)).unwrap();
    set_mode(target, mode);
    if is_root() {
        chown(target, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

fn comes_back_with_its_belongings(client: &Client) {
    let target = client.target();
    for mode in [0o751, 0o444] {
        age(&target, mode, 1_234_567_890 + u64::from(mode));
        let before = belongings(&target);
        client.run(&["apply", "--no-smoke"]).done();
        let patched = belongings(&target);
        assert_eq!((patched.0, patched.1), (before.0, before.1), "mode and owner of the patched file");
        assert_ne!(patched.2, before.2);
        // Through another set of patches as well.
        client.run(&["apply", "--no-smoke", "--patch", THRESHOLDS]).done();
        client.run(&["revert"]).done();
        assert_eq!(belongings(&target), before);
    }
    client.assert_settled();
}

#[test]
fn mode_owner_and_times_come_back() {
    comes_back_with_its_belongings(&Client::new(Bundle::new()));
}

#[test]
fn mode_owner_and_times_come_back_from_another_file_system() {
    let Some(elsewhere) = other_file_system() else { return };
    comes_back_with_its_belongings(&Client::new(Bundle::new()).data_in(elsewhere.path()));
}

#[test]
fn a_file_without_the_right_to_write_comes_back_from_another_file_system() {
    let Some(elsewhere) = other_file_system() else { return };
    let client = Client::new(Bundle::new()).data_in(elsewhere.path());
    give_away(&client.package());
    age(&client.target(), 0o444, 1_000_000_000);
    let (before, original) = (belongings(&client.target()), client.bytes());
    client.run_unprivileged(&["apply", "--no-smoke"]).done();
    client.run_unprivileged(&["revert"]).done();
    assert_eq!(client.bytes(), original);
    assert_eq!(belongings(&client.target()), before);
}

#[test]
fn two_installations_of_one_release_keep_what_is_theirs() {
    let client = Client::new(Bundle::new());
    let (one, other) = (client.target(), client.path("other/cli.js"));
    fs::create_dir(client.path("other")).unwrap();
    fs::copy(&one, &other).unwrap();
    age(&one, 0o755, 1_000_000_000);
    age(&other, 0o700, 1_100_000_000);
    let before = [&one, &other].map(|path| (belongings(path), fs::read(path).unwrap()));
    for path in [&one, &other] {
        client.run_on(path, &["apply", "--no-smoke"]).done();
    }
    client.run_on(&one, &["revert"]).done();
    // Somebody adds a line to the one that is the original again, in place: that must not reach what the other one needs.
    fs::OpenOptions::new().append(true).open(&one).and_then(|mut file| file.write_all(b"// mine\n")).unwrap();
    client.run_on(&other, &["revert"]).done();
    let after = [&one, &other].map(|path| (belongings(path), fs::read(path).unwrap()));
    assert_eq!(after[1], before[1]);
    assert_eq!(after[0].1, [before[0].1.as_slice(), b"// mine\n"].concat());
}

#[test]
fn a_backup_that_is_the_live_file_of_another_installation_is_not_relied_on() {
    let client = Client::new(Bundle::new());
    let (one, other) = (client.target(), client.path("other/cli.js"));
    fs::create_dir(client.path("other")).unwrap();
    fs::copy(&one, &other).unwrap();
    let original = client.bytes();
    // The first is the original again, the very file that is the backup, when the second one is patched.
    client.run(&["apply", "--no-smoke"]).done();
    client.run(&["revert"]).done();
    client.run_on(&other, &["apply", "--no-smoke"]).done();
    fs::OpenOptions::new().append(true).open(&one).and_then(|mut file| file.write_all(b"// mine\n")).unwrap();
    client.run_on(&other, &["revert"]).done();
    assert_eq!(fs::read(&other).unwrap(), original);
}

#[test]
fn another_name_of_the_file_keeps_the_original() {
    // As in the store of pnpm, which links its files into projects.
    let client = Client::new(Bundle::new());
    let (target, store) = (client.target(), client.path("store"));
    fs::hard_link(&target, &store).unwrap();
    let original = client.bytes();
    let before = belongings(&store);
    client.run(&["apply"]).done();
    assert_ne!(client.bytes(), original);
    assert_eq!((fs::read(&store).unwrap(), belongings(&store)), (original.clone(), before));
    client.run(&["revert"]).done();
    assert_eq!((fs::read(&store).unwrap(), belongings(&store)), (original.clone(), before));
    assert_eq!((client.bytes(), belongings(&target)), (original, before));
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&target), inode(&store), "it is a link into the store again");
}
