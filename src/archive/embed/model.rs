//! The model of this machine, read when it is first asked for.

use std::path::{Path, PathBuf};

use super::install::{self, FILES, MODEL};
use super::{EmbedError, Embedder, MiniLm};
use ctxbridge_common::files::{self, Stamp};

/// An embedder that may be absent or damaged: who searches does without it then, and says why. One that is installed meanwhile is taken up.
pub struct Model {
    id: &'static str,
    /// Where it is installed, and on how many threads it runs; none where it was given.
    source: Option<(PathBuf, usize)>,
    state: State,
}

enum State {
    Unread,
    Read(Box<dyn Embedder>),
    /// Why, and what the files were like then.
    Unusable(EmbedError, Vec<Stamp>),
}

impl Model {
    /// The one that `ctxbridge model install` puts into a data folder.
    pub fn installed(data: &Path) -> Self {
        Self { id: MODEL, source: Some((install::folder_in(data), 1)), state: State::Unread }
    }

    /// Has it run on so many threads, unless it is in use already; else on one, which for one text is as fast.
    pub fn use_threads(&mut self, count: usize) {
        if let Some((_, threads)) = &mut self.source {
            *threads = count;
        }
    }

    /// Its name, as vectors have it.
    pub fn id(&self) -> &'static str {
        self.id
    }

    /// The embedder.
    ///
    /// # Errors
    /// When it is not installed, or is damaged.
    pub fn get(&mut self) -> Result<&mut dyn Embedder, &EmbedError> {
        if let Some((folder, threads)) = &self.source {
            let is_due = match &self.state {
                State::Unread => true,
                State::Read(_) => false,
                State::Unusable(_, before) => *before != stamp(folder),
            };
            if is_due {
                let before = stamp(folder);
                self.state = match MiniLm::with_threads(folder, *threads) {
                    Ok(model) => State::Read(Box::new(model)),
                    Err(error) => State::Unusable(error, before),
                };
            }
        }
        match &mut self.state {
            State::Read(embedder) => Ok(&mut **embedder),
            State::Unusable(error, _) => Err(error),
            State::Unread => unreachable!("it was read above, or given"),
        }
    }

    /// After it has failed: read again when it is next asked for.
    pub fn set_aside(&mut self) {
        if self.source.is_some() {
            self.state = State::Unread;
        }
    }

    /// Whether there seems to be one; nothing of it is read.
    pub fn is_there(&self) -> bool {
        self.source.as_ref().is_none_or(|(folder, _)| folder.exists())
    }
}

impl From<Box<dyn Embedder>> for Model {
    fn from(embedder: Box<dyn Embedder>) -> Self {
        Self { id: embedder.id(), source: None, state: State::Read(embedder) }
    }
}

fn stamp(folder: &Path) -> Vec<Stamp> {
    FILES.iter().map(|file| files::stamp(&folder.join(file.name))).collect()
}
