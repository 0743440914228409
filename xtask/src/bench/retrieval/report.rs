//! Results as a table for people, and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ctxbridge::archive::search::Mode;
use serde_json::{Value, json};

use super::configurations::{BASELINE, COMPLETE};
use super::dataset::{Dataset, Question};
use super::metric::{DEPTHS, Score};

/// Points of recall@10 by which hybrid search has to exceed BM25 alone.
const TARGET: f64 = 10.0;

/// Results of one configuration on all questions.
pub struct ConfigurationResult {
    pub name: String,
    pub mode: Mode,
    /// The ranks of each question's evidence.
    pub ranks: Vec<Vec<Option<usize>>>,
    /// For each question, the rank of the first session that has evidence.
    pub session_ranks: Vec<Option<usize>>,
}

impl ConfigurationResult {
    fn score(&self, dataset: &Dataset, is_wanted: impl Fn(&Question) -> bool) -> Score {
        let questions = dataset.questions.iter().zip(&self.ranks);
        Score::mean(questions.filter(|(question, _)| is_wanted(question)).map(|(_, ranks)| Score::of(ranks)))
    }

    /// Share of questions that find a session with evidence among the first five sessions: what peers report.
    fn sessions_at_5(&self) -> f64 {
        let found = self.session_ranks.iter().flatten().filter(|rank| **rank <= DEPTHS[0]).count();
        found as f64 / self.session_ranks.len().max(1) as f64
    }

    fn all(&self, dataset: &Dataset) -> Score {
        self.score(dataset, |_| true)
    }
}

/// The whole report on a dataset, asked of this many turns.
pub fn table(dataset: &Dataset, turns: usize, rows: &[ConfigurationResult]) -> String {
    let kinds = kinds(dataset);
    let questions = dataset.questions.len();
    let mut text =
        format!("\n{}: {questions} questions on {turns} turns. Recall in percent; of each kind, recall@10.\n\n", dataset.name);
    text += "| configuration | recall@5 | recall@10 | recall@20 | MRR | session in 5 |";
    kinds.iter().for_each(|(kind, count)| _ = write!(text, " {kind} ({count}) |"));
    text += "\n| --- |";
    text += &" ---: |".repeat(5 + kinds.len());
    for row in rows {
        let all = row.all(dataset);
        _ = write!(text, "\n| {} |", row.name);
        all.recall.iter().for_each(|recall| _ = write!(text, " {:.1} |", 100.0 * recall));
        _ = write!(text, " {:.3} | {:.1} |", all.reciprocal_rank, 100.0 * row.sessions_at_5());
        for kind in kinds.keys() {
            _ = write!(text, " {:.1} |", 100.0 * row.score(dataset, |question| question.kind == *kind).recall_at_10());
        }
    }
    text.push('\n');
    if let Some(points) = gain(dataset, rows) {
        let verdict = if points >= TARGET { "met" } else { "missed" };
        _ = writeln!(
            text,
            "\n{COMPLETE}: {points:+.1} points of recall@10 over BM25 alone; the target of {TARGET} is {verdict}."
        );
    }
    text
}

/// The same for programs, with the ranks of each question's evidence.
pub fn json(dataset: &Dataset, rows: &[ConfigurationResult]) -> Value {
    let kinds = kinds(dataset);
    let score = |score: Score| {
        let [at_5, at_10, at_20] = score.recall;
        json!({ "recall_at_5": at_5, "recall_at_10": at_10, "recall_at_20": at_20, "mrr": score.reciprocal_rank })
    };
    let row = |row: &ConfigurationResult| {
        let of_kind = |kind: &str| (kind.to_owned(), score(row.score(dataset, |question| question.kind == kind)));
        let questions = dataset.questions.iter().zip(&row.ranks);
        let ranks = questions.map(|(question, ranks)| (question.id.clone(), json!(ranks)));
        json!({
            "configuration": row.name, "mode": row.mode.word(), "all": score(row.all(dataset)),
            "session_in_5": row.sessions_at_5(),
            "kinds": kinds.keys().map(|kind| of_kind(kind)).collect::<serde_json::Map<_, _>>(),
            "ranks": ranks.collect::<serde_json::Map<_, _>>(),
        })
    };
    json!({
        "dataset": dataset.name, "questions": dataset.questions.len(), "sessions": dataset.sessions.len(),
        "points_over_bm25": gain(dataset, rows), "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// Points of recall@10 by which the complete configuration exceeds BM25 alone.
fn gain(dataset: &Dataset, rows: &[ConfigurationResult]) -> Option<f64> {
    let recall = |name: &str| Some(rows.iter().find(|row| row.name == name)?.all(dataset).recall_at_10());
    Some(100.0 * (recall(COMPLETE)? - recall(BASELINE)?))
}

fn kinds(dataset: &Dataset) -> BTreeMap<&str, usize> {
    let mut kinds = BTreeMap::new();
    dataset.questions.iter().for_each(|question| *kinds.entry(question.kind.as_str()).or_default() += 1);
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_columns() {
        let question = |id: &str, kind: &str| Question {
            id: id.into(),
            kind: kind.into(),
            question: String::new(),
            asked_at: jiff::Timestamp::UNIX_EPOCH,
            evidence: vec!["t".into()],
            project: None,
        };
        let questions = vec![question("1", "time"), question("2", "error")];
        let dataset = Dataset { name: "tiny".into(), questions, ..Dataset::default() };
        let row = |name: &str, mode, first, second| ConfigurationResult {
            name: name.into(),
            mode,
            ranks: vec![vec![first], vec![second]],
            session_ranks: vec![first, second],
        };
        let rows = [row(BASELINE, Mode::Lexical, Some(11), None), row(COMPLETE, Mode::Hybrid, Some(1), Some(4))];
        assert_eq!(
            table(&dataset, 0, &rows),
            "\ntiny: 2 questions on 0 turns. Recall in percent; of each kind, recall@10.\n\n\
             | configuration | recall@5 | recall@10 | recall@20 | MRR | session in 5 | error (1) | time (1) |\n\
             | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n\
             | BM25 alone | 0.0 | 0.0 | 50.0 | 0.045 | 0.0 | 0.0 | 0.0 |\n\
             | hybrid, all stages | 100.0 | 100.0 | 100.0 | 0.625 | 100.0 | 100.0 | 100.0 |\n\n\
             hybrid, all stages: +100.0 points of recall@10 over BM25 alone; the target of 10 is met.\n"
        );
        let json = json(&dataset, &rows);
        assert_eq!(json["rows"][1]["kinds"]["time"]["mrr"], 1.0);
        assert_eq!(json["rows"][0]["ranks"], json!({ "1": [11], "2": [null] }));
    }
}
