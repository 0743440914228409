//! The tables of words. What is in one of them has a length of its own.

/// A table of words.
#[derive(Debug)]
pub(in crate::search) struct WordTable {
    pub name: &'static str,
    /// Its view of words and the number of entries that have them.
    pub vocabulary: &'static str,
    /// Key of the note with its frequent words.
    pub frequent: &'static str,
    /// Its columns, and the weight of a word in each of them.
    pub columns: &'static [(&'static str, f64)],
    /// Weight of its score.
    pub factor: f64,
}

/// The tables: of what was said, and of what tools were told and said. Weights were chosen with `cargo xtask bench retrieval`.
pub(in crate::search) const TABLES: [&WordTable; 2] = [
    &WordTable {
        name: "words",
        vocabulary: "vocabulary",
        frequent: "frequent words",
        columns: &[("prompt", 2.0), ("answer", 2.0), ("files", 1.5), ("summary", 1.5), ("before", 0.3)],
        factor: 1.0,
    },
    &WordTable {
        name: "tool_words",
        vocabulary: "tool_vocabulary",
        frequent: "frequent tool words",
        columns: &[("input", 1.0), ("output", 1.0)],
        factor: 0.25,
    },
];

/// The columns with an entry's own text.
pub const OWN_COLUMNS: [&str; 6] = ["prompt", "answer", "input", "output", "files", "summary"];

impl WordTable {
    /// Returns its columns among these; none of it if there are none, and an empty list if that is all of it.
    pub fn columns_among<'c>(&self, columns: &[&'c str]) -> Option<Vec<&'c str>> {
        let own: Vec<&str> = columns.iter().copied().filter(|name| self.columns.iter().any(|(own, _)| own == name)).collect();
        match own.len() {
            0 if !columns.is_empty() => None,
            count if count == self.columns.len() => Some(Vec::new()),
            _ => Some(own),
        }
    }

    /// SQL that makes it and its vocabulary.
    pub fn schema(&self) -> String {
        let columns: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        format!(
            "CREATE VIRTUAL TABLE {} USING fts5({}, content = '', contentless_delete = 1, tokenize = \"ascii tokenchars '_'\");
             CREATE VIRTUAL TABLE {} USING fts5vocab({}, row);",
            self.name,
            columns.join(", "),
            self.vocabulary,
            self.name
        )
    }

    /// FTS5's name of its ranking.
    pub fn rank(&self) -> String {
        let weights: Vec<String> = self.columns.iter().map(|(_, weight)| format!("{weight:?}")).collect();
        format!("bm25({})", weights.join(", "))
    }
}
