//! Detection of decisions that supersede earlier ones.

use std::collections::BTreeSet;

use crate::search::tokens::Tokenizer;

/// Minimum number of words that two decisions about the same have in common, and their minimum share of the shorter one's.
const MIN_COMMON_WORDS: usize = 2;
const MIN_COMMON_SHARE: f64 = 0.4;

/// Phrases followed by the rejected alternative.
const REJECTION_MARKERS: [&str; 12] = [
    "instead of",
    "rather than",
    " over ",
    "no longer",
    "dropped",
    "dropping",
    "switched from",
    "moved from",
    "moving from",
    "replaced",
    "away from",
    "back from",
];

/// Words that end the rejected alternative.
const REJECTION_END_WORDS: [&str; 14] =
    ["because", "since", "for", "to", "in", "on", "at", "when", "where", "as", "so", "and", "with", "by"];

/// Words that occur in every decision.
const DECISION_STOP_WORDS: [&str; 24] = [
    "decid", "went", "with", "chose", "choos", "settl", "opt", "pick", "instead", "rather", "than", "over", "becaus", "sinc",
    "now", "the", "for", "and", "use", "switch", "move", "replac", "drop", "longer",
];

/// Words of a decision. Finding them takes much longer than comparing them, and each decision is compared with hundreds.
#[derive(Clone, Debug)]
pub struct DecisionWords {
    all: BTreeSet<String>,
    chosen: BTreeSet<String>,
    rejected: BTreeSet<String>,
}

impl DecisionWords {
    /// Extracts the words of a sentence.
    pub fn of(tokenizer: &Tokenizer, sentence: &str) -> Self {
        let [all, chosen, rejected] = [sentence, chosen(sentence), &rejected(sentence)].map(|text| words(tokenizer, text));
        Self { all, chosen, rejected }
    }

    /// `true` if it supersedes an earlier decision: both have the same subject, and this one rejects what the other chose.
    /// Decisions that only share the subject coexist.
    pub fn supersedes(&self, old: &Self) -> bool {
        if self.rejected.is_disjoint(&old.chosen) {
            return false;
        }
        let common = self.all.intersection(&old.chosen).count();
        common >= MIN_COMMON_WORDS && common as f64 >= MIN_COMMON_SHARE * self.all.len().min(old.chosen.len()) as f64
    }
}

/// The alternative that a decision rejects.
fn rejected(text: &str) -> String {
    let lower = text.to_lowercase();
    let Some(behind) = REJECTION_MARKERS.iter().filter_map(|word| lower.find(word).map(|at| at + word.len())).min() else {
        return String::new();
    };
    // A comma ends what is named; what it is for, and why, name other things.
    let rejected = lower[behind..].split([',', ';', '.', '(']).next().unwrap_or_default();
    rejected.split_whitespace().take_while(|word| !REJECTION_END_WORDS.contains(word)).collect::<Vec<_>>().join(" ")
}

/// The part of a decision that names the choice.
fn chosen(text: &str) -> &str {
    let lower = text.to_lowercase();
    // Letters that change their length with their case would move what is found.
    let end =
        REJECTION_MARKERS.iter().take(3).filter_map(|word| lower.find(word)).min().filter(|end| text.is_char_boundary(*end));
    end.filter(|_| lower.len() == text.len()).map_or(text, |end| &text[..end])
}

fn words(tokenizer: &Tokenizer, text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    tokenizer.tokens(text, &mut |token| {
        if !token.is_variant && token.word.len() > 2 && !DECISION_STOP_WORDS.contains(&token.word.as_str()) {
            words.insert(token.word);
        }
    });
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_longer_wanted_is_taken_back() {
        let decision = |text: &str| DecisionWords::of(&Tokenizer::default(), text);
        let is = |new: &str, old: &str| decision(new).supersedes(&decision(old));
        let old = "I went with polling for the availability endpoint because it is simple.";
        assert!(is("Switched from polling to SSE for the availability endpoint, since most polls return nothing.", old));
        assert!(is("We chose SSE over polling for availability.", old));
        for other in [
            "I went with polling for the price endpoint.",
            "We chose Parquet over Avro for the landing zone.",
            "For the availability endpoint we decided to add a cache.",
            "We chose SSE over WebSockets for the availability endpoint.",
        ] {
            assert!(!is(other, old), "{other}");
        }
        // What was rejected then is not what was chosen.
        assert!(!is("Chose LittleFS over FAT for the log.", "Chose LittleFS over FAT for the log."));
        assert!(!is("", "") && !is("instead of", "İ over"));
    }
}
