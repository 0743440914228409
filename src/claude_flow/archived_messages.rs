//! Messages of a session that are archived already from its own transcripts, in the form of claude-flow's hook.
//! Entries are found among them by the hash of their content.

use std::collections::HashMap;

use super::entry::content_of;
use super::transcripts::own;
use ctxbridge_archive::store::{SegmentReader, StoreError, StoreReader, StoredTurn, TurnSelection};
use ctxbridge_common::digest;
use ctxbridge_transcript::{Content, records};

/// All contents that their hook could have written for a session's turns, with the entries of these turns.
#[derive(Debug, Default)]
pub struct ArchivedMessages(HashMap<digest::Sha256Digest, i64>);

impl ArchivedMessages {
    /// Collects the messages of a session.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn in_session(store: &mut dyn StoreReader, session: i64) -> Result<Self, StoreError> {
        let own: Vec<i64> = own(&store.transcripts(session)?).map(|transcript| transcript.key).collect();
        let mut said = Self::default();
        if own.is_empty() {
            return Ok(said);
        }
        // What a rewritten transcript no longer has was said all the same.
        for which in [TurnSelection::All, TurnSelection::Superseded] {
            for turn in store.turns(session, which)? {
                if turn.agent.is_none() && own.contains(&turn.transcript) {
                    match said.turn(store, &turn) {
                        // What is damaged, or not there now, says nothing.
                        Err(error) if error.is_session_local() => {}
                        read => read?,
                    }
                }
            }
        }
        Ok(said)
    }

    /// Returns the entry of the turn with this content.
    pub fn entry(&self, content: &str) -> Option<i64> {
        self.0.get(&digest::sha256(content.as_bytes())).copied()
    }

    /// Returns the entry of the turn whose content has this hash.
    pub fn entry_of_hash(&self, sha256: &str) -> Option<i64> {
        let bytes = digest::unhex(sha256)?;
        self.0.get(bytes.as_slice()).copied()
    }

    /// Adds a turn. Their hook takes a user's message and the newest message of the model after it, from any line with one except
    /// tool results. If it sees only the end of a session, the prompt may be missing.
    fn turn(&mut self, store: &mut dyn SegmentReader, turn: &StoredTurn) -> Result<(), StoreError> {
        let bytes = store.read_shown(turn.transcript, turn.generation, (turn.turn.start, turn.turn.end))?;
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

/// `true` if all blocks are tool results, or there are none.
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
        let mut said = ArchivedMessages::default();
        said.add(&content_of("a", "b"), 7);
        assert_eq!(said.entry("User: a\n\nAssistant: b"), Some(7));
        assert_eq!(said.entry_of_hash(&digest::of_bytes(b"User: a\n\nAssistant: b")), Some(7));
        assert_eq!((said.entry_of_hash("x"), said.entry("User: a\n\nAssistant: ")), (None, None));
    }
}
