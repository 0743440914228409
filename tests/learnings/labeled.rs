//! The passages of fixtures/learnings. What is asserted holds for the half that the patterns were not chosen on as well.

use std::collections::BTreeMap;
use std::path::Path;

use ctxbridge::archive::learn::{LearningKind, LearningPatterns, extract};
use serde::Deserialize;

const PRECISION: f64 = 0.9;
const RECALL: f64 = 0.7;

#[derive(Deserialize)]
struct Set {
    passages: Vec<Passage>,
}

#[derive(Deserialize)]
struct Passage {
    id: String,
    half: String,
    text: String,
    learnings: Vec<Labeled>,
}

#[derive(Deserialize)]
struct Labeled {
    kind: LearningKind,
    sentence: String,
}

#[derive(Debug, Default)]
struct Score {
    right: u32,
    wrong: u32,
    missed: u32,
}

impl Score {
    fn precision(&self) -> f64 {
        f64::from(self.right) / f64::from((self.right + self.wrong).max(1))
    }

    fn recall(&self) -> f64 {
        f64::from(self.right) / f64::from((self.right + self.missed).max(1))
    }
}

fn passages() -> Vec<Passage> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/learnings/passages.json");
    let set: Set = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    set.passages
}

/// Each kind of a half. A sentence is the same when one has the other in it: a mark before it, or a full stop, is no difference.
fn scores(half: &str) -> BTreeMap<LearningKind, Score> {
    let mut scores: BTreeMap<LearningKind, Score> = BTreeMap::new();
    for passage in passages().into_iter().filter(|passage| passage.half == half) {
        let mut wanted: Vec<(LearningKind, &str)> = passage.learnings.iter().map(|one| (one.kind, one.sentence.trim())).collect();
        for found in extract(LearningPatterns::standard(), &passage.text) {
            let said = passage.text[found.range].trim();
            let same = |(kind, sentence): &(LearningKind, &str)| {
                *kind == found.kind && (said.contains(sentence) || sentence.contains(said))
            };
            let score = scores.entry(found.kind).or_default();
            match wanted.iter().position(same) {
                Some(at) => {
                    wanted.remove(at);
                    score.right += 1;
                }
                None => score.wrong += 1,
            }
        }
        for (kind, _) in wanted {
            scores.entry(kind).or_default().missed += 1;
        }
    }
    scores
}

#[test]
fn learnings_are_precise_and_most_are_found() {
    for half in ["tune", "test"] {
        let scores = scores(half);
        assert_eq!(scores.len(), LearningKind::ALL.len());
        for (kind, score) in scores {
            println!("{half} {:<10} precision {:.3} recall {:.3}  {score:?}", kind.name(), score.precision(), score.recall());
            assert!(score.right + score.missed >= 10, "{half} {kind:?}: too few to say anything");
            assert!(score.precision() >= PRECISION && score.recall() >= RECALL, "{half} {kind:?}: {score:?}");
        }
    }
}

#[test]
fn the_set_is_what_it_says() {
    let passages = passages();
    assert!(passages.len() >= 150);
    let mut ids = std::collections::BTreeSet::new();
    for passage in &passages {
        assert!(ids.insert(&passage.id), "{} twice", passage.id);
        assert!(matches!(passage.half.as_str(), "tune" | "test"), "{}", passage.id);
        for learning in &passage.learnings {
            assert_eq!(passage.text.matches(&learning.sentence).count(), 1, "{}: {}", passage.id, learning.sentence);
        }
    }
    let without = passages.iter().filter(|passage| passage.learnings.is_empty()).count();
    assert!(without * 3 >= passages.len(), "as much is no learning as is one");
}
