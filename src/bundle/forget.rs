//! Removal of what was forgotten from the bundles of a project. What is committed stays in the history of its repository.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::bundle_paths::{sanitize_session_id, session_of};
use super::{BundleLine, BundlePathError, Bundles, read};
use ctxbridge_archive::forget::{ForgetPlan, any_text};
use ctxbridge_common::files;

/// Removes the lines of a session that say what goes, or were written while it happened, and returns the files that were changed or
/// removed.
///
/// # Errors
/// If a file cannot be read or written. What was removed before stays so.
pub fn forget(bundles: &Bundles, session: &str, plan: &ForgetPlan) -> Result<Vec<PathBuf>, BundlePathError> {
    let mut changed = Vec::new();
    let id = sanitize_session_id(session);
    let goes = |line: &[u8]| {
        let at = str::from_utf8(line).ok().and_then(BundleLine::parse).and_then(|line| line.at);
        at.is_some_and(|at| plan.covers_time(session, at.as_millisecond()))
            || any_text(line, &mut |text| plan.covers(session, text))
    };
    for file in read::list(bundles)? {
        let own = session_of(&file.name);
        if own.is_some_and(|own| own != id) {
            continue;
        }
        let path = bundles.folder().join(&file.name);
        let failed = |cause| BundlePathError::Io { step: "forget lines of", path: path.clone(), cause };
        let bytes = files::read(&path).map_err(failed)?;
        let is_kept = |line: &&[u8]| {
            let is_of_it = own.is_some() || is_folded_of(line, &id);
            !is_of_it || !goes(line)
        };
        let kept: Vec<u8> = bytes.split_inclusive(|byte| *byte == b'\n').filter(is_kept).flatten().copied().collect();
        if kept.len() == bytes.len() {
            continue;
        }
        if kept.is_empty() { fs::remove_file(&path) } else { fs::write(&path, kept) }.map_err(failed)?;
        changed.push(path);
    }
    Ok(changed)
}

/// `true` for a line of a folded month that is about a session.
fn is_folded_of(line: &[u8], session: &str) -> bool {
    let value: Value = serde_json::from_slice(line).unwrap_or_default();
    value.get("session").and_then(Value::as_str).is_some_and(|of| sanitize_session_id(of) == session)
}
