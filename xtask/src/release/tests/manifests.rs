use super::*;

use ctxbridge::common::digest;
use serde_json::Value;

use super::super::REPOSITORY;
use super::super::finish::notes;
use super::super::template::fill;
use crate::tools::runs;

const BASE: &str = "https://example.org/files";

#[test]
fn checksums_are_of_all_files() {
    let release = Release::finished(&TARGETS, Some(BASE));
    let sums = release.read("SHA256SUMS");
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        assert_eq!(digest::of_file(&release.path().join(name)).unwrap(), sum, "{name}");
    }
    // All but the list itself, and the notes, which are no file of the release.
    assert_eq!(sums.lines().count(), fs::read_dir(release.path()).unwrap().count() - 2);
    let changelog = fs::read_to_string(crate::tools::root().join("CHANGELOG.md")).unwrap();
    assert_eq!(release.read("notes.md"), notes(&changelog, VERSION).unwrap());
}

#[test]
fn the_formula_has_an_address_and_a_checksum_for_each_system() {
    let release = Release::finished(&TARGETS, Some(BASE));
    let formula = release.read("ctxbridge.rb");
    for target in TARGETS.iter().filter(|target| !target.is_windows()) {
        let lines = format!("      url \"{BASE}/{}\"\n      sha256 \"{}\"\n", target.archive(), release.sha256(target));
        assert!(formula.contains(&lines), "{formula}");
    }
    let opened = ["do\n", "def ", "class "].iter().map(|word| formula.matches(word).count()).sum::<usize>();
    assert_eq!(opened, formula.lines().filter(|line| line.trim() == "end").count());
    let mut ruby = std::process::Command::new("ruby");
    if runs(ruby.arg("--version")) {
        assert!(runs(std::process::Command::new("ruby").arg("-c").arg(release.path().join("ctxbridge.rb"))));
    }
}

#[test]
fn the_scoop_manifest_has_an_address_and_a_checksum_for_each_system() {
    let release = Release::finished(&TARGETS, Some(BASE));
    let manifest: Value = serde_json::from_str(&release.read("ctxbridge.json")).unwrap();
    assert_eq!(manifest["version"], VERSION);
    for (name, triple) in [("64bit", "x86_64-pc-windows-msvc"), ("arm64", "aarch64-pc-windows-msvc")] {
        let target = ReleaseTarget::named(triple).unwrap();
        let of_target = &manifest["architecture"][name];
        assert_eq!(of_target["url"], format!("{BASE}/{}", target.archive()));
        assert_eq!(of_target["hash"], release.sha256(target));
        assert_eq!(of_target["extract_dir"], target.stem());
        // A later version will be found where this one is, below another number.
        let later = manifest["autoupdate"]["architecture"][name]["url"].as_str().unwrap();
        let expected = format!("{REPOSITORY}/releases/download/v{VERSION}/{}", target.archive());
        assert_eq!(later.replace("$version", VERSION), expected);
    }
}

/// No machine of ours has PowerShell; what can be read is read.
#[test]
fn the_installer_for_windows_has_its_checksums() {
    let release = Release::finished(&TARGETS, Some(BASE));
    let script = release.read("install.ps1");
    for (machine, triple) in [("AMD64", "x86_64-pc-windows-msvc"), ("ARM64", "aarch64-pc-windows-msvc")] {
        let target = ReleaseTarget::named(triple).unwrap();
        let case = format!("'{machine}' {{ $name = '{}'; $expected = '{}' }}", target.stem(), release.sha256(target));
        assert!(script.contains(&case), "{script}");
    }
    assert!(script.contains(&format!("else {{ '{BASE}' }}")));
    assert!(script.ends_with("\nInstall-Ctxbridge\n"));
    for (open, close) in [('{', '}'), ('(', ')')] {
        assert_eq!(script.matches(open).count(), script.matches(close).count());
    }
    // PowerShell 5.1 reads a file without a mark as if it were of the system's own encoding.
    assert!(script.is_ascii());
}

#[test]
fn no_address_means_the_release_in_the_repository() {
    let release = Release::finished(&TARGETS, None);
    let address = format!("{REPOSITORY}/releases/download/v{VERSION}");
    for name in ["install.sh", "install.ps1", "ctxbridge.rb", "ctxbridge.json"] {
        assert!(release.read(name).contains(&address), "{name}");
    }
}

#[test]
fn an_address_that_a_script_would_run_is_refused() {
    let release = Release::packed(&TARGETS);
    let archives = Archives::read(release.path(), false).unwrap();
    for address in ["https://example.org/$(touch x)", "https://example.org/'", "files"] {
        assert!(finish(&archives, Some(address)).is_err(), "{address}");
    }
}

#[test]
fn a_partial_release_has_no_manifest_that_lacks_a_checksum() {
    let release = Release::packed(&TARGETS[..4]);
    let lines = finish(&Archives::read(release.path(), true).unwrap(), Some(BASE)).unwrap();
    let left_out = "left out ctxbridge.json: no x86_64-pc-windows-msvc, aarch64-pc-windows-msvc";
    assert!(lines.iter().any(|line| line == left_out), "{lines:?}");
    assert!(!release.path().join("ctxbridge.json").exists() && release.path().join("ctxbridge.rb").exists());
}

#[test]
fn a_placeholder_that_nobody_knows_is_an_error() {
    let value = |words: &[&str]| Ok((words == ["A", "b"]).then(|| "{{C}}".to_owned()));
    assert_eq!(fill("x", "1 {{A b}} 2", &value).unwrap(), "1 {{C}} 2");
    assert!(fill("x", "{{A c}}", &value).unwrap_err().to_string().contains("{{A c}}"));
    assert!(fill("x", "{{A b", &value).is_err());
}

#[test]
fn notes_are_the_section_of_the_version() {
    let changelog = "# Changelog\n\n## [1.1.0] - 2026-01-01\n\nNew.\n\n### Added\n\n- A.\n\n## 1.0.0\n\nOld.\n";
    assert_eq!(notes(changelog, "1.1.0").unwrap(), "New.\n\n### Added\n\n- A.\n");
    assert_eq!(notes(changelog, "1.0.0").unwrap(), "Old.\n");
    assert!(notes(changelog, "1.0").is_err());
}
