use super::*;

use std::io::Cursor;

use flate2::bufread::GzDecoder;
use serde_json::Value;

use super::super::pack::read_binary;
use super::super::{NAME, REPOSITORY, SUMMARY};
use crate::tools::root;

/// Names and modes of the files in an archive.
fn members(target: &ReleaseTarget, archive: &[u8]) -> Vec<(String, u32)> {
    if target.is_windows() {
        let mut zip = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
        let count = zip.len();
        let member = |at| {
            let file = zip.by_index(at).unwrap();
            (file.name().unwrap().into_owned(), file.unix_mode().unwrap() & 0o777)
        };
        return (0..count).map(member).collect();
    }
    let mut tar = tar::Archive::new(GzDecoder::new(archive));
    let entries = tar.entries().unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.path().unwrap().to_str().unwrap().to_owned(), entry.header().mode().unwrap())).collect()
}

#[test]
fn an_archive_has_one_folder_with_the_binary_license_and_readme() {
    let release = Release::packed(&TARGETS);
    for target in &TARGETS {
        let archive = fs::read(release.path().join(target.archive())).unwrap();
        let mut expected = [(target.binary(), 0o755), ("LICENSE", 0o644), ("README.md", 0o644)]
            .map(|(name, mode)| (format!("{}/{name}", target.stem()), mode));
        expected.sort();
        assert_eq!(members(target, &archive), expected);
        let binary = read_binary(target, &archive).unwrap();
        assert!(String::from_utf8(binary).unwrap().contains(target.triple));
    }
}

#[test]
fn the_same_binary_makes_the_same_archive() {
    let (one, other) = (Release::packed(&TARGETS), Release::packed(&TARGETS));
    for target in &TARGETS {
        assert_eq!(one.sha256(target), other.sha256(target), "{}", target.triple);
    }
}

#[test]
fn a_missing_system_is_named() {
    let release = Release::packed(&TARGETS[1..]);
    let error = Archives::read(release.path(), false).err().unwrap().to_string();
    assert!(error.contains(&TARGETS[0].archive()) && error.contains("--partial"), "{error}");
    assert_eq!(Archives::read(release.path(), true).unwrap().packed.len(), 5);
}

#[test]
fn an_archive_that_is_cut_or_of_another_version_is_refused() {
    for target in [&TARGETS[0], &TARGETS[4]] {
        let release = Release::packed(std::slice::from_ref(target));
        let path = release.path().join(target.archive());
        let archive = fs::read(&path).unwrap();
        fs::write(&path, &archive[..archive.len() / 2]).unwrap();
        let error = Archives::read(release.path(), true).err().unwrap().to_string();
        assert!(error.contains("is damaged"), "{error}");
        fs::rename(&path, release.path().join(target.archive().replace(VERSION, "0.0.1"))).unwrap();
        let error = Archives::read(release.path(), true).err().unwrap().to_string();
        assert!(error.contains("0.0.1") && error.contains("is no archive of"), "{error}");
    }
}

/// `cargo binstall` makes addresses out of templates in Cargo.toml. They have to be those of what is packed.
#[test]
fn binstall_finds_what_is_packed() {
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let package: Value = serde_json::to_value(&manifest["package"]).unwrap();
    assert!(package["description"].as_str().unwrap().starts_with(SUMMARY));
    let binstall = &package["metadata"]["binstall"];
    for target in &TARGETS {
        let text = |key: &str| {
            let of_target = &binstall["overrides"][target.triple][key];
            if of_target.is_null() { &binstall[key] } else { of_target }.as_str().unwrap().to_owned()
        };
        let extension = if target.is_windows() { ".exe" } else { "" };
        let values = [
            ("repo", REPOSITORY),
            ("name", NAME),
            ("bin", NAME),
            ("version", VERSION),
            ("target", target.triple),
            ("binary-ext", extension),
        ];
        let fill =
            |template: String| values.iter().fold(template, |text, (key, value)| text.replace(&format!("{{ {key} }}"), value));
        let address = format!("{REPOSITORY}/releases/download/v{VERSION}/{}", target.archive());
        assert_eq!(fill(text("pkg-url")), address);
        assert_eq!(fill(text("bin-dir")), format!("{}/{}", target.stem(), target.binary()));
        assert_eq!(text("pkg-fmt"), if target.is_windows() { "zip" } else { "tgz" });
    }
}
