//! Texts of turns, read from the bytes of their transcript, the only place that has them, and of the side files that they point to.

use super::store::{EVERYTHING, StoreError, StoredTurn};
use crate::store::SegmentReader;
use ctxbridge_transcript::{SearchableText, SideTexts, answers_of, side_files_of, summary};

/// Bytes of a side file that are searched. A hook that indexes them must not keep anybody waiting.
pub const MAX_SEARCHED_BYTES: u64 = 4 << 20;

/// Text of a turn, with all of the side files that it points to.
///
/// # Errors
/// If the store cannot be read.
pub fn content(store: &mut dyn SegmentReader, turn: &StoredTurn) -> Result<String, StoreError> {
    let bytes = bytes(store, turn)?;
    Ok(side_texts(store, turn, &bytes, EVERYTHING.1)?.text_of(&bytes))
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
                StoreError::Cold { file, .. } if !file.exists() => format!("in cold storage, in {}", file.display()),
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
    let bytes = bytes(store, turn)?;
    Ok(side_texts(store, turn, &bytes, MAX_SEARCHED_BYTES)?.searchable(&bytes, turn.agent.is_some()))
}

/// The texts of the side files that a turn with these bytes points to, of each at most `most` bytes. A file that is not here has none.
///
/// # Errors
/// If the store cannot be read. A file that is damaged is as one that is not here.
pub fn side_texts<'t>(
    store: &mut dyn SegmentReader,
    turn: &'t StoredTurn,
    bytes: &[u8],
    most: u64,
) -> Result<SideTexts<'t>, StoreError> {
    let mut texts = SideTexts::of_session(&turn.session);
    for path in side_files_of(bytes, &turn.session) {
        let Some(file) = store.side_file(turn.transcript, &path)? else { continue };
        let mut bytes = Vec::new();
        match store.read_bytes(file.key, file.generation, (0, file.bytes.min(most)), &mut bytes) {
            Err(error) if error.is_session_local() && !error.is_cold() => continue,
            read => read?,
        }
        texts.add(path, side_text(bytes, file.bytes));
    }
    Ok(texts)
}

/// The words of a side file; of one that is no text, its size.
pub fn side_text(mut bytes: Vec<u8>, length: u64) -> String {
    if (bytes.len() as u64) < length {
        // A character that was cut in two is not there to be said.
        let whole = str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
        if bytes.len() - whole < 4 {
            bytes.truncate(whole);
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| format!("[{length} bytes that are no text]"))
}

fn bytes(store: &mut dyn SegmentReader, turn: &StoredTurn) -> Result<Vec<u8>, StoreError> {
    store.read_shown(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end))
}
