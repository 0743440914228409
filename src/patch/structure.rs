/*!
A check of a patched executable that does not run it, for those that cannot be run here. The written file is read back, by an
independent reader if there is one, and compared with the original.
*/

use std::fs::File;
use std::io;
use std::path::Path;

use super::container::{Container, ContainerError, FileBytes, RewrittenModule};
use super::{marker, seal};

/// Errors from checking a patched executable.
#[derive(Debug, thiserror::Error)]
pub enum StructureError {
    /// It cannot be read back.
    #[error("the patched file cannot be read back: {0}")]
    Read(#[from] io::Error),
    /// It is not an executable any more.
    #[error("the patched file fails its check: {0}")]
    Container(#[from] ContainerError),
    /// It differs from the original outside the edits.
    #[error("the patched file fails its check: {0}; nothing was changed. Please report this")]
    Differs(String),
}

/// Reads the patched file at `path` back. Returns a description of the compared parts, for people.
///
/// # Errors
/// If it is not `original` with these modules changed.
pub fn verify(original: &Container, modules: &[RewrittenModule], path: &Path) -> Result<String, StructureError> {
    let differs = |what: String| StructureError::Differs(what);
    let patched = Container::open("", FileBytes::of(File::open(path)?)?)?;
    if patched.kind() != original.kind() || patched.modules().len() != original.modules().len() {
        return Err(differs("it does not hold the same modules".to_owned()));
    }
    for RewrittenModule { module, text } in modules {
        let written = patched.module(*module)?;
        if marker::without_seals(written.text) != *text {
            return Err(differs(format!("the module {} is not what was planned", written.name)));
        }
    }
    if !seal::is_intact(&patched)? {
        return Err(differs("its seal is not that of its bytes".to_owned()));
    }
    let edited: Vec<usize> = modules.iter().map(|module| module.module).collect();
    original.compare(&patched, &edited).map_err(differs)
}
