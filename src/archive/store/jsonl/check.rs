//! Integrity check of the whole folder.

use std::fmt;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::folder::transcript_file;
use super::journal::ChangeJournal;
use super::replay::ReplayedArchive;
use super::{JsonlStore, entries};
use crate::handle::turn_handle;
use crate::store::sqlite::{SegmentUse, bytes_of_file};
use crate::store::{EVERYTHING, StoreError};
use ctxbridge_common::{digest, files};

/// A problem that the check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Bytes of a transcript differ, or are missing.
    Transcript {
        /// The file.
        file: PathBuf,
        /// Offset of the piece.
        start: u64,
        /// Ids of the turns that need the piece.
        turns: Vec<[u8; 16]>,
        /// The problem.
        cause: String,
    },
    /// The journal is damaged, but a checkpoint has its result.
    Journal {
        /// The archive.
        folder: PathBuf,
        /// The problem.
        cause: String,
    },
    /// Lines of the entries cannot be read, or are missing.
    Entries {
        /// The file.
        file: PathBuf,
        /// The number of each line that cannot be read, from 1.
        bad: Vec<u64>,
        /// Contents that have no line.
        missing: usize,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transcript { file, start, turns, cause } => {
                let turns: Vec<String> = turns.iter().map(turn_handle).collect();
                let needed = if turns.is_empty() { String::new() } else { format!("; needed by {}", turns.join(", ")) };
                write!(f, "bytes {start} and following of {} are damaged: {cause}{needed}", file.display())
            }
            Self::Journal { folder, cause } => write!(
                f,
                "{} is damaged ({cause}); what it came to is known from journal.image, and `ctxbridge archive optimize` makes it anew from that",
                folder.display()
            ),
            Self::Entries { file, bad, missing } => write!(
                f,
                "{} has {} lines that cannot be read, and {missing} are missing; `ctxbridge archive optimize` makes it anew",
                file.display(),
                bad.len()
            ),
        }
    }
}

impl JsonlStore {
    /// Checks the journal, every transcript file, and the entries.
    ///
    /// # Errors
    /// If something cannot be read at all.
    pub fn integrity_check(&mut self) -> Result<Vec<Finding>, StoreError> {
        self.refresh()?;
        let mut findings = Vec::new();
        match self.read_journal_again() {
            Err(StoreError::Damaged { path, cause }) => findings.push(Finding::Journal { folder: path, cause }),
            read => read?,
        }
        for session in self.replayed.memory.all_transcripts()? {
            let (key, path, session, newest) = session;
            for generation in 0..=newest {
                let name = transcript_file(&session, &path, generation);
                for (start, bytes, sha256) in self.replayed.memory.segments_of(key, generation, EVERYTHING)? {
                    self.raw.forget();
                    if let Err(cause) = self.raw.piece(&self.folder, &name, (start, bytes, &sha256)) {
                        let range = SegmentUse {
                            transcript: key,
                            path: path.clone(),
                            session: session.clone(),
                            generation,
                            is_current: generation == newest,
                            start,
                        };
                        let turns = self.replayed.memory.turns_in(&range, bytes.into())?;
                        findings.push(Finding::Transcript { file: self.folder.file(&name), start, turns, cause });
                    }
                }
            }
        }
        self.raw.forget();
        let wanted = self.replayed.memory.contents()?;
        let survey = entries::survey(&self.folder, self.replayed.entries, &wanted, &mut |_| Ok(()))?;
        if !survey.bad.is_empty() || !survey.missing.is_empty() {
            let file = self.folder.file(entries::FILE);
            findings.push(Finding::Entries { file, bad: survey.bad, missing: survey.missing.len() });
        }
        Ok(findings)
    }

    /// Puts damaged pieces of all transcripts back from the client's files that are still there. Returns their number.
    ///
    /// # Errors
    /// If the folder cannot be read or written.
    pub fn heal(&mut self) -> Result<u64, StoreError> {
        let transcripts = self.replayed.memory.all_transcripts()?;
        transcripts.into_iter().try_fold(0, |healed, found| Ok(healed + self.heal_pieces(&found, Path::new(&found.1))?))
    }

    /// Puts damaged pieces of one transcript back.
    pub(super) fn heal_transcript(&mut self, transcript: &str, file: &Path) -> Result<u64, StoreError> {
        self.refresh()?;
        let found = self.replayed.memory.all_transcripts()?.into_iter().find(|(_, path, ..)| path == transcript);
        found.map_or(Ok(0), |found| self.heal_pieces(&found, file))
    }

    /// Only bytes that are known by their hash are written, each to its place. So no lock is needed: whoever reads or writes the
    /// same place meanwhile has the same bytes.
    fn heal_pieces(&mut self, found: &(i64, String, String, u32), file: &Path) -> Result<u64, StoreError> {
        let (key, path, session, newest) = found;
        let name = transcript_file(session, path, *newest);
        let mut healed = 0;
        for (start, bytes, sha256) in self.replayed.memory.segments_of(*key, *newest, EVERYTHING)? {
            self.raw.forget();
            if self.raw.piece(&self.folder, &name, (start, bytes, &sha256)).is_ok() {
                continue;
            }
            let Some(piece) = bytes_of_file(file, start, bytes).filter(|piece| digest::sha256(piece) == sha256) else { continue };
            let mut copy = self.folder.open(&name, files::private().create(true).truncate(false))?;
            let mut write = || {
                copy.seek(SeekFrom::Start(start))?;
                copy.write_all(&piece)
            };
            write().map_err(|cause| self.folder.explain(&name, cause))?;
            healed += 1;
        }
        self.raw.forget();
        Ok(healed)
    }

    /// Reads the journal from its first line, as the next process to open it would.
    fn read_journal_again(&mut self) -> Result<(), StoreError> {
        let Some(mut journal) = ChangeJournal::open(&self.folder, false)? else {
            return Err(self.journal.damaged(1, "there is no begin any more"));
        };
        ReplayedArchive::new(&self.folder, &journal.head)?.follow(&mut journal)
    }
}
