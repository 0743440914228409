//! Digest of a turn, from one read of its bytes.

use super::content::{pieces, records, trimmed};
use super::searchable_text::SearchableText;
use super::summary::SummaryParts;
use super::turns::Turn;

/// The words of a turn, in three forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnDigest {
    /// The words by speaker.
    pub fields: SearchableText,
    /// The text as it is shown: the result of [`text_of`](super::text_of).
    pub text: String,
    /// The summary: the result of [`of_turn`](super::summary::of_turn).
    pub summary: String,
}

impl TurnDigest {
    /// Reads the bytes of a turn; lines that cannot be read are left out. `is_agent` is `true` for a
    /// sub-agent's own transcript.
    pub fn of(turn: &Turn, bytes: &[u8], is_agent: bool) -> Self {
        let (mut fields, mut text, mut parts) = (SearchableText::default(), String::new(), SummaryParts::default());
        records(bytes, &mut |record| {
            fields.take(record, is_agent);
            pieces(record, record.kind(), &mut |piece| text.push_str(piece));
            parts.take(record);
        });
        Self { fields, text: trimmed(text), summary: parts.summary(&turn.tools, &turn.files) }
    }
}
