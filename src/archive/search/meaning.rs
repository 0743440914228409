//! Weights of cosines in a search: those of the model, which knows sentences, and those of the static embedding, which knows words.

use ctxbridge_vectors::embed::STATIC;

/// Weights of one kind of cosines. All were chosen with `cargo xtask bench retrieval`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeaningWeights {
    /// Cosine that says nothing: any two texts of the same field have as much.
    floor: f64,
    /// Shares for queries in English, which embedders know, and in other languages.
    english: MeaningShare,
    foreign: MeaningShare,
    /// Numbers of turns that are on the first page because they are the best by words, whatever the other makes of them, or by meaning where those
    /// leave room.
    pub first_by_words: usize,
    pub first_by_meaning: usize,
    /// Minimum cosine of a hit without any of the query's words.
    pub min_cosine: f64,
    /// Minimum cosine of the best hit where none has any of the query's words.
    pub min_best_cosine: f64,
    /// Share of a cosine in how well a turn fits whatever else was found, and in another archive, which may know no cosines of this kind.
    pub fit: f64,
    /// Bonus for a turn of a likely project, times that project's share of the best turns by words, if the search is run from no project.
    pub likely_project_bonus: f64,
}

/// Share of meaning in a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeaningShare {
    /// Weight of the cosine, relative to the best of the query.
    pub weight: f64,
    /// Exponent of the best word score that word scores are divided by: if even the best has little of the query, words count less.
    pub relative_exponent: f64,
}

impl MeaningWeights {
    /// Those of the model. Three of four questions on real sessions have a best cosine of more than 0.5, and half of all unrelated prompts less
    /// than 0.3.
    pub const MODEL: Self = Self {
        floor: 0.15,
        english: MeaningShare { weight: 0.85, relative_exponent: 0.3 },
        foreign: MeaningShare { weight: 0.28, relative_exponent: 0.4 },
        first_by_words: 6,
        first_by_meaning: 4,
        min_cosine: 0.15,
        min_best_cosine: 0.35,
        fit: 1.0,
        likely_project_bonus: 0.2,
    };
    /// Those of the static embedding, which is wrong more often. Nine of ten English questions on real sessions have a best cosine of more than
    /// 0.47, and half of all unrelated prompts less than 0.42.
    pub const STATIC: Self = Self {
        floor: 0.1,
        english: MeaningShare { weight: 0.5, relative_exponent: 0.2 },
        foreign: MeaningShare { weight: 0.25, relative_exponent: 0.4 },
        first_by_words: 8,
        first_by_meaning: 4,
        min_cosine: 0.2,
        min_best_cosine: 0.45,
        fit: 0.25,
        likely_project_bonus: 0.0,
    };

    /// Returns the weights of an embedder, by its id.
    pub fn of(embedder: &str) -> Self {
        if embedder == STATIC { Self::STATIC } else { Self::MODEL }
    }

    /// Returns the share for a query.
    pub fn share(&self, is_foreign: bool) -> MeaningShare {
        if is_foreign { self.foreign } else { self.english }
    }

    /// Returns what a cosine says: 0 is nothing, and 1 the same.
    pub fn score(&self, cosine: Option<f64>) -> f64 {
        cosine.map_or(0.0, |cosine| (cosine - self.floor).max(0.0) / (1.0 - self.floor))
    }
}

/// Those of the model, which rank words alone as well.
impl Default for MeaningWeights {
    fn default() -> Self {
        Self::MODEL
    }
}
