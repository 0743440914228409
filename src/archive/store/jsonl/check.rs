//! Integrity check of the whole folder.

use std::fmt;
use std::path::PathBuf;

use super::folder::transcript_file;
use super::journal::ChangeJournal;
use super::replay::ReplayedArchive;
use super::{JsonlStore, entries};
use crate::store::{EVERYTHING, StoreError};

/// A problem that the check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Bytes of a transcript differ, or are missing.
    Transcript {
        /// The file.
        file: PathBuf,
        /// Offset of the piece.
        start: u64,
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
            Self::Transcript { file, start, cause } => {
                write!(f, "bytes {start} and following of {} are damaged: {cause}", file.display())
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
                        findings.push(Finding::Transcript { file: self.folder.file(&name), start, cause });
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

    /// Reads the journal from its first line, as the next process to open it would.
    fn read_journal_again(&mut self) -> Result<(), StoreError> {
        let Some(mut journal) = ChangeJournal::open(&self.folder, false)? else {
            return Err(self.journal.damaged(1, "there is no begin any more"));
        };
        ReplayedArchive::new(&self.folder, &journal.head)?.follow(&mut journal)
    }
}
