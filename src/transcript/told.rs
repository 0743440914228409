//! All that is made of the bytes of a turn, which are read once for it.

use super::content::{pieces, records, trimmed};
use super::fields::Fields;
use super::summary::Parts;
use super::turns::Turn;

/// What a turn says, in three ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// By who says it.
    pub fields: Fields,
    /// As it is shown: what [`text_of`](super::text_of) makes of it.
    pub text: String,
    /// In short: what [`of_turn`](super::summary::of_turn) makes of it.
    pub summary: String,
}

impl Told {
    /// From the bytes that a turn takes in its transcript; lines that cannot be read are left out. `is_agent` says that the
    /// transcript is a sub-agent's own.
    pub fn of(turn: &Turn, bytes: &[u8], is_agent: bool) -> Self {
        let (mut fields, mut text, mut parts) = (Fields::default(), String::new(), Parts::default());
        records(bytes, &mut |record| {
            fields.take(record, is_agent);
            pieces(record, record.kind(), &mut |piece| text.push_str(piece));
            parts.take(record);
        });
        Self { fields, text: trimmed(text), summary: parts.summary(&turn.tools, &turn.files) }
    }
}
