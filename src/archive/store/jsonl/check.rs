//! Integrity check of the whole folder.

use std::fmt;
use std::path::PathBuf;

use indexmap::IndexSet;

use super::folder::{JOURNAL_FILE, transcript_file};
use super::journal::ChangeJournal;
use super::pieces::PieceState;
use super::replay::ReplayedArchive;
use super::{FoundTranscript, JsonlStore, entries};
use crate::handle::turn_handle;
use crate::store::sqlite::SegmentUse;
use crate::store::{EVERYTHING, StoreError};

/// A problem that the check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalFinding {
    /// Bytes of a transcript differ, or are missing.
    Transcript {
        /// The file.
        file: PathBuf,
        /// Offset of the first byte that cannot be read.
        start: u64,
        /// Ids of the turns that need bytes that cannot be read.
        turns: Vec<[u8; 16]>,
        /// The problem.
        cause: String,
    },
    /// Bits are flipped, and it is known which: they are read as they were.
    FlippedBits {
        /// The file.
        file: PathBuf,
        /// Offset of the piece with them, or of the byte.
        start: u64,
        /// Their number.
        bits: usize,
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

impl fmt::Display for JournalFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transcript { file, start, turns, cause } => {
                let turns: Vec<String> = turns.iter().map(turn_handle).collect();
                let needed = if turns.is_empty() { String::new() } else { format!("; needed by {}", turns.join(", ")) };
                write!(f, "bytes {start} and following of {} are damaged: {cause}{needed}", file.display())
            }
            Self::FlippedBits { file, start, bits } => write!(
                f,
                "{bits} {} flipped at byte {start} or behind it in {}; nothing is lost, and `ctxbridge archive optimize` turns back what was flipped",
                if *bits == 1 { "bit is" } else { "bits are" },
                file.display()
            ),
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
    pub fn integrity_check(&mut self) -> Result<Vec<JournalFinding>, StoreError> {
        self.refresh()?;
        let mut findings = Vec::new();
        match self.read_journal_again() {
            Err(StoreError::Damaged { path, cause }) => findings.push(JournalFinding::Journal { folder: path, cause }),
            read => findings.extend(read?),
        }
        for session in self.replayed.memory.all_transcripts()? {
            for generation in 0..=session.3 {
                self.check_generation(&session, generation, &mut findings)?;
            }
        }
        self.raw.forget();
        let wanted = self.replayed.memory.contents()?;
        let survey = entries::survey(&self.folder, self.replayed.entries, &wanted, &mut |_| Ok(()))?;
        if !survey.bad.is_empty() || !survey.missing.is_empty() {
            let file = self.folder.file(entries::FILE);
            findings.push(JournalFinding::Entries { file, bad: survey.bad, missing: survey.missing.len() });
        }
        Ok(findings)
    }

    /// Checks the pieces of a transcript's generation.
    fn check_generation(
        &mut self,
        (key, path, session, newest): &FoundTranscript,
        generation: u32,
        findings: &mut Vec<JournalFinding>,
    ) -> Result<(), StoreError> {
        let name = transcript_file(session, path, generation);
        let file = self.folder.file(&name);
        for (start, bytes, sha256) in self.replayed.memory.segments_of(*key, generation, EVERYTHING)? {
            self.raw.forget();
            match self.raw.piece(&self.folder, &name, (start, bytes, &sha256)).state.clone() {
                PieceState::Sound => {}
                PieceState::Corrected(bits) => findings.push(JournalFinding::FlippedBits { file: file.clone(), start, bits }),
                PieceState::Damaged { cause, lost } => {
                    let mut turns = IndexSet::new();
                    for lost in &lost {
                        let range = SegmentUse {
                            transcript: *key,
                            path: path.clone(),
                            session: session.clone(),
                            generation,
                            is_current: generation == *newest,
                            start: lost.start,
                        };
                        turns.extend(self.replayed.memory.turns_in(&range, lost.end - lost.start)?);
                    }
                    let start = lost.first().map_or(start, |lost| lost.start);
                    findings.push(JournalFinding::Transcript {
                        file: file.clone(),
                        start,
                        turns: turns.into_iter().collect(),
                        cause,
                    });
                }
            }
        }
        Ok(())
    }

    /// Reads the journal from its first line, as the next process to open it would.
    fn read_journal_again(&mut self) -> Result<Vec<JournalFinding>, StoreError> {
        let Some(mut journal) = ChangeJournal::open(&self.folder, false)? else {
            return Err(self.journal.damaged(1, "there is no begin any more"));
        };
        ReplayedArchive::new(&self.folder, &journal.head)?.follow(&mut journal)?;
        let file = self.folder.file(JOURNAL_FILE);
        let flipped = journal.flipped().iter();
        Ok(flipped.map(|byte| JournalFinding::FlippedBits { file: file.clone(), start: byte.at, bits: 1 }).collect())
    }
}
