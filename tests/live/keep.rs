//! Upgrades of a patched client, between sessions with hooks: the next `claude` is patched in the background, and the user is told.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use ctxbridge::client::{Client, ConversationLimits, releases};
use ctxbridge::common::{digest, paths};
use ctxbridge::demo;
use ctxbridge::patch::install::Target;
use ctxbridge::stub::Stub;
use serde_json::Value;
use tempfile::TempDir;

use super::{ended_well, path_behind};

const CTXBRIDGE: &str = env!("CARGO_BIN_EXE_ctxbridge");

/// Time for the process in the background: it waits ten seconds for an updater, and patches at low priority.
const PATIENCE: Duration = Duration::from_secs(600);

/// One user's machine: `claude` on the PATH is a link, as installers make it.
struct Machine {
    folder: TempDir,
    stub: Stub,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("bin")).unwrap();
        fs::create_dir_all(folder.path().join("data")).unwrap();
        Self { folder, stub: Stub::start().unwrap() }
    }

    fn claude(&self) -> PathBuf {
        self.folder.path().join("bin/claude")
    }

    /// Moves the link, the way the native updater does.
    fn lead_to(&self, file: &Path) {
        let new = self.folder.path().join("bin/claude.new");
        symlink(file, &new).unwrap();
        fs::rename(new, self.claude()).unwrap();
    }

    fn path(&self) -> OsString {
        path_behind(&self.folder.path().join("bin"))
    }

    fn client(&self) -> Client {
        let client = demo::offline(&Target::at(&self.claude()).unwrap()).unwrap();
        let data = self.folder.path().join("data");
        // Its own ends with it, while the process in the background goes on.
        let client = client.api(&self.stub.url()).env("TMPDIR", self.folder.path());
        client.env("PATH", self.path()).env("CTXBRIDGE_DATA_DIR", data).env("CTXBRIDGE_PATCH_KEEP", "true")
    }

    fn ctxbridge(&self, home: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(CTXBRIDGE);
        command.args(args).env("HOME", home).env("PATH", self.path()).env("CTXBRIDGE_DATA_DIR", self.folder.path().join("data"));
        command.output().unwrap()
    }

    #[track_caller]
    fn done(&self, args: &[&str]) {
        let output = self.ctxbridge(self.folder.path(), args);
        assert!(output.status.success(), "{args:?}: {output:?}");
    }

    /// A session of whatever `claude` is now, with our hooks.
    #[track_caller]
    fn session(&self) {
        let client = self.client();
        let wired = self.ctxbridge(&client.home(), &["hooks", "install"]);
        assert!(wired.status.success(), "{wired:?}");
        ended_well(&self.stub, &client.converse(&["Hello."], ConversationLimits::default()).unwrap());
        let log = fs::read_to_string(self.folder.path().join("data/logs/errors.log")).unwrap_or_default();
        assert_eq!(log, "", "what the hooks logged");
    }

    /// The result, once it is there.
    fn kept(&self) -> Value {
        let begun = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(self.folder.path().join("data/patch-keep.json")) {
                return serde_json::from_str(&text).unwrap();
            }
            assert!(begun.elapsed() < PATIENCE, "nothing was patched");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn state(&self) -> Value {
        let output = self.ctxbridge(self.folder.path(), &["patch", "verify", "--json"]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["state"].clone()
    }

    /// Sessions after an upgrade to `version`, which is what `claude` leads to now.
    #[track_caller]
    fn follows(&self, version: &str) {
        let published = digest::of_file(&paths::real(self.claude()).unwrap()).unwrap();
        assert_ne!(self.state(), "patched");
        self.session();
        let kept = self.kept();
        assert_eq!(kept["text"], format!("Claude Code {version} patched; `ctxbridge patch revert` undoes it"), "{kept}");
        assert_eq!((self.state(), &kept["is_told"]), ("patched".into(), &false.into()));
        self.session();
        assert_eq!(self.kept()["is_told"], true, "the next session's start says so");
        // Who reverts it does not want it.
        self.done(&["patch", "revert"]);
        assert_eq!(digest::of_file(&paths::real(self.claude()).unwrap()).unwrap(), published);
        let again = self.ctxbridge(self.folder.path(), &["patch", "keep"]);
        assert_eq!(again.status.code(), Some(1), "{again:?}");
        assert_eq!(self.state(), "unpatched");
    }
}

/// The native updater writes the new version beside the old one, and moves the link.
fn a_new_version_beside(from: &str, to: &str) {
    let machine = Machine::new();
    let install = |version: &str| {
        let release = Target::at(&releases::fetch_client(version).unwrap_or_else(|error| panic!("{error}"))).unwrap();
        let made = demo::copy_client(&release, &machine.folder.path().join("versions/new")).unwrap();
        let place = machine.folder.path().join("versions").join(version);
        fs::rename(made, &place).unwrap();
        machine.lead_to(&place);
    };
    install(from);
    machine.done(&["patch", "apply"]);
    machine.session();
    install(to);
    machine.follows(to);
}

/// npm puts the new package in the place of the old one.
fn a_new_version_in_place(from: &str, to: &str) {
    let machine = Machine::new();
    let package = machine.folder.path().join("lib/node_modules/@anthropic-ai/claude-code");
    let install = |version: &str| {
        let release = Target::at(&releases::fetch_client(version).unwrap_or_else(|error| panic!("{error}"))).unwrap();
        let fresh = machine.folder.path().join("lib/fresh");
        let made = demo::copy_client(&release, &fresh).unwrap();
        fs::remove_dir_all(&package).ok();
        fs::create_dir_all(package.parent().unwrap()).unwrap();
        fs::rename(&fresh, &package).unwrap();
        package.join(made.file_name().unwrap())
    };
    machine.lead_to(&install(from));
    machine.done(&["patch", "apply"]);
    machine.session();
    install(to);
    machine.follows(to);
}

#[test]
fn the_native_updater_2_1_240_to_2_1_330() {
    a_new_version_beside("2.1.240", "2.1.330");
}

#[test]
#[ignore = "nightly: another pair is tried"]
fn the_native_updater_2_1_330_to_2_1_331() {
    a_new_version_beside("2.1.330", "2.1.331");
}

#[test]
#[ignore = "nightly: by day the native updater brings a new client"]
fn npm_2_1_100_to_2_1_112() {
    a_new_version_in_place("2.1.100", "2.1.112");
}
