//! Precision and recall of learnings on real transcripts. The labels name sentences by their hashes; the transcripts stay outside.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use ctxbridge::archive::learn::{LearningPatterns, extract};
use ctxbridge::archive::transcript_paths::transcripts_below;
use ctxbridge::common::digest;
use ctxbridge::transcript::{Record, RecordKind, records};
use serde::Deserialize;

/// Label of a sentence that is no learning.
const NOTHING: &str = "nothing";

#[derive(Deserialize)]
struct LabelFile {
    labels: Vec<Label>,
}

#[derive(Deserialize)]
struct Label {
    session: String,
    sentence_sha256: String,
    kind: String,
    half: String,
}

/// Counts for one kind in one half.
#[derive(Clone, Copy, Debug, Default)]
struct KindCounts {
    right: u64,
    wrong: u64,
    missed: u64,
    not_labeled: u64,
}

impl KindCounts {
    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.missed += other.missed;
        self.not_labeled += other.not_labeled;
    }

    fn row(&self, half: &str, kind: &str) -> String {
        let share = |others: u64| match self.right + others {
            0 => "-".to_owned(),
            all => format!("{:.3}", self.right as f64 / all as f64),
        };
        let Self { right, wrong, missed, not_labeled } = self;
        format!("| {half} | {kind} | {} | {} | {right} | {wrong} | {missed} | {not_labeled} |", share(*wrong), share(*missed))
    }
}

/// Session of a sentence, and the sentence's hash.
type SentenceKey = (String, String);

/// Prints precision and recall for each half and kind of the labels.
pub fn run(corpus: &Path, labels: &Path) -> Result<bool> {
    let text = fs::read_to_string(labels).with_context(|| format!("cannot read {}", labels.display()))?;
    let LabelFile { labels } = serde_json::from_str(&text).with_context(|| labels.display().to_string())?;
    let found = found_below(corpus)?;
    let counts = compare(&labels, &found);
    println!("| half | kind | precision | recall | right | wrong | missed | not labeled |");
    println!("| --- | --- | --: | --: | --: | --: | --: | --: |");
    let mut halves: BTreeMap<&str, KindCounts> = BTreeMap::new();
    for ((half, kind), counts) in &counts {
        println!("{}", counts.row(half, kind));
        halves.entry(half).or_default().add(*counts);
    }
    for (half, counts) in halves {
        println!("{}", counts.row(half, "all"));
    }
    Ok(true)
}

/// Kind of each extracted sentence. The same sentence in a session counts once, as it is stored once.
fn found_below(corpus: &Path) -> Result<HashMap<SentenceKey, &'static str>> {
    let paths = transcripts_below(corpus, &mut |path, error| eprintln!("{}: {error}", path.display()));
    if paths.is_empty() {
        bail!("there are no transcripts (.jsonl) in {}", corpus.display());
    }
    let mut found = HashMap::new();
    for path in &paths {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        records(&bytes, &mut |record| learn(record, &mut found));
    }
    Ok(found)
}

fn learn(record: &Record<'_>, found: &mut HashMap<SentenceKey, &'static str>) {
    if record.kind() != RecordKind::Answer || record.is_sidechain() {
        return;
    }
    let (Some(content), Some(session)) = (record.content(), record.session_id()) else { return };
    for text in content.texts() {
        for learning in extract(LearningPatterns::standard(), text) {
            let hash = digest::hex(&digest::sha256(text[learning.range].as_bytes()));
            found.insert((session.to_owned(), hash), learning.kind.name());
        }
    }
}

fn compare<'l>(labels: &'l [Label], found: &HashMap<SentenceKey, &'static str>) -> BTreeMap<(&'l str, &'l str), KindCounts> {
    let mut counts: BTreeMap<(&str, &str), KindCounts> = BTreeMap::new();
    // A session is of one half.
    let halves: HashMap<&str, &str> = labels.iter().map(|label| (label.session.as_str(), label.half.as_str())).collect();
    let mut labeled: HashSet<(&str, &str)> = HashSet::new();
    for label in labels {
        labeled.insert((&label.session, &label.sentence_sha256));
        let key = (label.session.clone(), label.sentence_sha256.clone());
        let said = found.get(&key).copied();
        if let Some(said) = said {
            let of_kind = counts.entry((&label.half, said)).or_default();
            if said == label.kind {
                of_kind.right += 1;
            } else {
                of_kind.wrong += 1;
            }
        }
        if label.kind != NOTHING && said != Some(label.kind.as_str()) {
            counts.entry((&label.half, &label.kind)).or_default().missed += 1;
        }
    }
    for ((session, hash), kind) in found {
        if !labeled.contains(&(session.as_str(), hash.as_str())) {
            let half = halves.get(session.as_str()).copied().unwrap_or("no half");
            counts.entry((half, kind)).or_default().not_labeled += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_without_a_label_are_counted_apart() {
        let label = |hash: &str, kind: &str| Label {
            session: "s".to_owned(),
            sentence_sha256: hash.to_owned(),
            kind: kind.to_owned(),
            half: "truth".to_owned(),
        };
        let labels = [label("a", "decision"), label("b", NOTHING), label("c", "decision"), label("d", "solution")];
        let key = |hash: &str| ("s".to_owned(), hash.to_owned());
        let found =
            HashMap::from([(key("a"), "decision"), (key("b"), "decision"), (key("d"), "outcome"), (key("e"), "decision")]);
        let counts = compare(&labels, &found);
        assert_eq!(
            counts[&("truth", "decision")].row("truth", "decision"),
            "| truth | decision | 0.500 | 0.500 | 1 | 1 | 1 | 1 |"
        );
        assert_eq!(counts[&("truth", "solution")].row("truth", "solution"), "| truth | solution | - | 0.000 | 0 | 0 | 1 | 0 |");
        assert_eq!(counts[&("truth", "outcome")].row("truth", "outcome"), "| truth | outcome | 0.000 | - | 0 | 1 | 0 | 0 |");
    }
}
