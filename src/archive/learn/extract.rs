//! Learnings in an answer.

use std::ops::Range;

use super::passage::{Sentence, sentences};
use super::patterns::{Cue, Doubt, Kind, Patterns, Scope};

/// Bytes of a sentence that says one thing; longer ones are tables and logs that nobody marked as such.
const LONGEST: usize = 700;

/// The cue of what is handed on in so many words.
const DECLARATION: &str = "declaration";

/// What makes a sentence end with less than a full stop.
const CLAUSE_ENDS: [char; 7] = [',', ';', ':', '—', '–', '(', ')'];

/// A sentence from which something is learned.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Of which kind.
    pub kind: Kind,
    /// Where it stands in the text.
    pub range: Range<usize>,
    /// How sure it is, from 0 to 1.
    pub confidence: f64,
    /// The cue.
    pub cue: String,
}

/// The learnings of an answer, in order; a sentence is at most one.
pub fn extract(patterns: &Patterns, text: &str) -> Vec<Found> {
    let sentences = sentences(text);
    let short = sentences.iter().filter(|sentence| sentence.masked.len() <= LONGEST);
    let mut found: Vec<Found> = short.filter_map(|sentence| patterns.judge(sentence)).collect();
    // A declaration says what is handed on; the line with the name belongs to it.
    if found.iter().any(|found| found.cue == DECLARATION) {
        found.retain(|found| found.kind != Kind::Handoff || found.cue == DECLARATION);
    }
    found
}

impl Patterns {
    fn judge(&self, sentence: &Sentence) -> Option<Found> {
        // A box that is ticked is a mark like others.
        let text = if sentence.is_ticked { format!("✔ {}", sentence.masked) } else { sentence.masked.clone() };
        let best = self.cues.iter().filter(|cue| self.is_meant(cue, &text)).max_by(|one, other| {
            let rank = |cue: &Cue| (cue.confidence, strength(cue.kind));
            let ((one, first), (other, second)) = (rank(one), rank(other));
            first.cmp(&second).then(one.total_cmp(&other))
        })?;
        Some(Found { kind: best.kind, range: sentence.range.clone(), confidence: best.confidence, cue: best.id.clone() })
    }

    /// Whether a cue is there in a place where nothing speaks against it.
    fn is_meant(&self, cue: &Cue, text: &str) -> bool {
        cue.regex.find_iter(text).any(|hit| {
            let doubts = self.doubts.iter().filter(|doubt| doubt.kinds.contains(&cue.kind));
            let mut doubts = doubts.filter(|doubt| !doubt.but.contains(&cue.id) && !cue.but.contains(&doubt.id));
            !doubts.any(|doubt| doubt.speaks_against(text, hit.range()))
        })
    }
}

impl Doubt {
    fn speaks_against(&self, text: &str, hit: Range<usize>) -> bool {
        let ends = |c: char| CLAUSE_ENDS.contains(&c);
        let begin = text[..hit.start].rfind(ends).map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
        self.regex.is_match(match self.scope {
            Scope::Sentence => text,
            Scope::Before => &text[begin..hit.start],
            Scope::Begin => &text[..hit.end],
            Scope::After => &text[hit.end..],
        })
    }
}

/// Which kind a sentence is of that could be two.
fn strength(kind: Kind) -> u8 {
    match kind {
        Kind::Handoff => 5,
        Kind::Checkpoint => 4,
        Kind::Outcome => 3,
        Kind::Solution => 2,
        Kind::Decision => 1,
    }
}
