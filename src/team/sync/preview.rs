//! A look at what a run would redact, before anything is sent. Nothing is written, and no server is asked.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use ctxbridge_archive::handle::turn_handle;
use ctxbridge_archive::store::{EVERYTHING, Session, Store, StoredTranscript, TurnOffset};
use ctxbridge_redact::{Finding, RedactionCounts, Redactor};

use super::state::SyncState;
use super::{SyncError, SyncExclusions};

/// A look at what would be sent.
pub struct SyncPreview<'s> {
    /// The data folder, with the record of what was sent.
    pub data: &'s Path,
    /// Identity of the receiving store, to leave out what it has. `None` looks at everything.
    pub name: Option<&'s str>,
    /// Finds the secrets.
    pub redactor: &'s Redactor,
}

/// A secret in what would be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewedSecret {
    /// The session.
    pub session: String,
    /// The handle of the turn, or the path of the file beside the transcript.
    pub place: Option<String>,
    /// The rule, and the redacted text around it.
    pub finding: Finding,
}

/// Result of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncPreviewReport {
    /// Sessions with something to send.
    pub sessions: usize,
    /// Sessions that are excluded from sending.
    pub withheld: usize,
    /// Files that would not be sent, since they are no text.
    pub not_text: usize,
    /// Number of secrets, by rule.
    pub secrets: RedactionCounts,
}

impl SyncPreview<'_> {
    /// Looks through what is not sent yet. `sink` gets each secret.
    ///
    /// # Errors
    /// If the archive, or the record of what was sent, cannot be read.
    pub fn run(&self, from: &mut dyn Store, sink: &mut dyn FnMut(PreviewedSecret)) -> Result<SyncPreviewReport, SyncError> {
        let failed = |cause| SyncError::State { folder: self.data.to_owned(), cause };
        let state = self.name.map(|name| SyncState::of(self.data, name)).transpose().map_err(failed)?;
        let withheld = SyncExclusions::of(self.data).map_err(failed)?;
        let mut report = SyncPreviewReport::default();
        for session in from.sessions("", None, usize::MAX)? {
            if withheld.has(&session.session) {
                report.withheld += 1;
                continue;
            }
            let mut is_new = false;
            for transcript in from.transcripts(session.key)? {
                let sent = state.as_ref().and_then(|state| state.sent(&transcript.path));
                let sent = sent.filter(|sent| sent.generation == transcript.generation);
                if sent.is_some_and(|sent| sent.bytes == transcript.bytes) {
                    continue;
                }
                is_new = true;
                let begin = sent.map_or((0, 0), |sent| (sent.again.local, sent.bytes));
                self.transcript(from, (&session, &transcript), begin, &mut report, sink)?;
            }
            report.sessions += usize::from(is_new);
        }
        Ok(report)
    }

    /// The secrets of a transcript or side file, which is read from an offset on, and looked at behind another.
    fn transcript(
        &self,
        from: &mut dyn Store,
        (session, transcript): (&Session, &StoredTranscript),
        (start, known): (u64, u64),
        report: &mut SyncPreviewReport,
        sink: &mut dyn FnMut(PreviewedSecret),
    ) -> Result<(), SyncError> {
        let mut found = |place: Option<String>, line: &[u8]| {
            for finding in self.redactor.findings(line) {
                *report.secrets.entry(finding.rule).or_default() += 1;
                sink(PreviewedSecret { session: session.session.clone(), place: place.clone(), finding });
            }
        };
        found(None, transcript.path.as_bytes());
        let (key, generation) = (transcript.key, transcript.generation);
        if !transcript.part.is_transcript() {
            let mut bytes = Vec::new();
            from.read_bytes(key, generation, EVERYTHING, &mut bytes)?;
            let is_text = std::str::from_utf8(&bytes).is_ok_and(|text| !text.contains('\0'));
            if is_text {
                found(transcript.part.to_column(), &bytes);
            }
            report.not_text += usize::from(!is_text);
            return Ok(());
        }
        let is_of_agent = transcript.part.to_column().is_some();
        let turns = from.turn_offsets(session.key, is_of_agent)?.into_iter().filter(|turn| turn.transcript == key);
        let turns: BTreeMap<u64, String> = turns.map(|TurnOffset { at, id, .. }| (at, turn_handle(&id))).collect();
        let mut lines = LineSplitter {
            at: start,
            rest: Vec::new(),
            sink: &mut |at, line: &[u8]| {
                if at + line.len() as u64 > known {
                    found(turns.range(..=at).next_back().map(|(_, handle)| handle.clone()), line);
                }
            },
        };
        from.read_bytes(key, generation, (start, transcript.bytes), &mut lines)?;
        Ok(())
    }
}

/// Receives bytes in pieces and passes whole lines on, with their offsets. A last one without its end is not sent, and not shown.
struct LineSplitter<'l> {
    at: u64,
    rest: Vec<u8>,
    sink: &'l mut dyn FnMut(u64, &[u8]),
}

impl Write for LineSplitter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if self.rest.ends_with(b"\n") {
                (self.sink)(self.at, &self.rest);
                self.at += self.rest.len() as u64;
                self.rest.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
