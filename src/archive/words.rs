//! What turns say: read from the bytes of their transcript, which are the only place where it is kept.

use super::store::{Store, StoreError, StoredTurn};
use crate::transcript::{Fields, answers_of, summary, text_of};

/// The content of a turn.
///
/// # Errors
/// When the store cannot be read.
pub fn content(store: &mut dyn Store, turn: &StoredTurn) -> Result<String, StoreError> {
    Ok(text_of(&bytes(store, turn)?))
}

/// What the model said in a turn, a text for each answer.
///
/// # Errors
/// When the store cannot be read.
pub fn answers(store: &mut dyn Store, turn: &StoredTurn) -> Result<Vec<String>, StoreError> {
    Ok(answers_of(&bytes(store, turn)?))
}

/// What a turn was about, in one line.
///
/// # Errors
/// When the store cannot be read.
pub fn summary(store: &mut dyn Store, turn: &StoredTurn) -> Result<String, StoreError> {
    Ok(summary::of_turn(&turn.turn, &bytes(store, turn)?))
}

/// What a turn says, by who says it.
///
/// # Errors
/// When the store cannot be read.
pub fn fields(store: &mut dyn Store, turn: &StoredTurn) -> Result<Fields, StoreError> {
    Ok(Fields::of(&bytes(store, turn)?, turn.agent.is_some()))
}

fn bytes(store: &mut dyn Store, turn: &StoredTurn) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    store.raw(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end), &mut bytes)?;
    Ok(bytes)
}
