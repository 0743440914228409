//! Extraction of learnings from an answer.

use std::ops::Range;

use super::passage::{Sentence, sentences};
use super::patterns::{ExclusionPattern, ExclusionScope, LearningKind, LearningPatterns, TriggerPattern};

/// Maximum bytes of a sentence; longer ones are unmarked tables and logs.
const MAX_SENTENCE_BYTES: usize = 700;

/// Id of the cue for an explicit hand-off.
const DECLARATION: &str = "declaration";

/// Characters that end a clause.
const CLAUSE_ENDS: [char; 7] = [',', ';', ':', '—', '–', '(', ')'];

/// A learning found in a sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtractedLearning {
    /// Kind of learning.
    pub kind: LearningKind,
    /// Byte range in the text.
    pub range: Range<usize>,
    /// Confidence, from 0 to 1.
    pub confidence: f64,
    /// The cue.
    pub cue: String,
}

/// Extracts the learnings of an answer, in order; a sentence is at most one.
pub fn extract(patterns: &LearningPatterns, text: &str) -> Vec<ExtractedLearning> {
    let sentences = sentences(text);
    let short = sentences.iter().filter(|sentence| sentence.masked.len() <= MAX_SENTENCE_BYTES);
    let mut found: Vec<ExtractedLearning> = short.filter_map(|sentence| patterns.judge(sentence)).collect();
    // A declaration says what is handed on; the line with the name belongs to it.
    if found.iter().any(|found| found.cue == DECLARATION) {
        found.retain(|found| found.kind != LearningKind::Handoff || found.cue == DECLARATION);
    }
    found
}

impl LearningPatterns {
    fn judge(&self, sentence: &Sentence) -> Option<ExtractedLearning> {
        // A box that is ticked is a mark like others.
        let text = if sentence.is_ticked { format!("✔ {}", sentence.masked) } else { sentence.masked.clone() };
        let best = self.cues.iter().filter(|cue| self.is_meant(cue, &text)).max_by(|one, other| {
            let rank = |cue: &TriggerPattern| (cue.confidence, strength(cue.kind));
            let ((one, first), (other, second)) = (rank(one), rank(other));
            first.cmp(&second).then(one.total_cmp(&other))
        })?;
        Some(ExtractedLearning {
            kind: best.kind,
            range: sentence.range.clone(),
            confidence: best.confidence,
            cue: best.id.clone(),
        })
    }

    /// `true` if a cue matches in a place where no doubt applies.
    fn is_meant(&self, cue: &TriggerPattern, text: &str) -> bool {
        cue.regex.find_iter(text).any(|hit| {
            let doubts = self.doubts.iter().filter(|doubt| doubt.kinds.contains(&cue.kind));
            let mut doubts = doubts.filter(|doubt| !doubt.but.contains(&cue.id) && !cue.but.contains(&doubt.id));
            !doubts.any(|doubt| doubt.speaks_against(text, hit.range()))
        })
    }
}

impl ExclusionPattern {
    fn speaks_against(&self, text: &str, hit: Range<usize>) -> bool {
        let ends = |c: char| CLAUSE_ENDS.contains(&c);
        let begin = text[..hit.start].rfind(ends).map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
        self.regex.is_match(match self.scope {
            ExclusionScope::Sentence => text,
            ExclusionScope::Before => &text[begin..hit.start],
            ExclusionScope::Begin => &text[..hit.end],
            ExclusionScope::After => &text[hit.end..],
        })
    }
}

/// Priority of a kind, for a sentence that could be of two.
fn strength(kind: LearningKind) -> u8 {
    match kind {
        LearningKind::Handoff => 5,
        LearningKind::Checkpoint => 4,
        LearningKind::Outcome => 3,
        LearningKind::Solution => 2,
        LearningKind::Decision => 1,
    }
}
