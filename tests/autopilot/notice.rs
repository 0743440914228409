//! Whether the client is still patched, without reading it.

use std::fs;
use std::path::{Path, PathBuf};

use ctxbridge::patch::notice::{lost_patch, quick_state};
use ctxbridge_testkit::files::source;
use ctxbridge_testkit::sandbox::Sandbox;

/// Puts a bundle where the native installer puts versions, as one of these, and has `claude` lead there.
pub fn version(sandbox: &Sandbox, bundle: &str, version: &str) -> PathBuf {
    let path = sandbox.write(&format!("home/.local/share/claude/versions/{version}/cli.js"), text_of(bundle, version));
    lead_to(sandbox, &path);
    path
}

/// A bundle that states this version.
pub fn text_of(bundle: &str, version: &str) -> String {
    let text = fs::read_to_string(source(&format!("fixtures/cli-js/{bundle}.js"))).unwrap();
    let stated = text.lines().find_map(|line| line.strip_prefix("// Version: ")).unwrap();
    text.replace(stated, version)
}

pub fn lead_to(sandbox: &Sandbox, path: &Path) {
    let link = sandbox.path("bin/claude");
    fs::remove_file(&link).ok();
    std::os::unix::fs::symlink(path, link).unwrap();
}

fn patch(sandbox: &Sandbox, args: &[&str]) {
    sandbox.cli(&[&["patch", "-q"], args].concat());
}

fn notice(sandbox: &Sandbox) -> Option<String> {
    lost_patch(&sandbox.data(), Some(sandbox.path("bin").as_os_str())).map(|notice| notice.text)
}

fn state(sandbox: &Sandbox, running: Option<&str>) -> Option<bool> {
    quick_state(&sandbox.data(), Some(sandbox.path("bin").as_os_str()), running)
}

#[test]
fn who_never_patched_hears_nothing() {
    let sandbox = Sandbox::new();
    assert_eq!((notice(&sandbox), state(&sandbox, None)), (None, Some(false)));
    version(&sandbox, "e2", "2.1.20");
    assert_eq!((notice(&sandbox), state(&sandbox, None)), (None, Some(false)));
    assert!(!sandbox.data().exists(), "looking makes nothing");
    // Nor does it make a journal where there is a folder.
    fs::create_dir(sandbox.data()).unwrap();
    assert_eq!((notice(&sandbox), state(&sandbox, None)), (None, Some(false)));
    assert_eq!(fs::read_dir(sandbox.data()).unwrap().count(), 0);
}

#[test]
fn a_patched_client_is_known_at_once() {
    let sandbox = Sandbox::new();
    let path = version(&sandbox, "e2", "2.1.20");
    patch(&sandbox, &["apply", "--no-smoke"]);
    assert_eq!((notice(&sandbox), state(&sandbox, None)), (None, Some(true)));
    // As after a change of modes, or a restore from a backup.
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!((notice(&sandbox), state(&sandbox, Some("2.1.20"))), (None, Some(true)));
    patch(&sandbox, &["revert"]);
    assert_eq!((notice(&sandbox), state(&sandbox, None)), (None, Some(false)));
}

#[test]
fn an_upgrade_in_place_is_told() {
    let sandbox = Sandbox::new();
    let path = version(&sandbox, "e2", "2.1.20");
    patch(&sandbox, &["apply", "--no-smoke"]);
    fs::write(&path, text_of("e2", "2.1.21")).unwrap();
    assert_eq!(state(&sandbox, None), Some(false));
    insta::assert_snapshot!(notice(&sandbox).unwrap(), @"ctxbridge: Claude Code 2.1.21 is not patched (2.1.20 was); run `ctxbridge patch apply` (`ctxbridge config set patch.keep true` does that from now on)");
    // Until it is patched again, or the user says otherwise.
    patch(&sandbox, &["apply", "--no-smoke"]);
    assert_eq!((notice(&sandbox), state(&sandbox, None)), (None, Some(true)));
}

#[test]
fn a_new_version_in_another_file_is_told() {
    let sandbox = Sandbox::new();
    let old = version(&sandbox, "e2", "2.1.20");
    patch(&sandbox, &["apply", "--no-smoke"]);
    version(&sandbox, "e2", "2.1.21");
    insta::assert_snapshot!(notice(&sandbox).unwrap(), @"ctxbridge: Claude Code 2.1.21 is not patched (2.1.20 was); run `ctxbridge patch apply` (`ctxbridge config set patch.keep true` does that from now on)");
    assert_eq!(state(&sandbox, None), Some(false));
    // The old one still runs, and it is patched.
    assert_eq!((state(&sandbox, Some("2.1.20")), state(&sandbox, Some("2.1.21"))), (Some(true), Some(false)));
    // The updater has removed it.
    fs::remove_dir_all(old.parent().unwrap()).unwrap();
    assert!(notice(&sandbox).is_some());
    // Patched, and put back on purpose: that is no loss.
    patch(&sandbox, &["apply", "--no-smoke"]);
    assert_eq!(notice(&sandbox), None);
    patch(&sandbox, &["revert"]);
    assert_eq!(notice(&sandbox), None);
}

/// An executable is known by where it lies; there is nothing in this one that could be read.
#[test]
fn an_executable_is_not_opened() {
    let sandbox = Sandbox::new();
    version(&sandbox, "e2", "2.1.20");
    patch(&sandbox, &["apply", "--no-smoke"]);
    let executable = sandbox.path("home/.local/share/claude/versions/2.1.330");
    fs::write(&executable, b"\x7fELF").unwrap();
    lead_to(&sandbox, &executable);
    insta::assert_snapshot!(notice(&sandbox).unwrap(), @"ctxbridge: Claude Code 2.1.330 is not patched (2.1.20 was); run `ctxbridge patch apply` (`ctxbridge config set patch.keep true` does that from now on)");
    assert_eq!((state(&sandbox, Some("2.1.330")), state(&sandbox, Some("2.1.20"))), (Some(false), Some(true)));
}

#[test]
fn without_a_client_nothing_is_told() {
    let sandbox = Sandbox::new();
    version(&sandbox, "e2", "2.1.20");
    patch(&sandbox, &["apply", "--no-smoke"]);
    fs::remove_file(sandbox.path("bin/claude")).unwrap();
    assert_eq!(notice(&sandbox), None);
    fs::write(sandbox.data().join("state.db"), "damaged").unwrap();
    assert_eq!((notice(&sandbox), state(&sandbox, None)), (None, None));
}

/// A client that an editor or the agent SDK brought says nothing about the command.
#[test]
fn what_others_brought_does_not_count() {
    let sandbox = Sandbox::new();
    let theirs = version(&sandbox, "e2", "2.1.20");
    let extension = sandbox.path("home/.vscode/extensions/anthropic.claude-code-2.1.20/resources/claude-code/cli.js");
    fs::create_dir_all(extension.parent().unwrap()).unwrap();
    fs::rename(&theirs, &extension).unwrap();
    patch(&sandbox, &["apply", "--no-smoke", extension.to_str().unwrap()]);
    version(&sandbox, "e2", "2.1.21");
    assert_eq!(notice(&sandbox), None);
}
