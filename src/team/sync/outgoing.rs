//! Names of transcripts in the other store.

use std::borrow::Cow;

use ctxbridge_archive::store::{SessionPart, StoredTranscript};
use ctxbridge_redact::Redactor;

/// A transcript, with its path and part in the other store.
pub(super) struct OutgoingTranscript {
    pub transcript: StoredTranscript,
    pub path: String,
    pub part: SessionPart,
}

/// All transcripts of a session: the files beside them first, then its own. The other store knows them by their paths, without secrets. A redacted path
/// also has the session, the agent and a number, so that no two become one.
pub(super) fn outgoing_transcripts(
    mut transcripts: Vec<StoredTranscript>,
    session: &str,
    redactor: &Redactor,
) -> Vec<OutgoingTranscript> {
    transcripts.sort_unstable_by_key(|transcript| transcript.key);
    let mut all: Vec<OutgoingTranscript> = Vec::new();
    for transcript in transcripts {
        let part = match &transcript.part {
            part if part.is_transcript() => part.clone(),
            part => SessionPart::from_column(part.to_column().map(|column| redactor.redact(&column).text.into_owned())),
        };
        let path = match redactor.redact(&transcript.path).text {
            Cow::Borrowed(_) => transcript.path.clone(),
            Cow::Owned(text) => {
                let column = part.to_column();
                let whose = [Some(session), column.as_deref()];
                let named = format!("{text}#{}", whose.into_iter().flatten().collect::<Vec<_>>().join("/"));
                let another = format!("{named}#");
                match all.iter().filter(|other| other.path == named || other.path.starts_with(&another)).count() {
                    0 => named,
                    others => format!("{another}{}", others + 1),
                }
            }
        };
        all.push(OutgoingTranscript { transcript, path, part });
    }
    all.sort_by_key(|outgoing| match outgoing.part {
        // The words of a turn include those of the side files that it points to.
        SessionPart::SideFile(_) | SessionPart::OmittedFile(_) => 0,
        SessionPart::Conversation => 1,
        SessionPart::Agent(_) => 2,
    });
    all
}
