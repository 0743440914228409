/*!
The check of a patched executable by itself, for those that cannot be run here: what was written is read back, with another reader
than the one that wrote it where there is one, and compared with the original.
*/

use std::fs::File;
use std::io;
use std::path::Path;

use super::container::{Container, ContainerError, Rewritten, Source};
use super::{marker, seal};

/// A patched executable that is not the original but for the edits.
#[derive(Debug, thiserror::Error)]
pub enum StructureError {
    /// It cannot be read back.
    #[error("the patched file cannot be read back: {0}")]
    Read(#[from] io::Error),
    /// It is no executable any more.
    #[error("the patched file fails its check: {0}")]
    Container(#[from] ContainerError),
    /// It is another one.
    #[error("the patched file fails its check: {0}; nothing was changed. Please report this")]
    Differs(String),
}

/// Reads the patched file at `path` back. Returns what was compared, for people.
///
/// # Errors
/// When it is not `original` with these modules changed.
pub fn verify(original: &Container, modules: &[Rewritten], path: &Path) -> Result<String, StructureError> {
    let differs = |what: String| StructureError::Differs(what);
    let patched = Container::open("", Source::of(File::open(path)?)?)?;
    if patched.kind() != original.kind() || patched.modules().len() != original.modules().len() {
        return Err(differs("it does not hold the same modules".to_owned()));
    }
    for Rewritten { module, text } in modules {
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
