//! What is in the archive of a session already, from its own transcripts, as their hook would have written it down.

use std::collections::HashMap;

use super::entry::content_of;
use super::transcripts::own;
use ctxbridge_archive::store::{Store, StoreError, StoredTurn, Turns};
use ctxbridge_common::digest;
use ctxbridge_transcript::{Content, records};

/// The contents that their hook could have written of a session's turns, and the entries that these turns are kept under.
#[derive(Debug, Default)]
pub struct Said(HashMap<digest::Bytes, i64>);

impl Said {
    /// Of a session.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn in_session(store: &mut dyn Store, session: i64) -> Result<Self, StoreError> {
        let own: Vec<i64> = own(&store.transcripts(session)?).map(|transcript| transcript.key).collect();
        let mut said = Self::default();
        if own.is_empty() {
            return Ok(said);
        }
        // What a rewritten transcript no longer has was said all the same.
        for which in [Turns::All, Turns::Superseded] {
            for turn in store.turns(session, which)? {
                if turn.agent.is_none() && own.contains(&turn.transcript) {
                    match said.turn(store, &turn) {
                        // What is damaged, or not there now, says nothing.
                        Err(error) if error.is_of_one() => {}
                        read => read?,
                    }
                }
            }
        }
        Ok(said)
    }

    /// The entry of the turn in which that was said.
    pub fn entry(&self, content: &str) -> Option<i64> {
        self.0.get(&digest::sha256(content.as_bytes())).copied()
    }

    /// The same, by the hash of the content.
    pub fn entry_of_hash(&self, sha256: &str) -> Option<i64> {
        let bytes = digest::unhex(sha256)?;
        self.0.get(bytes.as_slice()).copied()
    }

    /// Their hook takes a user's message and the newest message of the model behind it, from any line that has one; tool results are none.
    /// Where it sees only the end of a session, what was asked may be missing.
    fn turn(&mut self, store: &mut dyn Store, turn: &StoredTurn) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        store.raw(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end), &mut bytes)?;
        let mut asked = String::new();
        records(&bytes, &mut |record| {
            let Some(content) = record.content() else { return };
            match record.role() {
                Some("assistant") => {
                    let answered = text(content);
                    self.add(&content_of(&asked, &answered), turn.entry);
                    self.add(&content_of("", &answered), turn.entry);
                }
                Some("user") if !is_result(content) => {
                    asked = text(content);
                    self.add(&content_of(&asked, ""), turn.entry);
                }
                _ => {}
            }
        });
        Ok(())
    }

    fn add(&mut self, content: &str, entry: i64) {
        self.0.entry(digest::sha256(content.as_bytes())).or_insert(entry);
    }
}

/// Blocks that are all results of tools; of no blocks, all are.
fn is_result(content: &Content<'_>) -> bool {
    matches!(content, Content::Blocks(blocks) if blocks.iter().all(|block| block.is("tool_result")))
}

fn text(content: &Content<'_>) -> String {
    content.texts().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_looked_up_as_they_are_written() {
        let mut said = Said::default();
        said.add(&content_of("a", "b"), 7);
        assert_eq!(said.entry("User: a\n\nAssistant: b"), Some(7));
        assert_eq!(said.entry_of_hash(&digest::of_bytes(b"User: a\n\nAssistant: b")), Some(7));
        assert_eq!((said.entry_of_hash("x"), said.entry("User: a\n\nAssistant: ")), (None, None));
    }
}
