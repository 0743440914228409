//! Whether a decision takes an earlier one back.

use std::collections::BTreeSet;

use crate::search::tokens::Tokenizer;

/// Words that two decisions about the same have in common, at least, and as a share of the shorter one's.
const COMMON: usize = 2;
const SHARE: f64 = 0.4;

/// Behind these stands what is no longer wanted.
const INSTEAD: [&str; 12] = [
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

/// Before these ends what is no longer wanted.
const ENDS: [&str; 14] = ["because", "since", "for", "to", "in", "on", "at", "when", "where", "as", "so", "and", "with", "by"];

/// Words that are in every decision.
const EMPTY: [&str; 24] = [
    "decid", "went", "with", "chose", "choos", "settl", "opt", "pick", "instead", "rather", "than", "over", "becaus", "sinc",
    "now", "the", "for", "and", "use", "switch", "move", "replac", "drop", "longer",
];

/// A decision, by its words. To find them takes much longer than to compare them, and each is compared with hundreds.
#[derive(Clone, Debug)]
pub struct Decision {
    all: BTreeSet<String>,
    chosen: BTreeSet<String>,
    rejected: BTreeSet<String>,
}

impl Decision {
    /// From its sentence.
    pub fn of(tokenizer: &Tokenizer, sentence: &str) -> Self {
        let [all, chosen, rejected] = [sentence, chosen(sentence), &rejected(sentence)].map(|text| words(tokenizer, text));
        Self { all, chosen, rejected }
    }

    /// Whether it takes back what was decided before: it is about the same, and names what was chosen then as what is not wanted. Two
    /// decisions that are merely about the same stand beside each other.
    pub fn takes_back(&self, old: &Self) -> bool {
        if self.rejected.is_disjoint(&old.chosen) {
            return false;
        }
        let common = self.all.intersection(&old.chosen).count();
        common >= COMMON && common as f64 >= SHARE * self.all.len().min(old.chosen.len()) as f64
    }
}

/// What a decision names as no longer wanted.
fn rejected(text: &str) -> String {
    let lower = text.to_lowercase();
    let Some(behind) = INSTEAD.iter().filter_map(|word| lower.find(word).map(|at| at + word.len())).min() else {
        return String::new();
    };
    // A comma ends what is named; what it is for, and why, name other things.
    let rejected = lower[behind..].split([',', ';', '.', '(']).next().unwrap_or_default();
    rejected.split_whitespace().take_while(|word| !ENDS.contains(word)).collect::<Vec<_>>().join(" ")
}

/// The part of a decision that says what was chosen.
fn chosen(text: &str) -> &str {
    let lower = text.to_lowercase();
    // Letters that change their length with their case would move what is found.
    let end = INSTEAD.iter().take(3).filter_map(|word| lower.find(word)).min().filter(|end| text.is_char_boundary(*end));
    end.filter(|_| lower.len() == text.len()).map_or(text, |end| &text[..end])
}

fn words(tokenizer: &Tokenizer, text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    tokenizer.tokens(text, &mut |token| {
        if token.word.len() > 2 && !EMPTY.contains(&token.word.as_str()) {
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
        let decision = |text: &str| Decision::of(&Tokenizer::default(), text);
        let is = |new: &str, old: &str| decision(new).takes_back(&decision(old));
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
