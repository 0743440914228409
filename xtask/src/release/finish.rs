//! All that is beside the archives of a release: checksums, installers, manifests for package managers, notes.

use std::cell::RefCell;
use std::fs;

use anyhow::{Context as _, Result, ensure};
use ctxbridge::common::digest;

use super::targets::ReleaseTarget;
use super::{Archives, REPOSITORY, SUMMARY, VERSION, template};
use crate::tools::root;

/// Files made from a template. An installer can say that its release has nothing for a system; a manifest cannot.
const FROM_TEMPLATES: [(&str, AssetKind); 4] = [
    ("install.sh", AssetKind::Installer),
    ("install.ps1", AssetKind::Installer),
    ("ctxbridge.rb", AssetKind::Manifest),
    ("ctxbridge.json", AssetKind::Manifest),
];

#[derive(Clone, Copy, PartialEq)]
enum AssetKind {
    Installer,
    Manifest,
}

/// Writes all of it, and returns a line for each file.
pub fn finish(archives: &Archives, url: Option<&str>) -> Result<Vec<String>> {
    let base =
        url.map_or_else(|| format!("{REPOSITORY}/releases/download/v{VERSION}"), |url| url.trim_end_matches('/').to_owned());
    // It becomes part of scripts.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":/._~%+-[]".contains(&byte);
    ensure!(base.contains("://") && base.bytes().all(is_plain), "{base} is no address that a script can hold");

    let mut lines = Vec::new();
    let mut sums: Vec<(String, String)> =
        archives.packed.iter().map(|packed| (packed.target.archive(), packed.sha256.clone())).collect();
    for (name, kind) in FROM_TEMPLATES {
        let missing = RefCell::new(Vec::new());
        let value = |words: &[&str]| value(archives, &base, &missing, words);
        let text = template::fill(name, &template::read(name)?, &value)?;
        let missing = missing.into_inner();
        if kind == AssetKind::Manifest && !missing.is_empty() {
            lines.push(format!("left out {name}: no {}", missing.join(", ")));
            continue;
        }
        fs::write(archives.folder.join(name), &text).with_context(|| format!("cannot write {name}"))?;
        lines.push(name.to_owned());
        sums.push((name.to_owned(), digest::of_bytes(text.as_bytes())));
    }
    sums.sort();
    let sums: String = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    let changelog = fs::read_to_string(root().join("CHANGELOG.md")).context("cannot read CHANGELOG.md")?;
    for (name, text) in [("SHA256SUMS", sums), ("notes.md", notes(&changelog, VERSION)?)] {
        fs::write(archives.folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
        lines.push(name.to_owned());
    }
    Ok(lines)
}

/// The value of a placeholder. A hash that is missing is empty, and noted down.
fn value(archives: &Archives, base: &str, missing: &RefCell<Vec<&'static str>>, words: &[&str]) -> Result<Option<String>> {
    let find = |triple: &str| ReleaseTarget::named(triple).with_context(|| format!("{triple} is no target"));
    Ok(Some(match *words {
        ["VERSION"] => VERSION.to_owned(),
        ["REPOSITORY"] => REPOSITORY.to_owned(),
        ["SUMMARY"] => SUMMARY.to_owned(),
        ["BASE"] => base.to_owned(),
        ["TARGETS"] => archives.packed.iter().map(|packed| packed.target.triple).collect::<Vec<_>>().join(", "),
        ["FOLDER", triple] => find(triple)?.stem(),
        ["ARCHIVE", triple] => find(triple)?.archive(),
        ["SHA256", triple] => match archives.find(find(triple)?) {
            Some(packed) => packed.sha256.clone(),
            None => {
                missing.borrow_mut().push(find(triple)?.triple);
                String::new()
            }
        },
        _ => return Ok(None),
    }))
}

/// The section of the changelog about a version.
pub fn notes(changelog: &str, version: &str) -> Result<String> {
    let is_of = |title: &str| title.split_whitespace().next().is_some_and(|word| word.trim_matches(['[', ']']) == version);
    let is_title = |line: &str| line.starts_with("## ");
    let mut lines = changelog.lines().skip_while(|line| !line.strip_prefix("## ").is_some_and(is_of));
    lines.next().with_context(|| format!("CHANGELOG.md has no section about {version}"))?;
    let section: Vec<&str> = lines.take_while(|line| !is_title(line)).collect();
    Ok(format!("{}\n", section.join("\n").trim()))
}
