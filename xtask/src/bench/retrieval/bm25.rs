//! The baseline of all comparisons: BM25 alone, as SQLite computes it, over the words of a dataset, with the index's weights. It
//! stays the same while the product's index changes.

use anyhow::Result;
use ctxbridge::archive::search::query::QueryTerms;
use ctxbridge::archive::search::tokens::Tokenizer;
use rusqlite::{Connection, params};

use super::dataset::{Dataset, DatasetTurn, Question};
use super::metric::DEEPEST;

/// The words of all turns, in memory.
pub struct Bm25 {
    db: Connection,
    tokenizer: Tokenizer,
}

impl Bm25 {
    pub fn new(dataset: &Dataset) -> Result<Self> {
        let mut db = Connection::open_in_memory()?;
        let tokenizer = Tokenizer::default();
        db.execute_batch(
            "CREATE TABLE turns (id INTEGER PRIMARY KEY, name TEXT NOT NULL, project TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
             CREATE VIRTUAL TABLE words USING fts5(prompt, answer, input, output, tokenize = \"ascii tokenchars '_'\");
             INSERT INTO words (words, rank) VALUES ('rank', 'bm25(2.0, 2.0, 1.0, 1.0)');",
        )?;
        let transaction = db.transaction()?;
        for session in &dataset.sessions {
            for turn in &session.turns {
                transaction.execute(
                    "INSERT INTO turns (name, project, at) VALUES (?1, ?2, ?3)",
                    params![turn.id, session.project, turn.at.as_millisecond()],
                )?;
                let [prompt, answer, input, output] = texts(turn).map(|text| tokenizer.join(&text));
                transaction.execute(
                    "INSERT INTO words (rowid, prompt, answer, input, output) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![transaction.last_insert_rowid(), prompt, answer, input, output],
                )?;
            }
        }
        transaction.commit()?;
        Ok(Self { db, tokenizer })
    }

    /// Turns in the order of their scores, the best first.
    pub fn ask(&self, question: &Question) -> Result<Vec<String>> {
        let terms = QueryTerms::of(&question.question.replace('"', " "), &self.tokenizer);
        let Some(expression) = terms.expression(&[]) else { return Ok(Vec::new()) };
        let mut select = self.db.prepare_cached(
            "SELECT name FROM words JOIN turns ON turns.id = words.rowid
             WHERE words MATCH ?1 AND at < ?2 AND (?3 IS NULL OR project = ?3) ORDER BY rank LIMIT ?4",
        )?;
        let asked = params![expression, question.asked_at.as_millisecond(), question.project, DEEPEST as i64];
        let found = select.query_map(asked, |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }
}

fn texts(turn: &DatasetTurn) -> [String; 4] {
    let all = |of: &dyn Fn(&super::dataset::DatasetStep) -> String| turn.steps.iter().map(of).collect::<Vec<_>>().join("\n");
    let input = all(&|step| format!("{} {}", step.tool, step.input));
    [turn.prompt.clone(), turn.answer.clone(), input, all(&|step| step.output.clone())]
}
