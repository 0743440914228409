//! Texts of turns, read from the bytes of their transcript, the only place that has them.

use super::store::{StoreError, StoredTurn};
use crate::store::SegmentReader;
use ctxbridge_transcript::{SearchableText, answers_of, summary, text_of};

/// Text of a turn.
///
/// # Errors
/// If the store cannot be read.
pub fn content(store: &mut dyn SegmentReader, turn: &StoredTurn) -> Result<String, StoreError> {
    Ok(text_of(&bytes(store, turn)?))
}

/// The model's answers in a turn.
///
/// # Errors
/// If the store cannot be read.
pub fn answers(store: &mut dyn SegmentReader, turn: &StoredTurn) -> Result<Vec<String>, StoreError> {
    Ok(answers_of(&bytes(store, turn)?))
}

/// Summary of a turn, in one line.
///
/// # Errors
/// If the store cannot be read.
pub fn summary(store: &mut dyn SegmentReader, turn: &StoredTurn) -> Result<String, StoreError> {
    Ok(summary::of_turn(&turn.turn, &bytes(store, turn)?))
}

/// Like [`summary()`], for lists of turns, in which one unreadable turn must not hide the others. For a turn in cold storage that
/// is not there, or one whose bytes are damaged, the summary is made without its words.
///
/// # Errors
/// If the store cannot be read.
pub fn summary_or_reason(store: &mut dyn SegmentReader, turn: &StoredTurn) -> Result<String, StoreError> {
    match summary(store, turn) {
        Err(error) if error.is_session_local() => {
            let reason = match error {
                StoreError::Cold { file, .. } => format!("in cold storage, in {}", file.display()),
                _ => "damaged".to_owned(),
            };
            let known = summary::of_turn(&turn.turn, &[]);
            let between = if known.is_empty() { "" } else { " | " };
            Ok(format!("({reason}){between}{known}"))
        }
        read => read,
    }
}

/// Text of a turn, by speaker.
///
/// # Errors
/// If the store cannot be read.
pub fn fields(store: &mut dyn SegmentReader, turn: &StoredTurn) -> Result<SearchableText, StoreError> {
    Ok(SearchableText::of(&bytes(store, turn)?, turn.agent.is_some()))
}

fn bytes(store: &mut dyn SegmentReader, turn: &StoredTurn) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    store.read_bytes(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end), &mut bytes)?;
    Ok(bytes)
}
