//! Order of learnings by worth: what holds, has its reason in it and was said to a person is read first.

use crate::store::StoredLearning;

/// Maximum number of learnings that are compared: the newest ones.
pub const MAX_RANKED_LEARNINGS: usize = 2_000;

/// Worth of a reason, in units of confidence: as much as what is said between two calls loses.
const REASON_WORTH: f64 = 0.2;

/// Number of steps between no worth and that of full confidence; within one the newest come first.
const STEPS: f64 = 10.0;

/// Words that a reason begins with.
const REASON_WORDS: [&str; 12] = [
    "because",
    "since ",
    "so that",
    ", so ",
    "due to",
    "to avoid",
    "to keep",
    "to prevent",
    "to make sure",
    "as it ",
    "in order to",
    "otherwise",
];

/// Sorts learnings, the most worth reading first. Their confidence says whether they were said to a person: between two calls of
/// tools it is lower.
pub fn sort_by_worth(learnings: &mut [StoredLearning]) {
    learnings.sort_by_cached_key(|learning| {
        (is_taken_back(learning), std::cmp::Reverse(worth(learning)), std::cmp::Reverse(learning.last_ms))
    });
}

/// Moves what was taken back behind the rest, and leaves the order as it is otherwise.
pub fn taken_back_last(learnings: &mut [StoredLearning]) {
    learnings.sort_by_key(is_taken_back);
}

fn is_taken_back(learning: &StoredLearning) -> bool {
    learning.superseded_by.is_some() || learning.is_rewound
}

fn worth(learning: &StoredLearning) -> i64 {
    let reason = if has_reason(&learning.sentence) { REASON_WORTH } else { 0.0 };
    ((learning.confidence + reason) * STEPS).round() as i64
}

fn has_reason(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    REASON_WORDS.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{LearningId, LearningKind};

    fn learning(sentence: &str, confidence: f64, last_ms: i64) -> StoredLearning {
        StoredLearning {
            id: LearningId::of(LearningKind::Decision, None, sentence),
            kind: LearningKind::Decision,
            sentence: sentence.to_owned(),
            confidence,
            folder: None,
            first_ms: last_ms,
            last_ms,
            said: 1,
            superseded_by: None,
            is_rewound: false,
            session: "s".to_owned(),
            turn: [0; 16],
            around: (String::new(), String::new()),
            agent: None,
            tools: Vec::new(),
        }
    }

    #[test]
    fn reasons_come_first_and_what_was_taken_back_last() {
        let old = StoredLearning { is_rewound: true, ..learning("We went with FAT because it is known.", 0.95, 9) };
        let mut all = [
            old,
            learning("We went with tabs.", 0.72, 8),
            learning("We went with zstd.", 0.9, 7),
            learning("We went with gzip.", 0.88, 6),
            learning("We went with SSE because most polls bring nothing.", 0.9, 1),
        ];
        let mut moved = all.clone();
        sort_by_worth(&mut all);
        assert_eq!(all.each_ref().map(|one| one.last_ms), [1, 7, 6, 8, 9]);
        taken_back_last(&mut moved);
        assert_eq!(moved.each_ref().map(|one| one.last_ms), [8, 7, 6, 1, 9]);
    }
}
