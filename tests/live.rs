//! The real client, from the release cache, run against the stub of the Messages API: unpatched and patched.
//!
//! Releases that are not in the cache are fetched with npm.

#[cfg(unix)]
mod agentic;
#[cfg(unix)]
mod archive;
#[cfg(unix)]
mod branches;
#[cfg(unix)]
mod claude_flow;
#[cfg(unix)]
mod compaction;
#[cfg(unix)]
mod gate;
#[cfg(unix)]
mod keep;
#[cfg(unix)]
mod mcp;
#[cfg(unix)]
mod mod_install;
#[cfg(unix)]
mod pipeline;
mod prune;
mod stale;
mod story;
mod stub;

use std::fs;
#[cfg(unix)]
use std::path::Path;
use std::path::PathBuf;
#[cfg(unix)]
use std::process::Command;

use ctxbridge::client::releases;
use ctxbridge::client::{Client, ClientConversation, ConversationLimits};
use ctxbridge::common::digest;
use ctxbridge::demo;
use ctxbridge::patch::catalog::Catalog;
use ctxbridge::patch::install::Target;
use ctxbridge::patch::patcher::{Applied, Patcher, RevertedState};
use ctxbridge::stub::Stub;
use tempfile::TempDir;

/// A copy of a release, with a data directory of its own.
struct Installation {
    path: PathBuf,
    original_sha256: String,
    folder: TempDir,
}

impl Installation {
    fn of(version: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let release = releases::fetch_client(version).unwrap_or_else(|error| panic!("{error}"));
        let path = demo::copy_client(&Target::at(&release).unwrap(), &folder.path().join("client")).unwrap();
        let original_sha256 = digest::of_file(&path).unwrap();
        Self { path, original_sha256, folder }
    }

    fn target(&self) -> Target {
        Target::at(&self.path).unwrap()
    }

    fn with_patcher<T>(&self, work: impl FnOnce(&Patcher<'_>) -> T) -> T {
        let data = self.folder.path().join("data");
        fs::create_dir_all(&data).unwrap();
        work(&Patcher::new(&data, Catalog::embedded().unwrap(), &|_| {}))
    }

    /// With the default patches.
    fn apply(&self) -> Applied {
        self.apply_patches(&[])
    }

    fn apply_patches(&self, patches: &[&str]) -> Applied {
        let patches: Vec<String> = patches.iter().map(|id| (*id).to_owned()).collect();
        let applied = self.with_patcher(|patcher| patcher.apply(&self.target(), &patches, true));
        let applied = applied.unwrap_or_else(|error| panic!("{error}"));
        assert!(applied.smoke.ran);
        assert_eq!(applied.original_sha256, self.original_sha256);
        assert_eq!(digest::of_file(&self.path).unwrap(), applied.patched_sha256);
        applied
    }

    /// Puts the original back and checks that it is, to the byte.
    fn revert(&self) {
        let reverted = self.with_patcher(|patcher| patcher.revert(&self.target(), false)).unwrap();
        assert_eq!(reverted.state, RevertedState::Reverted);
        assert_eq!(digest::of_file(&self.path).unwrap(), self.original_sha256);
    }

    fn client(&self) -> Client {
        demo::offline(&self.target()).unwrap()
    }

    fn converse(&self, stub: &Stub, prompts: &[String]) -> ClientConversation {
        self.client().api(&stub.url()).converse(prompts, ConversationLimits::default()).unwrap()
    }
}

/// Runs ctxbridge as the user of a client would, and returns what it prints.
#[cfg(unix)]
#[track_caller]
fn run_ctxbridge(client: &Client, data: &Path, args: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctxbridge"));
    let output = command
        .args(args)
        .env("HOME", client.home())
        .env("CTXBRIDGE_DATA_DIR", data)
        .env("CTXBRIDGE_ARCHIVE_AUTO_OPTIMIZE", "false")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    output.stdout
}

/// The `PATH` of this process, behind a folder of the test's.
#[cfg(unix)]
fn path_behind(folder: &Path) -> std::ffi::OsString {
    let outside = std::env::var_os("PATH").unwrap();
    std::env::join_paths([folder.to_owned()].into_iter().chain(std::env::split_paths(&outside))).unwrap()
}

#[track_caller]
fn ended_well(stub: &Stub, conversation: &ClientConversation) {
    assert!(conversation.is_success(), "{conversation:#?}");
    assert_eq!(stub.violations(), [""; 0], "the real API would have refused a request");
}
