//! What turns say: read from the bytes of their transcript, which are the only place where it is kept.

use super::store::{Store, StoreError, StoredTurn};
use ctxbridge_transcript::{Fields, answers_of, summary, text_of};

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

/// The same for lists of turns, of which one that cannot be read must not take away the others: of a turn in cold storage that is not
/// there, what is known without its words.
///
/// # Errors
/// When the store cannot be read.
pub fn summary_or_cold(store: &mut dyn Store, turn: &StoredTurn) -> Result<String, StoreError> {
    match summary(store, turn) {
        Err(StoreError::Cold { file, .. }) => {
            let known = summary::of_turn(&turn.turn, &[]);
            let between = if known.is_empty() { "" } else { " | " };
            Ok(format!("(in cold storage, in {}){between}{known}", file.display()))
        }
        read => read,
    }
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
