//! Removal of what was forgotten from the bundles of a project. What is committed stays in the history of its repository.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::bundle_paths::{sanitize_session_id, session_of};
use super::{BundlePathError, Bundles, read};
use ctxbridge_archive::forget::any_text;
use ctxbridge_common::files;

/// Removes the lines of a session that say what goes, and returns the files that were changed or removed. `goes` is asked for each text.
///
/// # Errors
/// If a file cannot be read or written. What was removed before stays so.
pub fn forget(
    bundles: &Bundles,
    session: &str,
    is_whole: bool,
    goes: &mut dyn FnMut(&str) -> bool,
) -> Result<Vec<PathBuf>, BundlePathError> {
    let mut changed = Vec::new();
    let session = sanitize_session_id(session);
    for file in read::list(bundles)? {
        let own = session_of(&file.name);
        if own.is_some_and(|own| own != session) {
            continue;
        }
        let path = bundles.folder().join(&file.name);
        let failed = |cause| BundlePathError::Io { step: "forget lines of", path: path.clone(), cause };
        let bytes = files::read(&path).map_err(failed)?;
        let is_kept = |line: &&[u8]| {
            let is_of_it = own.is_some() || is_folded_of(line, &session);
            !is_of_it || !(is_whole || any_text(line, goes))
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
