/*!
Topics of a conversation, in a few words and with no model.

A topic is a word or a pair of words that comes back again and again, but not in every sentence. A hook can find it in the text
alone. The counts of the search index were tried on real sessions and are no help: a turn has the output of its tools, in which
nearly every word occurs, so only the names of functions are rare there.
*/

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use crate::learn::sentences;
use crate::search::tokens::Tokenizer;

/// Maximum bytes of a text to read: a compaction waits for it.
pub const MAX_TOPIC_TEXT_BYTES: usize = 32 << 10;

/// Maximum number of topics.
const MAX_TOPICS: usize = 8;

/// Maximum characters of a topic: anything longer is no word.
const MAX_TOPIC_CHARS: usize = 40;

/// Weight of a pair relative to the sum of its words, which also are said alone.
const PAIR_WEIGHT: f64 = 0.75;

/// Weight of a word that is said once, added to the logarithm of its number: a name that nobody comes back to is no topic.
const ONCE_WEIGHT: f64 = 0.3;

/// Words without a subject, which are never a topic: those of English grammar, and those of every conversation about code.
const COMMON: &str = "
    a about above actually after again all almost already also always am an and another any anything are aren around as at away
    back be became because been before behind being below best better between both but by came can cannot come comes could
    couldn did didn different do does doesn doing don down each either else enough even ever every everything existing far few
    first for from full further get gets getting give given go goes going gone got had hadn has hasn have haven having he help
    her here him his how however i if in instead into is isn it its itself just know last later least less let like likely ll
    long made many may maybe me mean might more most much must my need needed needs never next no none nor not nothing now of
    off often ok okay on once one only onto or other others otherwise our out over own per perhaps please possible probably put
    quite rather re really said same say second see seem seems seen several shall she should shouldn since so some something
    soon still such sure take taken than that the their them then there these they this those though through thus to together
    too took toward two under until up upon us use used useful uses using usually ve very want wanted wants was wasn way we well
    went were weren what whatever when where whether which while who whole whose why will with within without won would wouldn
    yes yet you your
    add added adding answer approach bit bug bugs call calls change changed changes check checked checks clean code command
    commands commit committed complete completed confirm count create created decided declaration default diff directory done
    edit error errors example expected fail failed failing fails failure file files find fine finish finished fix fixed fixes
    folder found function functions git good green handoff implement implemented issue issues job keep kept line lines list look
    looked looking looks make makes method module move moved name named new note number old output part pass passed passes path
    place plan point print problem project push question read reading ready real reason remove removed repo resolved rest result
    results review right root run running runs save saved set show shows side single small sort start started starts state step
    steps stop task test tested testing tests thing things time times todo tool tools try turn turned turns type types update
    updated user value values version warning warnings work worked working works write writing wrong wrote";

static COMMON_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| COMMON.split_whitespace().collect());

/// A word of a sentence.
struct TopicWord {
    /// Its form in the index.
    indexed: String,
    /// Its bytes in the text.
    range: Range<usize>,
}

/// A word or a pair of words, over the whole text.
#[derive(Default)]
struct TopicCandidate {
    count: usize,
    sentences: usize,
    /// Sentence that had it last.
    last: Option<usize>,
    /// Number of times that each spelling of it occurs.
    spellings: BTreeMap<String, usize>,
}

impl TopicCandidate {
    fn add(&mut self, sentence: usize, spelling: String) {
        self.count += 1;
        self.sentences += usize::from(self.last.replace(sentence) != Some(sentence));
        *self.spellings.entry(spelling).or_default() += 1;
    }

    fn weight(&self) -> f64 {
        (self.count as f64).ln() + ONCE_WEIGHT
    }

    fn spelling(&self) -> String {
        let most = self.spellings.iter().max_by_key(|(spelling, count)| (**count, std::cmp::Reverse(spelling.len())));
        most.map(|(spelling, _)| spelling.clone()).unwrap_or_default()
    }
}

/// Topics of a text, most relevant first, in lower case. Code and quotations do not count.
pub fn topics(text: &str) -> Vec<String> {
    let tokenizer = Tokenizer::default();
    let sentences: Vec<Vec<TopicWord>> =
        sentences(text).into_iter().map(|sentence| words_of(text, sentence.range, &tokenizer)).collect();
    let (mut words, mut pairs) = (BTreeMap::<&str, TopicCandidate>::new(), BTreeMap::<(&str, &str), TopicCandidate>::new());
    for (number, sentence) in sentences.iter().enumerate() {
        for word in sentence {
            words.entry(&word.indexed).or_default().add(number, text[word.range.clone()].to_lowercase());
        }
        for (one, other) in sentence.iter().zip(sentence.iter().skip(1)) {
            if one.range.end < other.range.start && text[one.range.end..other.range.start].chars().all(char::is_whitespace) {
                let spelling = format!("{} {}", &text[one.range.clone()], &text[other.range.clone()]).to_lowercase();
                pairs.entry((&one.indexed, &other.indexed)).or_default().add(number, spelling);
            }
        }
    }
    let all = sentences.len() as f64;
    // In a few sentences, even the topic is nearly everywhere.
    let rarity = |found: &TopicCandidate| 1.0 + ((all + 1.0) / found.sentences as f64).ln();
    let mut scored: Vec<(f64, String)> = words.values().map(|found| (found.weight() * rarity(found), found.spelling())).collect();
    scored.extend(pairs.iter().filter(|(_, found)| found.count > 1).map(|((one, other), found)| {
        let rarity = [one, other].iter().map(|word| rarity(&words[**word])).sum::<f64>();
        (found.weight() * PAIR_WEIGHT * rarity, found.spelling())
    }));
    scored.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));

    let mut topics: Vec<String> = Vec::new();
    for (_, topic) in scored {
        if topics.len() == MAX_TOPICS {
            break;
        }
        // A pair says more than one of its words, and whichever came first stands for the other.
        let is_said = topics.iter().any(|known| has_words(known, &topic) || has_words(&topic, known));
        if topic.chars().count() <= MAX_TOPIC_CHARS && !is_said {
            topics.push(topic);
        }
    }
    topics
}

/// The words of a sentence that may be a topic. A name in code is one word.
fn words_of(text: &str, sentence: Range<usize>, tokenizer: &Tokenizer) -> Vec<TopicWord> {
    let mut words: Vec<TopicWord> = Vec::new();
    let mut at = sentence.start;
    for part in text[sentence].split(char::is_whitespace) {
        let start = at;
        at += part.len() + text[at + part.len()..].chars().next().map_or(0, char::len_utf8);
        // Paths and file names are no topics: every conversation about the project has them.
        if part.contains(['/', '\\']) || part.trim_matches(|c: char| !c.is_alphanumeric()).contains('.') {
            continue;
        }
        tokenizer.tokens(part, &mut |token| {
            if token.is_variant {
                return;
            }
            let range = start + token.range.start..start + token.range.end;
            if token.is_whole {
                words.retain(|word| !(range.start <= word.range.start && word.range.end <= range.end));
            }
            words.push(TopicWord { indexed: token.word, range });
        });
    }
    words.retain(|word| is_subject(&text[word.range.clone()]));
    words
}

/// `true` for a word that can be a topic.
fn is_subject(word: &str) -> bool {
    let lower = word.to_lowercase();
    let shortest = if lower.is_ascii() { 3 } else { 2 };
    lower.chars().count() >= shortest
        && lower.chars().any(char::is_alphabetic)
        && !COMMON_WORDS.contains(lower.as_str())
        && !is_hash(&lower)
}

/// `true` for a hash or an id, or a part of one.
fn is_hash(lower: &str) -> bool {
    lower.len() > 4
        && lower.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        && lower.bytes().any(|byte| byte.is_ascii_digit())
}

/// `true` if `topic` has all words of `other`.
fn has_words(topic: &str, other: &str) -> bool {
    other.split(' ').all(|word| topic.split(' ').any(|known| known == word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "The venue calendar books a slot twice when two coordinators press the button at once.\n\n\
        A double booking happens between reading the calendar and writing the slot. I added a unique index on venue and slot, \
        so the second coordinator gets a conflict instead of a double booking.\n\n\
        ```rust\nlet telescope = telescope(telescope);\ntelescope();\n```\n\n> telescope telescope telescope\n\n\
        The calendar page in src/telescope/page.rs shows the conflict, and the coordinator picks another slot of the venue.";

    #[test]
    fn what_stands_out_is_named_and_code_is_not() {
        let topics = topics(TEXT);
        assert!(topics.len() <= MAX_TOPICS, "{topics:?}");
        for word in ["calendar", "slot", "booking"] {
            assert!(topics.iter().any(|topic| topic.contains(word)), "{word} in {topics:?}");
        }
        for word in ["telescope", "added", "the"] {
            assert!(topics.iter().all(|topic| !topic.split(' ').any(|known| known == word)), "{word} in {topics:?}");
        }
    }

    #[test]
    fn nothing_is_about_nothing() {
        assert!(topics("").is_empty());
        assert!(topics("```\ncode\n```\n\n> quoted\n").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_will_do(text in "(\\PC|\\n|[.!?] |[A-Z]\\. |Mr\\. |\\d\\. ){0,200}") {
            for topic in topics(&text) {
                prop_assert!(topic.chars().count() <= MAX_TOPIC_CHARS, "{topic}");
            }
        }
    }
}
