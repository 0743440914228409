/*!
The present state of a target: as published, patched by us and intact, or something else.
*/

use std::io;

use serde::Serialize;

use super::container::{Container, FileBytes, RewrittenModule};
use super::install::{Target, TargetOpenError};
use super::journal::Application;
use super::marker::FoundMarker;
use super::{foreign, marker, seal};
use ctxbridge_client::releases;
use ctxbridge_common::digest;

/// The state of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetState {
    /// Patched by us, and every byte is as we wrote it.
    Patched,
    /// As published.
    Unpatched,
    /// The client was patched, and then upgraded.
    Upgraded,
    /// It carries our patch, but not the bytes that we wrote.
    Modified,
    /// Patched by another tool.
    Foreign,
}

/// Result of inspecting a target.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// State of the target.
    pub state: TargetState,
    /// Our patches in it.
    pub patches: Vec<String>,
    /// The hash of the unpatched file.
    pub original_sha256: Option<String>,
    /// The hash of the file that we wrote.
    pub patched_sha256: Option<String>,
    /// The hash of the present file.
    pub current_sha256: String,
    /// The reason why it is `modified` or `foreign`.
    pub reason: Option<String>,
}

/// Inspects a target whose hash is known. `known` is the journal's record of it, if there is one.
///
/// # Errors
/// If it cannot be read (any more), or is an executable with an unknown layout: its patches are not known then.
pub fn inspect(
    target: &Target,
    source: &FileBytes,
    current: String,
    known: Option<&Application>,
) -> Result<Inspection, TargetOpenError> {
    if let Some(known) = known.filter(|known| known.patched_sha256 == current) {
        return Ok(Inspection {
            state: TargetState::Patched,
            patches: known.patches.clone(),
            original_sha256: Some(known.original_sha256.clone()),
            patched_sha256: Some(current.clone()),
            current_sha256: current,
            reason: None,
        });
    }
    let mut inspection = Inspection {
        state: TargetState::Unpatched,
        patches: Vec::new(),
        original_sha256: None,
        patched_sha256: None,
        current_sha256: current.clone(),
        reason: None,
    };
    // What was published carries nothing, of ours or of others. Of any other executable it is the modules that may carry marks.
    let is_published = releases::is_published(&current);
    let container = match (!is_published).then(|| target.container(source.clone())).transpose() {
        // Patched, and damaged since: that it is not what we wrote is known all the same.
        Err(error) if target.kind.is_native() && !marker::occurs_in(source) => return Err(error),
        container => container.ok().flatten(),
    };
    let marked = match &container {
        _ if is_published => false,
        Some(container) if target.kind.is_native() => container.modules().any(|raw| marker::occurs_in(raw.bytes)),
        _ => marker::occurs_in(source),
    };
    if marked {
        let judged = judge_marked(&mut inspection, source, container.as_ref(), known);
        judged.map_err(|cause| TargetOpenError::Read { path: target.path.clone(), cause })?;
        return Ok(inspection);
    }
    inspection.original_sha256 = known.map(|known| known.original_sha256.clone());
    inspection.patched_sha256 = known.map(|known| known.patched_sha256.clone());
    if known.is_some_and(|known| known.original_sha256 == current) {
        return Ok(inspection);
    }
    if !is_published && let Some(reason) = foreign::modification_reason(target, source, container.as_ref()) {
        inspection.state = TargetState::Foreign;
        inspection.reason = Some(reason);
        return Ok(inspection);
    }
    if let Some(known) = known {
        let version = target.version.as_ref().map(ToString::to_string);
        if version == known.version && version.is_some() {
            inspection.state = TargetState::Foreign;
            inspection.reason =
                Some("it is the version that was patched, but neither the original nor the patched file".to_owned());
        } else {
            inspection.state = TargetState::Upgraded;
        }
    }
    Ok(inspection)
}

/// Judges a file with our comment: it is intact if undoing our edits gives the original, or if its seal is right.
fn judge_marked(
    inspection: &mut Inspection,
    source: &FileBytes,
    container: Option<&Container>,
    known: Option<&Application>,
) -> io::Result<()> {
    let markers = match container {
        Some(container) => marked_modules(container).into_iter().flat_map(|(_, found)| found).collect(),
        // We wrote text. If it is not text any more, the part before the damage at least shows the patches.
        None => {
            let valid = std::str::from_utf8(source).map_or_else(|error| error.valid_up_to(), str::len);
            marker::find(std::str::from_utf8(&source[..valid]).unwrap_or_default())
        }
    };
    inspection.patches = markers.iter().filter_map(|found| Some(found.marker.as_ref()?.patch.clone())).collect();
    inspection.patches.sort();
    let original = markers.iter().find_map(|found| Some(found.marker.as_ref()?.original.clone()));
    let intact = match container {
        None => false,
        Some(container) => match without_patches(container) {
            None => false,
            Some(_) if container.kind().is_native() => seal::is_intact(container)?,
            Some(restored) => restored.iter().any(|module| Some(digest::of_bytes(module.text.as_bytes())) == original),
        },
    };
    if intact {
        inspection.state = TargetState::Patched;
        inspection.patched_sha256 = Some(inspection.current_sha256.clone());
    } else {
        inspection.state = TargetState::Modified;
        inspection.patched_sha256 = known.map(|known| known.patched_sha256.clone());
        inspection.reason = Some("it carries our patch, but has been changed since".to_owned());
    }
    inspection.original_sha256 = original;
    Ok(())
}

/// The modules with comments of ours, and these comments.
pub(super) fn marked_modules(container: &Container) -> Vec<(usize, Vec<FoundMarker>)> {
    let marked = container.modules().enumerate().filter(|(_, raw)| marker::occurs_in(raw.bytes));
    marked.filter_map(|(index, _)| Some((index, marker::find(container.module(index).ok()?.text)))).collect()
}

/// The modules with comments of ours, as they were before our edits; `None` if the comments do not fit the text.
pub fn without_patches(container: &Container) -> Option<Vec<RewrittenModule>> {
    let restore = |(module, found): (usize, Vec<FoundMarker>)| {
        let text = marker::undo(container.module(module).ok()?.text, &found)?;
        Some(RewrittenModule { module, text })
    };
    marked_modules(container).into_iter().map(restore).collect()
}

/// A client as published: our patch, if it has one, is undone in memory.
pub fn as_published(container: Container) -> Container {
    match without_patches(&container) {
        Some(restored) if !restored.is_empty() => container.with(&restored),
        _ => container,
    }
}
