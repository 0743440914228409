/*!
Copies a session from one archive to another, generation by generation, through the ordinary reader.

What the other archive has is left out ([`generation_match`]), so a copy can be interrupted anywhere and made again.
*/

use std::io;
use std::path::Path;

use super::annotations::{PinPolicy, SessionAnnotations};
use super::generation_match;
use super::ingest::{AfterPass, ingest, ingest_from};
use super::reader::{Comparison, ReadError};
use super::spooled::SpooledBytes;
use super::store::{Session, Store, StoreError, StoredTranscript, Transcript};

/// Content that was new in the other archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopyReport {
    /// Bytes of transcripts.
    pub bytes: u64,
    /// Turns that are new there or have grown.
    pub turns: u64,
}

/// A copy of sessions.
pub(crate) struct SessionCopy<'c> {
    pub from: &'c mut dyn Store,
    pub to: &'c mut dyn Store,
    /// Called after each transcript.
    pub after: AfterPass<'c>,
    pub now_ms: i64,
    /// Content that was copied so far.
    pub report: CopyReport,
}

impl SessionCopy<'_> {
    /// Copies a session with what hooks and the user noted of it.
    pub fn session(&mut self, session: &Session, facts: &SessionAnnotations) -> Result<(), StoreError> {
        facts.record_compactions(self.to, &session.session)?;
        let mut transcripts = self.from.transcripts(session.key)?;
        // A turn's words include those of the side files that it points to.
        transcripts.sort_by_key(|transcript| transcript.part.is_transcript());
        for transcript in transcripts {
            self.transcript(session, &transcript)?;
        }
        if self.to.session(&session.session)?.is_none()
            && let Some((reason, at_ms)) = session.end_reason.as_ref().zip(session.last_ms)
        {
            self.to.end_session(&session.session, reason, at_ms)?;
        }
        facts.apply_to(self.to, &session.session, self.now_ms, PinPolicy::Merge)
    }

    /// Copies all generations that the other archive does not have, in order. Its last generation stays last if it is the newer one.
    fn transcript(&mut self, session: &Session, transcript: &StoredTranscript) -> Result<(), StoreError> {
        let named = Transcript { path: transcript.path.clone(), session: session.session.clone(), part: transcript.part.clone() };
        let known = known_transcript(self.to, &named)?;
        let mut was_rewritten = false;
        let mut is_behind = false;
        for generation in 0..=transcript.generation {
            let bytes = SpooledBytes::of_generation(self.from, transcript.key, generation)?;
            let had_in = match &known {
                Some(known) => {
                    let (mut file, length) = bytes.file();
                    let generations = (0..=known.generation).rev();
                    generation_match::find_matching_generation(self.to, known.key, generations, (&mut *file, length))?
                }
                None => None,
            };
            is_behind = had_in.is_some() && had_in == known.as_ref().map(|known| known.generation);
            if had_in.is_none() {
                was_rewritten |= self.generation(&named, &bytes)?;
            }
        }
        let path = Path::new(&transcript.path);
        if was_rewritten && path.is_file() {
            // What else may be wrong with the file, the next hook sees.
            match ingest(self.to, &named, path) {
                Ok(pass) => (self.after)(self.to, &named, &pass)?,
                Err(ReadError::Store(error)) => return Err(error),
                Err(_) => {}
            }
        } else if was_rewritten
            && is_behind
            && let Some(known) = known
        {
            let bytes = SpooledBytes::of_generation(self.to, known.key, known.generation)?;
            self.generation(&named, &bytes)?;
        }
        Ok(())
    }

    /// Archives one generation of a transcript; returns `true` if it differs from the one that was there.
    fn generation(&mut self, named: &Transcript, bytes: &SpooledBytes) -> Result<bool, StoreError> {
        let passed = ingest_from(self.to, named, Comparison::Whole, &mut || bytes.source());
        let pass = passed.map_err(|error| match error {
            ReadError::Store(error) => error,
            other => StoreError::Sink(io::Error::other(other.to_string())),
        })?;
        (self.after)(self.to, named, &pass)?;
        self.report.bytes += pass.bytes;
        self.report.turns += pass.turns;
        Ok(pass.was_rewritten)
    }
}

fn known_transcript(to: &mut dyn Store, named: &Transcript) -> Result<Option<StoredTranscript>, StoreError> {
    let Some(session) = to.session(&named.session)? else { return Ok(None) };
    Ok(to.transcripts(session.key)?.into_iter().find(|transcript| transcript.path == named.path))
}
