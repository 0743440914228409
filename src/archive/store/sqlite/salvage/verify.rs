//! Removes what was found and cannot be used: a row may be complete, and its text or its bytes overwritten.

use std::collections::BTreeMap;

use rusqlite::{Connection, Result, params};

use crate::segment::{Dictionary, SegmentCheck, unpack};
use ctxbridge_common::digest;

/// Changes that leave no JSON which readers would stumble over.
const MEND_JSON: &str = "
UPDATE entries SET tools = NULL WHERE NOT json_valid(tools);
UPDATE entries SET files = NULL WHERE NOT json_valid(files);
UPDATE turns SET agents = NULL WHERE NOT json_valid(agents);
UPDATE turns SET open_work = NULL WHERE NOT json_valid(open_work);
UPDATE compactions SET first_message = NULL, last_message = NULL, topics = NULL
    WHERE first_message IS NOT NULL AND (last_message IS NULL OR topics IS NULL OR NOT json_valid(topics));
DELETE FROM learned WHERE NOT json_valid(tools);
DELETE FROM fixes WHERE NOT json_valid(changed);
DELETE FROM changed_files WHERE NOT json_valid(files);
DELETE FROM folders WHERE NOT json_valid(root_commits);
DELETE FROM learning_progress WHERE NOT json_valid(watcher);
";

/// Puts lost dictionaries back from their copies, and the other way around.
const MEND_DICTIONARIES: &str = "
INSERT OR IGNORE INTO dictionaries SELECT id, data, seen FROM dictionary_copies;
INSERT OR IGNORE INTO dictionary_copies SELECT id, seen, data FROM dictionaries;
";

/// Removes segments that have lost their bytes, and JSON that is none. Each segment is unpacked and compared with its SHA-256.
pub(super) fn remove_unreadable(db: &Connection) -> Result<()> {
    db.execute_batch(MEND_JSON)?;
    db.execute_batch(MEND_DICTIONARIES)?;
    let dictionaries = dictionaries(db)?;
    let ids = db.prepare("SELECT id FROM segments")?.query_map([], |row| row.get(0))?.collect::<Result<Vec<i64>>>()?;
    for id in ids {
        if !is_readable(db, id, &dictionaries)? {
            db.prepare_cached("DELETE FROM segments WHERE id = ?1")?.execute([id])?;
        }
    }
    Ok(())
}

fn dictionaries(db: &Connection) -> Result<BTreeMap<i64, Dictionary>> {
    let mut select = db.prepare("SELECT id, data FROM dictionaries")?;
    let listed = select.query_map([], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?)))?;
    let mut usable = BTreeMap::new();
    for listed in listed {
        let (id, data) = listed?;
        usable.extend(Dictionary::new(&data).ok().map(|dictionary| (id, dictionary)));
    }
    Ok(usable)
}

/// Checks the bytes of a segment, wherever they are. One that has lost its row in `warm` gets it back.
fn is_readable(db: &Connection, id: i64, dictionaries: &BTreeMap<i64, Dictionary>) -> Result<bool> {
    let mut select = db.prepare_cached(
        "SELECT bytes, sha256, data, warm.segment IS NOT NULL, dictionary,
            EXISTS (SELECT 1 FROM cold JOIN cold_files ON cold_files.id = cold.file WHERE cold.segment = segments.id)
         FROM segments LEFT JOIN warm ON warm.segment = segments.id WHERE segments.id = ?1",
    )?;
    select.query_row([id], |row| {
        let (bytes, sha256): (i64, digest::Sha256Digest) = (row.get(0)?, row.get(1)?);
        let (data, is_warm, listed): (_, bool, Option<i64>) = (row.get_ref(2)?.as_blob()?, row.get(3)?, row.get(4)?);
        let Ok(bytes) = u32::try_from(bytes) else { return Ok(false) };
        if data.is_empty() {
            return row.get(5);
        }
        let unpacks = |with: Option<&Dictionary>| unpack(data, bytes, &sha256, with, SegmentCheck::Sha256).is_ok();
        let is_as_listed = match listed {
            Some(listed) => dictionaries.get(&listed).is_some_and(|dictionary| unpacks(Some(dictionary))),
            None => unpacks(None),
        };
        if is_as_listed {
            return Ok(true);
        }
        let found = dictionaries.iter().find(|(_, dictionary)| unpacks(Some(dictionary)));
        let Some((dictionary, _)) = found else { return Ok(is_warm && unpacks(None)) };
        db.prepare_cached("INSERT OR REPLACE INTO warm (segment, dictionary) VALUES (?1, ?2)")?
            .execute(params![id, dictionary])?;
        Ok(true)
    })
}
