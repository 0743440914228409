/*!
What a hook could not write into the archive, kept for the next one that can: `spool.jsonl` in the data folder, one JSON object a line.

A transcript is named, not copied: its bytes are where the client has them. Whoever takes the file gives it another name first, so that of several
one does, and puts back what still cannot be written.
*/

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use ctxbridge_archive::reader::ReadError;
use ctxbridge_archive::store::{Compaction, Store, StoreError, Transcript};
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Bytes after which nothing is added: by then, nobody has been able to write for very long.
const LARGEST: u64 = 8 << 20;

/// After so long, whoever took it is gone.
const FORSAKEN: Duration = Duration::from_secs(10 * 60);

/// Something that is to be archived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "owed", rename_all = "snake_case")]
pub enum Owed {
    /// What is new in a transcript.
    Transcript {
        /// Where it lies.
        path: PathBuf,
    },
    /// A compaction that was announced.
    Compaction {
        /// The session.
        session: String,
        /// When, in milliseconds since 1970.
        at_ms: i64,
        /// `auto` or `manual`.
        cause: Option<String>,
        /// Size of the context, in tokens.
        context_tokens: Option<u64>,
        /// Whether it was blocked.
        is_blocked: bool,
    },
    /// The summary that the client made.
    Summary {
        /// The session.
        session: String,
        /// What it says.
        text: String,
        /// When.
        at_ms: i64,
    },
    /// That a session ended.
    End {
        /// The session.
        session: String,
        /// Why.
        reason: String,
        /// When.
        at_ms: i64,
    },
}

impl Owed {
    /// Writes it into the archive.
    ///
    /// # Errors
    /// When that cannot be done now. A transcript that is gone, or cannot be read, is no longer owed.
    pub fn pay(&self, store: &mut dyn Store) -> Result<(), StoreError> {
        match self {
            Self::Transcript { path } => match super::scene::pass(store, &Transcript::at(path), path) {
                Err(ReadError::Store(error)) => Err(error),
                Ok(_) | Err(_) => Ok(()),
            },
            Self::Compaction { session, at_ms, cause, context_tokens, is_blocked } => {
                let (at_ms, context_tokens, is_blocked) = (*at_ms, *context_tokens, *is_blocked);
                store.announce(session, &Compaction { at_ms, cause: cause.clone(), context_tokens, is_blocked, turns: None })
            }
            Self::Summary { session, text, at_ms } => store.add_summary(session, text, *at_ms),
            Self::End { session, reason, at_ms } => store.end_session(session, reason, *at_ms),
        }
    }
}

/// The spool of a data folder.
#[derive(Clone, Debug)]
pub struct Spool {
    folder: PathBuf,
}

impl Spool {
    /// The name of the file.
    pub const FILE: &str = "spool.jsonl";

    /// In this data folder.
    pub fn in_dir(data: &Path) -> Self {
        Self { folder: data.to_owned() }
    }

    /// Keeps something, once.
    ///
    /// # Errors
    /// When it cannot be written, or too much is there.
    pub fn put(&self, owed: &Owed) -> io::Result<()> {
        let line = serde_json::to_string(owed)?;
        paths::create_private_dir(&self.folder)?;
        let path = self.folder.join(Self::FILE);
        if let Ok(metadata) = fs::metadata(&path) {
            if metadata.len() > LARGEST {
                return Err(io::Error::other(format!(
                    "{} is full; `ctxbridge archive import` archives what is missing",
                    path.display()
                )));
            }
            if fs::read_to_string(&path)?.lines().any(|known| known == line) {
                return Ok(());
            }
        }
        // One write, so that lines of several processes do not mix.
        files::private().create(true).append(true).open(&path)?.write_all(format!("{line}\n").as_bytes())
    }

    /// How many things wait.
    pub fn waiting(&self) -> usize {
        fs::read_to_string(self.folder.join(Self::FILE)).map_or(0, |text| text.lines().count())
    }

    /// Archives what waits; says how much of it is archived now.
    ///
    /// # Errors
    /// When something still cannot be written; it waits on.
    pub fn take(&self, store: &mut dyn Store) -> Result<usize, StoreError> {
        let mut paid = 0;
        for path in self.claim() {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let mut failed = None;
            // A line that was cut off by a crash says nothing that could be done.
            for owed in text.lines().filter_map(|line| serde_json::from_str::<Owed>(line).ok()) {
                match if failed.is_none() { owed.pay(store) } else { Ok(()) } {
                    Ok(()) if failed.is_none() => paid += 1,
                    Ok(()) => drop(self.put(&owed)),
                    Err(error) => {
                        self.put(&owed).ok();
                        failed = Some(error);
                    }
                }
            }
            fs::remove_file(&path).ok();
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(paid)
    }

    /// The spool under a name of our own, and what others took and never gave back.
    fn claim(&self) -> Vec<PathBuf> {
        let mut claimed: Vec<PathBuf> = self.forsaken().collect();
        let own = self.folder.join(format!("{}.{}", Self::FILE, std::process::id()));
        // Mostly there is none.
        claimed.extend(fs::rename(self.folder.join(Self::FILE), &own).ok().map(|()| own));
        claimed
    }

    fn forsaken(&self) -> impl Iterator<Item = PathBuf> {
        let taken = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let taken = taken.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{}.", Self::FILE)));
        let is_old = |changed: SystemTime| SystemTime::now().duration_since(changed).is_ok_and(|age| age > FORSAKEN);
        taken
            .filter(move |entry| entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(is_old))
            .map(|entry| entry.path())
    }
}
