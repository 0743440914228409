//! Folders that sessions worked in, and sessions whose projects were moved.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::columns::{from_json, to_json};
use super::{SqliteQueries, SqliteStore, learnings};
use crate::learn::{Learning, LearningId, LearningKind};
use crate::search::tokens::Tokenizer;
use crate::store::{FolderFacts, FolderStore, SessionMove, StoreError};

/// All facts about folders.
pub(in crate::store) fn facts(db: &Connection) -> Result<Vec<FolderFacts>> {
    db.prepare_cached("SELECT folder, ignores_case, root_commits, remote, tree, noted_ms FROM folders ORDER BY folder")?
        .query_map([], |row| {
            Ok(FolderFacts {
                folder: row.get(0)?,
                ignores_case: row.get(1)?,
                root_commits: from_json(2, &row.get::<_, String>(2)?)?,
                remote: row.get(3)?,
                tree: row.get(4)?,
                noted_ms: row.get(5)?,
            })
        })?
        .collect()
}

impl FolderStore for SqliteStore {
    fn folder_facts(&mut self) -> Result<Vec<FolderFacts>, StoreError> {
        self.query(facts)
    }

    fn note_folder(&mut self, noted: &FolderFacts) -> Result<(), StoreError> {
        let FolderFacts { folder, ignores_case, root_commits, remote, tree, noted_ms } = noted;
        self.write(|db| {
            db.prepare_cached(
                "INSERT OR REPLACE INTO folders (folder, ignores_case, root_commits, remote, tree, noted_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![folder, ignores_case, to_json(root_commits), remote, tree, noted_ms])
            .map(drop)
        })
    }

    fn move_sessions(&mut self, moves: &[SessionMove]) -> Result<(), StoreError> {
        self.write(|db| {
            let tokenizer = Tokenizer::default();
            moves.iter().try_for_each(|one| move_session(db, &tokenizer, one))
        })
    }
}

fn move_session(db: &Connection, tokenizer: &Tokenizer, SessionMove { session, folder }: &SessionMove) -> Result<()> {
    let known: Option<(i64, Option<String>)> = db
        .prepare_cached("SELECT id, folder FROM sessions WHERE session = ?1")?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((session, before)) = known.filter(|(_, before)| before.as_ref() != Some(folder)) else { return Ok(()) };
    // Where it is back, it was never away.
    db.prepare_cached("UPDATE sessions SET folder = ?2, moved_from = nullif(coalesce(moved_from, folder), ?2) WHERE id = ?1")?
        .execute(params![session, folder])?;
    move_learnings(db, tokenizer, session, before.as_deref(), folder)
}

/// Moves what a session said to the learnings of another folder. A learning that nobody says any more in the old one is gone there.
fn move_learnings(db: &Connection, tokenizer: &Tokenizer, session: i64, from: Option<&str>, to: &str) -> Result<()> {
    let said: Vec<(i64, Option<i64>, Option<Learning>)> = db
        .prepare_cached(
            "SELECT id, superseded_by, kind, sentence, confidence, at_ms, uuid, before, after, agent, tools
             FROM learned JOIN learnings ON learnings.id = learned.learning WHERE session = ?1 AND folder IS ?2",
        )?
        .query_map(params![session, from], |row| Ok((row.get(0)?, row.get(1)?, learning(row, to)?)))?
        .collect::<Result<_>>()?;
    for (old, superseded_by, learning) in said {
        // A kind of a newer version has an id that this one cannot make.
        let Some(learning) = learning else { continue };
        let is_new = learnings::add(db, tokenizer, session, Some(to), &learning)?;
        let new: i64 =
            db.prepare_cached("SELECT id FROM learnings WHERE handle = ?1")?.query_row([learning.id.0], |row| row.get(0))?;
        db.prepare_cached("DELETE FROM learned WHERE learning = ?1 AND uuid = ?2")?.execute(params![old, learning.turn])?;
        if is_new {
            db.prepare_cached("UPDATE learnings SET superseded_by = ?2 WHERE id = ?1")?.execute([Some(new), superseded_by])?;
        }
        let is_said: bool =
            db.prepare_cached("SELECT EXISTS (SELECT 1 FROM learned WHERE learning = ?1)")?.query_row([old], |row| row.get(0))?;
        if !is_said {
            db.prepare_cached("UPDATE learnings SET superseded_by = nullif(?2, id) WHERE superseded_by = ?1")?
                .execute([old, new])?;
            db.prepare_cached("DELETE FROM learning_words WHERE rowid = ?1")?.execute([old])?;
            db.prepare_cached("DELETE FROM learnings WHERE id = ?1")?.execute([old])?;
        }
    }
    Ok(())
}

/// A learning as it would have been said in another folder; `None` if this version does not know its kind.
fn learning(row: &Row<'_>, folder: &str) -> Result<Option<Learning>> {
    let Some(kind) = LearningKind::named(&row.get::<_, String>(2)?) else { return Ok(None) };
    let sentence: String = row.get(3)?;
    Ok(Some(Learning {
        id: LearningId::of(kind, Some(folder), &sentence),
        kind,
        sentence,
        confidence: row.get(4)?,
        at_ms: row.get(5)?,
        turn: row.get(6)?,
        before: row.get(7)?,
        after: row.get(8)?,
        agent: row.get(9)?,
        tools: from_json(10, &row.get::<_, String>(10)?)?,
    }))
}
