//! Memory of what a user was told once, without any text of it.

use std::path::{Path, PathBuf};

use ctxbridge_common::{digest, files};

/// Name of the file in the data folder: a digest a line.
const FILE: &str = "told-once";
/// Maximum bytes of the file: thousands of things.
const MAX_TOLD_BYTES: u64 = 1 << 20;

/// The digests of what was told.
#[derive(Debug)]
pub(super) struct Told(PathBuf);

impl Told {
    /// Opens the memory in a data folder.
    pub fn in_dir(data: &Path) -> Self {
        Self(data.join(FILE))
    }

    /// `true` if this was not told before. Where that cannot be remembered, it counts as told: silence is better than a refrain.
    pub fn is_first(&self, what: &str) -> bool {
        let digest = digest::of_bytes(what.as_bytes());
        let known = files::read_to_string(&self.0).unwrap_or_default();
        !known.lines().any(|line| line == digest) && files::append(&self.0, &format!("{digest}\n"), MAX_TOLD_BYTES).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_told_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let told = Told::in_dir(folder.path());
        assert_eq!(["a", "b", "a"].map(|what| told.is_first(what)), [true, true, false]);
    }
}
