/*!
What another store has of this one: one file for each such store, one JSON object a line, the last of a key counts.

It saves asking for every transcript. It is no truth: where the other store has less, because it was restored from a backup, say, the
reader finds that out; where this file is lost, every transcript is asked for once.
*/

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::stream::Mark;
use ctxbridge_common::digest;
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// The folder in the data folder.
pub(super) const FOLDER: &str = "sync";

/// Lines per key from which on the file is written anew.
const WORTH_REWRITING: usize = 4;

/// How much of a transcript was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sent {
    /// Of this generation.
    pub generation: u32,
    /// Bytes of the transcript.
    pub bytes: u64,
    /// Where to begin the next time.
    pub again: Mark,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Transcript {
        path: String,
        #[serde(flatten)]
        sent: Sent,
    },
    Facts {
        session: String,
        facts: String,
    },
    Vectors {
        vectors: Option<String>,
    },
}

/// What is known of one other store.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    file: Option<File>,
    sent: HashMap<String, Sent>,
    facts: HashMap<String, String>,
    /// The model of which everything there has vectors.
    vectors: Option<String>,
}

impl State {
    /// Of the store of this name, in a data folder. What cannot be read in it counts as not known.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn of(data: &Path, store: &str) -> io::Result<Self> {
        let folder = data.join(FOLDER);
        paths::create_private_dir(&folder)?;
        // A name is anybody's; its hash is a file's.
        let name = digest::hex(&digest::sha256(store.as_bytes())[..8]);
        let path = folder.join(format!("{name}.jsonl"));
        let mut state = Self { path, file: None, sent: HashMap::new(), facts: HashMap::new(), vectors: None };
        let lines = state.load();
        if lines > 100 + WORTH_REWRITING * (state.sent.len() + state.facts.len()) {
            state.rewrite()?;
        }
        Ok(state)
    }

    /// How many lines there were.
    fn load(&mut self) -> usize {
        let Ok(file) = File::open(&self.path) else { return 0 };
        let mut lines = 0;
        for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
            lines += 1;
            match serde_json::from_slice(&line) {
                Ok(Line::Transcript { path, sent }) => drop(self.sent.insert(path, sent)),
                Ok(Line::Facts { session, facts }) => drop(self.facts.insert(session, facts)),
                Ok(Line::Vectors { vectors }) => self.vectors = vectors,
                // The end of it may be torn: what it said is found out again.
                Err(_) => {}
            }
        }
        lines
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let sent = self.sent.iter().map(|(path, sent)| Line::Transcript { path: path.clone(), sent: *sent });
        let facts = self.facts.iter().map(|(session, facts)| Line::Facts { session: session.clone(), facts: facts.clone() });
        let mut text = Vec::new();
        let vectors = self.vectors.iter().map(|model| Line::Vectors { vectors: Some(model.clone()) });
        for line in sent.chain(facts).chain(vectors) {
            serde_json::to_writer(&mut text, &line)?;
            text.push(b'\n');
        }
        files::replace(&self.path, &text)
    }

    /// Forgets everything: all is asked for again.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn forget(&mut self) -> io::Result<()> {
        (self.sent, self.facts, self.vectors, self.file) = (HashMap::new(), HashMap::new(), None, None);
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Forgets a session, with its transcripts: they are asked for again.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn forget_session(&mut self, session: &str, paths: &[String]) -> io::Result<()> {
        for path in paths {
            self.sent.remove(path);
        }
        (self.vectors, self.file) = (None, None);
        self.facts.remove(session);
        self.rewrite()
    }

    /// Forgets what was found out of a session: it is looked through again.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn forget_facts(&mut self, session: &str) -> io::Result<()> {
        self.forget_session(session, &[])
    }

    /// How much of a transcript was sent.
    pub fn sent(&self, path: &str) -> Option<Sent> {
        self.sent.get(path).copied()
    }

    /// Whether these facts of a session were sent.
    pub fn has_facts(&self, session: &str, facts: &str) -> bool {
        self.facts.get(session).is_some_and(|known| known == facts)
    }

    /// Notes down what was sent of a transcript.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note_sent(&mut self, path: &str, sent: Sent) -> io::Result<()> {
        self.sent.insert(path.to_owned(), sent);
        self.append(&Line::Transcript { path: path.to_owned(), sent })
    }

    /// Notes down which facts of a session were sent.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note_facts(&mut self, session: &str, facts: &str) -> io::Result<()> {
        self.facts.insert(session.to_owned(), facts.to_owned());
        self.append(&Line::Facts { session: session.to_owned(), facts: facts.to_owned() })
    }

    /// Whether everything there has vectors of this model.
    pub fn has_vectors(&self, model: &str) -> bool {
        self.vectors.as_deref() == Some(model)
    }

    /// Notes down of which model everything there has vectors, or that something may have none.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note_vectors(&mut self, model: Option<&str>) -> io::Result<()> {
        if self.vectors.as_deref() == model {
            return Ok(());
        }
        self.vectors = model.map(str::to_owned);
        self.append(&Line::Vectors { vectors: self.vectors.clone() })
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
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
