//! The project of a made-up session: source files that resemble our own, and the output of tools on them.

use std::fmt::Write as _;

use crate::rng::Rng;
use crate::words::Vocabulary;

/// Real code, for real proportions of names, blanks and brackets. The copies stay as they are, so that a seed gives the same bytes
/// after the code has changed.
const MODELS: &[&str] = &[
    include_str!("../models/client-session.txt"),
    include_str!("../models/client-mod.txt"),
    include_str!("../models/stub-mod.txt"),
    include_str!("../models/stub-respond.txt"),
    include_str!("../models/digest.txt"),
    include_str!("../models/prune-policy.txt"),
    include_str!("../models/patch-journal.txt"),
];

/// Files in a project.
const FILES: usize = 400;

/// A project: its files follow from the seed and are written when they are read.
#[derive(Debug)]
pub(crate) struct CodeProject {
    seed: Rng,
    /// Its absolute path.
    pub(crate) root: &'static str,
}

/// One file of the project.
#[derive(Clone, Debug)]
pub(crate) struct File {
    number: usize,
    /// The absolute path.
    pub(crate) path: String,
}

impl CodeProject {
    pub(crate) fn new(seed: u64, root: &'static str) -> Self {
        Self { seed: Rng::new(seed ^ 0x636f_6465), root }
    }

    /// Chooses a file. Some files are opened far more often than others.
    pub(crate) fn file(&self, rng: &mut Rng, words: &Vocabulary) -> File {
        let end = rng.between(1, FILES);
        let number = rng.below(end);
        let mut own = self.seed.fork(number as u64);
        let folder = ["src", "src/store", "src/wire", "tests", "benches"][own.below(5)];
        File { number, path: format!("{}/{folder}/{}_{number}.rs", self.root, words.name(&mut own)) }
    }

    /// Content of a file: about `length` bytes, the same lines each time from the same place on.
    pub(crate) fn text(&self, file: &File, words: &Vocabulary, length: usize) -> String {
        let mut own = self.seed.fork(file.number as u64 ^ 0x6c69_6e65);
        let mut text = String::with_capacity(length + 120);
        while text.len() < length {
            let model = MODELS[own.below(MODELS.len())];
            let skip = own.below(model.lines().count());
            for line in model.lines().skip(skip).take(own.between(5, 40)) {
                if text.len() >= length {
                    break;
                }
                rename(line, file.number, words, &mut text);
                text.push('\n');
            }
        }
        text
    }
}

/// Copies a line with every other name replaced, the same name always by the same in one file.
fn rename(line: &str, file: usize, words: &Vocabulary, text: &mut String) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        let hash = word.bytes().fold(file as u64, |hash, byte| hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
        let mut own = Rng::new(hash);
        if is_word(first) && word.len() > 4 && own.chance(50) {
            text.push_str(words.name(&mut own));
            if own.chance(30) {
                text.push('_');
                text.push_str(words.word(&mut own));
            }
        } else {
            text.push_str(word);
        }
    }
}

/// Lines with their numbers, as the Read tool gives them.
pub(crate) fn numbered(text: &str) -> String {
    let mut numbered = String::with_capacity(text.len() * 9 / 8);
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            numbered.push('\n');
        }
        // Writing into a string cannot fail.
        write!(numbered, "{}\t{line}", at + 1).ok();
    }
    numbered
}

/// Output of a shell command: a test run, a listing, a search or a log, about `length` bytes.
pub(crate) fn output(rng: &mut Rng, words: &Vocabulary, project: &CodeProject, length: usize) -> String {
    let mut text = String::with_capacity(length + 160);
    let kind = rng.below(4);
    while text.len() < length {
        let (name, other) = (words.name(rng), words.word(rng));
        let written = match kind {
            0 => {
                let verdict = if rng.chance(4) { "FAILED" } else { "ok" };
                writeln!(text, "test {other}::{name}_{} ... {verdict}", rng.below(90))
            }
            1 => {
                let (size, day, hour) = (rng.below(90_000), rng.between(1, 28), rng.below(24));
                writeln!(text, "-rw-r--r-- 1 dev dev {size:>7} Nov {day:>2} {hour:02}:{:02} {name}_{other}.rs", rng.below(60))
            }
            2 => {
                let file = project.file(rng, words);
                writeln!(
                    text,
                    "{}:{}:    let {name} = {other}.{}(&mut {});",
                    file.path,
                    rng.below(400),
                    words.word(rng),
                    words.name(rng)
                )
            }
            _ => {
                let (minute, second) = (rng.below(60), rng.below(60));
                writeln!(
                    text,
                    "12:{minute:02}:{second:02}.{:03} INFO {other}: {name} took {} ms",
                    rng.below(1000),
                    rng.below(5_000)
                )
            }
        };
        // Writing into a string cannot fail.
        written.ok();
    }
    text.truncate(text.trim_end().len());
    text
}

/// A compiler's message on a mistake in a file.
pub(crate) fn error(rng: &mut Rng, words: &Vocabulary, file: &File) -> String {
    let (name, line, column) = (words.name(rng).to_owned(), rng.between(2, 400), rng.between(5, 60));
    let code = rng.between(61, 793);
    format!(
        "error[E{code:04}]: cannot find value `{name}` in this scope\n   --> {}:{line}:{column}\n    |\n{line} |     let {} = {name};\n    |         ^ not found in this scope\n\nerror: could not compile `ledger` (lib) due to 1 previous error",
        file.path,
        words.word(rng),
    )
}
