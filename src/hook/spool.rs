/*!
Spool of writes that failed, kept for the next hook: `spool.jsonl` in the data folder, one JSON object per line.

A transcript is stored by its path, not copied: the client has its bytes. A process that takes the file renames it first, so that
only one of several gets it. It puts back the writes that still fail.
*/

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use ctxbridge_archive::reader::ReadError;
use ctxbridge_archive::side_files::SideFileEffort;
use ctxbridge_archive::store::{Compaction, Store, StoreError, Transcript};
use ctxbridge_common::files;
use ctxbridge_common::paths;

/// Maximum size of the spool, in bytes: by then, writes have failed for a very long time.
const MAX_SPOOL_BYTES: u64 = 8 << 20;

/// Age after which the process that took a spool is assumed to be dead.
const CLAIM_EXPIRES_AFTER: Duration = Duration::from_secs(10 * 60);

/// A write that is to be applied to the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "pending", rename_all = "snake_case")]
pub enum PendingWrite {
    /// The new part of a transcript, and the files beside it.
    Transcript {
        /// Its path.
        path: PathBuf,
    },
    /// A compaction that was announced.
    Compaction {
        /// The session.
        session: String,
        /// Time, in milliseconds since 1970.
        at_ms: i64,
        /// `auto` or `manual`.
        cause: Option<String>,
        /// Size of the context, in tokens.
        context_tokens: Option<u64>,
        /// `true` if it was blocked.
        is_blocked: bool,
    },
    /// The summary that the client made.
    Summary {
        /// The session.
        session: String,
        /// Its text.
        text: String,
        /// Time, in milliseconds since 1970.
        at_ms: i64,
    },
    /// The end of a session.
    End {
        /// The session.
        session: String,
        /// Reason, as given by the client.
        reason: String,
        /// Time, in milliseconds since 1970.
        at_ms: i64,
    },
}

impl PendingWrite {
    /// Applies it to the archive.
    ///
    /// # Errors
    /// If that cannot be done now. A transcript that is gone or cannot be read is dropped.
    pub fn apply(&self, store: &mut dyn Store) -> Result<(), StoreError> {
        match self {
            Self::Transcript { path } => {
                match super::context::ingest_transcript(store, &Transcript::at(path), path, SideFileEffort::Hook) {
                    Err(ReadError::Store(error)) => Err(error),
                    Ok(_) | Err(_) => Ok(()),
                }
            }
            Self::Compaction { session, at_ms, cause, context_tokens, is_blocked } => {
                let (at_ms, context_tokens, is_blocked) = (*at_ms, *context_tokens, *is_blocked);
                store.record_compaction(
                    session,
                    &Compaction { at_ms, cause: cause.clone(), context_tokens, is_blocked, turns: None },
                )
            }
            Self::Summary { session, text, at_ms } => store.add_summary(session, text, *at_ms),
            Self::End { session, reason, at_ms } => store.end_session(session, reason, *at_ms),
        }
    }
}

/// Spool of a data folder.
#[derive(Clone, Debug)]
pub struct Spool {
    folder: PathBuf,
}

impl Spool {
    /// Name of the file.
    pub const FILE: &str = "spool.jsonl";

    /// Opens the spool of a data folder.
    pub fn in_dir(data: &Path) -> Self {
        Self { folder: data.to_owned() }
    }

    /// Adds a write, unless the spool has it already.
    ///
    /// # Errors
    /// If it cannot be written, or the spool is full.
    pub fn push(&self, pending: &PendingWrite) -> io::Result<()> {
        let line = serde_json::to_string(pending)?;
        paths::create_private_dir(&self.folder)?;
        let path = self.folder.join(Self::FILE);
        if let Ok(metadata) = fs::metadata(&path) {
            if metadata.len() > MAX_SPOOL_BYTES {
                return Err(io::Error::other(format!(
                    "{} is full; `ctxbridge archive import` archives what is missing",
                    path.display()
                )));
            }
            if files::read_to_string(&path)?.lines().any(|known| known == line) {
                return Ok(());
            }
        }
        // One write, so that lines of several processes do not mix.
        files::private().create(true).append(true).open(&path)?.write_all(format!("{line}\n").as_bytes())
    }

    /// Returns the number of queued writes.
    pub fn pending_count(&self) -> usize {
        files::read_to_string(self.folder.join(Self::FILE)).map_or(0, |text| text.lines().count())
    }

    /// Applies the queued writes, and returns the number of those that succeeded.
    ///
    /// # Errors
    /// If a write still fails; it stays in the spool.
    pub fn drain_into(&self, store: &mut dyn Store) -> Result<usize, StoreError> {
        let mut paid = 0;
        for path in self.claim() {
            let Ok(text) = files::read_to_string(&path) else { continue };
            let mut failed = None;
            // A line that was cut off by a crash says nothing that could be done.
            for pending in text.lines().filter_map(|line| serde_json::from_str::<PendingWrite>(line).ok()) {
                match if failed.is_none() { pending.apply(store) } else { Ok(()) } {
                    Ok(()) if failed.is_none() => paid += 1,
                    Ok(()) => drop(self.push(&pending)),
                    Err(error) => {
                        self.push(&pending).ok();
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

    /// Drops queued writes that are not to be made.
    ///
    /// # Errors
    /// If one that stays cannot be put back.
    pub fn retain(&self, mut keeps: impl FnMut(&PendingWrite) -> bool) -> io::Result<()> {
        for path in self.claim() {
            let text = files::read_to_string(&path)?;
            let pending = text.lines().filter_map(|line| serde_json::from_str::<PendingWrite>(line).ok());
            pending.filter(|pending| keeps(pending)).try_for_each(|pending| self.push(&pending))?;
            fs::remove_file(&path)?;
        }
        Ok(())
    }

    /// Claims the spool by renaming it, and spools of dead processes.
    fn claim(&self) -> Vec<PathBuf> {
        let mut claimed: Vec<PathBuf> = self.abandoned().collect();
        let own = self.folder.join(format!("{}.{}", Self::FILE, std::process::id()));
        // Mostly there is none.
        claimed.extend(fs::rename(self.folder.join(Self::FILE), &own).ok().map(|()| own));
        claimed
    }

    fn abandoned(&self) -> impl Iterator<Item = PathBuf> {
        let taken = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let taken = taken.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{}.", Self::FILE)));
        let is_old = |changed: SystemTime| SystemTime::now().duration_since(changed).is_ok_and(|age| age > CLAIM_EXPIRES_AFTER);
        taken
            .filter(move |entry| entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(is_old))
            .map(|entry| entry.path())
    }
}
