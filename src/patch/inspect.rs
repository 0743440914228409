/*!
What a target is now: as published, patched by us and intact, or something else.
*/

use serde::Serialize;

use super::foreign;
use super::install::Target;
use super::journal::Application;
use super::marker;
use crate::digest;

/// The state of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Patched by us, and every byte is what we wrote.
    Patched,
    /// As published.
    Unpatched,
    /// It was patched, and then the client was upgraded.
    Upgraded,
    /// It carries our patch, but not the bytes that we wrote.
    Modified,
    /// Patched by another tool.
    Foreign,
}

/// A target, looked at.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// What it is.
    pub state: State,
    /// Our patches in it.
    pub patches: Vec<String>,
    /// The hash of the unpatched file.
    pub original_sha256: Option<String>,
    /// The hash of what we wrote.
    pub patched_sha256: Option<String>,
    /// The hash of what is there.
    pub current_sha256: String,
    /// Why it is `modified` or `foreign`.
    pub reason: Option<String>,
}

/// Looks at the bytes of a target, in the light of what the journal knows of it, if anything.
pub fn inspect(target: &Target, bytes: &[u8], known: Option<&Application>) -> Inspection {
    let current = digest::of_bytes(bytes);
    if let Some(known) = known.filter(|known| known.patched_sha256 == current) {
        return Inspection {
            state: State::Patched,
            patches: known.patches.clone(),
            original_sha256: Some(known.original_sha256.clone()),
            patched_sha256: Some(current.clone()),
            current_sha256: current,
            reason: None,
        };
    }
    let mut inspection = Inspection {
        state: State::Unpatched,
        patches: Vec::new(),
        original_sha256: None,
        patched_sha256: None,
        current_sha256: current.clone(),
        reason: None,
    };
    if marker::occurs_in(bytes) {
        judge_marked(&mut inspection, bytes, known);
        return inspection;
    }
    inspection.original_sha256 = known.map(|known| known.original_sha256.clone());
    inspection.patched_sha256 = known.map(|known| known.patched_sha256.clone());
    if known.is_some_and(|known| known.original_sha256 == current) {
        return inspection;
    }
    if let Some(reason) = foreign::recognise(target, bytes, &current) {
        inspection.state = State::Foreign;
        inspection.reason = Some(reason);
        return inspection;
    }
    if let Some(known) = known {
        let version = target.version.as_ref().map(ToString::to_string);
        if version == known.version && version.is_some() {
            inspection.state = State::Foreign;
            inspection.reason =
                Some("it is the version that was patched, but neither the original nor the patched file".to_owned());
        } else {
            inspection.state = State::Upgraded;
        }
    }
    inspection
}

/// A file that carries our comment: intact when taking out what we put in gives the original.
fn judge_marked(inspection: &mut Inspection, bytes: &[u8], known: Option<&Application>) {
    // What we wrote is text. Where it no longer is, what stands before the damage says at least which patches there were.
    let (text, is_text) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, true),
        Err(error) => (std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(), false),
    };
    let markers = marker::find(text);
    inspection.patches = markers.iter().filter_map(|found| Some(found.marker.as_ref()?.patch.clone())).collect();
    inspection.patches.sort();
    let original = markers.iter().find_map(|found| Some(found.marker.as_ref()?.original.clone()));
    let restored = marker::undo(text, &markers).map(|restored| digest::of_bytes(restored.as_bytes()));
    if is_text && restored.is_some() && restored == original {
        inspection.state = State::Patched;
        inspection.patched_sha256 = Some(inspection.current_sha256.clone());
    } else {
        inspection.state = State::Modified;
        inspection.patched_sha256 = known.map(|known| known.patched_sha256.clone());
        inspection.reason = Some("it carries our patch, but has been changed since".to_owned());
    }
    inspection.original_sha256 = original;
}
