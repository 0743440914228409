//! Prose: words with the frequencies of a language (Zipf), sentences, and a topic that a turn comes back to.

use crate::rng::Rng;

/// Different words in a vocabulary: a long technical conversation uses about as many.
const SIZE: usize = 6_000;

/// The most frequent words come from here, so that text looks and compresses like English.
const COMMON: &str = "the to a of is and in it that for this with on be as not are we so if then but which from by will at can \
    have has was when one all only there test file its or should function now no more what line error into use value does before \
    first run they would each other up out where because after return call two read type still same write here how any also \
    path check works change makes over instead name list string build new cache key keeps empty case never already needs code \
    sure since means just does than wrong once lock like three last data branch another while less through below without \
    until though memory thread queue buffer token stream parse config module state index request response server client header \
    default option result loop timeout retry worker batch offset record commit merge schema table column cursor handle lease \
    digest segment journal backup restore import export search archive turn session prompt answer reviewer deploy release";

const SYLLABLES: &[&str] = &[
    "ba", "cor", "den", "el", "fin", "gra", "hol", "in", "jun", "ka", "lem", "mor", "net", "or", "per", "qui", "ra", "sol",
    "ter", "un", "val", "wen", "xi", "yor", "zan", "tion", "ing", "ment", "ers", "able", "ist", "pre",
];

/// Non-ASCII text of real sessions: umlauts, dashes, marks, emoji, other scripts.
const FOREIGN: &[&str] = &["naïve", "Größe", "–", "→", "✓", "“so”", "🚀", "データ", "café", "проверка", "≤", "👩🏽‍💻"];

/// Sentences on decisions, findings and fixes; `{}` are words.
const CUES: &[&str] = &[
    "I decided to keep the {} next to the {} because the {} already has it",
    "We went with {} instead of {} since it needs no {}",
    "The root cause was a {} that the {} never released",
    "Fixed the {} by checking the {} before the {}",
    "The approach is to split the {} rather than the {}",
    "This failed because the {} had no {} yet",
    "✓ The {} worked after the {} was rebuilt",
];

/// The words of a session and how often each comes up.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    words: Vec<String>,
    /// For each word, the weight of all up to it.
    up_to: Vec<u64>,
}

/// The rare words of one turn.
#[derive(Clone, Debug)]
pub(crate) struct Topic([usize; 3]);

impl Vocabulary {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x776f_7264);
        let mut words: Vec<String> = COMMON.split_whitespace().map(str::to_owned).collect();
        while words.len() < SIZE {
            let syllables = rng.between(2, 4);
            words.push((0..syllables).map(|_| rng.pick(SYLLABLES)).collect());
        }
        let mut sum = 0;
        let up_to = (0..SIZE)
            .map(|rank| {
                sum += 1_000_000 / (rank as u64 + 3);
                sum
            })
            .collect();
        Self { words, up_to }
    }

    pub(crate) fn topic(&self, rng: &mut Rng) -> Topic {
        Topic([(); 3].map(|()| rng.between(SIZE / 4, SIZE - 1)))
    }

    /// Chooses a word, frequent ones more often than rare ones.
    pub(crate) fn word(&self, rng: &mut Rng) -> &str {
        let total = self.up_to.last().copied().unwrap_or(1);
        let at = rng.below(total as usize) as u64;
        &self.words[self.up_to.partition_point(|&sum| sum <= at).min(SIZE - 1)]
    }

    /// Any word, e.g. to name a thing.
    pub(crate) fn name(&self, rng: &mut Rng) -> &str {
        &self.words[rng.below(SIZE)]
    }

    /// A title of a few words.
    pub(crate) fn title(&self, rng: &mut Rng, topic: &Topic) -> String {
        format!("{} the {} {}", capital(self.word(rng)), self.words[topic.0[0]], self.word(rng))
    }

    /// Sentences in paragraphs, at least `length` bytes and at most a sentence more.
    pub(crate) fn prose(&self, rng: &mut Rng, topic: &Topic, length: usize) -> String {
        let mut text = String::with_capacity(length + 160);
        loop {
            self.sentence(rng, topic, &mut text);
            if text.len() >= length {
                return text;
            }
            text.push_str(if rng.chance(18) { "\n\n" } else { " " });
        }
    }

    /// An assistant's answer: prose with decisions, lists and names of code.
    pub(crate) fn answer(&self, rng: &mut Rng, topic: &Topic, path: &str, length: usize) -> String {
        let mut text = String::with_capacity(length + 200);
        loop {
            match rng.below(10) {
                0 => self.cue(rng, &mut text),
                1 => {
                    text.push_str("\n- `");
                    text.push_str(path);
                    text.push_str("`: ");
                    self.sentence(rng, topic, &mut text);
                }
                _ => self.sentence(rng, topic, &mut text),
            }
            if text.len() >= length {
                return text;
            }
            text.push_str(if rng.chance(20) { "\n\n" } else { " " });
        }
    }

    fn sentence(&self, rng: &mut Rng, topic: &Topic, text: &mut String) {
        for at in 0..rng.between(5, 17) {
            let word = match rng.below(100) {
                0..6 => self.words[topic.0[rng.below(3)]].as_str(),
                6 => rng.pick(FOREIGN),
                _ => self.word(rng),
            };
            match at {
                0 => text.push_str(&capital(word)),
                _ => {
                    text.push_str(if rng.chance(6) { ", " } else { " " });
                    text.push_str(word);
                }
            }
        }
        text.push(if rng.chance(12) { '?' } else { '.' });
    }

    fn cue(&self, rng: &mut Rng, text: &mut String) {
        for (at, part) in rng.pick(CUES).split("{}").enumerate() {
            if at > 0 {
                text.push_str(self.word(rng));
            }
            text.push_str(part);
        }
        text.push('.');
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
