/*!
Taking over what stood in for SQLite's archive, in JSON Lines, while that could not be opened.

All of it is sent (`super::sync`) as to any other store, but byte for byte; then the folder is put aside. Who archives into it meanwhile
makes it begin once more. It can be cut anywhere, and nothing is taken over twice.
*/

use std::collections::HashSet;
use std::path::PathBuf;

use super::heal;
use super::open::Archive;
use super::store::jsonl::JsonlStore;
use super::store::sqlite::{Patience, SqliteStore};
use super::store::{Adopted, Store, StoreError, StoredTurn};
use super::sync::{Retries, Sending, SyncError, Synced};
use crate::digest;
use crate::learn::Patterns;

/// How often it begins once more: who archives without a pause makes it wait for the next time.
const MOST_ROUNDS: u32 = 5;

/// What was taken over.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// Turns, bytes and the like.
    pub synced: Synced,
    /// Where the folder is now; nothing where it has to be looked at once more.
    pub aside: Option<PathBuf>,
}

/// Takes over what is there to be taken over; nothing where there is nothing. `progress` is called after each session.
///
/// # Errors
/// When one of both cannot be read or written, or another process does the same. What was taken over before is.
pub fn merge(
    archive: &Archive,
    patterns: &Patterns,
    now_ms: i64,
    progress: &(dyn Fn(&Synced) + Sync),
) -> Result<Option<Merged>, SyncError> {
    if !archive.is_to_be_merged() {
        return Ok(None);
    }
    let (data, folder) = (archive.data(), archive.folder());
    let name = folder.display().to_string();
    let open = || Ok(Box::new(heal::open(data, Patience::Patient)?.0) as Box<dyn Store>);
    let mut merged = Merged::default();
    for _ in 0..MOST_ROUNDS {
        let Some(mut from) = JsonlStore::open_read_only(folder)? else { break };
        let mark = from.changes(None)?.mark;
        let sending = Sending {
            data,
            from: &|| {
                let gone = || StoreError::Busy { path: folder.to_owned() };
                Ok(Box::new(JsonlStore::open_read_only(folder)?.ok_or_else(gone)?))
            },
            to: &open,
            name: &name,
            redactor: None,
            is_addition: true,
            patterns,
            model: None,
            is_whole: true,
            deadline: None,
            retries: Retries::default(),
            now_ms,
        };
        let synced = sending.run(progress)?;
        let has_failed = !synced.failed.is_empty();
        merged.synced = synced;
        let (mut to, _) = heal::open(data, Patience::Patient)?;
        take_over_use(&mut from, &mut to)?;
        // What cannot be read may be read another time.
        if has_failed {
            break;
        }
        merged.aside = JsonlStore::put_aside(folder, &mark)?;
        if merged.aside.is_some() {
            break;
        }
    }
    Ok(Some(merged))
}

/// How often turns were restored, and how far they are trusted.
fn take_over_use(from: &mut JsonlStore, to: &mut SqliteStore) -> Result<(), StoreError> {
    let mut seen = HashSet::new();
    let mut adopted = Vec::new();
    for turn in from.turns_by_id("")? {
        if turn.access_count == 0 || !seen.insert(turn.entry) {
            continue;
        }
        let same = |known: &StoredTurn| known.turn.content_sha256 == turn.turn.content_sha256;
        let Some(known) = to.turns_by_id(&digest::hex(&turn.turn.id))?.into_iter().find(same) else { continue };
        let accessed_ms = from.accessed_ms(turn.entry)?;
        let StoredTurn { access_count, confidence, .. } = turn;
        adopted.push(Adopted { entry: known.entry, access_count, accessed_ms, confidence, is_new: false });
    }
    to.adopt(&adopted).map(drop)
}
