//! The model of this machine, read when it is first asked for, or the static embedding.

use std::path::{Path, PathBuf};

use super::install::{self, MODEL, MODEL_FILES};
use super::static_embedding::{STATIC, StaticEmbedding};
use super::{EmbedError, Embedder, MiniLm};
use ctxbridge_common::files::{self, FileStamp};

/// An embedder that may be absent or damaged. Searches then do without it and say why. A model that is installed meanwhile is used.
pub struct EmbeddingModel {
    id: &'static str,
    /// Folder of the installation, and number of threads; `None` if the embedder was given.
    source: Option<(PathBuf, usize)>,
    state: LoadState,
    /// The last text, and its vector: a search that finds nothing in quotes asks for it again.
    last: Option<(String, Vec<f32>)>,
}

enum LoadState {
    Unread,
    /// Not read, or not kept: who needs it next keeps it.
    ToBeKept,
    Read(Box<dyn Embedder>),
    /// The error, and the stamps of the files at that time.
    Unusable(EmbedError, Vec<FileStamp>),
}

impl EmbeddingModel {
    /// The model that `ctxbridge model install` puts into a data folder.
    pub fn installed(data: &Path) -> Self {
        Self { id: MODEL, source: Some((install::folder_in(data), 1)), state: LoadState::Unread, last: None }
    }

    /// The static embedding, which is part of the program.
    pub fn built_in() -> Self {
        Self::from(Box::new(StaticEmbedding::built_in()) as Box<dyn Embedder>)
    }

    /// `true` if it is the static embedding.
    pub fn is_built_in(&self) -> bool {
        self.id == STATIC
    }

    /// Sets the number of threads, unless the model is loaded already. The default is one thread, which is as fast for a single
    /// text.
    pub fn use_threads(&mut self, count: usize) {
        if let Some((_, threads)) = &mut self.source {
            *threads = count;
        }
    }

    /// Name of the model, as stored with vectors.
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// Returns the embedder, and loads it if necessary.
    ///
    /// # Errors
    /// If it is not installed, or is damaged.
    pub fn get(&mut self) -> Result<&mut dyn Embedder, &EmbedError> {
        if let Some((folder, threads)) = &self.source {
            let is_due = match &self.state {
                LoadState::Unread | LoadState::ToBeKept => true,
                LoadState::Read(_) => false,
                LoadState::Unusable(_, before) => *before != stamp(folder),
            };
            if is_due {
                let before = stamp(folder);
                self.state = match MiniLm::with_threads(folder, *threads) {
                    Ok(model) => LoadState::Read(Box::new(model)),
                    Err(error) => LoadState::Unusable(error, before),
                };
            }
        }
        match &mut self.state {
            LoadState::Read(embedder) => Ok(&mut **embedder),
            LoadState::Unusable(error, _) => Err(error),
            LoadState::Unread | LoadState::ToBeKept => unreachable!("it was read above, or given"),
        }
    }

    /// Returns the vector of a text. The first time, the model is read for it alone, which is what a command needs; who asks for another text
    /// keeps it.
    ///
    /// # Errors
    /// As [`Self::get`], and if the model turns out to be damaged; it is then loaded again when it is next requested.
    pub fn embed_text(&mut self, text: &str) -> Result<Vec<f32>, String> {
        if let Some((_, vector)) = self.last.as_ref().filter(|(last, _)| last == text) {
            return Ok(vector.clone());
        }
        let made = match (&self.state, &self.source) {
            (LoadState::Unread, Some((folder, _))) => MiniLm::embed_once(folder, text),
            _ => self.get().map_err(ToString::to_string)?.embed(&[text]).map(|mut vectors| vectors.remove(0)),
        };
        if self.source.is_some() && (made.is_err() || matches!(self.state, LoadState::Unread)) {
            // After an error, too: somebody may be replacing its files.
            self.state = LoadState::ToBeKept;
        }
        let vector = made.map_err(|error| error.to_string())?;
        self.last = Some((text.to_owned(), vector.clone()));
        Ok(vector)
    }

    /// `true` if the model's folder exists; nothing of it is read.
    pub fn is_present(&self) -> bool {
        self.source.as_ref().is_none_or(|(folder, _)| folder.exists())
    }
}

impl From<Box<dyn Embedder>> for EmbeddingModel {
    fn from(embedder: Box<dyn Embedder>) -> Self {
        Self { id: embedder.id(), source: None, state: LoadState::Read(embedder), last: None }
    }
}

fn stamp(folder: &Path) -> Vec<FileStamp> {
    MODEL_FILES.iter().map(|file| files::stamp(&folder.join(file.name))).collect()
}
