//! Licenses, sources and duplicates of the crates, as `deny.toml` allows them.
//!
//! What cargo-deny answers follows from files of ours alone. Their digest is committed once it has said yes, and it is asked again
//! when they change: to compile it takes a minute. The nightly workflow asks it every night.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use ctxbridge::common::digest;

use crate::steps::Steps;
use crate::tools::{cargo_deny, root};

/// The digest of the files that passed.
const PASSED: &str = ".config/deny.sha256";

/// Asks cargo-deny, unless nothing has changed since it said yes.
pub fn check(steps: &mut Steps) -> Result<()> {
    let now = files()?;
    let passed = root().join(PASSED);
    if fs::read_to_string(&passed).is_ok_and(|passed| passed.trim() == now) {
        return Ok(());
    }
    let mut deny = cargo_deny(steps)?;
    // Advisories come from a database that not every machine can reach, and change without us: the nightly workflow asks them.
    deny.args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    steps.run("licenses, duplicates, sources", &mut deny, "deny.toml says what is allowed.")?;
    fs::write(&passed, now + "\n").with_context(|| format!("cannot write {}", passed.display()))?;
    eprintln!("{PASSED} is new: commit it with the change, and nobody else waits for this check");
    Ok(())
}

/// The digest of all that cargo-deny reads.
fn files() -> Result<String> {
    let mut paths: Vec<PathBuf> =
        ["Cargo.lock", "Cargo.toml", "deny.toml", "testkit/Cargo.toml", "xtask/Cargo.toml"].map(|name| root().join(name)).into();
    for entry in fs::read_dir(root().join("src"))? {
        paths.push(entry?.path().join("Cargo.toml"));
    }
    paths.retain(|path| path.is_file());
    paths.sort();
    let mut hasher = digest::Hasher::default();
    for path in paths {
        hasher.update(&fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    Ok(hasher.finish())
}
