//! Prompts that have nothing to recall. fixtures/retrieval/README.md has the format.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unrelated {
    pub prompts: Vec<ForeignPrompt>,
}

/// One prompt.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignPrompt {
    pub id: String,
    /// The project it is typed in.
    pub project: String,
    pub prompt: String,
}

impl Unrelated {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} cannot be used; fixtures/retrieval/README.md has the format", path.display()))
    }
}
