/*!
Record of what another store has of this one: one file for each such store, one JSON object a line, the last of a key counts.

It saves a query per transcript. It is only a cache: if the other store has less, for example after a restore from a backup, the
reader notices. If this file is lost, every transcript is queried once.
*/

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::stream::OffsetMapping;
use ctxbridge_common::digest;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Name of the folder, in the data folder.
pub(super) const SYNC_FOLDER: &str = "sync";

/// Lines per key above which the file is rewritten.
const MAX_LINES_PER_KEY: usize = 4;

/// Progress of sending a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SentProgress {
    /// The generation that was sent.
    pub generation: u32,
    /// Bytes of the transcript that were sent.
    pub bytes: u64,
    /// The offset where the next run starts.
    pub again: OffsetMapping,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StateLine {
    Transcript {
        path: String,
        #[serde(flatten)]
        sent: SentProgress,
    },
    Facts {
        session: String,
        facts: String,
    },
    Vectors {
        vectors: Option<String>,
    },
}

/// Everything known about one other store.
#[derive(Debug)]
pub(super) struct SyncState {
    path: PathBuf,
    file: Option<File>,
    sent: HashMap<String, SentProgress>,
    facts: HashMap<String, String>,
    /// The embedding model for which everything there has vectors.
    vectors: Option<String>,
}

impl SyncState {
    /// Reads the state of the store with this name from a data folder. Unreadable lines count as not known.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn of(data: &Path, store: &str) -> io::Result<Self> {
        let folder = data.join(SYNC_FOLDER);
        paths::create_private_dir(&folder)?;
        // A name is anybody's; its hash is a file's.
        let name = digest::hex(&digest::sha256(store.as_bytes())[..8]);
        let path = folder.join(format!("{name}.jsonl"));
        let mut state = Self { path, file: None, sent: HashMap::new(), facts: HashMap::new(), vectors: None };
        let lines = state.load();
        if lines > 100 + MAX_LINES_PER_KEY * (state.sent.len() + state.facts.len()) {
            state.rewrite()?;
        }
        Ok(state)
    }

    /// Reads the file. Returns the number of its lines.
    fn load(&mut self) -> usize {
        let Ok(file) = files::open(&self.path) else { return 0 };
        let mut lines = 0;
        for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
            lines += 1;
            match serde_json::from_slice(&line) {
                Ok(StateLine::Transcript { path, sent }) => drop(self.sent.insert(path, sent)),
                Ok(StateLine::Facts { session, facts }) => drop(self.facts.insert(session, facts)),
                Ok(StateLine::Vectors { vectors }) => self.vectors = vectors,
                // The end of it may be torn: what it said is found out again.
                Err(_) => {}
            }
        }
        lines
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let sent = self.sent.iter().map(|(path, sent)| StateLine::Transcript { path: path.clone(), sent: *sent });
        let facts = self.facts.iter().map(|(session, facts)| StateLine::Facts { session: session.clone(), facts: facts.clone() });
        let mut text = Vec::new();
        let vectors = self.vectors.iter().map(|model| StateLine::Vectors { vectors: Some(model.clone()) });
        for line in sent.chain(facts).chain(vectors) {
            serde_json::to_writer(&mut text, &line)?;
            text.push(b'\n');
        }
        files::replace(&self.path, &text)
    }

    /// Forgets everything, so that all is checked again.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn forget(&mut self) -> io::Result<()> {
        (self.sent, self.facts, self.vectors, self.file) = (HashMap::new(), HashMap::new(), None, None);
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Forgets a session with its transcripts, so that they are checked again.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn forget_session(&mut self, session: &str, paths: &[String]) -> io::Result<()> {
        for path in paths {
            self.sent.remove(path);
        }
        (self.vectors, self.file) = (None, None);
        self.facts.remove(session);
        self.rewrite()
    }

    /// Forgets the facts of a session, so that it is processed again.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn forget_facts(&mut self, session: &str) -> io::Result<()> {
        self.forget_session(session, &[])
    }

    /// Progress of sending a transcript.
    pub fn sent(&self, path: &str) -> Option<SentProgress> {
        self.sent.get(path).copied()
    }

    /// `true` if these facts of a session were sent.
    pub fn has_facts(&self, session: &str, facts: &str) -> bool {
        self.facts.get(session).is_some_and(|known| known == facts)
    }

    /// Records the progress of a transcript.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record_sent(&mut self, path: &str, sent: SentProgress) -> io::Result<()> {
        self.sent.insert(path.to_owned(), sent);
        self.append(&StateLine::Transcript { path: path.to_owned(), sent })
    }

    /// Records the hash of a session's facts that were sent.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record_facts(&mut self, session: &str, facts: &str) -> io::Result<()> {
        self.facts.insert(session.to_owned(), facts.to_owned());
        self.append(&StateLine::Facts { session: session.to_owned(), facts: facts.to_owned() })
    }

    /// `true` if everything there has vectors of this model.
    pub fn has_vectors(&self, model: &str) -> bool {
        self.vectors.as_deref() == Some(model)
    }

    /// Records the model for which everything there has vectors; `None` if something may have none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record_vectors(&mut self, model: Option<&str>) -> io::Result<()> {
        if self.vectors.as_deref() == model {
            return Ok(());
        }
        self.vectors = model.map(str::to_owned);
        self.append(&StateLine::Vectors { vectors: self.vectors.clone() })
    }

    fn append(&mut self, line: &StateLine) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            // What a torn line at the end says is not joined with the next one.
            place => {
                let mut file = files::private().create(true).append(true).open(&self.path)?;
                file.write_all(b"\n")?;
                place.insert(file)
            }
        };
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        file.write_all(&text)
    }
}
