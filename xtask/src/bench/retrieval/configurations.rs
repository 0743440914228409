//! The configurations to compare: each mode of search, and each stage of the ranking on its own.

use ctxbridge::archive::search::{Mode, Stages};

/// Name of the baseline.
pub const BASELINE: &str = "BM25 alone";

/// Name of the configuration that users have.
pub const COMPLETE: &str = "hybrid, all stages";

/// A way of searching.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub name: String,
    pub mode: Mode,
    pub stages: Stages,
    /// `true` if questions are asked in the project that has the answer. Otherwise the project is unknown.
    pub is_asked_there: bool,
}

/// Switches a stage.
type Switch = fn(&mut Stages, bool);

/// In the order in which they are added.
const STAGES: [(&str, Switch); 8] = [
    ("scores", |stages, on| stages.scores = on),
    ("context", |stages, on| stages.context = on),
    ("neighbors", |stages, on| stages.neighbors = on),
    ("session", |stages, on| stages.session = on),
    ("importance", |stages, on| stages.importance = on),
    ("project", |stages, on| stages.project = on),
    ("time", |stages, on| stages.time = on),
    ("duplicates", |stages, on| stages.duplicates = on),
];

/// All of them, or those that need no vectors.
pub fn all(has_vectors: bool) -> Vec<Configuration> {
    let row = |name: &str, mode, stages| Configuration { name: name.to_owned(), mode, stages, is_asked_there: false };
    let mut rows = vec![row("lexical, no stage", Mode::Lexical, Stages::NONE)];
    rows.push(row("lexical, all stages", Mode::Lexical, Stages::ALL));
    if !has_vectors {
        rows.extend(without_one(Mode::Lexical));
        return rows;
    }
    rows.push(row("dense, no stage", Mode::Dense, Stages::NONE));
    rows.push(row("dense, all stages", Mode::Dense, Stages::ALL));
    rows.push(row("hybrid, no stage (reciprocal ranks)", Mode::Hybrid, Stages::NONE));
    let mut stages = Stages::NONE;
    for (name, switch) in &STAGES[..STAGES.len() - 1] {
        switch(&mut stages, true);
        rows.push(row(&format!("hybrid, + {name}"), Mode::Hybrid, stages));
    }
    rows.push(row(COMPLETE, Mode::Hybrid, Stages::ALL));
    rows.push(Configuration {
        is_asked_there: true,
        ..row("hybrid, all stages, asked in the project", Mode::Hybrid, Stages::ALL)
    });
    rows.extend(without_one(Mode::Hybrid));
    rows
}

fn without_one(mode: Mode) -> impl Iterator<Item = Configuration> {
    STAGES.iter().map(move |(name, switch)| {
        let mut stages = Stages::ALL;
        switch(&mut stages, false);
        Configuration { name: format!("{}, all but {name}", mode.word()), mode, stages, is_asked_there: false }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_every_stage_gives_all_of_them() {
        let mut stages = Stages::NONE;
        STAGES.iter().for_each(|(_, switch)| switch(&mut stages, true));
        assert_eq!(stages, Stages::ALL);
    }

    #[test]
    fn names_are_unique_and_the_one_that_is_compared_is_there() {
        let rows = all(true);
        let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert!(names.contains(&COMPLETE) && !names.contains(&BASELINE));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows.len());
        assert!(all(false).iter().all(|row| row.mode == Mode::Lexical));
    }
}
