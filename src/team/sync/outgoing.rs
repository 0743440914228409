//! What another store knows a transcript by.

use std::borrow::Cow;

use ctxbridge_archive::store::StoredTranscript;
use ctxbridge_redact::Redactor;

/// A transcript, and what the other store knows it by.
pub(super) struct Outgoing {
    pub transcript: StoredTranscript,
    pub path: String,
}

/// All transcripts of a session, its own first. The other store knows them by their paths, without secrets. One from which something was taken
/// out says besides whose it is, and which one of them, so that no two become one.
pub(super) fn outgoing(mut transcripts: Vec<StoredTranscript>, session: &str, redactor: &Redactor) -> Vec<Outgoing> {
    transcripts.sort_unstable_by_key(|transcript| transcript.key);
    let mut all: Vec<Outgoing> = Vec::new();
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
        all.push(Outgoing { transcript, path });
    }
    all.sort_by_key(|outgoing| outgoing.transcript.agent.is_some());
    all
}
