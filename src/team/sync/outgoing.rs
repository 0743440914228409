//! Names of transcripts in the other store.

use std::borrow::Cow;

use ctxbridge_archive::store::StoredTranscript;
use ctxbridge_redact::Redactor;

/// A transcript, with its path in the other store.
pub(super) struct OutgoingTranscript {
    pub transcript: StoredTranscript,
    pub path: String,
}

/// All transcripts of a session, its own first. The other store knows them by their paths, without secrets. A redacted path
/// also has the session, the agent and a number, so that no two become one.
pub(super) fn outgoing_transcripts(
    mut transcripts: Vec<StoredTranscript>,
    session: &str,
    redactor: &Redactor,
) -> Vec<OutgoingTranscript> {
    transcripts.sort_unstable_by_key(|transcript| transcript.key);
    let mut all: Vec<OutgoingTranscript> = Vec::new();
    for transcript in transcripts {
        let path = match redactor.redact(&transcript.path).text {
            Cow::Borrowed(_) => transcript.path.clone(),
            Cow::Owned(text) => {
                let whose = [Some(session), transcript.agent.as_deref()];
                let named = format!("{text}#{}", whose.into_iter().flatten().collect::<Vec<_>>().join("/"));
                let another = format!("{named}#");
                match all.iter().filter(|other| other.path == named || other.path.starts_with(&another)).count() {
                    0 => named,
                    others => format!("{another}{}", others + 1),
                }
            }
        };
        all.push(OutgoingTranscript { transcript, path });
    }
    all.sort_by_key(|outgoing| outgoing.transcript.agent.is_some());
    all
}
