//! A release patched and put back: the proof for those that the tests leave out.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use ctxbridge::common::digest;
use ctxbridge::demo;
use ctxbridge::patch::catalog::Catalog;
use ctxbridge::patch::container::PiecewiseFile;
use ctxbridge::patch::inspect::TargetState;
use ctxbridge::patch::install::Target;
use ctxbridge::patch::patcher::Patcher;

/// Maximum growth of an executable: the injected code has 6 KB, and the bytes behind it move by whole pages.
const MOST: i64 = 64 << 10;

/// Writes a release with no edits, then applies the default patches to a copy of it, verifies and reverts that. Returns a summary.
pub fn run(release: &Path, original_sha256: &str) -> Result<String> {
    let container = Target::at(release)?.open()?;
    ensure!(
        container.rewrite(&[])? == PiecewiseFile::kept(0..container.source().len()),
        "written with no edits, it is not the same"
    );
    drop(container);
    let scratch = tempfile::tempdir()?;
    let copy = demo::copy_client(&Target::at(release)?, &scratch.path().join("client"))?;
    let data = scratch.path().join("data");
    fs::create_dir(&data)?;
    let target = Target::at(&copy)?;
    let patcher = Patcher::new(&data, Catalog::embedded()?, &|_| {});
    let applied = patcher.apply(&target, &[], true)?;
    ensure!(applied.grew_by_bytes <= MOST, "it grew by {} bytes", applied.grew_by_bytes);
    ensure!(patcher.verify(&target)?.state == TargetState::Patched, "it does not verify");
    // Nobody's word but the file's own.
    let stranger = Patcher::new(&scratch.path().join("elsewhere"), Catalog::embedded()?, &|_| {});
    ensure!(stranger.verify(&target)?.state == TargetState::Patched, "it does not verify without the journal");
    patcher.revert(&target, false)?;
    ensure!(digest::of_file(&copy)? == original_sha256, "reverted, it is not the original");
    Ok(format!("grew by {}, {}, came back", applied.grew_by_bytes, applied.smoke.output))
}
