//! Numbers that are known of a turn before its words are looked at one by one.

/// Cosines of a text with the prompt of a turn, and with the best passage of its answer.
#[derive(Clone, Copy, Debug)]
pub struct MeaningScores {
    pub(super) asked: f64,
    pub(super) answered: f64,
}

/// Scores of a turn by words, and how near its meaning is.
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    /// Its own: BM25 by all terms.
    pub own: f64,
    /// The best one.
    pub best: f64,
    /// The best of the others.
    pub next: f64,
    /// The terms that it has anywhere, a bit each.
    pub mask: u64,
    /// Its meaning, compared with that of the text.
    pub meaning: MeaningScores,
}

impl Scores {
    /// Score by words as a share of the best.
    pub(super) fn relative(&self) -> f64 {
        self.own / self.best.max(f64::MIN_POSITIVE)
    }

    /// Closeness of the turn to the text, by words and by meaning: enough to choose those that are worth a closer look.
    pub fn closeness(&self) -> f64 {
        self.relative() + self.meaning.asked.max(self.meaning.answered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(own: f64, asked: f64, answered: f64) -> Scores {
        Scores { own, best: 4.0, next: 3.0, mask: 0, meaning: MeaningScores { asked, answered } }
    }

    #[test]
    fn words_and_the_nearer_of_prompt_and_answer_count() {
        assert_eq!(scores(4.0, 0.1, 0.5).closeness(), 1.5);
        assert_eq!(scores(2.0, 0.75, -0.2).closeness(), 1.25);
        assert!(scores(3.0, 0.1, 0.6).closeness() > scores(4.0, 0.0, 0.1).closeness());
        assert_eq!(Scores { best: 0.0, ..scores(0.0, 0.25, 0.0) }.closeness(), 0.25);
    }
}
