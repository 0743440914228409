/*!
Healing: damaged pieces of transcripts and damaged lines of the journal become what they were.

A piece comes from its own bytes, where it is known which bits were flipped; from the client's file; or from another generation that
has the same piece. Only bytes that are known by their hash are written, each to its place. So pieces need no lock: whoever reads
or writes the same place meanwhile has the same bytes.
*/

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use super::folder::transcript_file;
use super::journal::ChangeJournal;
use super::pieces::PieceState;
use super::sums::PieceKey;
use super::{FoundTranscript, JsonlStore};
use crate::recovery;
use crate::store::sqlite::bytes_of_file;
use crate::store::{EVERYTHING, StoreError};
use ctxbridge_common::{digest, files};

impl JsonlStore {
    /// Notes repairs of the journal in a data folder from now on.
    #[must_use]
    pub fn noting_repairs(mut self, data: &Path) -> Self {
        self.data = Some(data.to_owned());
        self
    }

    /// Archives what the user marked as private, or not.
    pub fn keeping_private(self, keeps_private: bool) -> Self {
        Self { keeps_private, ..self }
    }

    /// Turns flipped bits of the journal back, and puts damaged pieces of all transcripts back. Returns the number of pieces.
    ///
    /// # Errors
    /// If the folder cannot be read or written.
    pub fn heal(&mut self) -> Result<u64, StoreError> {
        self.heal_journal()?;
        let mut healed = 0;
        for found in self.replayed.memory.all_transcripts()? {
            for generation in (0..=found.3).rev() {
                healed += self.heal_generation(&found, generation, Path::new(&found.1))?;
            }
        }
        Ok(healed)
    }

    /// Puts damaged pieces of one transcript's newest generation back.
    pub(super) fn heal_transcript(&mut self, transcript: &str, file: &Path) -> Result<u64, StoreError> {
        self.refresh()?;
        let found = self.replayed.memory.all_transcripts()?.into_iter().find(|(_, path, ..)| path == transcript);
        found.map_or(Ok(0), |found| self.heal_generation(&found, found.3, file))
    }

    /// Turns flipped bits of the journal back that were found, and notes it. The caller holds the lock.
    pub(super) fn turn_back(&mut self) {
        let lines = self.journal.turn_back();
        self.note_corrected(lines);
    }

    fn note_corrected(&self, lines: u64) {
        if let Some(data) = &self.data {
            recovery::note_corrected_lines(data, lines);
        }
    }

    /// Turns flipped bits back, also those before a checkpoint, which nobody has read. Other damage is left to compaction.
    fn heal_journal(&mut self) -> Result<(), StoreError> {
        let _alone = self.lock_and_refresh()?;
        if let Some(mut journal) = ChangeJournal::open(&self.folder, true)? {
            journal.read(&mut |_, _| Ok(())).ok();
            let lines = journal.turn_back();
            self.note_corrected(lines);
        }
        Ok(())
    }

    fn heal_generation(&mut self, found: &FoundTranscript, generation: u32, file: &Path) -> Result<u64, StoreError> {
        let (key, path, session, _) = found;
        let name = transcript_file(session, path, generation);
        let mut healed = 0;
        for (start, bytes, sha256) in self.replayed.memory.segments_of(*key, generation, EVERYTHING)? {
            self.raw.forget();
            let piece = (start, bytes, &sha256);
            let read = self.raw.piece(&self.folder, &name, piece);
            let bytes = match &read.state {
                PieceState::Sound => continue,
                PieceState::Corrected(_) => read.whole().ok().map(<[u8]>::to_vec),
                PieceState::Damaged { .. } => {
                    match bytes_of_file(file, start, bytes).filter(|bytes| digest::sha256(bytes) == sha256) {
                        Some(bytes) => Some(bytes),
                        None => self.piece_of_another_generation(found, generation, piece)?,
                    }
                }
            };
            if let Some(bytes) = bytes {
                let mut copy = self.folder.open(&name, files::private().create(true).truncate(false))?;
                let mut write = || {
                    copy.seek(SeekFrom::Start(start))?;
                    copy.write_all(&bytes)
                };
                write().map_err(|cause| self.folder.explain(&name, cause))?;
                healed += 1;
            }
        }
        self.raw.forget();
        Ok(healed)
    }

    /// The bytes of a piece in another generation that begins with the same pieces.
    fn piece_of_another_generation(
        &mut self,
        (key, path, session, newest): &FoundTranscript,
        generation: u32,
        piece: PieceKey<'_>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let (start, bytes, sha256) = piece;
        for other in (0..=*newest).filter(|other| *other != generation) {
            let there = self.replayed.memory.segments_of(*key, other, (start, start + u64::from(bytes)))?;
            if there.contains(&(start, bytes, *sha256))
                && let Ok(bytes) = self.raw.piece(&self.folder, &transcript_file(session, path, other), piece).whole()
            {
                return Ok(Some(bytes.to_vec()));
            }
        }
        Ok(None)
    }
}
