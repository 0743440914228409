//! Whether the client is still patched, without reading it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use ctxbridge::patch::notice::{lost_patch, quick_state};

use crate::autopilot::sandbox::{Sandbox, source};

impl Sandbox {
    /// Puts a bundle where the native installer puts versions, as one of these, and has `claude` lead there.
    fn version(&self, bundle: &str, version: &str) -> PathBuf {
        let path = self.root.join(format!("home/.local/share/claude/versions/{version}/cli.js"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = fs::read_to_string(source(&format!("fixtures/cli-js/{bundle}.js"))).unwrap();
        let stated = text.lines().find_map(|line| line.strip_prefix("// Version: ")).unwrap().to_owned();
        fs::write(&path, text.replace(&stated, version)).unwrap();
        self.lead_to(&path);
        path
    }

    fn lead_to(&self, path: &Path) {
        let link = self.root.join("bin/claude");
        fs::remove_file(&link).ok();
        std::os::unix::fs::symlink(path, link).unwrap();
    }

    fn patch(&self, args: &[&str]) {
        let mut command = self.command(&[&["patch", "-q"], args].concat());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn path_variable(&self) -> OsString {
        self.root.join("bin").into_os_string()
    }

    fn notice(&self) -> Option<String> {
        lost_patch(&self.data(), Some(&self.path_variable())).map(|notice| notice.text)
    }

    fn state(&self, running: Option<&str>) -> Option<bool> {
        quick_state(&self.data(), Some(&self.path_variable()), running)
    }
}

#[test]
fn who_never_patched_hears_nothing() {
    let sandbox = Sandbox::new();
    assert_eq!((sandbox.notice(), sandbox.state(None)), (None, Some(false)));
    sandbox.version("e2", "2.1.20");
    assert_eq!((sandbox.notice(), sandbox.state(None)), (None, Some(false)));
    assert!(!sandbox.data().exists(), "looking makes nothing");
    // Nor does it make a journal where there is a folder.
    fs::create_dir(sandbox.data()).unwrap();
    assert_eq!((sandbox.notice(), sandbox.state(None)), (None, Some(false)));
    assert_eq!(fs::read_dir(sandbox.data()).unwrap().count(), 0);
}

#[test]
fn a_patched_client_is_known_at_once() {
    let sandbox = Sandbox::new();
    let path = sandbox.version("e2", "2.1.20");
    sandbox.patch(&["apply", "--no-smoke"]);
    assert_eq!((sandbox.notice(), sandbox.state(None)), (None, Some(true)));
    // As after a change of modes, or a restore from a backup.
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!((sandbox.notice(), sandbox.state(Some("2.1.20"))), (None, Some(true)));
    sandbox.patch(&["revert"]);
    assert_eq!((sandbox.notice(), sandbox.state(None)), (None, Some(false)));
}

#[test]
fn an_upgrade_in_place_is_told() {
    let sandbox = Sandbox::new();
    let path = sandbox.version("e2", "2.1.20");
    sandbox.patch(&["apply", "--no-smoke"]);
    let text = fs::read_to_string(source("fixtures/cli-js/e2.js")).unwrap();
    let stated = text.lines().find_map(|line| line.strip_prefix("// Version: ")).unwrap().to_owned();
    fs::write(&path, text.replace(&stated, "2.1.21")).unwrap();
    assert_eq!(sandbox.state(None), Some(false));
    insta::assert_snapshot!(sandbox.notice().unwrap(), @"ctxbridge: Claude Code 2.1.21 is not patched (2.1.20 was); run `ctxbridge patch apply`");
    // Until it is patched again, or the user says otherwise.
    sandbox.patch(&["apply", "--no-smoke"]);
    assert_eq!((sandbox.notice(), sandbox.state(None)), (None, Some(true)));
}

#[test]
fn a_new_version_in_another_file_is_told() {
    let sandbox = Sandbox::new();
    let old = sandbox.version("e2", "2.1.20");
    sandbox.patch(&["apply", "--no-smoke"]);
    sandbox.version("e2", "2.1.21");
    insta::assert_snapshot!(sandbox.notice().unwrap(), @"ctxbridge: Claude Code 2.1.21 is not patched (2.1.20 was); run `ctxbridge patch apply`");
    assert_eq!(sandbox.state(None), Some(false));
    // The old one still runs, and it is patched.
    assert_eq!((sandbox.state(Some("2.1.20")), sandbox.state(Some("2.1.21"))), (Some(true), Some(false)));
    // The updater has removed it.
    fs::remove_dir_all(old.parent().unwrap()).unwrap();
    assert!(sandbox.notice().is_some());
    // Patched, and put back on purpose: that is no loss.
    sandbox.patch(&["apply", "--no-smoke"]);
    assert_eq!(sandbox.notice(), None);
    sandbox.patch(&["revert"]);
    assert_eq!(sandbox.notice(), None);
}

/// An executable is known by where it lies; there is nothing in this one that could be read.
#[test]
fn an_executable_is_not_opened() {
    let sandbox = Sandbox::new();
    sandbox.version("e2", "2.1.20");
    sandbox.patch(&["apply", "--no-smoke"]);
    let executable = sandbox.root.join("home/.local/share/claude/versions/2.1.330");
    fs::write(&executable, b"\x7fELF").unwrap();
    sandbox.lead_to(&executable);
    insta::assert_snapshot!(sandbox.notice().unwrap(), @"ctxbridge: Claude Code 2.1.330 is not patched (2.1.20 was); run `ctxbridge patch apply`");
    assert_eq!((sandbox.state(Some("2.1.330")), sandbox.state(Some("2.1.20"))), (Some(false), Some(true)));
}

#[test]
fn without_a_client_nothing_is_told() {
    let sandbox = Sandbox::new();
    sandbox.version("e2", "2.1.20");
    sandbox.patch(&["apply", "--no-smoke"]);
    fs::remove_file(sandbox.root.join("bin/claude")).unwrap();
    assert_eq!(sandbox.notice(), None);
    fs::write(sandbox.data().join("state.db"), "damaged").unwrap();
    assert_eq!((sandbox.notice(), sandbox.state(None)), (None, None));
}

/// A client that an editor or the agent SDK brought says nothing about the command.
#[test]
fn what_others_brought_does_not_count() {
    let sandbox = Sandbox::new();
    let theirs = sandbox.version("e2", "2.1.20");
    let extension = sandbox.root.join("home/.vscode/extensions/anthropic.claude-code-2.1.20/resources/claude-code/cli.js");
    fs::create_dir_all(extension.parent().unwrap()).unwrap();
    fs::rename(&theirs, &extension).unwrap();
    sandbox.patch(&["apply", "--no-smoke", extension.to_str().unwrap()]);
    sandbox.version("e2", "2.1.21");
    assert_eq!(sandbox.notice(), None);
}
